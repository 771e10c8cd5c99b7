//! Steps of leases in hand-made histories, and what the feed tells of them.

use sluicegate::storage::{EventId, Execution, LeaseChange, NewEvent};

use super::{LEASE, Story};
use crate::history::Holder;

impl Story {
    /// The live lease of an execution.
    pub(crate) fn holder(&self, name: &str) -> Holder {
        let row = self.row(name);
        let Execution { id: execution, incarnation, attempt, epoch, .. } = row;
        let nonce = row.lease.expect("the story granted it").nonce;
        Holder { execution, incarnation, attempt, epoch, nonce }
    }

    /// Its worker renews the lease.
    pub(crate) fn renew(self, name: &str) -> Story {
        let expires_at = self.now + LEASE;
        let story = self.alter(name, |row| row.lease.as_mut().unwrap().expires_at = expires_at);
        story.told_of_lease(name, LeaseChange::Renewed)
    }

    /// The feed tells of grants and renewals from now on.
    pub(crate) fn telling(self) -> Story {
        Story { telling: true, ..self }
    }

    /// The last commit tells of the lease that it began or extended, if the feed is to.
    pub(super) fn told_of_lease(self, name: &str, change: LeaseChange) -> Story {
        if !self.telling {
            return self;
        }
        let event = self.lease_event(name, change);
        self.tamper(|commit| commit.events.push(event))
    }

    pub(super) fn lease_event(&self, name: &str, change: LeaseChange) -> (EventId, NewEvent) {
        let event = NewEvent::of_lease(&self.row(name), change, self.now);
        (EventId(self.steps.len() as u64), event.expect("the story granted a lease"))
    }
}
