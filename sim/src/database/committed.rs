//! The committed state as checkers and drivers see it. Never changes it, but for the one act by
//! which a liveness phase takes the hints away.

use std::hash::{Hash, Hasher};

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Attempt, Definition, Edge, EdgeKey, Event, Execution, Flow, Group, Position, Request,
    SiblingRequest, StreamHead, Submission, Subscription, Summary,
};
use sluicegate::time::Timestamp;

use super::Database;
use super::session::NOBODY;

impl Database {
    /// The committed executions, in id order.
    pub fn executions(&self) -> impl Iterator<Item = &Execution> {
        self.executions.committed().map(|member| &member.execution)
    }

    /// A committed execution.
    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.executions.see(&id, NOBODY).map(|member| &member.execution)
    }

    /// The constant part of a committed execution.
    pub fn definition(&self, id: ExecutionId) -> Option<&Definition> {
        self.executions.see(&id, NOBODY).map(|member| &*member.definition)
    }

    /// The committed groups, in id order.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.committed()
    }

    /// A committed group.
    pub fn group(&self, downstream: ExecutionId) -> Option<&Group> {
        self.groups.see(&downstream, NOBODY)
    }

    /// The committed edges, in key order: by downstream, then by upstream.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.edges.committed()
    }

    /// A committed edge.
    pub fn edge(&self, key: EdgeKey) -> Option<&Edge> {
        self.edges.see(&key, NOBODY)
    }

    /// The committed outbound edges of an execution.
    pub fn out_edges(&self, upstream: ExecutionId) -> impl Iterator<Item = &Edge> {
        self.edges_from(upstream).filter_map(|slot| self.edges.visible(slot, NOBODY))
    }

    /// The committed flows, in key order.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.committed()
    }

    /// The committed idempotency keys, in key order.
    pub fn submissions(&self) -> impl Iterator<Item = &Submission> {
        self.submissions.committed()
    }

    /// The committed attempts, in key order.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.committed()
    }

    /// The committed events, by their keys.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.committed().map(|row| &row.event)
    }

    /// The position of a committed event, if it has one.
    pub fn position(&self, event: &Event) -> Option<Position> {
        self.events.see(&event.event.key(), NOBODY)?.position
    }

    /// The committed heads of streams.
    pub fn heads(&self) -> impl Iterator<Item = &StreamHead> {
        self.heads.committed()
    }

    /// The committed cursors of consumers, by name.
    pub fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.committed()
    }

    /// The committed sibling requests, by group.
    pub fn sibling_requests(&self) -> impl Iterator<Item = &SiblingRequest> {
        self.sibling_requests.committed()
    }

    /// The committed requests, by flow and id.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.committed()
    }

    /// The flows on the committed backlog of cancels, in key order.
    pub fn cancel_backlog(&self) -> impl Iterator<Item = FlowKey> {
        self.backlog.committed().map(|row| row.0)
    }

    /// The committed summaries, in key order.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.summaries.committed()
    }

    /// The flows of the committed change rows, in the order of their commits.
    pub fn flow_changes(&self) -> impl Iterator<Item = FlowKey> {
        self.flow_changes.iter().map(|change| change.1)
    }

    /// The least instant after `now` at which a committed execution becomes claimable or overdue.
    pub fn next_interesting(&self, now: Timestamp) -> Option<Timestamp> {
        let claimable = self.sets.ready().map(|(key, _)| key.1);
        let timed = self.sets.timed.iter().filter_map(|slot| {
            self.executions.visible(slot, NOBODY).map(|member| &member.execution)
        });
        let overdue =
            timed.flat_map(|execution| [execution.deadline, execution.attempt_over_at()]).flatten();
        claimable.chain(overdue).filter(|at| *at > now).min()
    }

    /// Hashes the committed rows in key order. Left out is what orders nothing that a verb reads:
    /// numbers of events, numbers of change rows, and how many of them a flow has.
    pub fn digest(&self, hasher: &mut impl Hasher) {
        for member in self.executions.committed() {
            member.execution.hash(hasher);
            member.worker.hash(hasher);
            member.result.hash(hasher);
        }
        hasher.write_u8(1);
        self.groups.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(2);
        self.edges.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(3);
        self.flows.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(4);
        self.submissions.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(5);
        self.attempts.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(6);
        self.events.committed().for_each(|row| (row.event.event, row.position).hash(hasher));
        hasher.write_u8(7);
        self.sibling_requests.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(8);
        self.requests.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(9);
        self.backlog.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(8);
        for row in self.summaries.committed() {
            (row.flow, row.counts, row.status, row.ended_at).hash(hasher);
            self.flow_changes().any(|flow| flow == row.flow).hash(hasher);
        }
        hasher.write_u8(10);
        self.heads.committed().for_each(|row| row.hash(hasher));
        hasher.write_u8(11);
        self.subscriptions.committed().for_each(|row| row.hash(hasher));
    }

    /// Deletes every committed event.
    pub fn delete_all_events(&mut self) {
        self.events.delete_committed();
        self.sets.forget_events();
    }
}
