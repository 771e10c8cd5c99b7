//! Between two rounds: whatever has ended and was judged is taken away while the next one runs.

use std::time::Duration;

use super::judge::{self, Finding, Violation};
use super::remains::{self, Remains};
use super::round::{Outcome, Scene};
use super::{counts, rows};

/// The wait between two looks at what is not settled yet.
const LOOK_AFTER: Duration = Duration::from_millis(250);
/// So many looks are taken before summaries that do not end are held against the engine.
const LOOKS_MAX: u32 = 120;

impl Scene {
    /// Every flow that there is may go, once its summary has ended and all of its events have their
    /// places: nothing happens in between.
    pub(super) async fn retire(&mut self, outcome: &mut Outcome) -> Result<(), String> {
        let mut left = String::new();
        for _ in 0..LOOKS_MAX {
            match remains::read(&self.field.database).await {
                Ok(remains) if remains.unsettled + remains.unplaced == 0 => {
                    return self.begin_retirement(&remains, outcome).await;
                }
                Ok(remains) => left = format!("{:?}", (remains.unsettled, remains.unplaced)),
                Err(why) => left = why,
            }
            tokio::time::sleep(LOOK_AFTER).await;
            self.field.fleet.tend()?;
        }
        let message = format!("summaries that are behind, and events without a place: {left}");
        let (invariant, title) = ("I8", "what has ended is summed up and numbered");
        let finding = Finding { message, flow: None };
        outcome.violations.push(Violation { invariant, title, finding });
        Ok(())
    }

    async fn begin_retirement(
        &mut self,
        remains: &Remains,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        match rows::read(&self.field.database, None).await {
            Ok(rows) => self.past = std::mem::take(&mut self.past).and(&rows, remains),
            Err(unread) => return super::round::unreadable(unread, outcome),
        }
        Ok(())
    }

    /// Has so many of all parts taken away: at once, all of it would be gone before a fault
    /// strikes.
    pub(super) fn retire_part(&mut self, part: usize, parts: usize) {
        let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
        if self.past.due > 0 {
            self.field.fleet.retire(self.past.until(small(part), small(parts)));
        }
    }

    /// True once nothing is left of what is to go, as far as the database says so.
    pub(super) async fn is_retired(&self) -> bool {
        let left = counts::flows_besides(&self.field.database, &self.field.namespace).await;
        left == Ok(0)
    }

    /// Judges what retention has left so far, if the database answers.
    pub(super) async fn judge_remains(&self) -> Vec<Violation> {
        match remains::read(&self.field.database).await {
            Ok(remains) => judge::judge_remains(&remains, &self.past),
            Err(_) => Vec::new(),
        }
    }
}
