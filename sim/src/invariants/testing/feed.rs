//! Steps of the feed: places, and what subscribers are handed.

use std::sync::Arc;

use sluicegate::state::Outcome;
use sluicegate::storage::{EventKey, EventKind, EventPosition, Position, Wanted};

use super::{Story, id};
use crate::history::{Commit, Observation};

impl Story {
    /// The events of these executions get these places in the feed.
    pub(crate) fn place(self, places: &[(&str, u64)]) -> Story {
        self.place_in(0, places)
    }

    /// The events of that incarnation of these executions get these places in the feed.
    pub(crate) fn place_in(self, incarnation: u32, places: &[(&str, u64)]) -> Story {
        let given = |(name, position): &(&str, u64)| EventPosition {
            key: EventKey { execution: id(name), incarnation, lease: None },
            position: Position(*position),
        };
        let positions = places.iter().map(given).collect();
        self.commit(Commit { positions, ..Commit::default() })
    }

    /// A subscriber opens its consumer.
    pub(crate) fn subscribed(subscriber: u8, namespace: Option<&str>) -> Observation {
        let (namespace, from) = (namespace.map(Arc::from), Position(0));
        Observation::Subscribed { subscriber, namespace, wanted: Wanted::Completions, from }
    }

    /// A subscriber is handed the event of an execution, as it stands.
    pub(crate) fn delivered(&self, subscriber: u8, name: &str, position: u64) -> Observation {
        let row = self.row(name);
        Observation::Delivered {
            subscriber,
            position: Position(position),
            flow: row.flow_key(),
            execution: row.id,
            incarnation: row.incarnation,
            kind: EventKind::Completed {
                outcome: row.state.outcome().expect("an execution that has ended"),
            },
        }
    }

    /// A completion event and nothing else.
    pub(crate) fn event(self, name: &str, outcome: Outcome) -> Story {
        let events = vec![self.completion(name, outcome)];
        self.commit(Commit { events, ..Commit::default() })
    }
}
