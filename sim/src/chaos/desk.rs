//! One caller of an engine whose clock is off: repeats a call under one request id until there is
//! an answer, and writes down what it was told. Never decides what is called.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluicegate::environment::Environment;
use sluicegate::flow::{Additions, EdgeSpec, ValidFlow};
use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::operations::cancel::CancelledExecution;
use sluicegate::operations::give_up::GivenUp;
use sluicegate::policy::JoinPolicy;
use sluicegate::state::ClosePolicy;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::codes;
use sluicegate::{Engine, EngineError};

use super::engine_settings;
use super::ledger::{Entry, Ledger, Scope};
use super::worker::{ChaosEngine, Skewed};
use crate::observed::Observed;

/// How often one call is repeated before it is given up.
const CALLS_MAX: u32 = 60;
/// The wait before a call is repeated.
pub(super) const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// An engine with a clock that is off, and what it was told.
pub(super) struct Desk {
    engine: ChaosEngine,
    environment: Skewed,
    ledger: Arc<Ledger>,
    /// Flows of which a call was given up: it may yet take effect.
    unsure: Mutex<BTreeSet<FlowId>>,
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
        Ok(Self { engine, environment, ledger, unsure: Mutex::default() })
    }

    pub(super) fn engine(&self) -> &ChaosEngine {
        &self.engine
    }

    /// Writes down what was told.
    pub(super) fn write(&self, entry: &Entry) {
        self.ledger.write(entry);
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

    /// True if a call of that flow was given up.
    pub(super) fn is_unsure(&self, flow: FlowId) -> bool {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner).contains(&flow)
    }

    /// The id of an execution of a flow.
    pub(super) fn execution(&self, flow: FlowId, name: &str) -> ExecutionId {
        self.engine.flow_key(flow).execution(name)
    }

    /// Calls until there is an answer, which is written down unless it is a reply: a refusal if
    /// `refused` has a word for it. None if there was no reply.
    async fn reply<T, F: Future<Output = Result<T, EngineError>>>(
        &self,
        (flow, name): (FlowId, &str),
        refused: Option<Entry>,
        call: impl Fn() -> F,
    ) -> Option<T> {
        for _ in 0..CALLS_MAX {
            match call().await {
                Ok(reply) => return Some(reply),
                Err(error) if error.is_transient() => self.pause(REPEAT_AFTER).await,
                Err(error) => {
                    let erred = |error: EngineError| {
                        let (call, error) = (name.to_owned(), error.to_string());
                        Entry::Erred { flow: Some(flow), call, error, unreadable: None }
                    };
                    let entry = match (error, refused) {
                        (EngineError::Refused(_), Some(entry)) => entry,
                        (error, _) => erred(error),
                    };
                    self.ledger.write(&entry);
                    return None;
                }
            }
        }
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner).insert(flow);
        self.ledger.write(&Entry::Unanswered { flow, call: name.to_owned() });
        None
    }

    /// Cancels a flow.
    pub(super) async fn cancel(&self, flow: FlowId, policy: ClosePolicy) {
        let request = self.engine.request_id();
        let call = || self.engine.cancel_flow(flow, policy, request);
        if let Some(report) = self.reply((flow, "cancel_flow"), None, call).await {
            let cancelled = report.cancelled;
            self.ledger.write(&Entry::FlowCancelled { flow, cancelled });
        }
    }

    /// Cancels the execution of that name.
    pub(super) async fn cancel_execution(&self, flow: FlowId, name: &str) {
        let request = self.engine.request_id();
        let execution = self.execution(flow, name);
        let call = || self.engine.cancel_execution(execution, "chaos", request);
        let had_ended = match self.reply((flow, "cancel_execution"), None, call).await {
            None => return,
            Some(CancelledExecution::Cancelled) => None,
            Some(CancelledExecution::AlreadyEnded(outcome)) => Some(codes::outcome(outcome)),
        };
        self.ledger.write(&Entry::ExecutionCancelled { flow, execution, had_ended });
    }

    /// Gives up an execution whose row cannot be read; false if there was no reply.
    pub(super) async fn give_up(&self, flow: FlowId, execution: ExecutionId) -> bool {
        let request = self.engine.request_id();
        let call = || self.engine.give_up(execution, "chaos", request);
        let Some(reply) = self.reply((flow, "give_up"), None, call).await else { return false };
        let had_ended = match reply {
            GivenUp::Failed => None,
            GivenUp::Kept(outcome) => Some(codes::outcome(outcome)),
        };
        self.ledger.write(&Entry::GivenUp { flow, execution, had_ended });
        true
    }

    /// Extends a flow, which may refuse it: some of it may no longer wait.
    pub(super) async fn extend(&self, flow: FlowId, additions: &Additions) {
        let request = self.engine.request_id();
        let key = self.engine.flow_key(flow);
        let names = additions.executions.iter().map(|one| key.execution(&one.name));
        let executions: Vec<ExecutionId> = names.collect();
        let refused = Entry::NotExtended { flow, executions: executions.clone() };
        let call = || self.engine.extend(flow, additions.clone(), None, request);
        if let Some(extended) = self.reply((flow, "extend"), Some(refused), call).await {
            let ends = |edge: &EdgeSpec| (key.execution(&edge.from), key.execution(&edge.to));
            let edges = additions.edges.iter().map(ends).collect();
            let revision = extended.revision;
            self.ledger.write(&Entry::Extended { flow, revision, executions, edges });
        }
    }

    /// Sets the policy of a join, which may be too late.
    pub(super) async fn set_policy(&self, flow: FlowId, join: &str, policy: JoinPolicy) {
        let request = self.engine.request_id();
        let join = self.execution(flow, join);
        let refused = Entry::PolicyKept { flow, join, policy };
        let call = || self.engine.set_edge_group_policy(flow, join, policy, request);
        let name = "set_edge_group_policy";
        if self.reply((flow, name), Some(refused), call).await.is_some() {
            self.ledger.write(&Entry::PolicySet { flow, join, policy });
        }
    }

    /// Hangs a tag on a flow, once more with another value, and repeats the first call, which then
    /// has no further effect.
    pub(super) async fn tag(&self, flow: FlowId, tag: &str) {
        let requests = [self.engine.request_id(), self.engine.request_id()];
        for (value, request) in [(1, requests[0]), (2, requests[1]), (1, requests[0])] {
            let text = value.to_string();
            let call = || self.engine.set_flow_tag(flow, tag, &text, request);
            if self.reply((flow, "set_flow_tag"), None, call).await.is_some() {
                self.ledger.write(&Entry::Tagged { flow, tag: tag.to_owned(), value });
            }
        }
    }

    /// Replays what the scope holds of a flow that has ended.
    pub(super) async fn replay(&self, flow: FlowId, scope: Scope) {
        let request = self.engine.request_id();
        let call = || self.engine.replay(flow, scope.into(), request);
        if let Some(replayed) = self.reply((flow, "replay"), None, call).await {
            let members = replayed.members;
            self.ledger.write(&Entry::Replayed { flow, scope, members });
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
