//! The storage as a process on another host sees it: each statement goes to the storage server and
//! back. Its connections are pooled as those of the Postgres backend are: one is used again only if
//! its transaction was answered. Never executes anything.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluicegate::storage::{
    CommitError, Consistency, Result, Snapshot, Storage, StorageError, Transaction,
};
use sluicegate::with_verbs;
use turmoil::net::TcpStream;

use super::time::within;
use super::wire::{self, Call, Read, Request};
use super::{DATABASE, PORT};
use crate::driver::world::world;
use crate::history::ActorId;

/// How long a client waits for an answer: longer than the storage waits for a lock.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// How long a client waits for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Open connections that nobody uses.
type Pool = Arc<Mutex<Vec<TcpStream>>>;

/// The storage of one process, behind the network.
#[derive(Clone, Debug)]
pub(crate) struct RemoteStorage {
    actor: ActorId,
    pool: Pool,
}

/// A connection that serves a transaction or a reader.
#[derive(Debug)]
struct Line {
    actor: ActorId,
    /// None once it has failed, or is back in the pool.
    stream: Option<TcpStream>,
    pool: Pool,
}

/// A transaction behind the network.
#[derive(Debug)]
pub(crate) struct RemoteTransaction {
    line: Line,
    /// It is to be begun with its first statement.
    begins: bool,
}

/// A reader behind the network.
#[derive(Debug)]
pub(crate) struct RemoteSnapshot {
    line: Line,
    /// How it is to be opened with its first statement, if it is not.
    opens: Option<Consistency>,
}

impl RemoteStorage {
    /// The storage of a process that has just started.
    pub(super) fn new(actor: ActorId) -> Self {
        Self { actor, pool: Pool::default() }
    }

    async fn line(&self) -> Result<Line> {
        unless_dead(self.actor).await;
        let pooled = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stream = match pooled {
            Some(stream) => stream,
            None => match within(CONNECT_WITHIN, TcpStream::connect((DATABASE, PORT))).await {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => return Err(unavailable(&error)),
                None => return Err(StorageError::Unavailable("nobody answers".into())),
            },
        };
        Ok(Line { actor: self.actor, stream: Some(stream), pool: Arc::clone(&self.pool) })
    }
}

impl Line {
    /// Sends the frame of a request and waits for its answer; without one the connection is given
    /// up.
    async fn ask<T: 'static>(&mut self, number: u64) -> Result<T> {
        unless_dead(self.actor).await;
        let Some(mut stream) = self.stream.take() else {
            return Err(StorageError::Unavailable("the connection has failed".into()));
        };
        let answered = within(ANSWER_WITHIN, async {
            wire::send(&mut stream, number).await?;
            wire::receive(&mut stream).await
        });
        let answered = answered.await;
        unless_dead(self.actor).await;
        match answered {
            Some(Ok(number)) => {
                let answer = wire::take(number);
                self.stream = Some(stream);
                Ok(answer.expect("an answer is of the kind that was asked for"))
            }
            Some(Err(error)) => Err(unavailable(&error)),
            None => Err(StorageError::Unavailable("no answer in time".into())),
        }
    }

    /// Nothing is open on it any more: others may use it.
    fn give_back(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        }
    }
}

/// Nothing that a killed process still does reaches anyone.
async fn unless_dead(actor: ActorId) {
    if world(|world| world.slots[usize::from(actor)].dead) {
        pending::<()>().await;
    }
}

fn unavailable(error: &io::Error) -> StorageError {
    StorageError::Unavailable(error.to_string().into())
}

impl Storage for RemoteStorage {
    type Transaction = RemoteTransaction;
    type Snapshot = RemoteSnapshot;

    async fn begin(&self) -> Result<RemoteTransaction> {
        Ok(RemoteTransaction { line: self.line().await?, begins: true })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<RemoteSnapshot> {
        Ok(RemoteSnapshot { line: self.line().await?, opens: Some(consistency) })
    }
}

impl Drop for RemoteSnapshot {
    /// A reader has nothing to lose: whoever uses its connection next ends it.
    fn drop(&mut self) {
        self.line.give_back();
    }
}

macro_rules! remote {
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
        impl Transaction for RemoteTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let number = {
                    $(let $ta = $ta.to_owned();)?
                    let call: Call = Box::new(move |transaction| Box::pin(async move {
                        let reply = match transaction {
                            Ok(transaction) => transaction.$tm($(&$ta)?).await,
                            Err(error) => Err(error),
                        };
                        Box::new(reply) as wire::Answer
                    }));
                    let begins = std::mem::take(&mut self.begins).then_some(self.line.actor);
                    wire::post(Request::Call { begins, call })
                };
                self.line.ask::<Result<$tr>>(number).await?
            })*

            async fn commit(mut self) -> Result<(), CommitError> {
                if self.begins {
                    self.line.give_back();
                    return Ok(());
                }
                let number = wire::post(Request::Commit);
                match self.line.ask::<Result<(), CommitError>>(number).await {
                    Ok(Ok(())) => {
                        self.line.give_back();
                        Ok(())
                    }
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(CommitError::Unknown),
                }
            }

            async fn rollback(mut self) {
                // Nobody knows of one that was never begun.
                if self.begins || self.line.ask::<()>(wire::post(Request::Rollback)).await.is_ok() {
                    self.line.give_back();
                }
            }
        }

        impl Snapshot for RemoteSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let number = {
                    $(let $sa = $sa.to_owned();)?
                    let read: Read = Box::new(move |snapshot| Box::pin(async move {
                        let reply = match snapshot {
                            Ok(snapshot) => snapshot.$sm($(&$sa)?).await,
                            Err(error) => Err(error),
                        };
                        Box::new(reply) as wire::Answer
                    }));
                    let opens = self.opens.take().map(|consistency| (self.line.actor, consistency));
                    wire::post(Request::Read { opens, read })
                };
                self.line.ask::<Result<$sr>>(number).await?
            })*
        }
    };
}
with_verbs!(remote);
