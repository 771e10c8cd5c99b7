//! Bodies inside a transaction of the caller's: a savepoint around each, and the settings under
//! which the statements are planned for as long as it runs. Never begins or commits anything.

use std::pin::pin;
use std::sync::Arc;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Executor, Row};

use super::options::PLANNING;
use super::pool::{PgQuery, Shared};
use super::statements::Statements;
use super::transaction::PostgresTransaction;
use super::{PostgresOptions, error};
use crate::storage::desk::{Desk, Step};
use crate::storage::schema::{self, StoredVersion};
use crate::storage::{Result, StorageError};
use crate::transact::{Body, Run, Verdict};

/// `SQLSTATE` of a savepoint outside of a transaction.
const NO_TRANSACTION: &str = "25P01";
/// The isolation level that every rule of the engine counts on.
const ISOLATION: &str = "read committed";
/// Drops what the body has written, and its settings with it.
const UNDO: &str = "rollback to savepoint sluicegate; release savepoint sluicegate";

/// What a body asks of the caller's connection.
pub(super) enum Question {
    Fetch(PgQuery<'static>),
    Execute(PgQuery<'static>),
}

/// What the server said to it.
pub(super) enum Answer {
    Rows(Result<Vec<PgRow>>),
    Changed(Result<u64>),
}

/// The body's end of the line.
pub(super) struct Lent {
    shared: Arc<Shared>,
    desk: Desk<Question, Answer>,
}

impl Lent {
    /// The statements of the storage.
    pub(super) fn statements(&self) -> &Statements {
        &self.shared.statements
    }

    /// Asks for a statement to be sent and waits for its rows.
    pub(super) async fn fetch(&mut self, query: PgQuery<'static>) -> Result<Vec<PgRow>> {
        match self.desk.ask(Question::Fetch(query)).await {
            Answer::Rows(rows) => rows,
            Answer::Changed(_) => unreachable!("rows were asked for"),
        }
    }

    /// Asks for a statement to be sent and waits for the number of rows that it changed.
    pub(super) async fn execute(&mut self, query: PgQuery<'static>) -> Result<u64> {
        match self.desk.ask(Question::Execute(query)).await {
            Answer::Changed(changed) => changed,
            Answer::Rows(_) => unreachable!("the number of changed rows was asked for"),
        }
    }
}

/// Runs a body between a savepoint and its release; an error, or a verdict that there is nothing to
/// keep, leaves the caller's transaction as it was before.
pub(super) async fn run<B: Body>(
    shared: &Arc<Shared>,
    connection: &mut PgConnection,
    body: &B,
) -> Result<B::Out> {
    let settings = enter(&shared.options, connection).await?;
    match carry_out(shared, connection, body).await {
        Ok(Verdict::Commit(out)) => {
            let leave = format!("{}; release savepoint sluicegate", setting(&settings));
            let left = connection.execute(sqlx::raw_sql(AssertSqlSafe(leave))).await;
            left.map(|_| out).map_err(|e| error::of_verb(&e))
        }
        Ok(Verdict::Rollback(out)) => {
            undo(connection).await?;
            Ok(out)
        }
        Err(failure) => {
            // Where the line is gone, so is the transaction.
            drop(undo(connection).await);
            Err(failure)
        }
    }
}

/// Sends what the body asks for, until it ends.
async fn carry_out<B: Body>(
    shared: &Arc<Shared>,
    connection: &mut PgConnection,
    body: &B,
) -> Result<Verdict<B::Out>> {
    let desk = Desk::new();
    let lent = Lent { shared: Arc::clone(shared), desk: desk.clone() };
    let mut transaction = PostgresTransaction::inside(lent);
    // A commit whose answer is lost is the caller's, and the caller repeats the whole call.
    let mut running = pin!(body.run(&mut transaction, Run::AfterUnknownCommit));
    loop {
        let answer = match desk.step(running.as_mut()) {
            Step::Done(verdict) => return verdict,
            Step::Asks(Question::Fetch(query)) => {
                let rows = connection.fetch_all(query).await;
                Answer::Rows(rows.map_err(|e| error::of_verb(&e)))
            }
            Step::Asks(Question::Execute(query)) => {
                let done = connection.execute(query).await;
                let changed = done.map(|done| done.rows_affected());
                Answer::Changed(changed.map_err(|e| error::of_verb(&e)))
            }
        };
        desk.answer(answer);
    }
}

async fn undo(connection: &mut PgConnection) -> Result<()> {
    let undone = connection.execute(sqlx::raw_sql(UNDO)).await;
    undone.map(drop).map_err(|e| error::of_verb(&e))
}

/// Sets the savepoint and the settings; returns what they were.
async fn enter(
    options: &PostgresOptions,
    connection: &mut PgConnection,
) -> Result<Vec<(String, String)>> {
    let names: Vec<&str> = PLANNING.iter().map(|(name, _)| *name).collect();
    let ours: Vec<(String, String)> =
        PLANNING.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let current = names.iter().map(|name| format!("current_setting('{name}')"));
    let sql = options.in_schema(&format!(
        "savepoint sluicegate; \
         select p.count, current_setting('transaction_isolation'), s.version, \
         s.least_engine_version, {} \
         from sluicegate.sluicegate_partitions as p, sluicegate.sluicegate_schema as s \
         order by s.version desc limit 1; \
         {}",
        current.collect::<Vec<_>>().join(", "),
        setting(&ours)
    ));
    let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await;
    let rows = rows.map_err(|e| refusal(&e))?;
    let entered = read(options, &names, rows.first());
    if entered.is_err() {
        undo(connection).await?;
    }
    entered
}

/// What the first row says of the transaction and the database that it is in.
fn read(
    options: &PostgresOptions,
    names: &[&str],
    row: Option<&PgRow>,
) -> Result<Vec<(String, String)>> {
    let row = row.ok_or(StorageError::Corrupt("sluicegate_partitions has no row".into()))?;
    let text = |at: usize| row.try_get::<String, _>(at).map_err(|e| error::of_verb(&e));
    let count: i32 = row.try_get(0).map_err(|e| error::of_verb(&e))?;
    schema::check_partitions(count.into(), options.partitions)?;
    let number = |at: usize| row.try_get::<i32, _>(at).map_err(|e| error::of_verb(&e));
    let (version, least) = (number(2)?.into(), number(3)?.into());
    let stored = StoredVersion { version, least_engine_version: least };
    schema::admit(stored, schema::latest(&options.steps))?;
    let isolation = text(1)?;
    if isolation != ISOLATION {
        let reason = format!("a transaction at {isolation}: the engine needs {ISOLATION}");
        return Err(StorageError::Unsupported(reason.into()));
    }
    let values = (0..names.len()).map(|nth| text(nth + 4));
    names.iter().zip(values).map(|(name, value)| Ok(((*name).to_owned(), value?))).collect()
}

/// The statement that sets these for the rest of the transaction.
fn setting(settings: &[(String, String)]) -> String {
    let calls = settings.iter().map(|(name, value)| {
        format!("set_config('{name}', '{}', true)", value.replace('\'', "''"))
    });
    format!("select {}", calls.collect::<Vec<_>>().join(", "))
}

fn refusal(error: &sqlx::Error) -> StorageError {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    match code.as_deref() {
        Some(NO_TRANSACTION) => StorageError::Unsupported(
            "a connection without an open transaction: begin one, and commit it afterwards".into(),
        ),
        _ => error::of_verb(error),
    }
}
