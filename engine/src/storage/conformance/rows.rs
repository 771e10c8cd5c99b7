//! The rows of the cases: flows, executions, groups and edges under small numbers. Plain data.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::identity::{ExecutionId, FlowId, FlowKey, Partition, RequestId};
use crate::policy::{AcceptSet, Decision, JoinPolicy};
use crate::retry::RetryPolicy;
use crate::state::{Cause, Outcome, State};
use crate::storage::{
    ClaimQuery, Definition, Edge, EdgeFlip, EdgeKey, EventKind, Execution, ExecutionWrite, Flow,
    Grant, Group, Guarded, LeaseChange, LeaseEvent, NewEvent, NewExecution, Resolution,
    ResultChange,
};
use crate::time::Timestamp;

/// What claims take for the storage's clock.
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
/// Where nearly everything lies.
pub(super) const HOME: Partition = Partition(7);
pub(super) const SUCCEEDED: State = State::Terminal(Outcome::Succeeded);
pub(super) const FAILED: State = State::Terminal(Outcome::Failed);

/// A flow of the home partition.
pub(super) const FLOW: FlowKey = FlowKey { partition: HOME, id: FlowId(Uuid::from_u128(1)) };
/// Another one.
pub(super) const OTHER: FlowKey = FlowKey { partition: HOME, id: FlowId(Uuid::from_u128(2)) };

pub(super) fn id(number: u16) -> ExecutionId {
    id_in(HOME.0, number)
}

pub(super) fn id_in(partition: u16, number: u16) -> ExecutionId {
    ExecutionId { partition: Partition(partition), uuid: Uuid::from_u128(u128::from(number)) }
}

pub(super) fn ids(numbers: &[u16]) -> Vec<ExecutionId> {
    numbers.iter().map(|number| id(*number)).collect()
}

pub(super) fn request(number: u16) -> RequestId {
    RequestId(Uuid::from_u128(u128::from(number)))
}

pub(super) fn flow(key: FlowKey) -> Flow {
    Flow {
        key,
        namespace: "tenant".into(),
        instance_tag: Some("region=north".into()),
        closing: None,
        closed_by: None,
        revision: 3,
        tags: crate::storage::Tags::default(),
        content_hash: [9; 32],
        request: request(7),
        created_at: Timestamp(5),
    }
}

pub(super) fn member(number: u16, state: State) -> NewExecution {
    let ended = state.is_terminal();
    NewExecution {
        execution: Execution {
            id: id(number),
            flow: FLOW.id,
            state,
            cause: ended.then_some(Cause::Handler),
            incarnation: 0,
            propagated: false,
            has_in: state == State::Blocked,
            has_inputs: false,
            has_out: true,
            not_before: Timestamp(1_000),
            deadline: None,
            attempt: 0,
            charged: 0,
            give_backs: 0,
            resumed: None,
            progress: None,
            epoch: 0,
            lease: None,
            finished_at: ended.then_some(Timestamp(2_000)),
            retry: RetryPolicy::default(),
        },
        definition: Definition {
            name: format!("step {number}").into(),
            kind: "build".into(),
            lane: "main".into(),
            priority: 0,
            namespace: "tenant".into(),
            instance_tag: Some("region=north".into()),
            payload: Arc::from(number.to_be_bytes()),
        },
    }
}

/// A ready execution with one difference.
pub(super) fn ready_but(number: u16, change: impl FnOnce(&mut NewExecution)) -> NewExecution {
    let mut row = member(number, State::Ready);
    change(&mut row);
    row
}

/// An execution of another partition, whose flow has the id of [`FLOW`].
pub(super) fn in_partition(partition: u16, mut row: NewExecution) -> NewExecution {
    row.execution.id.partition = Partition(partition);
    row
}

pub(super) fn edge_key(upstream: u16, downstream: u16) -> EdgeKey {
    EdgeKey { downstream: id(downstream), upstream: id(upstream) }
}

pub(super) fn edge(upstream: u16, downstream: u16) -> Edge {
    Edge {
        key: edge_key(upstream, downstream),
        accepts: AcceptSet::ON_SUCCESS,
        resolution: Resolution::Pending,
        upstream_incarnation: None,
        input: None,
        passes_as: None,
    }
}

/// A pending edge that these outcomes satisfy.
pub(super) fn edge_for(upstream: u16, downstream: u16, accepts: AcceptSet) -> Edge {
    Edge { accepts, ..edge(upstream, downstream) }
}

/// An edge that has been resolved.
pub(super) fn resolved(upstream: u16, downstream: u16) -> Edge {
    Edge {
        resolution: Resolution::Satisfied,
        upstream_incarnation: Some(0),
        ..edge(upstream, downstream)
    }
}

pub(super) fn group(downstream: u16, policy: JoinPolicy, edges: u32) -> Group {
    Group {
        downstream: id(downstream),
        flow: FLOW.id,
        policy,
        edges,
        satisfied: 0,
        unsatisfied: 0,
        decision: Decision::Undecided,
    }
}

pub(super) fn flip(upstream: u16, downstream: u16, resolution: Resolution) -> EdgeFlip {
    EdgeFlip {
        key: edge_key(upstream, downstream),
        resolution,
        upstream_incarnation: 4,
        input: None,
        guarded: Guarded::Yes,
    }
}

pub(super) fn event(number: u16) -> NewEvent {
    NewEvent {
        execution: id(number),
        flow: FLOW.id,
        incarnation: 0,
        kind: EventKind::Completed { outcome: Outcome::Succeeded },
        occurred_at: NOW,
    }
}

/// What became of a lease of that execution.
pub(super) fn lease_event(number: u16, attempt: u32, change: LeaseChange) -> NewEvent {
    let lease = LeaseEvent { attempt, change, expires_at: NOW };
    NewEvent { kind: EventKind::Lease(lease), ..event(number) }
}

pub(super) fn claim(limit: u32) -> ClaimQuery {
    ClaimQuery {
        request: request(99),
        worker: "worker".into(),
        instance: "instance".into(),
        namespace: None,
        partitions: 0..u16::MAX,
        lanes: vec!["main".into()],
        kinds: Vec::new(),
        except: Vec::new(),
        limit,
        now: NOW,
        lease: Duration::from_secs(30),
        nonce: u64::MAX - 5,
        charge: 1,
    }
}

pub(super) fn granted(grants: &[Grant]) -> Vec<ExecutionId> {
    grants.iter().map(|grant| grant.execution.id).collect()
}

/// An update from this row to another state, at the next epoch and without a lease.
pub(super) fn to_state(before: &Execution, state: State) -> ExecutionWrite {
    let ended = state.is_terminal();
    ExecutionWrite {
        guard: before.guard(),
        after: Execution {
            state,
            cause: ended.then_some(Cause::Handler),
            epoch: before.epoch.wrapping_add(1),
            lease: None,
            finished_at: ended.then_some(NOW),
            ..*before
        },
        result: ResultChange::Keep,
    }
}

/// Rows of a database.
#[derive(Default)]
pub(super) struct Seed {
    pub(super) flows: Vec<Flow>,
    pub(super) members: Vec<NewExecution>,
    pub(super) groups: Vec<Group>,
    pub(super) edges: Vec<Edge>,
}

impl Seed {
    /// One flow in each partition of these members.
    pub(super) fn members(members: impl IntoIterator<Item = NewExecution>) -> Self {
        let members: Vec<NewExecution> = members.into_iter().collect();
        let mut keys: Vec<FlowKey> = members.iter().map(|row| row.execution.flow_key()).collect();
        keys.sort_unstable();
        keys.dedup();
        Self { flows: keys.into_iter().map(flow).collect(), members, ..Self::default() }
    }

    /// Ready executions 1 to `last`.
    pub(super) fn ready_to(last: u16) -> Self {
        Self::members((1..=last).map(|number| member(number, State::Ready)))
    }

    /// Adds edges, and for each downstream without a group an `AllOf` one.
    pub(super) fn edges(mut self, edges: impl IntoIterator<Item = Edge>) -> Self {
        self.edges.extend(edges);
        let mut downstreams: Vec<ExecutionId> =
            self.edges.iter().map(|edge| edge.key.downstream).collect();
        downstreams.sort_unstable();
        downstreams.dedup();
        for downstream in downstreams {
            if self.groups.iter().all(|group| group.downstream != downstream) {
                let edges = self.edges.iter().filter(|edge| edge.key.downstream == downstream);
                let edges = u32::try_from(edges.count()).expect("a case has few edges");
                self.groups.push(Group { downstream, ..group(0, JoinPolicy::AllOf, edges) });
            }
        }
        self
    }

    /// Adds groups.
    pub(super) fn groups(mut self, groups: impl IntoIterator<Item = Group>) -> Self {
        self.groups.extend(groups);
        self
    }
}
