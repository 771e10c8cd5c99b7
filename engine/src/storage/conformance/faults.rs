//! Fault injection: a storage around another one that may answer an error before or after any verb.
//! Without faults it is the other one. Never fails by itself.

use std::sync::Arc;

use crate::storage::{
    CommitError, Consistency, Result, Snapshot, Storage, StorageError, Transaction, Verb,
};
use crate::with_verbs;

/// What goes wrong; asked at every statement.
pub trait Faults: Send + Sync + 'static {
    /// An error that the statement meets before it has any effect.
    fn before(&self, verb: Verb) -> Result<()> {
        let _ = verb;
        Ok(())
    }

    /// An error that takes the place of the statement's answer. A commit is applied then, and
    /// answers `Unknown`.
    fn after(&self, verb: Verb) -> Result<()> {
        let _ = verb;
        Ok(())
    }
}

/// No faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quiet;

impl Faults for Quiet {}

/// A storage in which faults are injected.
pub struct FaultInjecting<S, F> {
    inner: S,
    faults: Arc<F>,
}

/// A transaction in which faults are injected; one of them ends it and rolls it back.
pub struct FaultInjectingTransaction<T, F> {
    inner: Option<T>,
    faults: Arc<F>,
}

/// A reader in which faults are injected.
pub struct FaultInjectingSnapshot<T, F> {
    inner: T,
    faults: Arc<F>,
}

impl<S, F> FaultInjecting<S, F> {
    /// Injects faults into a storage.
    pub fn new(inner: S, faults: F) -> Self {
        Self { inner, faults: Arc::new(faults) }
    }

    /// The storage itself.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The faults.
    pub fn faults(&self) -> &F {
        &self.faults
    }
}

impl<S: Clone, F> Clone for FaultInjecting<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), faults: Arc::clone(&self.faults) }
    }
}

impl<S: Storage, F: Faults> Storage for FaultInjecting<S, F> {
    type Transaction = FaultInjectingTransaction<S::Transaction, F>;
    type Snapshot = FaultInjectingSnapshot<S::Snapshot, F>;

    async fn begin(&self) -> Result<Self::Transaction> {
        self.faults.before(Verb::Begin)?;
        let inner = self.inner.begin().await?;
        if let Err(fault) = self.faults.after(Verb::Begin) {
            inner.rollback().await;
            return Err(fault);
        }
        Ok(FaultInjectingTransaction { inner: Some(inner), faults: Arc::clone(&self.faults) })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        let inner = self.inner.snapshot(consistency).await?;
        Ok(FaultInjectingSnapshot { inner, faults: Arc::clone(&self.faults) })
    }
}

impl<T: Transaction, F> FaultInjectingTransaction<T, F> {
    fn open(&mut self) -> Result<&mut T> {
        let over = || StorageError::Unavailable("an injected fault ended the transaction".into());
        self.inner.as_mut().ok_or_else(over)
    }

    async fn end<R>(&mut self, fault: StorageError) -> Result<R> {
        if let Some(inner) = self.inner.take() {
            inner.rollback().await;
        }
        Err(fault)
    }
}

macro_rules! injecting {
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
        impl<T: Transaction, F: Faults> Transaction for FaultInjectingTransaction<T, F> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                self.open()?;
                if let Err(fault) = self.faults.before(Verb::$tv) {
                    return self.end(fault).await;
                }
                let answer = self.open()?.$tm($($ta)?).await?;
                match self.faults.after(Verb::$tv) {
                    Ok(()) => Ok(answer),
                    Err(fault) => self.end(fault).await,
                }
            })*

            async fn commit(mut self) -> Result<(), CommitError> {
                self.open()?;
                if let Err(fault) = self.faults.before(Verb::Commit) {
                    return Ok(self.end(fault).await?);
                }
                if let Some(inner) = self.inner.take() {
                    inner.commit().await?;
                }
                self.faults.after(Verb::Commit).map_err(|_| CommitError::Unknown)
            }

            async fn rollback(mut self) {
                if let Some(inner) = self.inner.take() {
                    // Whatever a rollback meets, it rolls back.
                    drop(self.faults.before(Verb::Rollback));
                    inner.rollback().await;
                }
            }
        }

        impl<T: Snapshot, F: Faults> Snapshot for FaultInjectingSnapshot<T, F> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                self.faults.before(Verb::$sv)?;
                let answer = self.inner.$sm($($sa)?).await?;
                self.faults.after(Verb::$sv).map(|()| answer)
            })*
        }
    };
}
with_verbs!(injecting);
