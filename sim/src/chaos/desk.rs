//! One caller of an engine whose clock is off: repeats a call under one request id until there is
//! an answer, and writes down what it was told. Never decides what is called.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::Environment;
use sluicegate::flow::ValidFlow;
use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::state::ClosePolicy;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::{Engine, EngineError};

use super::engine_settings;
use super::ledger::{Entry, Ledger};
use super::worker::{ChaosEngine, Skewed};
use crate::observed::Observed;

/// How often one call is repeated before it is given up.
const CALLS_MAX: u32 = 60;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// An engine with a clock that is off, and what it was told.
pub(super) struct Desk {
    engine: ChaosEngine,
    environment: Skewed,
    ledger: Arc<Ledger>,
}

impl Desk {
    /// A desk whose ledger has that name.
    pub(super) fn new(
        storage: &BoxStorage,
        ledgers: &Path,
        name: &str,
        skew_s: i64,
    ) -> Result<Self, String> {
        let ledger = Arc::new(Ledger::begin(ledgers, name, skew_s)?);
        let environment = Skewed::new(skew_s);
        let observed = Observed::new(storage.clone(), Arc::clone(&ledger));
        let engine = Engine::new(observed, environment.clone(), engine_settings());
        Ok(Self { engine, environment, ledger })
    }

    pub(super) async fn pause(&self, duration: Duration) {
        self.environment.sleep(duration).await;
    }

    /// Submits a flow; returns its id.
    pub(super) async fn submit(&self, flow: &ValidFlow) -> Option<FlowId> {
        let request = self.engine.request_id();
        for _ in 0..CALLS_MAX {
            if let Ok(submitted) = self.engine.submit_valid(flow, request).await {
                let spec = flow.spec();
                let (executions, edges) = (spec.executions.len(), spec.edges.len());
                let flow = submitted.flow().id;
                self.ledger.write(&Entry::Submitted { flow, executions, edges });
                return Some(flow);
            }
            self.pause(REPEAT_AFTER).await;
        }
        None
    }

    /// Cancels a flow.
    pub(super) async fn cancel(&self, flow: FlowId, policy: ClosePolicy) {
        let request = self.engine.request_id();
        for _ in 0..CALLS_MAX {
            if let Ok(report) = self.engine.cancel_flow(flow, policy, request).await {
                let cancelled = report.cancelled;
                return self.ledger.write(&Entry::FlowCancelled { flow, cancelled });
            }
            self.pause(REPEAT_AFTER).await;
        }
    }

    /// Resumes a suspension, unless it is over.
    pub(super) async fn resume(&self, execution: ExecutionId, epoch: u64) {
        for _ in 0..CALLS_MAX {
            match self.engine.resume(execution, epoch).await {
                Ok(reported) => {
                    return self.ledger.write(&Entry::resumed(execution, epoch, reported));
                }
                Err(EngineError::Refused(_)) => return,
                Err(_) => self.pause(REPEAT_AFTER).await,
            }
        }
    }
}
