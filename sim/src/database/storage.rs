//! The simulated Postgres as a storage for ordinary executors: futures that wait for a lock are
//! woken when a transaction ends. For checks of the model itself; no universe runs on it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sluicegate::storage::{
    CommitError, Consistency, Contention, Result, Snapshot, Storage, StorageError, Transaction,
};
use sluicegate::with_verbs;

use super::{Cursor, Database, SessionId, Step};
use crate::history::Commit;

/// A simulated Postgres that all handles share.
#[derive(Clone, Default)]
pub struct DatabaseStorage {
    shared: Arc<Mutex<Shared>>,
}

/// A transaction of a [`DatabaseStorage`]; dropping it rolls it back.
pub struct DatabaseTransaction {
    shared: Arc<Mutex<Shared>>,
    session: Option<SessionId>,
}

/// A reader of a [`DatabaseStorage`].
pub struct DatabaseSnapshot {
    shared: Arc<Mutex<Shared>>,
    frozen: Option<Box<Database>>,
}

struct Shared {
    database: Database,
    /// Of the statements that wait, to be woken when any transaction ends.
    wakers: Vec<Waker>,
    waiting: usize,
}

impl Default for Shared {
    fn default() -> Self {
        Self { database: Database::new(), wakers: Vec::new(), waiting: 0 }
    }
}

impl DatabaseStorage {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `f` on the database: to set its clock, say, or to plant a bug.
    pub fn with_database<T>(&self, f: impl FnOnce(&mut Database) -> T) -> T {
        f(&mut lock(&self.shared).database)
    }

    /// How many statements wait for another transaction.
    pub fn waiting(&self) -> usize {
        lock(&self.shared).waiting
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn abort(&mut self, session: SessionId) {
        self.database.abort(session);
        self.ended();
    }

    fn commit(&mut self, session: SessionId) {
        self.database.commit(session, &mut Commit::default());
        self.ended();
    }

    fn ended(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// One statement of a transaction, step by step.
struct Statement<'a, F> {
    transaction: &'a mut DatabaseTransaction,
    cursor: Cursor,
    waits: bool,
    run: F,
}

impl<T, F> Future for Statement<'_, F>
where
    F: FnMut(&mut Database, SessionId, &mut Cursor) -> Step<Result<T>> + Unpin,
{
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = self.get_mut();
        let Some(session) = this.transaction.session else {
            let over = "an earlier error ended it".into();
            return Poll::Ready(Err(StorageError::Unavailable(over)));
        };
        let shared = Arc::clone(&this.transaction.shared);
        let mut shared = lock(&shared);
        let step = (this.run)(&mut shared.database, session, &mut this.cursor);
        shared.waiting -= usize::from(std::mem::take(&mut this.waits));
        let reply = match step {
            Step::Done(reply) => reply,
            Step::Deadlock(_) => Err(StorageError::Contention(Contention::Deadlock)),
            Step::Yield => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Step::Wait => {
                this.waits = true;
                shared.waiting += 1;
                shared.wakers.push(context.waker().clone());
                return Poll::Pending;
            }
        };
        if reply.is_err() {
            this.transaction.session = None;
            shared.abort(session);
        }
        Poll::Ready(reply)
    }
}

impl<F> Drop for Statement<'_, F> {
    /// A statement that is dropped while it waits takes its transaction with it.
    fn drop(&mut self) {
        if self.waits {
            let mut shared = lock(&self.transaction.shared);
            shared.waiting -= 1;
            if let Some(session) = self.transaction.session.take() {
                shared.abort(session);
            }
        }
    }
}

impl Drop for DatabaseTransaction {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            lock(&self.shared).abort(session);
        }
    }
}

impl Storage for DatabaseStorage {
    type Transaction = DatabaseTransaction;
    type Snapshot = DatabaseSnapshot;

    async fn begin(&self) -> Result<DatabaseTransaction> {
        let session = lock(&self.shared).database.open_session(0);
        Ok(DatabaseTransaction { shared: Arc::clone(&self.shared), session: Some(session) })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<DatabaseSnapshot> {
        let frozen = match consistency {
            Consistency::Statement => None,
            Consistency::Snapshot => Some(Box::new(lock(&self.shared).database.frozen())),
        };
        Ok(DatabaseSnapshot { shared: Arc::clone(&self.shared), frozen })
    }
}

macro_rules! storage {
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
        impl Transaction for DatabaseTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let run = |database: &mut Database, session, cursor: &mut Cursor| {
                    database.$tm(session, cursor $(, $ta)?)
                };
                let cursor = Cursor::default();
                Statement { transaction: self, cursor, waits: false, run }.await
            })*

            async fn commit(mut self) -> Result<(), CommitError> {
                let Some(session) = self.session.take() else {
                    let over = StorageError::Unavailable("an earlier error ended it".into());
                    return Err(CommitError::Storage(over));
                };
                lock(&self.shared).commit(session);
                Ok(())
            }

            async fn rollback(self) {
                drop(self);
            }
        }

        impl Snapshot for DatabaseSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let shared = lock(&self.shared);
                snapshot_verb!($sm, shared.database, self.frozen $(, $sa)?)
            })*
        }
    };
}

/// Asks the instant of a reader, but for the clock, which goes on.
macro_rules! snapshot_verb {
    (read_clock, $live:expr, $frozen:expr) => {
        $live.read_clock()
    };
    ($verb:ident, $live:expr, $frozen:expr $(, $argument:ident)?) => {
        $frozen.as_deref().unwrap_or(&$live).$verb($($argument)?)
    };
}
with_verbs!(storage);
