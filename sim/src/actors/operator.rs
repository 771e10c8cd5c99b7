//! The operator: cancels the flow or one of its executions, or exchanges the policy of a join, at
//! an instant of the tape's choice. Repeats a call whose answer it did not get under the same
//! request id.

use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::operations::cancel::{CancelledExecution, Cancelling};
use sluicegate::operations::set_policy::PolicySet;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::state::ClosePolicy;
use sluicegate::storage::Storage;

use crate::actors::{Progress, Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

/// How often one call is repeated under its request id.
const CALLS_MAX: u32 = 3;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How long it may wait before it acts.
const WAITS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(60),
    Duration::from_millis(900),
    Duration::from_secs(3),
    Duration::from_secs(11),
];

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let Some(flow) = world(|world| world.told_flow) else { return Progress::Idle };
    let wait = choose(Site::Operate, 5, Chance::Even);
    SimEnvironment { actor: stage.actor }.sleep(WAITS[usize::from(wait)]).await;
    let policies = ClosePolicy::ALL;
    let act = choose(Site::Operate, 6, Chance::Even);
    let answered = match act {
        0 => return Progress::Done,
        1..=3 => cancel_flow(stage, flow, policies[usize::from(act - 1)]).await,
        4 => cancel_execution(stage, flow).await,
        _ => set_policy(stage, flow).await,
    };
    let again = choose(Site::Operate, 2, Chance::Even) == 1;
    match (answered, again) {
        (false, _) => Progress::Failed,
        (true, true) => Progress::Worked,
        (true, false) => Progress::Done,
    }
}

/// Exchanges the policy of a join for another, which need not fit.
async fn set_policy<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
    let edges = &stage.flow.spec().edges;
    let Ok(count @ 1..) = u16::try_from(edges.len()) else { return true };
    let edge = &edges[usize::from(choose(Site::Operate, count, Chance::Even))];
    let inbound = edges.iter().filter(|other| other.to == edge.to).count();
    let inbound = u32::try_from(inbound).unwrap_or(u32::MAX);
    let on_satisfied = match choose(Site::Operate, 2, Chance::Even) {
        0 => OnSatisfied::CancelRemaining,
        _ => OnSatisfied::LetRun,
    };
    let policy = match choose(Site::Operate, 6, Chance::Even) {
        0 => JoinPolicy::AllOf,
        1 | 2 => JoinPolicy::AnyOf { on_satisfied },
        3 => JoinPolicy::Quorum { k: inbound, on_satisfied },
        4 => JoinPolicy::Quorum { k: inbound + 1, on_satisfied },
        _ => JoinPolicy::Quorum { k: 1 << 31, on_satisfied },
    };
    let downstream = flow.execution(&edge.to);
    let request = stage.engine.request_id();
    for _ in 0..CALLS_MAX {
        match stage.engine.set_edge_group_policy(flow.id, downstream, policy, request).await {
            Ok(set) => {
                if set == PolicySet::Set {
                    world(|world| world.tally.sometimes(Sometimes::PolicySet));
                }
                return true;
            }
            Err(EngineError::Invalid(_) | EngineError::Refused(_)) => return true,
            Err(_) => {}
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    false
}

async fn cancel_flow<S: Storage>(stage: &Stage<S>, flow: FlowKey, policy: ClosePolicy) -> bool {
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

async fn cancel_execution<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
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
