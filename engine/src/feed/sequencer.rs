//! The sequencer: gives committed events their places in the stream. Locks the head of the stream
//! first and looks for events in the next statement: whatever holds no place then and commits later
//! gets a later one. Never orders the events of one execution anew: their numbers do.
//!
//! A storage with one writer numbers events as it inserts them; there is nothing to do then.

use std::ops::Range;

use crate::environment::Environment;
use crate::error::EngineError;
use crate::feed::{self, FeedSettings};
use crate::mutants::{ensure_rule, mutated};
use crate::reconcile::Report;
use crate::storage::{
    EventPosition, Position, Result, Scope, Storage, StreamHead, StreamId, Transaction,
    UnnumberedEvent, UnnumberedQuery,
};
use crate::transact::{Body, RetryBudget, Run, Verdict, transact};

/// The transaction that numbers one batch. A repetition after an unknown commit finds what has its
/// place and goes on behind it.
struct Number {
    partitions: Range<u16>,
    limit: u32,
    /// Where the stream stood before its head was locked; only a planted bug goes by it.
    glimpsed: Option<Position>,
}

impl Body for Number {
    type Out = u64;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<u64>> {
        let head = transaction.lock_stream_head(&StreamId::EVENTS).await?;
        let head = head.ok_or_else(feed::missing_head)?;
        let query = UnnumberedQuery { partitions: self.partitions.clone(), limit: self.limit };
        let events = transaction.lock_unnumbered_events(&query).await?;
        if events.is_empty() {
            return Ok(Verdict::Rollback(0));
        }
        let rows = positions(self.glimpsed.unwrap_or(head.last), &events);
        let written = transaction.write_positions(&rows).await?;
        ensure_rule!(written == rows.len() as u64, "a locked event got a place under its lock");
        let last = rows.iter().map(|row| row.position).max().unwrap_or_default().max(head.last);
        let moved = transaction.write_stream_head(&StreamHead { last, ..head }).await?;
        ensure_rule!(moved == 1, "a locked head moved under its lock");
        Ok(Verdict::Commit(written))
    }
}

/// The places that follow `last`, in the order of the numbers.
fn positions(last: Position, events: &[UnnumberedEvent]) -> Vec<EventPosition> {
    let place = |(event, next): (&UnnumberedEvent, u64)| EventPosition {
        key: event.key,
        position: Position(if mutated!(P46) { event.id.0 } else { next }),
    };
    events.iter().zip(last.0 + 1..).map(place).collect()
}

/// One tick: batches until one of them finds fewer events than it could number.
///
/// Errors: of a batch; those before it are numbered.
pub(crate) async fn tick<S: Storage, E: Environment>(
    storage: &S,
    environment: &E,
    budget: &RetryBudget,
    scope: &Scope,
    settings: &FeedSettings,
) -> std::result::Result<Report, EngineError> {
    assert!(settings.batch_rows > 0, "a batch numbers at least one event");
    let mut report = Report::default();
    loop {
        let glimpsed = match mutated!(P68) {
            true => Some(feed::head(storage).await?.last),
            false => None,
        };
        let (partitions, limit) = (scope.partitions.clone(), settings.batch_rows);
        let body = Number { partitions, limit, glimpsed };
        let numbered = transact(storage, environment, budget, &body).await?;
        report.scanned += numbered;
        report.reconciled += numbered;
        if numbered > 0 {
            environment.notify_feed();
        }
        if numbered < u64::from(settings.batch_rows) {
            return Ok(report);
        }
    }
}
