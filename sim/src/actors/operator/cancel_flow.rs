//! Cancels the flow under a policy of the tape's choice.

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::operations::cancel::Cancelling;
use sluicegate::state::ClosePolicy;
use sluicegate::storage::Storage;

use super::{CALLS_MAX, REPEAT_AFTER};
use crate::actors::{Stage, choose};
use crate::driver::world::SimEnvironment;
use crate::history::Observation;
use crate::tape::{Chance, Site};

pub(super) async fn act<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
    let policy = ClosePolicy::ALL[usize::from(choose(Site::Operate, 3, Chance::Even))];
    let request = stage.engine.request_id();
    for _ in 0..CALLS_MAX {
        match stage.engine.cancel_flow(flow.id, policy, request).await {
            Ok(report) => {
                let done = report.progress == Cancelling::Done;
                let (policy, cancelled) = (report.policy, report.cancelled);
                let told = Observation::FlowCancelled { flow, request, policy, cancelled, done };
                stage.observe(&told);
                return true;
            }
            Err(EngineError::FlowNotFound(_)) => return true,
            Err(_) => {}
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    false
}
