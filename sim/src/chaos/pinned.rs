//! A storage whose readers are shown a clock that stands still, so that a sweep which goes by it
//! looks no further, however long its process is stopped before it does. Changes nothing else.

use sluicegate::storage::{Consistency, Result, Snapshot, Storage};
use sluicegate::time::Timestamp;
use sluicegate::with_verbs;

/// A storage with a clock of its own.
#[derive(Clone)]
pub(super) struct Pinned<S> {
    inner: S,
    clock: Timestamp,
}

/// A reader with the clock of its storage.
pub(super) struct PinnedSnapshot<T> {
    inner: T,
    clock: Timestamp,
}

impl<S> Pinned<S> {
    /// Shows that time to every reader; transactions see the storage's own.
    pub(super) fn new(inner: S, clock: Timestamp) -> Self {
        Self { inner, clock }
    }
}

impl<S: Storage> Storage for Pinned<S> {
    type Transaction = S::Transaction;
    type Snapshot = PinnedSnapshot<S::Snapshot>;

    async fn begin(&self) -> Result<Self::Transaction> {
        self.inner.begin().await
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        let inner = self.inner.snapshot(consistency).await?;
        Ok(PinnedSnapshot { inner, clock: self.clock })
    }
}

macro_rules! shown {
    (read_clock, $clock:expr, $answer:expr) => {
        $answer.map(|_| $clock)
    };
    ($verb:ident, $clock:expr, $answer:expr) => {
        $answer
    };
}

macro_rules! pinned {
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
        impl<T: Snapshot> Snapshot for PinnedSnapshot<T> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let answer = self.inner.$sm($($sa)?).await;
                shown!($sm, self.clock, answer)
            })*
        }
    };
}
with_verbs!(pinned);

#[cfg(test)]
mod tests {
    use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};

    use super::*;

    #[tokio::test]
    async fn readers_are_shown_that_time_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("one.sqlite");
        let storage = SqliteStorage::open(SqliteOptions::file(&file)).unwrap();
        let pinned = Pinned::new(storage, Timestamp(7));
        let mut reader = pinned.snapshot(Consistency::Statement).await.unwrap();
        assert_eq!(reader.read_clock().await, Ok(Timestamp(7)));
    }
}
