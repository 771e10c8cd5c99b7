//! What a caller of the engine may be told, sorted by what it does next.

use crate::feed::Cursor;
use crate::flow::InvalidFlow;
use crate::identity::{ExecutionId, FlowId};
use crate::state::State;
use crate::storage::{Contention, StorageError};

/// What stands in the place of a lost lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// The execution's state now.
    pub state: State,
    /// Its incarnation now.
    pub incarnation: u32,
    /// Its last granted attempt.
    pub attempt: u32,
    /// Its epoch now.
    pub epoch: u64,
}

/// A call that did not take effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Mend the request.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// There is no such flow.
    #[error("flow {0} does not exist")]
    FlowNotFound(FlowId),
    /// There is no such execution.
    #[error("execution {0} does not exist")]
    ExecutionNotFound(ExecutionId),
    /// The same key or id stands for other content; use another.
    #[error("{by} already stands for flow {flow} with different content")]
    Conflict {
        /// `idempotency key ..` or `flow id ..`.
        by: String,
        /// The flow that was submitted first.
        flow: FlowId,
    },
    /// Wait until it has ended, or cancel it, and replay then: nothing has been replayed.
    #[error("execution {execution} is {}: it has to end before it is replayed", state.name())]
    Running {
        /// An execution that would have started again.
        execution: ExecutionId,
        /// Its state: active or suspended.
        state: State,
    },
    /// The rows stand so that it cannot be done: look at them, and ask for something else.
    #[error("refused: {0}")]
    Refused(String),
    /// Go on from the oldest event and accept the gap: those right behind the cursor are gone.
    #[error("cursor {cursor} has expired: the events that are left begin behind {oldest}")]
    CursorExpired {
        /// The cursor.
        cursor: Cursor,
        /// Before the oldest event that is left.
        oldest: Cursor,
    },
    /// Start over: the cursor belongs to another timeline of the database, or to a part of this one
    /// that was lost.
    #[error("cursor {cursor} is lost: the database stands at {newest}")]
    CursorLost {
        /// The cursor.
        cursor: Cursor,
        /// Behind the newest event of the database.
        newest: Cursor,
    },
    /// Drop the work: the lease was ended, and this is what replaced it.
    #[error(
        "lease lost: the execution is {} at incarnation {}, attempt {}, epoch {}",
        .0.state.name(), .0.incarnation, .0.attempt, .0.epoch
    )]
    LeaseLost(Replacement),
    /// Call again later: the retry budget is spent, and nothing of this call has been applied.
    #[error("contention beyond the retry budget: {0:?}")]
    Contention(Contention),
    /// Call again later, with the same request id: the storage did not answer.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// The commit's answer was lost every time; call again with the same request id.
    #[error("the outcome of the commit is unknown")]
    Unknown,
    /// A stored value needs an operator.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
    /// A stored value of one execution needs an operator; others are not in its way.
    #[error("execution {execution} cannot be read: {reason}")]
    Unreadable {
        /// The execution whose row, or whose group's row, it is.
        execution: ExecutionId,
        /// Where the value stands, and what it is.
        reason: String,
    },
    /// Make it smaller, or raise the limit.
    #[error("limit exceeded: {0}")]
    LimitExceeded(String),
    /// This storage cannot do it.
    #[error("not supported: {0}")]
    Unsupported(String),
}

impl EngineError {
    /// True if the same call may succeed later: contention, a storage that did not answer, or a
    /// commit of unknown outcome. Calls with a request id are repeated with the same.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Contention(_) | Self::Unavailable(_) | Self::Unknown)
    }
}

impl From<StorageError> for EngineError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Contention(contention) => Self::Contention(contention),
            StorageError::Corrupt(reason) => Self::Corrupt(reason.into_owned()),
            StorageError::Unreadable(execution, reason) => {
                Self::Unreadable { execution, reason: reason.into_owned() }
            }
            StorageError::Unsupported(reason) => Self::Unsupported(reason.into_owned()),
            StorageError::TooLarge(reason) => Self::LimitExceeded(format!(
                "a statement is larger than the storage takes ({reason}): lower \
                 `payload_max_bytes`, `result_max_bytes` or `statement_max_bytes`"
            )),
            StorageError::Unavailable(reason) => Self::Unavailable(reason.into_owned()),
            StorageError::Full => Self::Unavailable("the disk is full".into()),
            StorageError::ReadOnly => Self::Unavailable("the server is read-only".into()),
        }
    }
}

/// The refusal of a specification: larger limits admit it, or it has to be mended.
pub(crate) fn invalid(problems: &InvalidFlow) -> EngineError {
    match problems.is_limit_exceeded() {
        true => EngineError::LimitExceeded(problems.to_string()),
        false => EngineError::Invalid(problems.to_string()),
    }
}

/// The refusal of bytes that are more than a limit of [`Limits`](crate::flow::Limits).
pub(crate) fn too_large(subject: &str, bytes: u64, field: &str, limit: u64) -> EngineError {
    let reason = format!("{subject} has {bytes} bytes, the limit is {limit} (`{field}`)");
    EngineError::LimitExceeded(reason)
}

/// A group without its row: the data was damaged, and nothing may be decided from its absence.
pub(crate) fn missing_group(group: ExecutionId) -> StorageError {
    StorageError::Corrupt(format!("edge group of {group} has no row").into())
}
