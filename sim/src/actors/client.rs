//! The client: submits its flow until it is acknowledged, and again if what it was told is lost;
//! then looks at it once.

use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::operations::submit::Submitted;
use sluicegate::storage::Storage;

use crate::actors::{Progress, Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

/// How often one call is repeated under its request id.
const CALLS_MAX: u32 = 3;

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let request = stage.engine.request_id();
    for _ in 0..CALLS_MAX {
        let answer = stage.engine.submit_valid(&stage.flow, request).await;
        if let Err(EngineError::LimitExceeded(_)) = answer {
            let executions = stage.flow.spec().executions.len();
            stage.observe(&Observation::TooLarge { executions });
        }
        if let Ok(submitted) = answer {
            let created = matches!(submitted, Submitted::Created(_));
            if !created {
                world(|world| world.tally.sometimes(Sometimes::DuplicateSubmit));
            }
            stage.observe(&Observation::Submitted {
                key: stage.flow.spec().idempotency_key.as_deref().map(Into::into),
                flow: submitted.flow(),
                created,
                request,
            });
            look(stage, submitted).await;
            // Where commits are acknowledged before they are on the disk, the flow that it was told
            // of may have been lost while it looked.
            return match world(|world| world.told_flow) {
                Some(_) => Progress::Done,
                None => Progress::Failed,
            };
        }
        SimEnvironment { actor: stage.actor }.sleep(Duration::from_millis(100)).await;
    }
    Progress::Failed
}

/// Describes the flow now and then; a description counts every execution once.
async fn look<S: Storage>(stage: &Stage<S>, submitted: Submitted) {
    if choose(Site::Repeat, 2, Chance::Of(2_000)) == 0 {
        return;
    }
    if let Ok(description) = stage.engine.describe_flow(submitted.flow().id).await {
        let readable: u64 = description.counts.values().sum();
        let counted = readable + description.unreadable.len() as u64;
        let submitted = stage.flow.spec().executions.len() as u64;
        let grown = counted > submitted && !stage.extensions.is_empty();
        assert!(counted == submitted || grown, "a description lost one");
    }
}
