//! How far an execution has come, as its workers report it. Plain data.

use std::sync::Arc;

use crate::identity::ExecutionId;

/// Which report of progress was stored last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProgressMark {
    /// The attempt that reported it; one of the incarnation of the row.
    pub attempt: u32,
    /// Its number among the reports of that attempt.
    pub sequence: u64,
}

/// A report of progress of an execution that this transaction has locked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProgressWrite {
    /// The execution. Zero rows change where it is not active.
    pub key: ExecutionId,
    /// The epoch that it was read with. Zero rows change where it has another.
    pub epoch: u64,
    /// Which report it is.
    pub progress: ProgressMark,
    /// What it says.
    pub value: Arc<[u8]>,
}
