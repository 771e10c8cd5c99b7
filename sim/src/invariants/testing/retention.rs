//! Steps of retention.

use sluicegate::storage::EventKey;

use super::{Story, flow_key, id};
use crate::history::{Change, Commit};

fn gone<T>(row: T) -> Change<T> {
    Change { before: Some(row), after: None }
}

impl Story {
    /// The events of these executions are taken away, and nothing else.
    pub(crate) fn prune_events(self, names: &[&str]) -> Story {
        let key = |name: &&str| EventKey { execution: id(name), incarnation: 0, lease: None };
        let events_pruned: Vec<EventKey> = names.iter().map(key).collect();
        let places = self.mirror.positions().iter();
        let gone = places.filter(|given| events_pruned.contains(&given.key));
        let horizon = gone.map(|given| given.position).max();
        self.commit(Commit { events_pruned, horizon, ..Commit::default() })
    }

    /// The flow is taken away, as it stands.
    pub(crate) fn prune(self) -> Story {
        let mirror = &self.mirror;
        let commit = Commit {
            flows: mirror.flows().iter().cloned().map(gone).collect(),
            executions: mirror.executions().iter().copied().map(gone).collect(),
            groups: mirror.groups().iter().copied().map(gone).collect(),
            edges: mirror.edges().iter().cloned().map(gone).collect(),
            attempts_pruned: mirror.attempts().iter().map(|row| row.key).collect(),
            summaries: mirror.summaries().iter().copied().map(gone).collect(),
            submissions_pruned: mirror.submissions().iter().map(|row| row.key.clone()).collect(),
            requests: mirror.requests_of(flow_key()).cloned().map(gone).collect(),
            ..Commit::default()
        };
        self.commit(commit)
    }
}
