//! Reports of progress in hand-made histories.

use sluicegate::storage::ProgressMark;

use super::Story;

impl Story {
    /// An attempt says how far it has come, and is believed.
    pub(crate) fn progress(self, name: &str, attempt: u32, sequence: u64) -> Story {
        self.alter(name, |row| row.progress = Some(ProgressMark { attempt, sequence }))
    }
}
