//! What lists ask for and what they show. Plain data; the only code here turns a question into the
//! keys between which its answer lies.

use std::sync::Arc;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use uuid::Uuid;

use crate::identity::{ExecutionId, FlowKey, Partition};
use crate::mutants::mutated;
use crate::state::State;
use crate::storage::{Execution, Flow, FlowPage, Page, Scope, Summary};
use crate::summary::FlowStatus;

impl Scope {
    /// True if a row with these labels is in it; what the queries of every backend say.
    pub fn admits(
        &self,
        partition: Partition,
        namespace: &str,
        instance_tag: Option<&str>,
    ) -> bool {
        let same_tag = |wanted: &str| match mutated!(P42) {
            true => tag_value(wanted) == instance_tag.and_then(tag_value),
            false => instance_tag == Some(wanted),
        };
        self.partitions.contains(&partition.0)
            && self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && self.instance_tag.as_deref().is_none_or(same_tag)
    }
}

/// What stands behind the key of a tag.
fn tag_value(tag: &str) -> Option<&str> {
    tag.split_once('=').map(|(_, value)| value)
}

/// A page of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowListing {
    /// Which rows.
    pub page: FlowPage,
    /// Only those whose summary has one of these; empty means every status.
    pub statuses: Vec<FlowStatus>,
}

/// A flow beside its summary, both of one instant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowView {
    /// The flow.
    pub flow: Flow,
    /// Its summary, as of its last projection.
    pub summary: Summary,
}

/// A page of executions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionListing {
    /// Which rows.
    pub page: Page,
    /// Only those of this flow.
    pub flow: Option<FlowKey>,
    /// Only those in one of these states; empty means every state.
    pub states: Vec<State>,
}

/// An execution in a list: without its payload and its result, which may be large.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ListedExecution {
    /// Its changing part.
    pub execution: Execution,
    /// Unique in its flow.
    pub name: Arc<str>,
    /// The handler that it needs.
    pub kind: Arc<str>,
    /// The queue that it is claimed from.
    pub lane: Arc<str>,
    /// Higher goes first.
    pub priority: i32,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// Deployment label.
    pub instance_tag: Option<Arc<str>>,
    /// The worker that holds the lease.
    pub worker: Option<Arc<str>>,
}

/// A page of the edges at one end of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EdgeListing {
    /// The execution.
    pub execution: ExecutionId,
    /// Exclusive cursor: the execution at the other end.
    pub after: Option<ExecutionId>,
    /// At most so many rows.
    pub limit: u32,
}

/// A partition, which may be one before the first, and an identifier: a place in the order of keys.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) type KeyPlace = (i32, Uuid);

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl ExecutionListing {
    /// The keys between which its rows lie: above the first, and at most the second.
    pub(super) fn between(&self) -> (KeyPlace, KeyPlace) {
        let place = |id: ExecutionId| (i32::from(id.partition.0), id.uuid);
        let after = self.page.after.map_or((-1, Uuid::max()), place);
        let Some(flow) = self.flow else { return (after, (i32::MAX, Uuid::max())) };
        let (first, last) = flow.execution_range().into_inner();
        let partition = i32::from(flow.partition.0);
        let before = match first.as_u128().checked_sub(1) {
            Some(before) => (partition, Uuid::from_u128(before)),
            None => (partition - 1, Uuid::max()),
        };
        (after.max(before), (partition, last))
    }
}

#[cfg(all(test, any(feature = "postgres", feature = "sqlite")))]
mod tests {
    use super::*;
    use crate::identity::FlowId;

    fn listing(flow: Option<u128>, after: Option<ExecutionId>) -> ExecutionListing {
        let key = |id| FlowKey { partition: Partition(0), id: FlowId(Uuid::from_u128(id)) };
        let page = Page { scope: Scope::default(), after, limit: 1 };
        ExecutionListing { page, flow: flow.map(key), states: Vec::new() }
    }

    #[test]
    fn a_flow_is_a_range_of_keys_and_the_cursor_moves_its_start() {
        let flow = 7_u128 << 80;
        let (start, end) = listing(Some(flow), None).between();
        assert_eq!(start, (0, Uuid::from_u128(flow - 1)));
        assert_eq!(end, (0, Uuid::from_u128((8_u128 << 80) - 1)));
        let inside = ExecutionId { partition: Partition(0), uuid: Uuid::from_u128(flow + 3) };
        assert_eq!(listing(Some(flow), Some(inside)).between().0, (0, inside.uuid));
        assert_eq!(listing(Some(0), None).between().0, (-1, Uuid::max()));
        assert_eq!(listing(None, None).between(), ((-1, Uuid::max()), (i32::MAX, Uuid::max())));
    }
}
