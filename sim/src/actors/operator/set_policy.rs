//! Exchanges the policy of a join for another, which need not fit.

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::operations::set_policy::PolicySet;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::storage::Storage;

use super::{CALLS_MAX, REPEAT_AFTER};
use crate::actors::{Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::tape::{Chance, Site};

pub(super) async fn act<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
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
