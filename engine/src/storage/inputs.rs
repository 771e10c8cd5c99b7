//! What executions are passed by their upstreams, as the storage tells it. Never reads a row.

use std::sync::Arc;

use super::EdgeKey;
use crate::identity::ExecutionId;
use crate::state::Outcome;

/// What is asked of the inputs of executions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputQuery {
    /// Whose; no one twice.
    pub executions: Vec<ExecutionId>,
    /// Only those of upstreams behind this one.
    pub after: Option<ExecutionId>,
    /// At most so many of each execution.
    pub limit: u32,
    /// Bytes of results that are shown of each execution.
    pub bytes_max: u64,
}

/// What an execution is passed by one of its upstreams.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    /// The edge that passes it.
    pub key: EdgeKey,
    /// The name under which it is passed.
    pub name: Arc<str>,
    /// How the upstream ended.
    pub outcome: Outcome,
    /// Bytes of its result.
    pub bytes: u64,
    /// What the upstream's handler returned; none of an upstream that did not succeed.
    pub result: Option<Arc<[u8]>>,
}

impl InputQuery {
    /// Of the inputs of one execution in order, those that the query shows, their results left out
    /// where they are too many: they are shown as long as their sum, from the first that has one,
    /// is within the limit, and the first is shown anyway. What follows a result that is left out
    /// is left out as a whole.
    pub fn shown(&self, inputs: impl IntoIterator<Item = Input>) -> Vec<Input> {
        let mut total = 0;
        let mut shown = Vec::new();
        for mut input in inputs.into_iter().take(self.limit as usize) {
            if total > self.bytes_max {
                break;
            }
            total += input.bytes;
            if total > self.bytes_max && total != input.bytes {
                input.result = None;
            }
            shown.push(input);
        }
        shown
    }
}
