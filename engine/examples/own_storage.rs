//! A storage of one's own, and how it is held to the contract of the seam. This one counts what it
//! passes on to SQLite; yours may be a server, a cache or another database.
//!
//! Run it with `cargo run --example own_storage --features conformance`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate::storage::conformance::{Concurrency, Subject, run_all};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{CommitError, Consistency, Result, Snapshot, Storage, Transaction};
use sluicegate::with_verbs;

/// A storage that counts its statements.
#[derive(Clone)]
struct Metered<S> {
    inner: S,
    statements: Arc<AtomicU64>,
}

/// A transaction or a reader of it.
struct MeteredSession<T> {
    inner: T,
    statements: Arc<AtomicU64>,
}

impl<S: Storage> Storage for Metered<S> {
    type Transaction = MeteredSession<S::Transaction>;
    type Snapshot = MeteredSession<S::Snapshot>;

    async fn begin(&self) -> Result<Self::Transaction> {
        let statements = Arc::clone(&self.statements);
        Ok(MeteredSession { inner: self.inner.begin().await?, statements })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        let statements = Arc::clone(&self.statements);
        Ok(MeteredSession { inner: self.inner.snapshot(consistency).await?, statements })
    }
}

// One macro writes every verb, so that a verb that is added later is passed on as well.
macro_rules! metered {
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
        impl<T: Transaction> Transaction for MeteredSession<T> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                self.statements.fetch_add(1, Ordering::Relaxed);
                self.inner.$tm($($ta)?).await
            })*
            async fn commit(self) -> Result<(), CommitError> { self.inner.commit().await }
            async fn rollback(self) { self.inner.rollback().await; }
        }
        impl<T: Snapshot> Snapshot for MeteredSession<T> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                self.statements.fetch_add(1, Ordering::Relaxed);
                self.inner.$sm($($sa)?).await
            })*
        }
    };
}
with_verbs!(metered);

/// What the suite runs on.
#[derive(Default)]
struct Mine {
    statements: Arc<AtomicU64>,
}

impl Subject for Mine {
    type Storage = Metered<SqliteStorage>;

    async fn fresh(&self) -> Self::Storage {
        let inner = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
        Metered { inner, statements: Arc::clone(&self.statements) }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::OneConnection
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let subject = Mine::default();
    let report = run_all(&subject).await;
    report.assert_kept();
    println!("{report}in {} statements", subject.statements.load(Ordering::Relaxed));
}
