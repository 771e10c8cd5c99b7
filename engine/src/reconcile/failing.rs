//! Rows that the sweeps of a process could not bring on: each is left alone for a growing while, so
//! that it costs its neighbours little. Kept in memory: losing it costs statements, never progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::identity::{ExecutionId, FlowKey};
use crate::pace::Pace;

/// The longest pause of a row, or a sweep, that fails: the F of the engine's bounds.
pub const FAILING_MAX: Duration = Duration::from_secs(30);
/// The first pause of a row that fails.
const FAILING_LEAST: Duration = Duration::from_secs(1);
/// So many rows are remembered; what fails beyond them is tried by every pass.
const ROWS_MAX: usize = 10_000;

/// What a sweep visits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Visited {
    /// An execution that has ended and is not propagated, by the dispatcher and the dependency
    /// reconciler.
    Upstream(ExecutionId),
    /// A decided group whose downstream is blocked, by the dependency reconciler.
    Group(ExecutionId),
    /// An execution whose lease, attempt or deadline is over, by the reaper.
    Overdue(ExecutionId),
    /// A flow with requests for sibling cancellation.
    Siblings(FlowKey),
    /// A flow that is being cancelled.
    Backlog(FlowKey),
    /// A flow whose summary is behind.
    Summary(FlowKey),
    /// A flow that has been kept for long enough.
    Retention(FlowKey),
    /// An execution whose row, or whose group's row, cannot be read: it is in quarantine. Claims
    /// and cancels pass it over until its pause is over, and then look whether it was mended.
    Unreadable(ExecutionId),
}

/// A row that a process could not bring on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailingRow {
    /// The row, and who visits it.
    pub visited: Visited,
    /// Visits that failed, without one that succeeded between them.
    pub failures: u32,
    /// It is left alone for so long from now; zero if the next pass visits it.
    pub retry_in: Duration,
    /// Why the last visit failed.
    pub error: String,
}

struct Entry {
    failures: u32,
    pace: Pace,
    /// On the monotonic clock.
    due_at: Duration,
    error: String,
}

/// The rows that fail, and when each is due.
#[derive(Default)]
pub(crate) struct Failing {
    /// Their number, so that nobody takes the lock while nothing fails.
    count: AtomicUsize,
    rows: Mutex<BTreeMap<Visited, Entry>>,
}

impl std::fmt::Debug for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failing").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Failing {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Visited, Entry>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if that row is to be visited now.
    pub(crate) fn is_due(&self, visited: Visited, now: Duration) -> bool {
        self.count.load(Ordering::Relaxed) == 0
            || self.rows().get(&visited).is_none_or(|entry| entry.due_at <= now)
    }

    /// Leaves a row alone for a while, longer each time.
    pub(crate) fn push_back(
        &self,
        visited: Visited,
        error: &impl ToString,
        now: Duration,
        random: u64,
    ) {
        let mut rows = self.rows();
        if rows.len() >= ROWS_MAX && !rows.contains_key(&visited) {
            return;
        }
        let entry = rows.entry(visited).or_insert_with(|| Entry {
            failures: 0,
            pace: Pace::new(FAILING_LEAST, FAILING_MAX),
            due_at: now,
            error: String::new(),
        });
        entry.failures += 1;
        entry.due_at = now.saturating_add(entry.pace.next(random));
        entry.error = error.to_string();
        self.count.store(rows.len(), Ordering::Relaxed);
    }

    /// Forgets a row: a visit succeeded, or somebody says that the next one will.
    pub(crate) fn forget(&self, visited: Visited) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut rows = self.rows();
            rows.remove(&visited);
            self.count.store(rows.len(), Ordering::Relaxed);
        }
    }

    /// The executions in quarantine: those that cannot be read and are not to be tried now. One
    /// that nobody has met again for long after its pause has been mended, or is gone.
    pub(crate) fn quarantine(&self, now: Duration) -> Vec<ExecutionId> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut rows = self.rows();
        let met = |visited: &Visited, entry: &Entry| {
            let forgotten_at = entry.due_at.saturating_add(FAILING_MAX);
            !matches!(visited, Visited::Unreadable(_)) || forgotten_at > now
        };
        rows.retain(|visited, entry| met(visited, entry));
        self.count.store(rows.len(), Ordering::Relaxed);
        let kept = rows.iter().filter(|(_, entry)| entry.due_at > now);
        let unreadable = |visited: &Visited| match visited {
            Visited::Unreadable(id) => Some(*id),
            _ => None,
        };
        kept.filter_map(|(visited, _)| unreadable(visited)).collect()
    }

    /// The rows that fail, in the order of who visits them and of their ids.
    pub(crate) fn list(&self, now: Duration) -> Vec<FailingRow> {
        let shown = |(visited, entry): (&Visited, &Entry)| FailingRow {
            visited: *visited,
            failures: entry.failures,
            retry_in: entry.due_at.saturating_sub(now),
            error: entry.error.clone(),
        };
        self.rows().iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Partition;

    fn row(id: u128) -> Visited {
        let execution = ExecutionId { partition: Partition(7), uuid: uuid::Uuid::from_u128(id) };
        Visited::Upstream(execution)
    }

    #[test]
    fn a_row_that_fails_is_left_alone_longer_each_time_and_never_beyond_the_bound() {
        let failing = Failing::default();
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for round in 1..=12 {
            assert!(failing.is_due(row(1), now));
            failing.push_back(row(1), &"no", now, 5);
            assert!(!failing.is_due(row(1), now) && failing.is_due(row(2), now));
            let listed = failing.list(now).remove(0);
            assert_eq!((listed.failures, listed.error.as_str()), (round, "no"));
            pauses.push(listed.retry_in);
            now += listed.retry_in;
        }
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= FAILING_MAX), "{pauses:?}");
        assert!(pauses[0] <= FAILING_LEAST * 5 / 4, "{pauses:?}");
        failing.forget(row(1));
        assert!(failing.is_due(row(1), Duration::ZERO) && failing.list(now).is_empty());
    }

    #[test]
    fn a_row_beyond_the_capacity_is_tried_by_every_pass() {
        let failing = Failing::default();
        for id in 0..=ROWS_MAX as u128 {
            failing.push_back(row(id), &"no", Duration::ZERO, 0);
        }
        assert_eq!(failing.list(Duration::ZERO).len(), ROWS_MAX);
        assert!(failing.is_due(row(ROWS_MAX as u128), Duration::ZERO));
        assert!(!failing.is_due(row(0), Duration::ZERO));
    }
}
