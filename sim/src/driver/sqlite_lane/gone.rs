//! What retention takes away in a transaction on a file, as the judge is told of it: the rows that
//! it knows under what was asked for. That a file keeps none of them is a matter of the tests of
//! the backend.

use std::collections::BTreeSet;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{EventKey, Position};

use crate::history::{Change, Commit};
use crate::mirror::Mirror;

/// What was asked for, by table.
#[derive(Default)]
pub(super) struct Gone {
    pub(super) executions: BTreeSet<ExecutionId>,
    pub(super) groups: BTreeSet<ExecutionId>,
    pub(super) edges_into: BTreeSet<ExecutionId>,
    pub(super) attempts_of: BTreeSet<ExecutionId>,
    pub(super) requests_of: Vec<FlowKey>,
    pub(super) submission_of: Vec<FlowKey>,
    pub(super) summaries: Vec<FlowKey>,
    pub(super) flows: Vec<FlowKey>,
    pub(super) events: Vec<EventKey>,
    /// Where the horizon was put: on a file nothing else moves the head of the stream.
    pub(super) horizon: Option<Position>,
}

impl Gone {
    /// True if nothing was asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.executions.is_empty()
            && self.groups.is_empty()
            && self.edges_into.is_empty()
            && self.attempts_of.is_empty()
            && self.requests_of.is_empty()
            && self.submission_of.is_empty()
            && self.summaries.is_empty()
            && self.flows.is_empty()
            && self.events.is_empty()
    }

    /// Adds to a commit what of it the judge knows.
    pub(super) fn tell(&self, mirror: &Mirror, rows: &mut Commit) {
        let executions = self.executions.iter().filter_map(|id| mirror.execution(*id));
        rows.executions.extend(executions.map(|row| gone(*row)));
        let groups = self.groups.iter().filter_map(|id| mirror.group(*id));
        rows.groups.extend(groups.map(|row| gone(*row)));
        let edges = self.edges_into.iter().flat_map(|id| mirror.edges_into(*id));
        rows.edges.extend(edges.map(|row| gone(row.clone())));
        let attempts = mirror.attempts().iter().map(|row| row.key);
        let own = attempts.filter(|key| self.attempts_of.contains(&key.execution));
        rows.attempts_pruned.extend(own);
        let requests = self.requests_of.iter().flat_map(|flow| mirror.requests_of(*flow));
        rows.requests.extend(requests.map(|row| gone(row.clone())));
        let submissions = mirror.submissions().iter();
        let own = submissions.filter(|row| self.submission_of.contains(&row.flow));
        rows.submissions_pruned.extend(own.map(|row| row.key.clone()));
        let summaries = self.summaries.iter().filter_map(|flow| mirror.summary(*flow));
        rows.summaries.extend(summaries.map(|row| gone(*row)));
        let flows = self.flows.iter().filter_map(|flow| mirror.flow(*flow));
        rows.flows.extend(flows.map(|row| gone(row.clone())));
        rows.events_pruned.extend(&self.events);
        rows.horizon = self.horizon;
    }
}

fn gone<T>(row: T) -> Change<T> {
    Change { before: Some(row), after: None }
}
