//! What a step led to, in the same words for the model and for Postgres. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sluicegate::storage::{CommitError, Contention, StorageError};

use super::calls::Reply;
use super::names::shorten;

/// Why a session's transaction is over, as the engine would tell it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Failure {
    /// 40001.
    Serialization,
    /// 40P01.
    Deadlock,
    /// 55P03.
    LockTimeout,
    /// 57014.
    StatementTimeout,
    /// Of SQLite only.
    Busy,
    /// The session or the server is gone.
    Unavailable,
    /// A row that no engine writes: a duplicate key, a check.
    Corrupt,
    /// The disk is full.
    Full,
    /// A standby.
    ReadOnly,
    /// Not this engine's schema.
    Unsupported,
    /// A commit without an answer.
    Unknown,
    /// No answer and no wait either.
    Silent,
}

impl From<&StorageError> for Failure {
    fn from(error: &StorageError) -> Self {
        match error {
            StorageError::Contention(Contention::Serialization) => Failure::Serialization,
            StorageError::Contention(Contention::Deadlock) => Failure::Deadlock,
            StorageError::Contention(Contention::LockTimeout) => Failure::LockTimeout,
            StorageError::Contention(Contention::StatementTimeout) => Failure::StatementTimeout,
            StorageError::Contention(Contention::Busy) => Failure::Busy,
            StorageError::Corrupt(_) | StorageError::Unreadable(..) => Failure::Corrupt,
            StorageError::Full => Failure::Full,
            StorageError::ReadOnly => Failure::ReadOnly,
            StorageError::Unsupported(_) | StorageError::TooLarge(_) => Failure::Unsupported,
            _ => Failure::Unavailable,
        }
    }
}

impl From<&CommitError> for Failure {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::Storage(error) => error.into(),
            _ => Failure::Unknown,
        }
    }
}

/// What a session was told.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// A control word took effect.
    Done,
    /// A verb returned.
    Reply(Box<Reply>),
    /// The transaction is over.
    Failed(Failure),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => f.write_str("done"),
            Answer::Failed(failure) => write!(f, "fails: {failure:?}"),
            Answer::Reply(reply) => f.write_str(&shorten(&format!("{reply:?}"))),
        }
    }
}

/// What a step led to: who was told what, and who waits now.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// By session.
    pub answers: BTreeMap<usize, Answer>,
    /// Sessions whose statement waits.
    pub waiting: BTreeSet<usize>,
}
