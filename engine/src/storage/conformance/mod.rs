//! The suite that holds a storage to the contract of the seam: one case a sentence, written once,
//! run on every backend. Needs no runtime, no thread and no clock; never looks behind the seam.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use sluicegate::storage::conformance::{Concurrency, Subject, run_all};
//! use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
//!
//! struct InMemory;
//! impl Subject for InMemory {
//!     type Storage = SqliteStorage;
//!     async fn fresh(&self) -> SqliteStorage {
//!         SqliteStorage::open(SqliteOptions::memory()).expect("memory opens")
//!     }
//!     fn concurrency(&self) -> Concurrency {
//!         Concurrency::OneConnection
//!     }
//! }
//!
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
//! #             return output;
//! #         }
//! #     }
//! # }
//! block_on(run_all(&InMemory)).assert_kept();
//! # }
//! ```
//!
//! Two transactions at once are two futures in one task, polled by hand. A case that has to see a
//! transaction wait lets its holder make round trips meanwhile; a storage that never wakes a waiter
//! makes the suite wait for ever, which is for the caller's time limit to end.

mod attempts;
mod claims;
mod concurrency;
mod drive;
mod edges;
mod events;
mod executions;
mod faults;
mod feed;
mod flows;
mod groups;
mod growth;
mod inputs;
mod listings;
mod plans;
mod progress;
mod remains;
mod replays;
mod requests;
mod retention;
mod rows;
mod scans;
mod scene;
mod snapshots;
mod submissions;
mod summaries;
mod transactions;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::{CommitError, Storage, StorageError};

pub use faults::{
    FaultInjecting, FaultInjectingSnapshot, FaultInjectingTransaction, Faults, Quiet,
};
use scene::Scene;

/// What a storage lets two transactions do at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Concurrency {
    /// Both are open; they wait for each other row by row.
    RowLocks,
    /// The second waits to begin, or is answered `Busy`; readers go on beside the first.
    OneWriter,
    /// The second waits to begin, or is answered `Busy`; readers wait as well.
    OneConnection,
}

/// A storage under test: opens databases, and says what is to be expected of them.
pub trait Subject {
    /// The storage.
    type Storage: Storage;

    /// Opens a database that is new and empty, of 256 partitions. Its clones are its other handles.
    fn fresh(&self) -> impl Future<Output = Self::Storage>;

    /// What it lets two transactions do at once.
    fn concurrency(&self) -> Concurrency;

    /// How many transactions of the database wait for another one now; `None` where nobody can say,
    /// which leaves a wait to be concluded from what is seen after it.
    fn waiting(&self, storage: &Self::Storage) -> impl Future<Output = Option<usize>> {
        let _ = storage;
        std::future::ready(None)
    }
}

/// How a case of the contract was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach(String);

/// What a case found.
pub type Verdict = Result<(), Breach>;

type Running<'a> = Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// One sentence of the contract, and what checks it.
pub struct Case<S: Subject> {
    /// The part of the contract that it belongs to.
    pub area: &'static str,
    /// What is expected, as an identifier; unique.
    pub name: &'static str,
    /// The sentence of the contract.
    pub sentence: &'static str,
    run: for<'a> fn(Scene<'a, S>) -> Running<'a>,
}

/// A case that a storage has broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The part of the contract.
    pub area: &'static str,
    /// The case.
    pub name: &'static str,
    /// The sentence that was broken.
    pub sentence: &'static str,
    /// What was seen instead.
    pub breach: Breach,
}

/// What became of a run of the suite.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How many cases ran.
    pub ran: usize,
    /// Those that were broken, in the order of the table.
    pub failures: Vec<Failure>,
}

/// Every case of the contract, in the order of its parts.
pub fn cases<S: Subject>() -> Vec<Case<S>> {
    [
        transactions::cases,
        submissions::cases,
        flows::cases,
        executions::cases,
        claims::cases,
        attempts::cases,
        events::cases,
        groups::cases,
        edges::cases,
        plans::cases,
        progress::cases,
        remains::cases,
        requests::cases,
        scans::cases,
        snapshots::cases,
        summaries::cases,
        retention::cases,
        listings::cases,
        concurrency::cases,
        feed::cases,
        growth::cases,
        inputs::cases,
        replays::cases,
    ]
    .into_iter()
    .flat_map(|cases| cases())
    .collect()
}

/// Runs every case, each on a database of its own.
pub async fn run_all<S: Subject>(subject: &S) -> Report {
    run_some(subject, |_| true).await
}

/// Runs the cases that `wanted` picks.
pub async fn run_some<S: Subject>(subject: &S, wanted: impl Fn(&Case<S>) -> bool) -> Report {
    let mut report = Report::default();
    for case in cases::<S>().iter().filter(|case| wanted(case)) {
        report.ran += 1;
        let Case { area, name, sentence, .. } = *case;
        if let Err(breach) = case.check(subject).await {
            report.failures.push(Failure { area, name, sentence, breach });
        }
    }
    report
}

impl<S: Subject> Case<S> {
    /// Runs it on a fresh database. A panic is a breach too.
    pub async fn check(&self, subject: &S) -> Verdict {
        let scene = Scene::new(subject).await;
        drive::catching((self.run)(scene)).await
    }
}

impl Report {
    /// Panics with every broken sentence.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.ran > 0, "no case of the contract ran");
        assert!(self.failures.is_empty(), "{self}");
    }

    /// True if the case of that name was broken.
    pub fn broke(&self, name: &str) -> bool {
        self.failures.iter().any(|failure| failure.name == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ran, broken) = (self.ran, self.failures.len());
        writeln!(f, "{ran} cases of the storage contract ran, {broken} of them broken")?;
        for Failure { area, name, sentence, breach } in &self.failures {
            writeln!(f, "{area}::{name}\n  contract: {sentence}\n  but: {breach}")?;
        }
        Ok(())
    }
}

impl Breach {
    /// A breach in words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<StorageError> for Breach {
    fn from(error: StorageError) -> Self {
        Self(format!("a verb answered an error: {error}"))
    }
}

impl From<CommitError> for Breach {
    fn from(error: CommitError) -> Self {
        Self(format!("a commit answered an error: {error}"))
    }
}

/// The table of an area: one line a case, a function of that name with that sentence.
macro_rules! table {
    ($area:literal; $($name:ident: $sentence:literal;)*) => {
        pub(super) fn cases<S: Subject>() -> Vec<Case<S>> {
            vec![$(Case {
                area: $area,
                name: stringify!($name),
                sentence: $sentence,
                run: |scene| Box::pin($name(scene)),
            },)*]
        }
    };
}
use table;

/// Breaks the case unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::storage::conformance::Breach::new(format!($($message)+)));
        }
    };
}
use ensure;

/// Breaks the case unless what was seen is what was expected.
macro_rules! ensure_same {
    ($seen:expr, $expected:expr, $($message:tt)+) => {{
        let (seen, expected) = (&$seen, &$expected);
        if *seen != *expected {
            let what = format!($($message)+);
            return Err($crate::storage::conformance::Breach::new(
                $crate::storage::conformance::differ(&what, &seen, &expected),
            ));
        }
    }};
}
use ensure_same;

/// Characters of a value that a breach shows.
const SHOWN_MAX: usize = 1_000;

fn differ(what: &str, seen: &dyn fmt::Debug, expected: &dyn fmt::Debug) -> String {
    let shown = |value: &dyn fmt::Debug| -> String {
        format!("{value:?}").chars().take(SHOWN_MAX).collect()
    };
    format!("{what}\n    seen:     {}\n    expected: {}", shown(seen), shown(expected))
}
