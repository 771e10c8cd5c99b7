//! Takes away what is over for long enough, again and again until the flow is gone. Nobody does
//! that while a client may still repeat its submit: retention is to be longer than that.

use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::storage::{Scope, Storage};

use super::REPEAT_AFTER;
use crate::actors::Stage;
use crate::driver::world::{SimEnvironment, world};

/// How long a flow that is over is kept.
pub(crate) const KEEP: Duration = Duration::ZERO;

/// How often it looks whether the flow is gone.
const LOOKS_MAX: u32 = 20;

/// As soon as the summary says that the flow is over, just when others act on that too.
pub(super) async fn act<S: Storage>(stage: &Stage<S>, flow: FlowKey) -> bool {
    for _ in 0..LOOKS_MAX {
        if world(|world| world.clients_left == 0) {
            if stage.engine.retention_tick(&Scope::default()).await.is_err() {
                return false;
            }
            let looked = stage.engine.get_flow_tag(flow.id, "sim.one").await;
            if matches!(looked, Err(EngineError::FlowNotFound(_))) {
                return true;
            }
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    true
}
