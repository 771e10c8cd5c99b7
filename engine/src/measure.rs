//! What workers and supervisors count and time, for the crate `metrics` if its feature is on. Knows
//! every name of a metric; decides nothing.

use std::time::Duration;

use crate::error::EngineError;
use crate::reconcile::Report;

/// A claim was answered with so many leases.
pub(crate) fn claimed(worker: &str, grants: usize) {
    #[cfg(feature = "metrics")]
    {
        let worker = worker.to_owned();
        metrics::counter!("sluicegate_claims_total", "worker" => worker.clone()).increment(1);
        metrics::counter!("sluicegate_grants_total", "worker" => worker).increment(grants as u64);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (worker, grants);
}

/// A call of a worker failed and is repeated, or given up.
pub(crate) fn call_failed(worker: &str, call: &'static str) {
    #[cfg(feature = "metrics")]
    {
        let labels = [("worker", worker.to_owned()), ("call", call.to_owned())];
        metrics::counter!("sluicegate_failed_calls_total", &labels).increment(1);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (worker, call);
}

/// A handler was done with an attempt, which `end` tells, after so long.
pub(crate) fn attempted(kind: &str, end: &'static str, took: Duration) {
    #[cfg(feature = "metrics")]
    {
        let labels = [("kind", kind.to_owned()), ("end", end.to_owned())];
        metrics::counter!("sluicegate_attempts_total", &labels).increment(1);
        metrics::histogram!("sluicegate_attempt_seconds", &labels).record(took.as_secs_f64());
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (kind, end, took);
}

/// A handler of that kind was seen to hold its thread for too long.
pub(crate) fn blocked(kind: &str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("sluicegate_blocked_total", "kind" => kind.to_owned()).increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = kind;
}

/// An attempt lost its lease.
pub(crate) fn lease_lost(kind: &str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("sluicegate_leases_lost_total", "kind" => kind.to_owned()).increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = kind;
}

/// A pass of a sweep was over after so long.
pub(crate) fn swept(sweep: &'static str, took: Duration, result: &Result<Report, EngineError>) {
    #[cfg(feature = "metrics")]
    {
        let (report, failed) = match result {
            Ok(report) => (*report, 0),
            Err(_) => (Report::default(), 1),
        };
        let count = |name: &'static str, value: u64| {
            metrics::counter!(name, "sweep" => sweep).increment(value);
        };
        count("sluicegate_sweeps_total", 1);
        count("sluicegate_sweep_scanned_total", report.scanned);
        count("sluicegate_sweep_reconciled_total", report.reconciled);
        count("sluicegate_sweep_errors_total", report.errors + failed);
        metrics::histogram!("sluicegate_sweep_seconds", "sweep" => sweep)
            .record(took.as_secs_f64());
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (sweep, took, result);
}
