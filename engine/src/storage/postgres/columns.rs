//! The columns of a row of Postgres. What they mean stands in `storage/decode.rs`.

use std::sync::Arc;

use sqlx::postgres::{PgRow, PgValueRef};
use sqlx::{Row, ValueRef};
use uuid::Uuid;

use super::error;
use crate::storage::Result;
use crate::storage::decode::{self, corrupt, shown_bytes};

/// Reads the columns of a row from left to right.
pub(super) struct Columns<'a> {
    table: &'static str,
    row: &'a PgRow,
    next: usize,
}

/// Reads every row with `read`.
pub(super) fn read_rows<T>(
    rows: &[PgRow],
    table: &'static str,
    read: impl Fn(&mut Columns<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut decoded = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns { table, row, next: 0 };
        decoded.push(read(&mut columns)?);
        debug_assert_eq!(columns.next, row.len(), "a column of {table} is left unread");
    }
    Ok(decoded)
}

impl<'a> Columns<'a> {
    /// The bytes of the next column through `read`, which answers `None` to what is no such value.
    ///
    /// Values come in the binary format, whose length tells the width of an integer.
    fn read<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let index = self.next;
        self.next += 1;
        let value: PgValueRef<'a> = self.row.try_get_raw(index).map_err(|e| error::of_verb(&e))?;
        debug_assert_eq!(sqlx::Column::name(&self.row.columns()[index]), column, "{}", self.table);
        if value.is_null() {
            return Ok(None);
        }
        let bytes = value.as_bytes().map_err(|e| error::of_verb(&sqlx::Error::Decode(e)))?;
        match read(bytes) {
            Some(value) => Ok(Some(value)),
            None => Err(corrupt(self.table, column, shown_bytes(bytes))),
        }
    }
}

impl decode::Columns for Columns<'_> {
    fn integer(&mut self, column: &'static str) -> Result<Option<i64>> {
        self.read(column, |bytes| match *bytes {
            [a, b] => Some(i64::from(i16::from_be_bytes([a, b]))),
            [a, b, c, d] => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
            _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        })
    }

    fn boolean(&mut self, column: &'static str) -> Result<bool> {
        let stored = self.read(column, |bytes| match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        })?;
        stored.ok_or_else(|| corrupt(self.table, column, "null"))
    }

    fn text(&mut self, column: &'static str) -> Result<Option<Arc<str>>> {
        self.read(column, |bytes| std::str::from_utf8(bytes).ok().map(Arc::from))
    }

    fn uuid(&mut self, column: &'static str) -> Result<Option<Uuid>> {
        self.read(column, |bytes| Uuid::from_slice(bytes).ok())
    }

    fn bytes<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        self.read(column, read)
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn finish(&mut self) {
        self.next = self.row.len();
    }

    fn table(&mut self) -> &mut &'static str {
        &mut self.table
    }
}
