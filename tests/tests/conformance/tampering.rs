//! A storage that is wrong in one way: arguments, replies or ends of transactions are tampered with
//! on their way through. Right without a defect.

use std::any::Any;
use std::borrow::Borrow;

use sluicegate::storage::{
    CommitError, Consistency, ExecutionWrite, Result, Snapshot, Storage, Transaction, Verb,
};
use sluicegate::with_verbs;

/// What is wrong with a verb's arguments or replies.
pub(crate) type Tamper = fn(Verb, &mut dyn Any);

/// One way to be wrong.
#[derive(Clone, Copy)]
pub(crate) struct Defect {
    pub(crate) arguments: Tamper,
    pub(crate) reply: Tamper,
    pub(crate) wrong: Wrong,
}

/// What no change of an argument or a reply brings about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Nothing,
    /// A rollback commits.
    RollbackCommits,
    /// A commit rolls back and says that it did not.
    CommitForgets,
    /// A take waits for rows that are held.
    TakeWaits,
    /// A lock passes over rows that are held.
    LockPassesOver,
    /// An update looks at no guard.
    WriteIsUnguarded,
    /// A reader of one instant sees every commit.
    InstantMoves,
}

#[derive(Clone)]
pub(crate) struct Tampering<S> {
    pub(crate) inner: S,
    pub(crate) defect: Defect,
}

pub(crate) struct TamperingTransaction<T> {
    inner: T,
    defect: Defect,
}

pub(crate) struct TamperingSnapshot<T> {
    inner: T,
    defect: Defect,
}

impl<S: Storage> Storage for Tampering<S> {
    type Transaction = TamperingTransaction<S::Transaction>;
    type Snapshot = TamperingSnapshot<S::Snapshot>;

    async fn begin(&self) -> Result<Self::Transaction> {
        let inner = self.inner.begin().await?;
        Ok(TamperingTransaction { inner, defect: self.defect })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<Self::Snapshot> {
        let consistency = match self.defect.wrong {
            Wrong::InstantMoves => Consistency::Statement,
            _ => consistency,
        };
        let inner = self.inner.snapshot(consistency).await?;
        Ok(TamperingSnapshot { inner, defect: self.defect })
    }
}

/// Fits the guards of these updates to the rows as they stand.
async fn unguard<T: Transaction>(inner: &mut T, rows: &mut [ExecutionWrite]) -> Result<()> {
    for row in rows {
        if let Some(present) = inner.lock_executions(&[row.after.id]).await?.first() {
            row.guard = present.guard();
        }
    }
    Ok(())
}

/// Runs a verb, or what the defect runs in its place.
macro_rules! call {
    (take_executions, $this:expr, $keys:expr) => {
        match $this.defect.wrong {
            Wrong::TakeWaits => $this.inner.lock_executions($keys).await,
            _ => $this.inner.take_executions($keys).await,
        }
    };
    (lock_executions, $this:expr, $keys:expr) => {
        match $this.defect.wrong {
            Wrong::LockPassesOver => $this.inner.take_executions($keys).await,
            _ => $this.inner.lock_executions($keys).await,
        }
    };
    (write_executions, $this:expr, $rows:expr) => {{
        let mut rows = $rows.to_owned();
        if $this.defect.wrong == Wrong::WriteIsUnguarded {
            unguard(&mut $this.inner, &mut rows).await?;
        }
        $this.inner.write_executions(&rows).await
    }};
    ($verb:ident, $this:expr) => {
        $this.inner.$verb().await
    };
    ($verb:ident, $this:expr, $argument:expr) => {
        $this.inner.$verb($argument).await
    };
}

macro_rules! tampered {
    ($this:expr, $variant:ident, $method:ident) => {{
        let mut reply = call!($method, $this)?;
        ($this.defect.reply)(Verb::$variant, &mut reply);
        Ok(reply)
    }};
    ($this:expr, $variant:ident, $method:ident, $argument:ident: $type:ty) => {{
        let mut argument = $argument.to_owned();
        ($this.defect.arguments)(Verb::$variant, &mut argument);
        let mut reply = call!($method, $this, Borrow::<$type>::borrow(&argument))?;
        ($this.defect.reply)(Verb::$variant, &mut reply);
        Ok(reply)
    }};
}

macro_rules! tampering {
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
        impl<T: Transaction> Transaction for TamperingTransaction<T> {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                tampered!(self, $tv, $tm $(, $ta: $tty)?)
            })*

            async fn commit(self) -> Result<(), CommitError> {
                match self.defect.wrong {
                    Wrong::CommitForgets => {
                        self.inner.rollback().await;
                        Ok(())
                    }
                    _ => self.inner.commit().await,
                }
            }

            async fn rollback(self) {
                match self.defect.wrong {
                    Wrong::RollbackCommits => drop(self.inner.commit().await),
                    _ => self.inner.rollback().await,
                }
            }
        }

        impl<T: Snapshot> Snapshot for TamperingSnapshot<T> {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                tampered!(self, $sv, $sm $(, $sa: $sty)?)
            })*
        }
    };
}
with_verbs!(tampering);
