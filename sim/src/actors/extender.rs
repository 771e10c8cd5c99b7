//! The extender: adds an extension of the plan's to the flow at an instant of the tape's choice,
//! and repeats a call whose answer it did not get under the same request id.

use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::flow::Additions;
use sluicegate::identity::FlowKey;
use sluicegate::operations::extend::Extended;
use sluicegate::storage::Storage;

use crate::actors::{Progress, Role, Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::plan::Commits;
use crate::tape::{Chance, Site};

/// How often one call is repeated under its request id.
const CALLS_MAX: u32 = 3;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How often, and how many times, it looks whether something has ended.
const LOOK: Duration = Duration::from_micros(400);
const LOOKS_MAX: u32 = 400;
/// How long it may wait before it acts.
const WAITS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(60),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(7),
    Duration::from_secs(25),
];

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let Some(flow) = world(|world| world.told_flow) else { return Progress::Idle };
    match WAITS.get(usize::from(choose(Site::Operate, 9, Chance::Even))) {
        Some(wait) => SimEnvironment { actor: stage.actor }.sleep(*wait).await,
        None => some_end(stage).await,
    }
    stage.lie_in_wait().await;
    let count = u16::try_from(stage.extensions.len()).unwrap_or(u16::MAX);
    let additions = match choose(Site::Operate, count.saturating_add(1), Chance::Even) {
        0 => return Progress::Done,
        nth => &stage.extensions[usize::from(nth) - 1],
    };
    let answered = extend(stage, flow, additions).await;
    let again = choose(Site::Operate, 3, Chance::Even) > 0;
    match (answered, again) {
        (false, _) => Progress::Failed,
        (true, true) => Progress::Worked,
        (true, false) => Progress::Done,
    }
}

/// Waits until an execution ends, or for long enough: what is added then meets the hop that
/// follows.
async fn some_end<S: Storage>(stage: &Stage<S>) {
    let ended = || world(|world| world.news.watched_by(Role::Dispatcher));
    let before = ended();
    for _ in 0..LOOKS_MAX {
        if ended() != before {
            return;
        }
        SimEnvironment { actor: stage.actor }.sleep(LOOK).await;
    }
}

/// False if it got no answer.
async fn extend<S: Storage>(stage: &Stage<S>, flow: FlowKey, additions: &Additions) -> bool {
    let expected = match choose(Site::Operate, 9, Chance::Even) {
        at @ 7.. => Some(u64::from(at) - 7),
        _ => None,
    };
    let twice = choose(Site::Operate, 4, Chance::Even) == 1;
    let request = stage.engine.request_id();
    let mut calls = CALLS_MAX;
    let mut told = 0;
    while calls > 0 {
        calls -= 1;
        match stage.engine.extend(flow.id, additions.clone(), expected, request).await {
            Ok(Extended { flow, revision }) => {
                stage.observe(&Observation::Extended { flow, request, revision });
                told += 1;
                if !twice || told == 2 {
                    return true;
                }
            }
            Err(
                EngineError::Invalid(_)
                | EngineError::LimitExceeded(_)
                | EngineError::Refused(_)
                | EngineError::FlowNotFound(_),
            ) => {
                // What an earlier call has done is found, never refused, unless it was lost or its
                // flow is gone.
                let kept = world(|world| {
                    let pruned = world.judge.mirror().has_pruned();
                    world.commits == Commits::Synchronous && !pruned
                });
                assert!(told == 0 || !kept, "an extension was refused when it was repeated");
                world(|world| world.tally.sometimes(Sometimes::ExtensionRefused));
                return true;
            }
            Err(_) => {}
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    told > 0
}
