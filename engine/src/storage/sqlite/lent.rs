//! Bodies inside a transaction of the caller's, a savepoint around each. Never begins or commits
//! anything.
//!
//! rusqlite's transaction stays on the caller's thread, while a body may be on any: so the body
//! asks for each verb to be run.

use std::borrow::Borrow;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::pool::{Session, Shared};
use super::{error, migrate};
use crate::storage::desk::{Desk, Step};
use crate::storage::{Result, StorageError};
use crate::transact::{Body, Run, Verdict};

/// A verb with its arguments, which puts its reply where the body looks for it.
type Job = Box<dyn for<'s> FnOnce(Session<'s>) + Send>;

/// A transaction inside the caller's.
pub(super) struct Lent {
    desk: Desk<Job, ()>,
    over: bool,
}

impl Lent {
    /// Has a verb run; an error ends the transaction.
    pub(super) async fn verb<A, T>(
        &mut self,
        verb: fn(Session<'_>, &A) -> Result<T>,
        arguments: &A,
    ) -> Result<T>
    where
        A: ToOwned + ?Sized + 'static,
        A::Owned: Send + 'static,
        T: Send + 'static,
    {
        if self.over {
            return Err(StorageError::Unavailable("an earlier error ended it".into()));
        }
        let reply = Arc::new(Mutex::new(None));
        let (answer, arguments) = (Arc::clone(&reply), arguments.to_owned());
        let job: Job = Box::new(move |session| {
            let replied = verb(session, arguments.borrow());
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(replied);
        });
        self.desk.ask(job).await;
        let replied = reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        let replied = replied.expect("a job that was run has replied");
        self.over = replied.is_err();
        replied
    }
}

/// Runs a body between a savepoint and its release; an error, or a verdict that there is nothing to
/// keep, leaves the caller's transaction as it was before.
pub(super) fn run<B: Body>(shared: &Shared, connection: &Connection, body: &B) -> Result<B::Out> {
    shared.check_place()?;
    migrate::still_admitted(connection, &shared.options.steps)?;
    migrate::check_partitions(connection, shared.options.partitions)?;
    let control = |sql: &str| connection.execute_batch(sql).map_err(|e| error::of_verb(&e));
    let undo = || control("rollback to sluicegate; release sluicegate");
    control("savepoint sluicegate")?;
    match carry_out(Session::over(connection, shared), body) {
        Ok(Verdict::Commit(out)) => control("release sluicegate").map(|()| out),
        Ok(Verdict::Rollback(out)) => undo().map(|()| out),
        Err(failure) => {
            // After some errors SQLite has rolled the caller's whole transaction back.
            drop(undo());
            Err(failure)
        }
    }
}

/// Runs the verbs that the body asks for, until it ends.
fn carry_out<B: Body>(session: Session<'_>, body: &B) -> Result<Verdict<B::Out>> {
    let desk = Desk::new();
    let mut lent = Lent { desk: desk.clone(), over: false };
    // A commit whose answer is lost is the caller's, and the caller repeats the whole call.
    let mut running = pin!(body.run(&mut lent, Run::AfterUnknownCommit));
    loop {
        match desk.step(running.as_mut()) {
            Step::Done(verdict) => return verdict,
            Step::Asks(job) => job(session),
        }
        desk.answer(());
    }
}
