//! Damaged rows in hand-made histories.

use super::{Step, Story, id};
use crate::mirror::Damaged;

impl Story {
    /// A row of that execution, or of its group, is damaged.
    pub(crate) fn damaged(mut self, name: &str, what: fn(super::ExecutionId) -> Damaged) -> Story {
        self.steps.push(Step::Damaged(what(id(name))));
        self
    }
}
