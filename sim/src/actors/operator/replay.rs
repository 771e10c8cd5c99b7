//! Replays the flow, a part of it or what has failed of it; waits a little for what runs.

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::operations::replay::{ReplayMember, ReplayPreview};
use sluicegate::replay::ReplayScope;
use sluicegate::storage::Storage;

use super::{CALLS_MAX, REPEAT_AFTER};
use crate::actors::{Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

/// How often it looks whether there is something to replay.
const LOOKS_MAX: u32 = 20;

pub(super) async fn act<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
    let scope = match choose(Site::Operate, 5, Chance::Even) {
        0 | 1 => ReplayScope::Failed,
        2 => ReplayScope::All,
        _ => {
            let members = &stage.flow.spec().executions;
            let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
            let at = choose(Site::Operate, count, Chance::Even);
            ReplayScope::From(flow.execution(&members[usize::from(at)].name))
        }
    };
    if choose(Site::Operate, 2, Chance::Even) == 1 {
        look(stage, flow, scope).await;
    }
    let request = stage.engine.request_id();
    stage.observe(&Observation::ReplayAsked { flow, request, scope });
    let mut again = choose(Site::Operate, 4, Chance::Even) == 1;
    let mut answered = false;
    for _ in 0..CALLS_MAX {
        match stage.engine.replay(flow.id, scope, request).await {
            Ok(replayed) => {
                let members = replayed.members;
                stage.observe(&Observation::Replayed { flow, request, members });
                if !std::mem::take(&mut again) {
                    return true;
                }
                answered = true;
            }
            Err(EngineError::FlowNotFound(_)) => return true,
            Err(EngineError::Running { .. }) => {
                world(|world| world.tally.sometimes(Sometimes::ReplayRefused));
                answered = true;
            }
            Err(_) => answered = false,
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    answered
}

/// Looks again and again until there is something to start again and none of it runs; gives up
/// after a while.
async fn look<S: Storage>(stage: &Stage<S>, flow: FlowKey, scope: ReplayScope) {
    for _ in 0..LOOKS_MAX {
        let preview = stage.engine.preview_replay(flow.id, scope).await;
        let Ok(ReplayPreview { members, .. }) = preview else { return };
        if !members.is_empty() && !members.iter().any(ReplayMember::is_in_the_way) {
            return;
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
}
