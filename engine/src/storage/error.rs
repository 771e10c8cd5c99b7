//! What a storage may answer instead of a result, sorted by what the caller does next.

use std::borrow::Cow;

use crate::identity::ExecutionId;

/// Why a transaction has to be restarted as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Contention {
    /// Postgres 40001.
    Serialization,
    /// Postgres 40P01.
    Deadlock,
    /// Postgres 55P03.
    LockTimeout,
    /// Postgres 57014.
    StatementTimeout,
    /// `SQLITE_BUSY` in any form.
    Busy,
}

/// A verb that did not take effect; the transaction is over and nothing of it remains.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// Restart the whole transaction.
    #[error("contention: {0:?}")]
    Contention(Contention),
    /// Drop the connection; a later transaction may find the storage again.
    #[error("storage is unavailable: {0}")]
    Unavailable(Cow<'static, str>),
    /// A stored value that no engine writes; never defaulted.
    #[error("stored data is corrupt: {0}")]
    Corrupt(Cow<'static, str>),
    /// The row of one execution, or that of its group, holds a value that no engine writes; never
    /// defaulted. Other rows can be read without it.
    #[error("execution {0} cannot be read: {1}")]
    Unreadable(ExecutionId, Cow<'static, str>),
    /// A message or a value is larger than the server or the library takes, and would be as large
    /// the next time; drop the connection.
    #[error("a statement is too large: {0}")]
    TooLarge(Cow<'static, str>),
    /// The disk is full.
    #[error("storage is full")]
    Full,
    /// The server does not accept writes; drop the connection.
    #[error("storage is read-only")]
    ReadOnly,
    /// The storage cannot do what was asked, or its schema is not this engine's.
    #[error("not supported by this storage: {0}")]
    Unsupported(Cow<'static, str>),
}

/// Why a commit gave no acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Nothing was committed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The commit may or may not have been applied; only a re-run can tell.
    #[error("commit was sent and its answer was lost")]
    Unknown,
}

/// Result of a verb.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;
