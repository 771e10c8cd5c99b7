//! What retention took away, as the checkers know it.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{EventKey, Flow, Position, Request};

use super::{Mirror, Row, Table};
use crate::history::{Commit, Observation};

/// What is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Pruned {
    /// Flows, as they last stood.
    flows: Table<Flow>,
    /// Events.
    events: Table<EventKey>,
    /// Events that nobody took away, and that are gone all the same.
    lost: Table<EventKey>,
    /// The highest place that one of them had.
    position: Position,
}

impl Row for EventKey {
    type Key = EventKey;
    fn key(&self) -> &EventKey {
        self
    }
}

impl Pruned {
    /// Forgets everything and keeps the allocations.
    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.events.clear();
        self.lost.clear();
        self.position = Position(0);
    }
}

impl Mirror {
    /// Takes in what a commit took away.
    pub(super) fn prune(&mut self, commit: &Commit) {
        for key in &commit.submissions_pruned {
            self.submissions.remove(key);
        }
        for key in &commit.attempts_pruned {
            self.attempts.remove(key);
        }
        for change in commit.flows.iter().filter(|change| change.after.is_none()) {
            self.pruned.flows.merge(change.before.iter());
        }
        for key in &commit.events_pruned {
            self.pruned.events.put(*key);
        }
        if !commit.events_pruned.is_empty() {
            let gone =
                self.positions.iter().filter(|given| commit.events_pruned.contains(&given.key));
            let last = gone.map(|given| given.position).max().unwrap_or_default();
            self.pruned.position = self.pruned.position.max(last);
        }
    }

    /// The row of a flow, as it stands or, if it was pruned, as it last stood.
    pub fn labels(&self, flow: FlowKey) -> Option<&Flow> {
        self.flow(flow).or_else(|| self.pruned.flows.get(&flow))
    }

    /// True if that flow was pruned.
    pub fn is_pruned(&self, flow: FlowKey) -> bool {
        self.pruned.flows.get(&flow).is_some()
    }

    /// True if a flow was pruned.
    pub fn has_pruned(&self) -> bool {
        !self.pruned.flows.rows().is_empty()
    }

    /// The highest place in the feed of an event that was pruned.
    pub fn pruned_to(&self) -> Position {
        self.pruned.position
    }

    /// True if that event was pruned, or lost.
    pub fn is_event_gone(&self, event: &EventKey) -> bool {
        self.pruned.events.get(event).is_some() || self.is_event_lost(event)
    }

    /// An event was deleted by a hand outside the engine.
    pub fn lose_event(&mut self, event: EventKey) {
        self.pruned.lost.put(event);
    }

    /// True if an event was lost: nobody can be handed it.
    pub fn is_event_lost(&self, event: &EventKey) -> bool {
        self.pruned.lost.get(event).is_some()
    }

    /// The events that are left, by their keys.
    pub fn events_left(&self) -> impl Iterator<Item = EventKey> {
        let written = self.events.rows.iter().filter(|row| row.commit > self.forgotten.commits);
        written.map(|row| row.key).filter(|key| !self.is_event_gone(key))
    }

    /// True if an actor is told of a flow that has been pruned since: the rows that would tell
    /// whether that is right are gone.
    pub fn has_pruned_what(&self, observation: &Observation) -> bool {
        if !self.has_pruned() {
            return false;
        }
        let (flow, execution) = match *observation {
            Observation::Submitted { flow, .. }
            | Observation::FlowCancelled { flow, .. }
            | Observation::FlowTagged { flow, .. }
            | Observation::Extended { flow, .. }
            | Observation::ReplayAsked { flow, .. }
            | Observation::Replayed { flow, .. } => (Some(flow), None),
            Observation::Reported { holder, .. }
            | Observation::ReportContended { holder, .. }
            | Observation::Progressed { holder, .. }
            | Observation::LeaseLost { holder, .. }
            | Observation::Granted { holder }
            | Observation::Garbled { holder, .. }
            | Observation::Passed { holder, .. } => (None, Some(holder.execution)),
            Observation::ExecutionCancelled { execution, .. }
            | Observation::GivenUp { execution, .. }
            | Observation::Resumed { execution, .. } => (None, Some(execution)),
            Observation::ListedFlows { .. }
            | Observation::ListedExecutions { .. }
            | Observation::LetGoOn { .. }
            | Observation::TooLarge { .. }
            | Observation::Subscribed { .. }
            | Observation::Expired { .. }
            | Observation::Delivered { .. } => (None, None),
        };
        flow.is_some_and(|flow| self.is_pruned(flow))
            || execution.is_some_and(|id| self.execution(id).is_none())
    }

    /// The first row, in words, that is left of a flow that is not there.
    pub fn left_of(&self, flow: FlowKey) -> Option<String> {
        let range = flow.execution_range();
        let own = |id: ExecutionId| id.partition == flow.partition && range.contains(&id.uuid);
        let rows = [
            self.executions().iter().find(|row| own(row.id)).map(|row| format!("{row:?}")),
            self.groups().iter().find(|row| own(row.downstream)).map(|row| format!("{row:?}")),
            self.edges().iter().find(|row| own(row.key.downstream)).map(|row| format!("{row:?}")),
            self.attempts().iter().find(|row| own(row.key.execution)).map(|row| format!("{row:?}")),
            self.sibling_requests().iter().find(|row| own(row.group)).map(|row| format!("{row:?}")),
            self.summary(flow).map(|row| format!("{row:?}")),
            self.submissions().iter().find(|row| row.flow == flow).map(|row| format!("{row:?}")),
            self.requests_of(flow).next().map(|row| format!("{row:?}")),
            self.cancel_backlog().iter().find(|key| **key == flow).map(|key| format!("{key:?}")),
        ];
        rows.into_iter().flatten().next()
    }

    /// How many rows there are, by table; events, which a fault may delete, are left out.
    pub fn counts(&self) -> [(&'static str, usize); 11] {
        [
            ("submission", self.submissions.rows.len()),
            ("flow", self.flows.rows.len()),
            ("execution", self.executions.rows.len()),
            ("edge", self.edges.rows.len()),
            ("edge_group", self.groups.rows.len()),
            ("attempt", self.attempts.rows.len()),
            ("event", self.events_left().count()),
            ("flow_summary", self.summaries.rows.len()),
            ("sibling_request", self.sibling_requests.rows.len()),
            ("request", self.requests.rows.len()),
            ("cancel_backlog", self.cancel_backlog.rows.len()),
        ]
    }

    /// The records of the calls on a flow, in key order.
    pub fn requests_of(&self, flow: FlowKey) -> impl Iterator<Item = &Request> {
        self.requests.rows.iter().filter(move |row| row.key.flow == flow)
    }
}
