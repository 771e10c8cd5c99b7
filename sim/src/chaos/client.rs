//! The client: submits the flows of a round under wall clocks right and wrong, and cancels some of
//! them, until it is told to stop. Writes down what was acknowledged; never judges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::Engine;
use sluicegate::environment::Environment;
use sluicegate::flow::{Limits, ValidFlow};
use sluicegate::identity::FlowId;
use sluicegate::state::ClosePolicy;
use sluicegate::storage::boxed::BoxStorage;

use super::counts;
use super::database::Database;
use super::engine_settings;
use super::ledger::{Entry, Ledger};
use super::work;
use super::worker::{ChaosEngine, Skewed};
use crate::observed::Observed;

/// Flows of one round at most.
const FLOWS_MAX: u32 = 400;
/// Flows of one round at least: submitted even after faults have stopped.
const FLOWS_MIN: u32 = 20;
/// The client lets workers catch up beyond so many open executions.
const OPEN_MAX: i64 = 90;
/// Flows that are submitted at a time.
const BATCH: u32 = 4;
/// The wait between two batches.
const PAUSE: Duration = Duration::from_millis(60);
/// How often one call is repeated before the client gives it up.
const CALLS_MAX: u32 = 60;
/// Of so many flows one is cancelled, when as many have been submitted after it.
const CANCELLED_OF: u32 = 8;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// An engine with a clock that is off, and what it was told.
struct Desk {
    engine: ChaosEngine,
    environment: Skewed,
    ledger: Arc<Ledger>,
}

/// Submits flows.
pub(super) struct Client {
    desks: Vec<Desk>,
    database: Database,
    seed: u64,
}

impl Client {
    /// A client at that storage, with a desk for each clock.
    pub(super) fn new(
        storage: &BoxStorage,
        database: Database,
        seed: u64,
        ledgers: &std::path::Path,
    ) -> Result<Self, String> {
        let desk = |skew_s: i64| {
            let ledger = Arc::new(Ledger::begin(ledgers, &format!("client{skew_s}"), skew_s)?);
            let environment = Skewed::new(skew_s);
            let observed = Observed::new(storage.clone(), Arc::clone(&ledger));
            let engine = Engine::new(observed, environment.clone(), engine_settings());
            Ok(Desk { engine, environment, ledger })
        };
        let desks = [0, 3_600, -3_600].into_iter().map(desk).collect::<Result<_, String>>()?;
        Ok(Self { desks, database, seed })
    }

    /// Submits flows of a round until it is told to stop, and the least number of them anyway.
    /// Returns the flows, whether they were acknowledged or not.
    pub(super) async fn submit(&self, round: u32, stop: &AtomicBool) -> Vec<ValidFlow> {
        let namespace = work::namespace(round);
        let mut flows = Vec::new();
        let mut known = Vec::new();
        let mut next = 0;
        while next < FLOWS_MAX {
            if stop.load(Ordering::SeqCst) && next >= FLOWS_MIN {
                break;
            }
            let desk = &self.desks[(next / BATCH) as usize % self.desks.len()];
            let open = counts::open(&self.database, &namespace).await.unwrap_or(0);
            if open > OPEN_MAX && !stop.load(Ordering::SeqCst) {
                desk.environment.sleep(PAUSE).await;
                continue;
            }
            for number in next..next + BATCH {
                let drawn = work::flow(self.seed, round, number).validate(&Limits::default());
                let flow = drawn.expect("drawn flows are valid");
                known.extend(desk.submit(&flow).await);
                flows.push(flow);
                if number % CANCELLED_OF == CANCELLED_OF - 1
                    && let Some(flow) = known.iter().rev().nth(CANCELLED_OF as usize / 2)
                {
                    let policies = [ClosePolicy::CancelPending, ClosePolicy::CancelAll];
                    let policy = policies[(number / CANCELLED_OF) as usize % policies.len()];
                    desk.cancel(*flow, policy).await;
                }
            }
            next += BATCH;
            desk.environment.sleep(PAUSE).await;
        }
        flows
    }
}

impl Desk {
    /// Submits a flow until there is an answer, under one request id; returns its id.
    async fn submit(&self, flow: &ValidFlow) -> Option<FlowId> {
        let request = self.engine.request_id();
        for _ in 0..CALLS_MAX {
            if let Ok(submitted) = self.engine.submit_valid(flow, request).await {
                let spec = flow.spec();
                let (executions, edges) = (spec.executions.len(), spec.edges.len());
                let flow = submitted.flow().id;
                self.ledger.write(&Entry::Submitted { flow, executions, edges });
                return Some(flow);
            }
            self.environment.sleep(REPEAT_AFTER).await;
        }
        None
    }

    /// Cancels a flow until there is an answer, under one request id.
    async fn cancel(&self, flow: FlowId, policy: ClosePolicy) {
        let request = self.engine.request_id();
        for _ in 0..CALLS_MAX {
            if let Ok(report) = self.engine.cancel_flow(flow, policy, request).await {
                let cancelled = report.cancelled;
                return self.ledger.write(&Entry::FlowCancelled { flow, cancelled });
            }
            self.environment.sleep(REPEAT_AFTER).await;
        }
    }
}
