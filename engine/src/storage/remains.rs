//! Rows whether they can be read or not: each by itself, for those who list them, and what is left
//! of a locked one, for the one who gives an execution up. Plain data with no storage behind it.

use std::borrow::Cow;

use serde::Serialize;

use crate::identity::ExecutionId;
use crate::storage::{EdgeKey, Result, StorageError};

/// A row that holds a value that no engine writes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Unreadable<K> {
    /// Its key; of an edge group that of its downstream.
    pub key: K,
    /// Where the value stands, and what it is.
    pub reason: Cow<'static, str>,
}

/// A row of a list. One that cannot be read keeps no other from being shown.
pub type Decoded<T, K = ExecutionId> = std::result::Result<T, Unreadable<K>>;

/// The rows, if all of them can be read.
///
/// Errors: the first one that cannot.
pub fn all_readable<T, K>(rows: Vec<Decoded<T, K>>) -> Result<Vec<T>>
where
    StorageError: From<Unreadable<K>>,
{
    rows.into_iter().map(|row| row.map_err(StorageError::from)).collect()
}

/// The rows that can be read, and those that cannot, each in their order.
pub(crate) fn parted<T, K>(rows: Vec<Decoded<T, K>>) -> (Vec<T>, Vec<Unreadable<K>>) {
    let (mut read, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match row {
            Ok(row) => read.push(row),
            Err(row) => unreadable.push(row),
        }
    }
    (read, unreadable)
}

impl From<Unreadable<ExecutionId>> for StorageError {
    fn from(row: Unreadable<ExecutionId>) -> Self {
        Self::Unreadable(row.key, row.reason)
    }
}

impl From<Unreadable<EdgeKey>> for StorageError {
    fn from(row: Unreadable<EdgeKey>) -> Self {
        Self::Corrupt(row.reason)
    }
}

impl From<Unreadable<crate::identity::FlowKey>> for StorageError {
    fn from(row: Unreadable<crate::identity::FlowKey>) -> Self {
        Self::Corrupt(row.reason)
    }
}

/// A locked row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remains<T> {
    /// What it holds; for what cannot be read, what stands there in a new row.
    pub row: T,
    /// Why it cannot be read as it stands; `None` if it can.
    pub unreadable: Option<Cow<'static, str>>,
}
