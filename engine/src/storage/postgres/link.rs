//! One transaction's or reader's line to the server: sends verbs and reads their rows. An error, of
//! whatever kind, ends it.

use sqlx::postgres::PgRow;

use super::columns::{Columns, read_rows};
use super::parameters::Parameters;
use super::pool::Held;
use crate::storage::decode::FromColumns;
use crate::storage::{CommitError, Result, StorageError, Verb};

/// A borrowed connection, until an error or the end.
pub(super) struct Link {
    held: Option<Held>,
    pid: i32,
}

impl Link {
    /// A line over that connection.
    pub(super) fn new(held: Held) -> Self {
        let pid = held.pid();
        Self { held: Some(held), pid }
    }

    /// The server process at the other end.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Takes the connection, which is put back once the answer is there: a future that is dropped
    /// in between closes it.
    fn take(&mut self) -> Result<Held> {
        let over = || StorageError::Unavailable("an earlier error ended it".into());
        self.held.take().ok_or_else(over)
    }

    async fn rows(&mut self, verb: Verb, parameters: Parameters) -> Result<Vec<PgRow>> {
        let mut held = self.take()?;
        let query = held.statements().query(verb, parameters.finish()?);
        let rows = held.fetch(query).await?;
        self.held = Some(held);
        Ok(rows)
    }

    /// Sends a verb and returns the number of rows that it changed.
    pub(super) async fn execute(&mut self, verb: Verb, parameters: Parameters) -> Result<u64> {
        let mut held = self.take()?;
        let query = held.statements().query(verb, parameters.finish()?);
        let changed = held.execute(query).await?;
        self.held = Some(held);
        Ok(changed)
    }

    /// Sends a verb and reads its rows.
    pub(super) async fn read<T: FromColumns>(
        &mut self,
        verb: Verb,
        parameters: Parameters,
    ) -> Result<Vec<T>> {
        self.read_with(verb, parameters, T::TABLE, |row| T::from_columns(row)).await
    }

    /// Sends a verb that returns at most one row, and reads it.
    pub(super) async fn read_one<T: FromColumns>(
        &mut self,
        verb: Verb,
        parameters: Parameters,
    ) -> Result<Option<T>> {
        Ok(self.read(verb, parameters).await?.into_iter().next())
    }

    /// Sends a verb and reads each row with `read`.
    pub(super) async fn read_with<T>(
        &mut self,
        verb: Verb,
        parameters: Parameters,
        table: &'static str,
        read: impl Fn(&mut Columns<'_>) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let rows = self.rows(verb, parameters).await?;
        read_rows(&rows, table, read).inspect_err(|_| self.held = None)
    }

    /// Ends it with an error of our own.
    pub(super) fn refuse<T>(&mut self, error: StorageError) -> Result<T> {
        self.held = None;
        Err(error)
    }

    /// Commits.
    pub(super) async fn commit(mut self) -> Result<(), CommitError> {
        self.take()?.commit().await
    }

    /// Rolls back; there is nothing to do once an error has.
    pub(super) async fn roll_back(mut self) {
        if let Some(held) = self.held.take() {
            held.roll_back().await;
        }
    }

    /// The connection, if no error has ended it.
    pub(super) fn into_held(mut self) -> Option<Held> {
        self.held.take()
    }
}
