//! A storage that can be told to go away, and to lose the answers of commits that it has applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluicegate::storage::sqlite::SqliteStorage;
use sluicegate::storage::{CommitError, Consistency, Result, Storage, StorageError, Transaction};
use sluicegate::with_verbs;

/// What goes wrong.
#[derive(Default)]
pub(crate) struct Faults {
    /// Nothing can be opened.
    pub(crate) gone: AtomicBool,
    /// Every so many commits the answer of one is lost; zero for never.
    pub(crate) lost_each: AtomicU64,
    commits: AtomicU64,
}

/// A storage with faults.
#[derive(Clone)]
pub(crate) struct Shaky {
    pub(crate) inner: SqliteStorage,
    pub(crate) faults: Arc<Faults>,
}

pub(crate) struct ShakyTransaction<T> {
    inner: T,
    faults: Arc<Faults>,
}

impl Shaky {
    fn answer(&self) -> Result<()> {
        match self.faults.gone.load(Ordering::SeqCst) {
            true => Err(StorageError::Unavailable("it is gone".into())),
            false => Ok(()),
        }
    }
}

impl Storage for Shaky {
    type Transaction = ShakyTransaction<<SqliteStorage as Storage>::Transaction>;
    type Snapshot = <SqliteStorage as Storage>::Snapshot;

    async fn begin(&self) -> Result<Self::Transaction> {
        self.answer()?;
        let faults = Arc::clone(&self.faults);
        Ok(ShakyTransaction { inner: self.inner.begin().await?, faults })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        self.answer()?;
        self.inner.snapshot(consistency).await
    }
}

macro_rules! shaky {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $($rest:tt)* }
    ) => {
        impl<T: Transaction> Transaction for ShakyTransaction<T> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                self.inner.$tm($($ta)?).await
            })*
            async fn commit(self) -> Result<(), CommitError> {
                self.inner.commit().await?;
                let each = self.faults.lost_each.load(Ordering::SeqCst);
                let commits = self.faults.commits.fetch_add(1, Ordering::SeqCst);
                match each > 0 && commits % each == 0 {
                    true => Err(CommitError::Unknown),
                    false => Ok(()),
                }
            }
            async fn rollback(self) { self.inner.rollback().await; }
        }
    };
}
with_verbs!(shaky);
