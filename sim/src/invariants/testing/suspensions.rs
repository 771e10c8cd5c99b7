//! Suspensions and resumes in hand-made histories.

use sluicegate::state::State;
use sluicegate::storage::{AttemptEnd, LeaseChange, Reported, Resumed};

use super::{Story, id};
use crate::history::{Commit, Observation};

impl Story {
    /// The holder of the lease suspends the execution.
    pub(crate) fn suspend(self, name: &str) -> Story {
        let reported = Reported::Suspended { epoch: self.row(name).epoch + 1 };
        let mut commit = Commit::default();
        commit.attempts.push(self.attempt(name, AttemptEnd::Suspended, reported));
        commit.events.push(self.lease_event(name, LeaseChange::Released));
        commit.executions.push(self.change(name, |row| {
            row.state = State::Suspended;
            row.lease = None;
            row.epoch += 1;
            row.charged -= 1;
        }));
        self.commit(commit)
    }

    /// Somebody resumes the execution.
    pub(crate) fn resume(self, name: &str) -> Story {
        let now = self.now;
        self.alter(name, |row| {
            row.resumed = Some(Resumed { epoch: row.epoch, outcome: None });
            row.state = State::Ready;
            row.epoch += 1;
            row.not_before = now;
        })
    }

    /// The answer to a call to resume.
    pub(crate) fn told_of_resume(
        name: &str,
        epoch: u64,
        reported: Option<Reported>,
    ) -> Observation {
        Observation::Resumed { execution: id(name), epoch, reported }
    }
}
