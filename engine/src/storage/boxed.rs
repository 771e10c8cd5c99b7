//! The boxed twin of the seam, for a backend that is chosen at run time. Adds nothing but a box.

#![expect(
    clippy::elidable_lifetime_names,
    reason = "the future of a verb with an argument borrows both, and one macro writes all of them"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::with_verbs;

use super::{CommitError, Consistency, Result, Snapshot, Storage, Transaction};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A storage whose backend is chosen at run time.
#[derive(Clone)]
pub struct BoxStorage(Arc<dyn DynStorage>);
/// A transaction of a [`BoxStorage`].
pub struct BoxTransaction(Box<dyn DynTransaction>);
/// A reader of a [`BoxStorage`].
pub struct BoxSnapshot(Box<dyn DynSnapshot>);

trait DynStorage: Send + Sync {
    fn begin(&self) -> BoxFuture<'_, Result<BoxTransaction>>;
    fn snapshot(&self, consistency: Consistency) -> BoxFuture<'_, Result<BoxSnapshot>>;
}

impl<S: Storage> DynStorage for S {
    fn begin(&self) -> BoxFuture<'_, Result<BoxTransaction>> {
        Box::pin(async move { Ok(BoxTransaction(Box::new(Storage::begin(self).await?))) })
    }
    fn snapshot(&self, consistency: Consistency) -> BoxFuture<'_, Result<BoxSnapshot>> {
        Box::pin(
            async move { Ok(BoxSnapshot(Box::new(Storage::snapshot(self, consistency).await?))) },
        )
    }
}

impl BoxStorage {
    /// Boxes a backend.
    pub fn new(storage: impl Storage) -> Self {
        Self(Arc::new(storage))
    }
}

impl Storage for BoxStorage {
    type Transaction = BoxTransaction;
    type Snapshot = BoxSnapshot;
    async fn begin(&self) -> Result<BoxTransaction> {
        self.0.begin().await
    }
    async fn snapshot(&self, consistency: Consistency) -> Result<BoxSnapshot> {
        self.0.snapshot(consistency).await
    }
}

macro_rules! twins {
    (
        transaction { $($(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident, ($($ta:ident: $tty:ty)?) -> $tr:ty;)* }
        snapshot { $($(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident, ($($sa:ident: $sty:ty)?) -> $sr:ty;)* }
    ) => {
        trait DynTransaction: Send {
            $(fn $tm<'a>(&'a mut self $(, $ta: &'a $tty)?) -> BoxFuture<'a, Result<$tr>>;)*
            fn commit(self: Box<Self>) -> BoxFuture<'static, Result<(), CommitError>>;
            fn rollback(self: Box<Self>) -> BoxFuture<'static, ()>;
        }
        trait DynSnapshot: Send {
            $(fn $sm<'a>(&'a mut self $(, $sa: &'a $sty)?) -> BoxFuture<'a, Result<$sr>>;)*
        }
        impl<T: Transaction + 'static> DynTransaction for T {
            $(fn $tm<'a>(&'a mut self $(, $ta: &'a $tty)?) -> BoxFuture<'a, Result<$tr>> {
                Box::pin(Transaction::$tm(self $(, $ta)?))
            })*
            fn commit(self: Box<Self>) -> BoxFuture<'static, Result<(), CommitError>> {
                Box::pin(Transaction::commit(*self))
            }
            fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
                Box::pin(Transaction::rollback(*self))
            }
        }
        impl<T: Snapshot + 'static> DynSnapshot for T {
            $(fn $sm<'a>(&'a mut self $(, $sa: &'a $sty)?) -> BoxFuture<'a, Result<$sr>> {
                Box::pin(Snapshot::$sm(self $(, $sa)?))
            })*
        }
        impl Transaction for BoxTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> { self.0.$tm($($ta)?).await })*
            async fn commit(self) -> Result<(), CommitError> { self.0.commit().await }
            async fn rollback(self) { self.0.rollback().await; }
        }
        impl Snapshot for BoxSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> { self.0.$sm($($sa)?).await })*
        }
    };
}
with_verbs!(twins);
