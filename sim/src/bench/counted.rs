//! A storage that counts what is asked of another: statements, commits and the time of each verb.
//! Changes nothing; used in passes of their own, so that it disturbs no figure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::storage::{CommitError, Consistency, Result, Snapshot, Storage, Transaction, Verb};
use sluicegate::with_verbs;

use crate::report::progress::Stopwatch;

/// Count and time of one verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VerbTally {
    /// Which one.
    pub verb: Verb,
    /// How often it was sent.
    pub count: u64,
    /// All of its time, from the call to the answer.
    pub wall: Duration,
}

/// Counters of every verb.
#[derive(Debug)]
pub(crate) struct Counters {
    counting: AtomicBool,
    /// In the order of the table.
    cells: Vec<Cell>,
}

#[derive(Debug, Default)]
struct Cell {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let cells = Verb::ALL.iter().map(|_| Cell::default()).collect();
        Self { counting: AtomicBool::new(false), cells }
    }
}

impl Counters {
    fn add(&self, verb: Verb, watch: Stopwatch) {
        if !self.counting.load(Ordering::Relaxed) {
            return;
        }
        let cell = &self.cells[verb as usize];
        cell.count.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(watch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        cell.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Counts from here on.
    pub(crate) fn resume(&self) {
        self.counting.store(true, Ordering::Relaxed);
    }

    /// Counts no more.
    pub(crate) fn pause(&self) {
        self.counting.store(false, Ordering::Relaxed);
    }

    /// Every verb that was sent, the most expensive first.
    pub(crate) fn tallies(&self) -> Vec<VerbTally> {
        let tally = |(verb, cell): (&Verb, &Cell)| VerbTally {
            verb: *verb,
            count: cell.count.load(Ordering::Relaxed),
            wall: Duration::from_nanos(cell.nanoseconds.load(Ordering::Relaxed)),
        };
        let mut tallies: Vec<VerbTally> = Verb::ALL.iter().zip(&self.cells).map(tally).collect();
        tallies.retain(|tally| tally.count > 0);
        tallies.sort_by_key(|tally| std::cmp::Reverse(tally.wall));
        tallies
    }

    /// Statements in all, and the commits among them.
    pub(crate) fn sums(&self) -> (u64, u64) {
        let tallies = self.tallies();
        let statements = tallies.iter().map(|tally| tally.count).sum();
        let commits = tallies.iter().filter(|tally| tally.verb == Verb::Commit);
        (statements, commits.map(|tally| tally.count).sum())
    }
}

/// A storage whose statements are counted.
#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    counters: Arc<Counters>,
}

/// A transaction or a snapshot of a [`Counted`] storage.
pub(crate) struct CountedSession<T> {
    inner: T,
    counters: Arc<Counters>,
}

impl<S> Counted<S> {
    /// Counts into these.
    pub(crate) fn new(inner: S, counters: Arc<Counters>) -> Self {
        Self { inner, counters }
    }
}

impl<S: Storage> Storage for Counted<S> {
    type Transaction = CountedSession<S::Transaction>;
    type Snapshot = CountedSession<S::Snapshot>;

    async fn begin(&self) -> Result<Self::Transaction> {
        let watch = Stopwatch::start();
        let inner = self.inner.begin().await;
        self.counters.add(Verb::Begin, watch);
        Ok(CountedSession { inner: inner?, counters: Arc::clone(&self.counters) })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        // It is no statement by itself: its reads are counted.
        let inner = self.inner.snapshot(consistency).await?;
        Ok(CountedSession { inner, counters: Arc::clone(&self.counters) })
    }
}

macro_rules! counted {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        impl<T: Transaction> Transaction for CountedSession<T> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let watch = Stopwatch::start();
                let result = self.inner.$tm($($ta)?).await;
                self.counters.add(Verb::$tv, watch);
                result
            })*

            async fn commit(self) -> Result<(), CommitError> {
                let watch = Stopwatch::start();
                let result = self.inner.commit().await;
                self.counters.add(Verb::Commit, watch);
                result
            }

            async fn rollback(self) {
                let watch = Stopwatch::start();
                self.inner.rollback().await;
                self.counters.add(Verb::Rollback, watch);
            }
        }

        impl<T: Snapshot> Snapshot for CountedSession<T> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let watch = Stopwatch::start();
                let result = self.inner.$sm($($sa)?).await;
                self.counters.add(Verb::$sv, watch);
                result
            })*
        }
    };
}
with_verbs!(counted);

#[cfg(test)]
mod tests {
    use sluicegate::identity::{FlowId, PartitionCount};
    use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};

    use super::*;

    #[test]
    fn a_verb_is_its_place_in_the_table() {
        assert!(Verb::ALL.iter().enumerate().all(|(index, verb)| *verb as usize == index));
    }

    #[tokio::test]
    async fn statements_and_commits_are_counted_only_while_counting() {
        let counters = Arc::new(Counters::default());
        let storage = SqliteStorage::open(SqliteOptions::memory()).unwrap();
        let storage = Counted::new(storage, Arc::clone(&counters));
        let key = PartitionCount::default().key(FlowId::from_parts(1, [1; 10]));
        storage.begin().await.unwrap().rollback().await;
        assert_eq!(counters.sums(), (0, 0));
        counters.resume();
        let mut transaction = storage.begin().await.unwrap();
        transaction.insert_flow_changes(&[key]).await.unwrap();
        transaction.commit().await.unwrap();
        let mut reader = storage.snapshot(Consistency::Statement).await.unwrap();
        reader.read_clock().await.unwrap();
        counters.pause();
        reader.read_clock().await.unwrap();
        assert_eq!(counters.sums(), (4, 1));
        let verbs: Vec<Verb> = counters.tallies().iter().map(|tally| tally.verb).collect();
        assert_eq!(verbs.len(), 4);
        assert!(verbs.contains(&Verb::InsertFlowChanges) && verbs.contains(&Verb::ReadClock));
    }
}
