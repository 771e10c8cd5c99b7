//! Gives up an execution whose row, or whose group's row, cannot be read.

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::ExecutionId;
use sluicegate::operations::give_up::GivenUp;
use sluicegate::storage::Storage;

use super::{CALLS_MAX, REPEAT_AFTER};
use crate::actors::{Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

/// What an operator may ask for: whatever is damaged, or by mistake one that can be read; nothing
/// where nothing is damaged.
pub(super) fn candidate() -> Option<ExecutionId> {
    let mut asked: Vec<ExecutionId> =
        world(|world| world.judge.mirror().damaged().iter().map(|row| row.execution()).collect());
    if asked.is_empty() {
        return None;
    }
    asked.extend(world(|world| {
        let readable = |id: &ExecutionId| !asked.contains(id);
        world.judge.mirror().executions().iter().map(|row| row.id).find(readable)
    }));
    let count = u16::try_from(asked.len()).unwrap_or(u16::MAX);
    Some(asked[usize::from(choose(Site::Operate, count, Chance::Even))])
}

pub(super) async fn act<S: Storage>(stage: &Stage<S>, execution: ExecutionId) -> bool {
    let request = stage.engine.request_id();
    for _ in 0..CALLS_MAX {
        match stage.engine.give_up(execution, "operator", request).await {
            Ok(done) => {
                let ended = match done {
                    GivenUp::Failed => None,
                    GivenUp::Kept(outcome) => Some(outcome),
                };
                world(|world| world.tally.sometimes(Sometimes::GivenUp));
                stage.observe(&Observation::GivenUp { execution, ended });
                return true;
            }
            Err(EngineError::ExecutionNotFound(_) | EngineError::Refused(_)) => return true,
            Err(_) => {}
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    false
}
