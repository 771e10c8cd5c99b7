//! One transaction's or reader's line to the server: sends verbs and reads their rows. An error, of
//! whatever kind, ends it.

use sqlx::postgres::PgRow;

use super::columns::{Columns, read_rows};
use super::lent::Lent;
use super::parameters::Parameters;
use super::pool::{Held, PgQuery};
use super::statements::Statements;
use crate::storage::decode::FromColumns;
use crate::storage::{CommitError, Result, StorageError, Verb};

/// Whose connection it is.
enum Wire {
    /// One of the pool.
    Pooled(Held),
    /// One of the caller, with a transaction of the caller's.
    Lent(Lent),
}

impl Wire {
    fn statements(&self) -> &Statements {
        match self {
            Wire::Pooled(held) => held.statements(),
            Wire::Lent(lent) => lent.statements(),
        }
    }

    async fn fetch(&mut self, query: PgQuery<'static>) -> Result<Vec<PgRow>> {
        match self {
            Wire::Pooled(held) => held.fetch(query).await,
            Wire::Lent(lent) => lent.fetch(query).await,
        }
    }

    async fn execute(&mut self, query: PgQuery<'static>) -> Result<u64> {
        match self {
            Wire::Pooled(held) => held.execute(query).await,
            Wire::Lent(lent) => lent.execute(query).await,
        }
    }
}

/// A borrowed connection, until an error or the end.
pub(super) struct Link {
    wire: Option<Wire>,
    pid: i32,
}

impl Link {
    /// A line over a connection of the pool.
    pub(super) fn new(held: Held) -> Self {
        let pid = held.pid();
        Self { wire: Some(Wire::Pooled(held)), pid }
    }

    /// A line over a connection of the caller, of which nobody asks who serves it.
    pub(super) fn over(lent: Lent) -> Self {
        Self { wire: Some(Wire::Lent(lent)), pid: 0 }
    }

    /// The server process at the other end.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Takes the connection, which is put back once the answer is there: a future that is dropped
    /// in between closes it.
    fn take(&mut self) -> Result<Wire> {
        let over = || StorageError::Unavailable("an earlier error ended it".into());
        self.wire.take().ok_or_else(over)
    }

    async fn rows(&mut self, verb: Verb, parameters: Parameters) -> Result<Vec<PgRow>> {
        let mut wire = self.take()?;
        let query = wire.statements().query(verb, parameters.finish()?);
        let rows = wire.fetch(query).await?;
        self.wire = Some(wire);
        Ok(rows)
    }

    /// Sends a verb and returns the number of rows that it changed.
    pub(super) async fn execute(&mut self, verb: Verb, parameters: Parameters) -> Result<u64> {
        let mut wire = self.take()?;
        let query = wire.statements().query(verb, parameters.finish()?);
        let changed = wire.execute(query).await?;
        self.wire = Some(wire);
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
        read_rows(&rows, table, read).inspect_err(|_| self.wire = None)
    }

    /// Ends it with an error of our own.
    pub(super) fn refuse<T>(&mut self, error: StorageError) -> Result<T> {
        self.wire = None;
        Err(error)
    }

    /// Commits. A transaction of the caller's is the caller's to commit.
    pub(super) async fn commit(mut self) -> Result<(), CommitError> {
        match self.take()? {
            Wire::Pooled(held) => held.commit().await,
            Wire::Lent(_) => Ok(()),
        }
    }

    /// Rolls back; there is nothing to do once an error has, nor in a transaction of the caller's.
    pub(super) async fn roll_back(self) {
        if let Some(held) = self.into_held() {
            held.roll_back().await;
        }
    }

    /// The connection of the pool, if no error has ended it.
    pub(super) fn into_held(mut self) -> Option<Held> {
        match self.wire.take() {
            Some(Wire::Pooled(held)) => Some(held),
            Some(Wire::Lent(_)) | None => None,
        }
    }
}
