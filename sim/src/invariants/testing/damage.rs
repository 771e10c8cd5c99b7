//! Damaged rows in hand-made histories.

use sluicegate::state::{Cause, Outcome};

use super::rows::finish;
use super::{Step, Story, id};
use crate::history::{Commit, Observation};
use crate::mirror::Damaged;

impl Story {
    /// A row of that execution, or of its group, is damaged.
    pub(crate) fn damaged(mut self, name: &str, what: fn(super::ExecutionId) -> Damaged) -> Story {
        self.steps.push(Step::Damaged(what(id(name))));
        self
    }

    /// The reply to a call to give an execution up.
    pub(crate) fn given_up(name: &str, ended: Option<Outcome>) -> Observation {
        Observation::GivenUp { execution: id(name), ended }
    }

    /// An operator gives an execution up that has no lease.
    pub(crate) fn give_up(self, name: &str) -> Story {
        let mut commit = Commit::default();
        let (outcome, now) = (Outcome::Failed, self.now);
        commit.events.push(self.completion(name, outcome));
        commit
            .executions
            .push(self.change(name, |row| finish(row, outcome, Cause::Unreadable, now)));
        self.commit(commit)
    }
}
