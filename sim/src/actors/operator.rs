//! The operator: carries out one of its acts at an instant of the tape's choice, and repeats a call
//! whose answer it did not get under the same request id. Each act has a file and a line of the
//! table.

mod cancel_execution;
mod cancel_flow;
mod give_up;
pub(crate) mod prune;
mod replay;
mod set_policy;
mod set_tag;

use std::time::Duration;

use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::storage::Storage;

use crate::actors::{Progress, Stage, choose};
use crate::driver::world::{SimEnvironment, world};
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

macro_rules! acts {
    ($($file:ident $shares:literal;)*) => {
        /// The shares of all acts.
        const SHARES: u16 = 0 $(+ $shares)*;

        /// Carries out the act that the share belongs to; false if it got no answer.
        async fn act<S: Storage>(mut share: u16, stage: &Stage<S>, flow: FlowKey) -> bool {
            $(
                if share < $shares {
                    return $file::act(stage, flow).await;
                }
                share -= $shares;
            )*
            unreachable!("{share} beyond the shares of all acts")
        }
    };
}

// The file of an act, and how large its share is.
acts! {
    cancel_flow 3;
    cancel_execution 1;
    set_policy 1;
    replay 4;
    set_tag 1;
    prune 2;
}

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let Some(flow) = world(|world| world.told_flow) else { return Progress::Idle };
    let wait = choose(Site::Operate, 5, Chance::Even);
    SimEnvironment { actor: stage.actor }.sleep(WAITS[usize::from(wait)]).await;
    stage.lie_in_wait().await;
    // Asked only where something is damaged.
    if let Some(execution) = give_up::candidate()
        && choose(Site::Operate, 2, Chance::Even) == 1
    {
        return match give_up::act(stage, execution).await {
            true => Progress::Worked,
            false => Progress::Failed,
        };
    }
    let share = match choose(Site::Operate, SHARES + 1, Chance::Even) {
        0 => return Progress::Done,
        share => share - 1,
    };
    let answered = act(share, stage, flow).await;
    let again = choose(Site::Operate, 2, Chance::Even) == 1;
    match (answered, again) {
        (false, _) => Progress::Failed,
        (true, true) => Progress::Worked,
        (true, false) => Progress::Done,
    }
}
