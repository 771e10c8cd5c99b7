//! What a case stands on: a fresh database, its transactions and readers, and a second transaction
//! that goes on beside the first. Never judges.

use std::future::Future;
use std::pin::Pin;

use super::drive::{alongside, yield_now};
use super::rows::{Seed, id};
use super::{Breach, Concurrency, Subject, Verdict};
use crate::storage::{
    ClaimQuery, Consistency, Contention, Execution, ExecutionView, ExecutionWrite, Grant, Result,
    Snapshot, Storage, StorageError, Transaction,
};

/// Times that a transaction asks to begin while the storage answers `Busy`.
const BEGIN_TRIES_MAX: usize = 1_000_000;
/// Round trips of a holder in which a transaction that does not wait shows itself.
const PULSES_OF_A_WAIT: usize = 40;
/// Round trips of a holder after which what should not wait is said to wait.
const PULSES_MAX: usize = 100_000;

pub(super) type Tx<S> = <<S as Subject>::Storage as Storage>::Transaction;
pub(super) type Reader<S> = <<S as Subject>::Storage as Storage>::Snapshot;

/// How a wait was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The storage says so.
    Seen,
    /// It did not come back for a while.
    Concluded,
}

type Outcome<T> = Result<T, Breach>;
/// Something that goes on beside a transaction.
pub(super) type Beside<'a, T> = Pin<Box<dyn Future<Output = Outcome<T>> + 'a>>;

/// A fresh database of the subject.
pub(super) struct Scene<'a, S: Subject> {
    subject: &'a S,
    pub(super) storage: S::Storage,
}

impl<'a, S: Subject> Scene<'a, S> {
    pub(super) async fn new(subject: &'a S) -> Self {
        Self { subject, storage: subject.fresh().await }
    }

    /// The same with another fresh database.
    pub(super) async fn another(&self) -> Self {
        Self::new(self.subject).await
    }

    /// True if two transactions can be open at once.
    pub(super) fn has_row_locks(&self) -> bool {
        self.subject.concurrency() == Concurrency::RowLocks
    }

    /// True if a reader answers while a transaction is open.
    pub(super) fn reads_beside(&self) -> bool {
        self.subject.concurrency() != Concurrency::OneConnection
    }

    /// Begins a transaction, asking again where the storage is busy.
    pub(super) async fn begin(&self) -> Outcome<Tx<S>> {
        for _ in 0..BEGIN_TRIES_MAX {
            match self.storage.begin().await {
                Err(StorageError::Contention(Contention::Busy)) => yield_now().await,
                begun => return Ok(begun?),
            }
        }
        Err(Breach::new("a transaction was told to be busy for ever"))
    }

    /// A reader that sees what has committed when each verb begins.
    pub(super) async fn reader(&self) -> Outcome<Reader<S>> {
        Ok(self.storage.snapshot(Consistency::Statement).await?)
    }

    /// Runs one transaction and commits it.
    pub(super) async fn commit<T>(
        &self,
        run: impl AsyncFnOnce(&mut Tx<S>) -> Result<T>,
    ) -> Outcome<T> {
        let mut transaction = self.begin().await?;
        let output = run(&mut transaction).await?;
        transaction.commit().await?;
        Ok(output)
    }

    /// Commits these rows.
    pub(super) async fn seed(&self, seed: &Seed) -> Outcome<()> {
        self.commit(async |transaction| {
            for flow in &seed.flows {
                transaction.insert_flow(flow).await?;
            }
            transaction.insert_executions(&seed.members).await?;
            transaction.insert_groups(&seed.groups).await?;
            transaction.insert_edges(&seed.edges).await
        })
        .await
    }

    /// Claims and commits.
    pub(super) async fn claim(&self, query: &ClaimQuery) -> Outcome<Vec<Grant>> {
        self.commit(async |transaction| transaction.claim_executions(query).await).await
    }

    /// Locks the execution of a write, writes it and commits.
    pub(super) async fn write(&self, write: &ExecutionWrite) -> Outcome<usize> {
        self.commit(async |transaction| {
            transaction.lock_executions(&[write.after.id]).await?;
            Ok(transaction.write_executions(std::slice::from_ref(write)).await?.len())
        })
        .await
    }

    /// An execution as it is committed.
    pub(super) async fn view(&self, number: u16) -> Outcome<ExecutionView> {
        let view = self.reader().await?.describe_execution(&id(number)).await?;
        view.ok_or_else(|| Breach::new(format!("execution {number} is gone")))
    }

    /// The changing part of an execution as it is committed.
    pub(super) async fn execution(&self, number: u16) -> Outcome<Execution> {
        Ok(self.view(number).await?.execution)
    }

    /// A second transaction with one verb, to go on beside an open one; it has begun already where
    /// two can be open at once.
    pub(super) async fn second<'b, T: 'b>(
        &'b self,
        run: impl AsyncFnOnce(&mut Tx<S>) -> Result<T> + 'b,
    ) -> Outcome<Beside<'b, (Tx<S>, T)>> {
        let begun = match self.has_row_locks() {
            true => Some(self.begin().await?),
            false => None,
        };
        Ok(Box::pin(async move {
            let mut transaction = match begun {
                Some(transaction) => transaction,
                None => self.begin().await?,
            };
            let output = run(&mut transaction).await?;
            Ok((transaction, output))
        }))
    }

    /// Breaks the case unless `second` waits for the holder.
    pub(super) async fn waits<T>(
        &self,
        second: &mut Beside<'_, T>,
        holder: &mut Tx<S>,
    ) -> Outcome<Wait> {
        let mut output = None;
        for pulse in 0..PULSES_MAX {
            alongside(second, &mut output, holder.clock()).await?;
            alongside(second, &mut output, yield_now()).await;
            if let Some(output) = output {
                output?;
                return Err(Breach::new("it did not wait for the transaction that holds"));
            }
            let waiting = alongside(second, &mut output, self.subject.waiting(&self.storage)).await;
            match waiting {
                Some(count) if count > 0 && output.is_none() => return Ok(Wait::Seen),
                None if pulse >= PULSES_OF_A_WAIT && output.is_none() => {
                    return Ok(Wait::Concluded);
                }
                Some(_) | None => {}
            }
        }
        Err(Breach::new("it never began to wait for the transaction that holds"))
    }

    /// What stands in for row locks where there is one writer: the second waits to begin.
    pub(super) async fn one_writer_at_a_time(&self) -> Verdict {
        for commits in [true, false] {
            let mut holder = self.begin().await?;
            let mut second = self.second(async |one| one.clock().await).await?;
            self.waits(&mut second, &mut holder).await?;
            match commits {
                true => holder.commit().await?,
                false => holder.rollback().await,
            }
            let (transaction, _) = second.await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    /// What `second` comes to while the holder is open; breaks the case if it waits.
    pub(super) async fn passes<T>(
        &self,
        mut second: Beside<'_, T>,
        holder: &mut Tx<S>,
    ) -> Outcome<T> {
        let mut output = None;
        for _ in 0..PULSES_MAX {
            alongside(&mut second, &mut output, holder.clock()).await?;
            alongside(&mut second, &mut output, yield_now()).await;
            if let Some(output) = output {
                return output;
            }
        }
        Err(Breach::new("it waits for a transaction that it should pass by"))
    }

    /// What a reader comes to beside an open transaction; `None` where it waits for its end.
    pub(super) async fn read_beside<T>(
        &self,
        holder: &mut Tx<S>,
        read: impl AsyncFnOnce(&mut Reader<S>) -> Result<T>,
    ) -> Outcome<Option<T>> {
        if !self.reads_beside() {
            return Ok(None);
        }
        let reading: Beside<'_, T> = Box::pin(async {
            let mut reader = self.reader().await?;
            Ok(read(&mut reader).await?)
        });
        self.passes(reading, holder).await.map(Some)
    }
}
