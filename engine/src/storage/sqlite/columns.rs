//! The columns of a row of SQLite. What they mean stands in `storage/decode.rs`.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use uuid::Uuid;

use super::error;
use crate::storage::Result;
use crate::storage::decode::{self, FromColumns, corrupt, shown_bytes, shown_text};

/// Reads the columns of a row from left to right.
pub(super) struct Columns<'a> {
    table: &'static str,
    row: &'a Row<'a>,
    next: usize,
}

/// Runs a query and reads its rows.
pub(super) fn query<T: FromColumns>(
    statement: &mut Statement<'_>,
    parameters: impl rusqlite::Params,
) -> Result<Vec<T>> {
    query_with(statement, parameters, T::TABLE, |row| T::from_columns(row))
}

/// Runs a query and reads each row with `read`.
pub(super) fn query_with<T>(
    statement: &mut Statement<'_>,
    parameters: impl rusqlite::Params,
    table: &'static str,
    read: impl Fn(&mut Columns<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut rows = statement.query(parameters).map_err(|e| error::of_verb(&e))?;
    let mut decoded = Vec::new();
    while let Some(row) = rows.next().map_err(|e| error::of_verb(&e))? {
        let mut columns = Columns { table, row, next: 0 };
        decoded.push(read(&mut columns)?);
        debug_assert!(row.get_ref(columns.next).is_err(), "a column of {table} is left unread");
    }
    Ok(decoded)
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".into(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(bytes) => shown_text(bytes),
        ValueRef::Blob(bytes) => shown_bytes(bytes),
    }
}

impl Columns<'_> {
    /// The next column through `read`, which answers `None` to a value that no engine writes.
    fn read<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(ValueRef<'_>) -> Option<T>,
    ) -> Result<T> {
        let index = self.next;
        self.next += 1;
        let value = self.row.get_ref(index).map_err(|e| error::of_verb(&e))?;
        debug_assert_eq!(self.row.as_ref().column_name(index), Ok(column), "{}", self.table);
        read(value).ok_or_else(|| corrupt(self.table, column, shown(value)))
    }

    /// The next column, which may be null.
    fn optional<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(ValueRef<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        self.read(column, |value| match value {
            ValueRef::Null => Some(None),
            value => read(value).map(Some),
        })
    }
}

impl decode::Columns for Columns<'_> {
    fn integer(&mut self, column: &'static str) -> Result<Option<i64>> {
        self.optional(column, |value| value.as_i64().ok())
    }

    fn boolean(&mut self, column: &'static str) -> Result<bool> {
        self.read(column, |value| match value {
            ValueRef::Integer(0) => Some(false),
            ValueRef::Integer(1) => Some(true),
            _ => None,
        })
    }

    fn text(&mut self, column: &'static str) -> Result<Option<Arc<str>>> {
        self.optional(column, |value| value.as_str().ok().map(Arc::from))
    }

    fn uuid(&mut self, column: &'static str) -> Result<Option<Uuid>> {
        self.optional(column, |value| Uuid::from_slice(value.as_blob().ok()?).ok())
    }

    fn bytes<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        self.optional(column, |value| read(value.as_blob().ok()?))
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn finish(&mut self) {
        self.next = self.row.as_ref().column_count();
    }

    fn table(&mut self) -> &mut &'static str {
        &mut self.table
    }
}
