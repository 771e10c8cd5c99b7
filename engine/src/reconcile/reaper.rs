//! The reaper: one sweep for expired leases, attempt timeouts and deadlines. Ends a lease only if
//! it is over by the storage's clock after the row's lock, and not because that clock has just
//! stepped forward.

use std::time::Duration;

use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::operations::finish::{self, Move};
use crate::operations::report::{Retry, retry};
use crate::reconcile::{ClockWatch, Pass, Reading, Report, Visited};
use crate::state::{Cause, ClosePolicy, Outcome, State};
use crate::storage::{
    AttemptEnd, Consistency, Execution, OverdueScan, Page, Reported, Result, ResultChange, Scope,
    Snapshot, Storage, Transaction,
};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict, transact};

/// Whether a visit waits for rows that somebody else has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Locking {
    Skip,
    Wait,
}

/// What is made of a forward step of the storage's clock.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) clock: &'a ClockWatch,
    /// A larger one lets leases go on.
    pub(crate) step_max: Duration,
    /// For so long.
    pub(crate) grace: Duration,
}

impl Steps<'_> {
    /// Takes a reading in that was asked for at that moment; true if leases are to go on.
    fn grant<E: Environment>(&self, environment: &E, asked_at: Duration, shown: Timestamp) -> bool {
        let reading = Reading { asked_at, shown, answered_at: environment.monotonic() };
        self.clock.grants_grace(reading, self.step_max, self.grace) && !mutated!(S15)
    }
}

/// The transaction that reaps some rows.
struct Reap<'a, E> {
    keys: Vec<ExecutionId>,
    locking: Locking,
    environment: &'a E,
    steps: Steps<'a>,
}

struct Reaped {
    /// Rows that were locked.
    seen: Vec<ExecutionId>,
    /// Rows that moved.
    moved: u64,
    /// Rows that ended.
    ended: Vec<ExecutionId>,
}

impl<E: Environment> Body for Reap<'_, E> {
    type Out = Reaped;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<Reaped>> {
        let rows = match self.locking {
            Locking::Skip => transaction.take_executions(&self.keys).await?,
            Locking::Wait => transaction.lock_executions(&self.keys).await?,
        };
        let seen = rows.iter().map(|row| row.id).collect();
        let asked_at = self.environment.monotonic();
        let now = transaction.clock().await?;
        let overdue: Vec<&Execution> = match mutated!(P35) {
            _ if self.steps.grant(self.environment, asked_at, now) => Vec::new(),
            true => rows.iter().filter(|row| row.state == State::Active).collect(),
            false => rows.iter().filter(|row| row.is_overdue(now)).collect(),
        };
        if overdue.is_empty() {
            return Ok(Verdict::Rollback(Reaped { seen, moved: 0, ended: Vec::new() }));
        }
        let flows: std::collections::BTreeSet<FlowKey> =
            overdue.iter().map(|row| row.flow_key()).collect();
        let flows: Vec<FlowKey> = flows.into_iter().collect();
        let closings = transaction.read_closings(&flows).await?;
        let closing = |row: &Execution| {
            closings.iter().find(|closing| closing.0 == row.flow_key()).map(|closing| closing.1)
        };
        let moves: Vec<Move> =
            overdue.into_iter().map(|row| decide(row, closing(row), now)).collect();
        finish::record(transaction, &moves).await?;
        let ended = moves
            .iter()
            .filter(|one| one.after.state.is_terminal())
            .map(|one| one.after.id)
            .collect();
        Ok(Verdict::Commit(Reaped { seen, moved: moves.len() as u64, ended }))
    }
}

/// Deadline first, then the attempt: another one if any is left, otherwise the end.
fn decide(row: &Execution, closing: Option<ClosePolicy>, now: Timestamp) -> Move {
    let past_deadline = row.deadline.is_some_and(|deadline| deadline <= now);
    let Retry { after, reported } = if past_deadline {
        Retry {
            after: finish::finished(row, Outcome::Expired, Cause::Deadline, now),
            reported: Reported::Finished(Outcome::Expired),
        }
    } else {
        let backoff = row.retry.backoff.delay(row.id, row.attempt);
        let backoff = if mutated!(P37) { Duration::ZERO } else { backoff };
        retry(row, closing, Outcome::Expired, backoff, now)
    };
    let attempt = finish::ended_attempt(row, AttemptEnd::Expired, reported, 0, now);
    Move { before: *row, after, result: ResultChange::Keep, attempt }
}

/// One tick: pages of overdue rows in id order, then once more, waiting, those that were locked.
///
/// Errors: of the scan; rows that fail are counted and found again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    page_rows: u32,
    steps: Steps<'_>,
) -> Result<Report, EngineError> {
    let reaper = Reaper { pass, steps };
    let mut report = Report::default();
    let mut skipped = Vec::new();
    let mut page = Page { scope: scope.clone(), after: None, limit: page_rows };
    loop {
        let mut found = {
            let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
            let asked_at = pass.environment.monotonic();
            let now = reader.read_clock().await?;
            if steps.grant(pass.environment, asked_at, now) {
                return Ok(report);
            }
            reader.scan_overdue(&OverdueScan { page: page.clone(), now }).await?
        };
        report.scanned += found.len() as u64;
        page.after = found.last().copied();
        let full = found.len() == page_rows as usize;
        let of_page = found.len();
        found.retain(|key| pass.is_due(Visited::Overdue(*key)));
        report.errors += (of_page - found.len()) as u64;
        if !found.is_empty() {
            skipped.extend(reaper.reap(&found, Locking::Skip, &mut report).await);
        }
        if !full {
            break;
        }
    }
    for key in skipped {
        reaper.reap(&[key], Locking::Wait, &mut report).await;
    }
    Ok(report)
}

struct Reaper<'a, S, E> {
    pass: Pass<'a, S, E>,
    steps: Steps<'a>,
}

impl<S: Storage, E: Environment> Reaper<'_, S, E> {
    /// Reaps a batch, or row by row if the batch fails; returns the rows that it could not lock.
    async fn reap(
        &self,
        keys: &[ExecutionId],
        locking: Locking,
        report: &mut Report,
    ) -> Vec<ExecutionId> {
        let mut skipped = Vec::new();
        if self.run(keys, locking, report, &mut skipped).await.is_ok() {
            for key in keys {
                self.pass.failing.forget(Visited::Overdue(*key));
            }
            return skipped;
        }
        for key in keys {
            let one = std::slice::from_ref(key);
            let reaped = self.run(one, locking, report, &mut skipped).await;
            self.pass.visited(Visited::Overdue(*key), &reaped);
            report.errors += u64::from(reaped.is_err());
        }
        skipped
    }

    async fn run(
        &self,
        keys: &[ExecutionId],
        locking: Locking,
        report: &mut Report,
        skipped: &mut Vec<ExecutionId>,
    ) -> Result<(), EngineError> {
        let Pass { storage, environment, budget, .. } = self.pass;
        let reap = Reap { keys: keys.to_vec(), locking, environment, steps: self.steps };
        let reaped = transact(storage, environment, budget, &reap).await?;
        report.reconciled += reaped.moved;
        report.noop += reaped.seen.len() as u64 - reaped.moved;
        skipped.extend(keys.iter().filter(|key| reaped.seen.binary_search(key).is_err()));
        for ended in reaped.ended {
            environment.notify(Notice { partition: ended.partition });
        }
        Ok(())
    }
}
