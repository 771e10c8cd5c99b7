//! Counts what is asked of a storage: statements, commits and the time of each verb. Used in passes
//! of their own, so that it disturbs no figure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::storage::Verb;

use crate::observed::Observer;

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

impl Observer for Counters {
    fn answered(&self, verb: Verb, took: Duration) {
        if !self.counting.load(Ordering::Relaxed) {
            return;
        }
        let cell = &self.cells[verb as usize];
        cell.count.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        cell.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate::identity::{FlowId, PartitionCount};
    use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
    use sluicegate::storage::{Consistency, Snapshot, Storage, Transaction};

    use super::*;
    use crate::observed::Observed;

    #[test]
    fn a_verb_is_its_place_in_the_table() {
        assert!(Verb::ALL.iter().enumerate().all(|(index, verb)| *verb as usize == index));
    }

    #[tokio::test]
    async fn statements_and_commits_are_counted_only_while_counting() {
        let counters = Arc::new(Counters::default());
        let storage = SqliteStorage::open(SqliteOptions::memory()).unwrap();
        let storage = Observed::new(storage, Arc::clone(&counters));
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
