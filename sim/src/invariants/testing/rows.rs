//! The rows of hand-made histories. Plain data.

use std::sync::Arc;

use sluicegate::identity::FlowKey;
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy};
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{
    Edge, EdgeKey, EventKind, Execution, Flow, Group, NewEvent, Resolution, Submission,
    SubmissionKey,
};
use sluicegate::time::Timestamp;

use super::{ATTEMPTS_MAX, RETRY_DELAY, START, flow_key, id, request};

pub(super) fn newborn(name: &str, has_in: bool, has_out: bool) -> Execution {
    let delay_ms = u32::try_from(RETRY_DELAY.as_millis()).unwrap();
    Execution {
        id: id(name),
        flow: flow_key().id,
        state: if has_in { State::Blocked } else { State::Ready },
        cause: None,
        incarnation: 0,
        propagated: false,
        has_in,
        has_inputs: false,
        has_out,
        not_before: START,
        deadline: None,
        attempt: 0,
        charged: 0,
        give_backs: 0,
        resumed: None,
        progress: None,
        epoch: 0,
        lease: None,
        finished_at: None,
        retry: RetryPolicy {
            max_attempts: ATTEMPTS_MAX,
            backoff: Backoff::Fixed { delay_ms },
            attempt_timeout_ms: None,
        },
    }
}

pub(super) fn undecided(downstream: &str, policy: JoinPolicy, edges: u32) -> Group {
    Group {
        downstream: id(downstream),
        flow: flow_key().id,
        policy,
        edges,
        satisfied: 0,
        unsatisfied: 0,
        decision: Decision::Undecided,
    }
}

pub(super) fn pending(upstream: &str, downstream: &str, accepts: AcceptSet) -> Edge {
    Edge {
        key: EdgeKey { downstream: id(downstream), upstream: id(upstream) },
        accepts,
        resolution: Resolution::Pending,
        upstream_incarnation: None,
        input: None,
        passes_as: None,
    }
}

pub(super) fn flow_row() -> Flow {
    Flow {
        key: flow_key(),
        namespace: Arc::from("tenant"),
        instance_tag: Some(Arc::from("region=north")),
        closing: None,
        closed_by: None,
        revision: 0,
        tags: sluicegate::storage::Tags::default(),
        content_hash: [0; 32],
        request: request(1),
        created_at: START,
    }
}

pub(super) fn submission(flow: FlowKey) -> Submission {
    let key = SubmissionKey { namespace: Arc::from("tenant"), key: Arc::from("key") };
    Submission { key, flow, content_hash: [0; 32], request: request(1) }
}

pub(super) fn event(row: &Execution, outcome: Outcome, occurred_at: Timestamp) -> NewEvent {
    let Execution { id: execution, flow, incarnation, .. } = *row;
    NewEvent { execution, flow, incarnation, kind: EventKind::Completed { outcome }, occurred_at }
}

pub(super) fn finish(row: &mut Execution, outcome: Outcome, cause: Cause, now: Timestamp) {
    row.state = State::Terminal(outcome);
    row.cause = Some(cause);
    row.finished_at = Some(now);
    row.epoch += 1;
    row.lease = None;
    row.propagated = !row.has_out;
}
