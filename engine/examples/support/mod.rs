//! What the examples share: waiting for the end of a flow, and showing how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate::environment::Environment;
use sluicegate::identity::FlowKey;
use sluicegate::operations::describe::FlowDescription;
use sluicegate::state::PublicState;
use sluicegate::storage::Storage;
use sluicegate::{Engine, EngineError};

/// The pause between two looks at a flow.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Looks after which a flow counts as stuck: about a minute.
const LOOKS_MAX: u32 = 3_000;

/// Waits until every execution of a flow has ended.
pub(crate) async fn ended<S: Storage, E: Environment>(
    engine: &Engine<S, E>,
    flow: FlowKey,
) -> Result<FlowDescription, EngineError> {
    use PublicState::{Cancelled, Completed, Expired, Failed, Skipped};
    for _ in 0..LOOKS_MAX {
        let described = engine.describe_flow(flow.id).await?;
        let over = |state: &PublicState| {
            matches!(state, Completed | Failed | Cancelled | Expired | Skipped)
        };
        if described.counts.keys().all(over) {
            return Ok(described);
        }
        engine.environment().sleep(LOOK_EVERY).await;
    }
    panic!("flow {} has not ended", flow.id);
}

/// Prints how a flow ended, and returns the state and the number of attempts of each execution.
pub(crate) fn show(described: &FlowDescription) -> BTreeMap<&str, (PublicState, u32)> {
    for one in &described.executions {
        println!("{:<12} {:?} after {} attempts", one.name, one.state, one.attempt);
    }
    described.executions.iter().map(|one| (&*one.name, (one.state, one.attempt))).collect()
}
