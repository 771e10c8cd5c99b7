//! Attempts as they ended, and how far they say that they have come. Never sends either.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{
    Attempt, AttemptEnd, Execution, ProgressMark, ProgressWrite, Reported, Verb,
};

use super::{Built, Call, Given, NOW, STALE};

/// The verb of a step with its argument.
pub(super) fn call(given: &Given<'_>, verb: Verb) -> Built<Call> {
    Ok(match verb {
        Verb::InsertAttempts => Call::InsertAttempts(given.rows(|row| given.attempt(row))?),
        _ => Call::WriteProgress(given.progress()?),
    })
}

impl Given<'_> {
    /// Of an execution that the transaction has locked, or of one that is nowhere.
    fn progress(&self) -> Built<ProgressWrite> {
        let name = self.name("row")?;
        let before = self.locked(name)?;
        let stale = self.choice("guard", &[("current", false), ("stale", true)])?;
        let epoch = before.epoch + if stale { STALE } else { 0 };
        let (attempt, sequence) = (self.number("attempt", 1)?, self.number("sequence", 1)?);
        let value = Arc::from(format!("{name}{sequence}").as_bytes());
        let progress = ProgressMark { attempt, sequence };
        Ok(ProgressWrite { key: before.id, epoch, progress, value })
    }

    /// An execution that the transaction has locked, as one that was given up.
    pub(super) fn mended(&self, name: &str) -> Built<Execution> {
        let before = self.locked(name)?;
        Ok(Execution {
            state: State::Terminal(Outcome::Failed),
            cause: Some(Cause::Unreadable),
            epoch: before.epoch + 1,
            lease: None,
            finished_at: Some(NOW),
            ..before
        })
    }

    fn attempt(&self, name: &str) -> Built<Attempt> {
        let ends = [
            ("completed", (AttemptEnd::Completed, Reported::Finished(Outcome::Succeeded))),
            ("released", (AttemptEnd::Released, Reported::Requeued { delay_us: 5 })),
            ("expired", (AttemptEnd::Expired, Reported::Finished(Outcome::Expired))),
        ];
        let (end, reported) = self.choice("end", &ends)?;
        Ok(Attempt {
            key: self.attempt_key_of(name)?,
            epoch: 1,
            nonce: 5,
            end,
            reported,
            payload_hash: 3,
            granted_at: NOW,
            ended_at: NOW + Duration::from_secs(1),
        })
    }
}
