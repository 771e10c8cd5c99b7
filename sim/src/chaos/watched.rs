//! A storage that writes every error which it answers into a ledger, so that a fault counts as what
//! the engine saw of it. Changes nothing else.

use std::sync::Arc;

use sluicegate::storage::{
    CommitError, Consistency, Result, Snapshot, Storage, StorageError, Transaction,
};
use sluicegate::with_verbs;

use super::ledger::{Entry, Ledger, commit_word, word};

/// A storage under watch.
#[derive(Clone)]
pub(super) struct Watched<S> {
    inner: S,
    ledger: Arc<Ledger>,
}

/// A transaction or a reader under watch.
pub(super) struct Watching<T> {
    inner: T,
    ledger: Arc<Ledger>,
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, ledger: Arc<Ledger>) -> Self {
        Self { inner, ledger }
    }

    fn watch<T>(&self, opened: Result<T>) -> Result<Watching<T>> {
        match opened {
            Ok(inner) => Ok(Watching { inner, ledger: Arc::clone(&self.ledger) }),
            Err(error) => Err(note(&self.ledger, error)),
        }
    }
}

fn note(ledger: &Ledger, error: StorageError) -> StorageError {
    ledger.write(&Entry::Answered { error: word(&error).to_owned() });
    error
}

impl<S: Storage> Storage for Watched<S> {
    type Transaction = Watching<S::Transaction>;
    type Snapshot = Watching<S::Snapshot>;

    async fn begin(&self) -> Result<Self::Transaction> {
        let opened = self.inner.begin().await;
        self.watch(opened)
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        let opened = self.inner.snapshot(consistency).await;
        self.watch(opened)
    }
}

macro_rules! watched {
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
        impl<T: Transaction> Transaction for Watching<T> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let answer = self.inner.$tm($($ta)?).await;
                answer.map_err(|error| note(&self.ledger, error))
            })*

            async fn commit(self) -> Result<(), CommitError> {
                let answer = self.inner.commit().await;
                answer.inspect_err(|error| {
                    let error = commit_word(error).to_owned();
                    self.ledger.write(&Entry::Answered { error });
                })
            }

            async fn rollback(self) {
                self.inner.rollback().await;
            }
        }

        impl<T: Snapshot> Snapshot for Watching<T> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let answer = self.inner.$sm($($sa)?).await;
                answer.map_err(|error| note(&self.ledger, error))
            })*
        }
    };
}
with_verbs!(watched);
