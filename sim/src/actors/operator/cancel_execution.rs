//! Cancels one execution of the flow.

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::operations::cancel::CancelledExecution;
use sluicegate::storage::Storage;

use super::{CALLS_MAX, REPEAT_AFTER};
use crate::actors::{Stage, choose};
use crate::driver::world::SimEnvironment;
use crate::history::Observation;
use crate::tape::{Chance, Site};

pub(super) async fn act<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
    let members = &stage.flow.spec().executions;
    let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
    let at = choose(Site::Operate, count, Chance::Even);
    let execution = flow.execution(&members[usize::from(at)].name);
    let request = stage.engine.request_id();
    for _ in 0..CALLS_MAX {
        match stage.engine.cancel_execution(execution, "operator", request).await {
            Ok(done) => {
                let ended = match done {
                    CancelledExecution::Cancelled => None,
                    CancelledExecution::AlreadyEnded(outcome) => Some(outcome),
                };
                stage.observe(&Observation::ExecutionCancelled { execution, ended });
                return true;
            }
            Err(EngineError::ExecutionNotFound(_)) => return true,
            Err(_) => {}
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    false
}
