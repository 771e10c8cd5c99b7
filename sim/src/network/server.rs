//! The storage server: the database behind a TCP port. A connection holds one transaction or reader
//! at a time; it goes when the connection ends, or when nothing has come for as long as the storage
//! lets a session stand idle. Never decides what strikes.

use std::time::Duration;

use sluicegate::storage::boxed::{BoxSnapshot, BoxStorage, BoxTransaction};
use sluicegate::storage::{CommitError, Storage, Transaction};
use turmoil::net::{TcpListener, TcpStream};

use super::hosts::contained;
use super::time::within;
use super::wire::{self, Request};
use super::{ANYWHERE, PORT};
use crate::driver::universe::Stores;
use crate::driver::world::{SESSION_LIMIT_US, World, world};
use crate::history::ActorId;

/// Serves what is stored there until its host goes down.
pub(super) async fn listen(stores: Stores) -> turmoil::Result {
    let listener = TcpListener::bind((ANYWHERE, PORT)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::task::spawn_local(contained(serve(stores.clone(), stream)));
    }
}

/// A place at which statements of one connection are executed.
struct Desk(ActorId);

impl Desk {
    /// A free one; none if as many clients are connected as the server takes.
    fn open() -> Option<Self> {
        world(World::open_desk).map(Self)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        world(|world| world.close_desk(self.0));
    }
}

/// What is open on a connection.
enum Open {
    Nothing,
    Transaction(BoxTransaction),
    Reader(BoxSnapshot),
}

async fn serve(stores: Stores, mut stream: TcpStream) {
    let Some(desk) = Desk::open() else { return };
    let storage = stores.boxed(desk.0);
    let mut open = Open::Nothing;
    let idle_max = Duration::from_micros(SESSION_LIMIT_US.unsigned_abs());
    loop {
        // A connection on which nothing is open may stand idle for as long as it likes.
        let received = match open {
            Open::Transaction(_) => within(idle_max, wire::receive(&mut stream)).await,
            _ => Some(wire::receive(&mut stream).await),
        };
        let Some(Ok(number)) = received else { break };
        let Some(request) = wire::take::<Request>(number) else { break };
        let answer = answer(&storage, &desk, &mut open, request).await;
        let cut = world(|world| world.take_cut(desk.0));
        let Some(answer) = answer.filter(|_| !cut) else { break };
        if wire::send(&mut stream, answer).await.is_err() {
            break;
        }
    }
    // The transaction goes before its desk does.
    drop(open);
    drop(desk);
}

/// Carries a request out; returns the number of the answer, or nothing if the connection ends.
async fn answer(
    storage: &BoxStorage,
    desk: &Desk,
    open: &mut Open,
    request: Request,
) -> Option<u64> {
    match request {
        Request::Call { begins, call } => {
            if let Some(actor) = begins {
                *open = Open::Nothing;
                world(|world| world.serve(desk.0, actor));
                match storage.begin().await {
                    Ok(transaction) => *open = Open::Transaction(transaction),
                    Err(error) => return Some(wire::post_any(call(Err(error)).await)),
                }
            }
            match open {
                Open::Transaction(transaction) => Some(wire::post_any(call(Ok(transaction)).await)),
                _ => None,
            }
        }
        Request::Read { opens, read } => {
            if let Some((actor, consistency)) = opens {
                *open = Open::Nothing;
                world(|world| world.serve(desk.0, actor));
                match storage.snapshot(consistency).await {
                    Ok(reader) => *open = Open::Reader(reader),
                    Err(error) => return Some(wire::post_any(read(Err(error)).await)),
                }
            }
            match open {
                Open::Reader(reader) => Some(wire::post_any(read(Ok(reader)).await)),
                _ => None,
            }
        }
        Request::Commit => match std::mem::replace(open, Open::Nothing) {
            Open::Transaction(transaction) => match transaction.commit().await {
                // Nobody is told what became of it.
                Err(CommitError::Unknown) => None,
                committed => Some(wire::post(committed)),
            },
            _ => None,
        },
        Request::Rollback => {
            if let Open::Transaction(transaction) = std::mem::replace(open, Open::Nothing) {
                transaction.rollback().await;
            }
            Some(wire::post(()))
        }
    }
}
