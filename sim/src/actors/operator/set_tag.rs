//! Hangs a tag on the flow.

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::storage::Storage;

use super::{CALLS_MAX, REPEAT_AFTER};
use crate::actors::{Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

const TAGS: [&str; 2] = ["sim.one", "sim.two"];
const VALUES: [&str; 3] = ["red", "green", "blue"];

pub(super) async fn act<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
    let tag = TAGS[usize::from(choose(Site::Operate, 2, Chance::Even))];
    let value = VALUES[usize::from(choose(Site::Operate, 3, Chance::Even))];
    let request = stage.engine.request_id();
    for _ in 0..CALLS_MAX {
        match stage.engine.set_flow_tag(flow.id, tag, value, request).await {
            Ok(()) => {
                world(|world| world.tally.sometimes(Sometimes::FlowTagged));
                stage.observe(&Observation::FlowTagged { flow, request });
                return true;
            }
            Err(EngineError::FlowNotFound(_)) => return true,
            Err(_) => {}
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    false
}
