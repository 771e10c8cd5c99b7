//! The resumer: looks for what is suspended and resumes it after a while, sometimes twice, and
//! sometimes by the number of an earlier suspension. Repeats calls whose answer it did not get.

use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::ExecutionId;
use sluicegate::operations::list::ExecutionFilter;
use sluicegate::state::State;
use sluicegate::storage::Storage;

use crate::actors::{Progress, Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

/// How often one call is repeated.
const CALLS_MAX: u32 = 3;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How long it may wait before it resumes what it has found.
const WAITS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(60), Duration::from_secs(3)];
/// What is suspended is resumed after so long, once calls are answered.
pub(crate) const RESUMED_AFTER: Duration = Duration::from_secs(8);

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let Some(flow) = world(|world| world.told_flow) else { return Progress::Idle };
    let states = vec![State::Suspended];
    let filter = ExecutionFilter { flow: Some(flow.id), states, ..ExecutionFilter::default() };
    let found = match stage.engine.list_executions(&filter, None, u32::MAX).await {
        Ok(found) => found.rows,
        // What was told of it may have been lost with the tail of a crash.
        Err(EngineError::FlowNotFound(_)) => return Progress::Idle,
        Err(_) => return Progress::Failed,
    };
    if found.is_empty() {
        return Progress::Idle;
    }
    let wait = choose(Site::Suspend, 3, Chance::Even);
    SimEnvironment { actor: stage.actor }.sleep(WAITS[usize::from(wait)]).await;
    let mut answered = true;
    for entry in found {
        answered &= resume_found(stage, entry.id, entry.epoch).await;
    }
    if answered { Progress::Worked } else { Progress::Failed }
}

async fn resume_found<S: Storage>(stage: &Stage<S>, id: ExecutionId, epoch: u64) -> bool {
    let how = choose(Site::Suspend, 4, Chance::Of(20_000));
    if how == 1 {
        // The lease that was given up had this one.
        resume(stage, id, epoch - 1).await;
    }
    let answered = resume(stage, id, epoch).await;
    if how == 2 {
        resume(stage, id, epoch).await;
    }
    answered
}

/// Resumes until there is an answer.
async fn resume<S: Storage>(stage: &Stage<S>, execution: ExecutionId, epoch: u64) -> bool {
    for _ in 0..CALLS_MAX {
        let reported = match stage.engine.resume(execution, epoch).await {
            Ok(reported) => Some(reported),
            Err(EngineError::Refused(_)) => None,
            Err(_) => {
                SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
                continue;
            }
        };
        if reported.is_none() {
            world(|world| world.tally.sometimes(Sometimes::ResumeRefused));
        }
        stage.observe(&Observation::Resumed { execution, epoch, reported });
        return true;
    }
    false
}
