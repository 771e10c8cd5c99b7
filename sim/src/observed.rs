//! A storage that tells an observer what is asked of another and how that answers. Changes nothing.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::storage::{
    CommitError, Consistency, Result, Snapshot, Storage, StorageError, Transaction, Verb,
};
use sluicegate::with_verbs;

use crate::report::progress::Stopwatch;

/// Whoever looks on.
pub(crate) trait Observer: Send + Sync + 'static {
    /// A verb was answered, whatever the answer, after so long.
    fn answered(&self, verb: Verb, took: Duration) {
        let _ = (verb, took);
    }

    /// A verb, or the opening of a reader, was answered with an error.
    fn failed(&self, error: &CommitError) {
        let _ = error;
    }
}

/// A storage under observation.
pub(crate) struct Observed<S, O> {
    inner: S,
    observer: Arc<O>,
}

/// A transaction or a reader under observation.
pub(crate) struct ObservedSession<T, O> {
    inner: T,
    observer: Arc<O>,
}

impl<S, O> Observed<S, O> {
    /// Tells this observer.
    pub(crate) fn new(inner: S, observer: Arc<O>) -> Self {
        Self { inner, observer }
    }
}

impl<S: Clone, O> Clone for Observed<S, O> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), observer: Arc::clone(&self.observer) }
    }
}

/// Passes an answer on, having told of it.
fn told<T>(observer: &impl Observer, verb: Verb, watch: Stopwatch, answer: Result<T>) -> Result<T> {
    observer.answered(verb, watch.elapsed());
    answer.map_err(|error| failed(observer, error))
}

fn failed(observer: &impl Observer, error: StorageError) -> StorageError {
    observer.failed(&CommitError::Storage(error.clone()));
    error
}

impl<S: Storage, O: Observer> Storage for Observed<S, O> {
    type Transaction = ObservedSession<S::Transaction, O>;
    type Snapshot = ObservedSession<S::Snapshot, O>;

    async fn begin(&self) -> Result<Self::Transaction> {
        let watch = Stopwatch::start();
        let inner = told(&*self.observer, Verb::Begin, watch, self.inner.begin().await)?;
        Ok(ObservedSession { inner, observer: Arc::clone(&self.observer) })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        // No statement by itself: its reads are.
        let opened = self.inner.snapshot(consistency).await;
        let inner = opened.map_err(|error| failed(&*self.observer, error))?;
        Ok(ObservedSession { inner, observer: Arc::clone(&self.observer) })
    }
}

macro_rules! observed {
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
        impl<T: Transaction, O: Observer> Transaction for ObservedSession<T, O> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let watch = Stopwatch::start();
                let answer = self.inner.$tm($($ta)?).await;
                told(&*self.observer, Verb::$tv, watch, answer)
            })*

            async fn commit(self) -> Result<(), CommitError> {
                let watch = Stopwatch::start();
                let answer = self.inner.commit().await;
                self.observer.answered(Verb::Commit, watch.elapsed());
                answer.inspect_err(|error| self.observer.failed(error))
            }

            async fn rollback(self) {
                let watch = Stopwatch::start();
                self.inner.rollback().await;
                self.observer.answered(Verb::Rollback, watch.elapsed());
            }
        }

        impl<T: Snapshot, O: Observer> Snapshot for ObservedSession<T, O> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let watch = Stopwatch::start();
                let answer = self.inner.$sm($($sa)?).await;
                told(&*self.observer, Verb::$sv, watch, answer)
            })*
        }
    };
}
with_verbs!(observed);
