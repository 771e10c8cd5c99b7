//! One attempt from its grant to its report: runs the handler in a task of its own, so that a panic
//! stays there, and stops it when nobody wants its work. Never sends the report.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tracing::Instrument;

use crate::environment::Host;
use crate::measure;
use crate::operations::report::Report;
use crate::said::{self, LOGGED_MAX_BYTES, Quoting};
use crate::storage::Storage;
use crate::worker::busy::Busy;
use crate::worker::calls::Leased;
use crate::worker::context::{Cancelled, Context};
use crate::worker::handler::Outcome;
use crate::worker::lease::{self, Kept, Loss};
use crate::worker::station::Station;

/// How long a stopped handler may take to come to its next await.
const STOPPING_MAX: Duration = Duration::from_secs(1);

/// An attempt that is to be reported.
pub(super) struct Ended {
    pub(super) report: Report,
    /// The lease is kept until the report is answered, which may take several calls.
    pub(super) kept: Option<Kept>,
}

/// Works on what was leased; `None` if the lease was lost, so that there is nothing to report.
pub(super) async fn run<S: Storage, H: Host>(
    station: &Arc<Station<S, H>>,
    leased: Leased,
) -> Option<Ended> {
    if station.closing.get().is_some() {
        return Some(Ended { report: Report::Release, kept: None });
    }
    let token = leased.grant.token();
    let span = tracing::info_span!(
        "attempt",
        execution = %token.execution,
        attempt = token.attempt,
        kind = &*leased.grant.definition.kind,
        worker = &*station.settings.name,
    );
    work(station, leased).instrument(span).await
}

async fn work<S: Storage, H: Host>(station: &Arc<Station<S, H>>, leased: Leased) -> Option<Ended> {
    let Leased { grant, sent_at } = leased;
    let started_at = station.host().monotonic();
    let busy = Busy::default();
    let kept = lease::keep(station, &grant, sent_at, &busy);
    let context = Context::new(station, grant);
    let result_max_bytes = station.engine.settings().limits.result_max_bytes;
    let outcome = handle(station, &context, &kept, busy).await.within(result_max_bytes);
    let took = station.host().monotonic().saturating_sub(started_at);
    let kind = &context.definition().kind;
    if kept.loss().is_some() {
        measure::lease_lost(kind);
    }
    if kept.loss() == Some(Loss::Taken) {
        tracing::warn!("the lease was lost");
        station.count(|totals| totals.lost += 1);
        return None;
    }
    let end = end_of(&outcome.report);
    measure::attempted(kind, end, took);
    match &outcome.failure {
        Some(error) => {
            tracing::warn!(end, error = said::cut(error, LOGGED_MAX_BYTES), "attempt ended");
        }
        None => tracing::debug!(end, "attempt ended"),
    }
    Some(Ended { report: outcome.report, kept: Some(kept) })
}

fn end_of(report: &Report) -> &'static str {
    match report {
        Report::Complete(_) => "completed",
        Report::FailRetryable(_) => "failed_retryable",
        Report::FailFatal(_) => "failed_fatal",
        Report::Release => "released",
        Report::Snooze(_) => "snoozed",
        Report::Suspend => "suspended",
        Report::Skip => "skipped",
    }
}

/// Runs the handler until it returns, or is stopped because nobody wants its work.
async fn handle<S: Storage, H: Host>(
    station: &Station<S, H>,
    context: &Context,
    kept: &Kept,
    busy: Busy,
) -> Outcome {
    let handler = station.handlers.get(&context.definition().kind);
    let handler = Arc::clone(handler.expect("a claim names the kinds that have handlers"));
    let (given, environment) = (context.clone(), station.host().clone());
    // A set of one: its task ends with it, should this attempt be dropped.
    let mut task = JoinSet::new();
    // Inside, so that a handler that panics before its first await is caught as well.
    let work = async move { handler(given).await };
    task.spawn(busy.note(environment, work).in_current_span());
    let quoting = context.quoting();
    let why = tokio::select! {
        biased;
        joined = task.join_next() => return ended(joined, quoting),
        _ = kept.lost() => Cancelled::LeaseLost,
        () = station.closing.given() => Cancelled::Shutdown,
    };
    context.cancellation().cancel(why);
    tokio::select! {
        biased;
        joined = task.join_next() => return ended(joined, quoting),
        () = patience(station, kept) => {}
    }
    task.abort_all();
    tokio::select! {
        biased;
        joined = task.join_next() => ended(joined, quoting),
        // It holds a thread up and cannot be stopped; its attempt is given back all the same.
        () = station.host().sleep(STOPPING_MAX) => Outcome::of(Report::Release),
    }
}

/// How long a handler whose work is not wanted is let run.
async fn patience<S: Storage, H: Host>(station: &Station<S, H>, kept: &Kept) {
    let lost = async {
        kept.lost().await;
        station.host().sleep(station.settings.grace).await;
    };
    tokio::select! {
        () = station.overtime.given() => {}
        () = lost => {}
    }
}

fn ended(joined: Option<Result<Outcome, JoinError>>, quoting: Quoting) -> Outcome {
    match joined.expect("the set holds the handler's task").map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome,
        Err(Ok(panic)) => Outcome::panicked(&*panic, quoting),
        // Stopped, by the worker or with the runtime.
        Err(Err(_)) => Outcome::of(Report::Release),
    }
}
