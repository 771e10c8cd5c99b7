//! What goes over the simulated TCP: a frame is the number of a message that lies in this thread's
//! memory, so that no verb needs a format. Frames are lost, held and cut like any bytes; a message
//! whose frame never arrives is never taken. Never sends anything.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;

use sluicegate::storage::Consistency;
use sluicegate::storage::boxed::{BoxSnapshot, BoxTransaction};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::TcpStream;

use crate::history::ActorId;

/// The answer of a verb, of the type that its caller knows.
pub(super) type Answer = Box<dyn Any>;
/// A verb with its arguments, to be run where the database is.
pub(super) type Call =
    Box<dyn for<'t> FnOnce(&'t mut BoxTransaction) -> Pin<Box<dyn Future<Output = Answer> + 't>>>;
/// The same for a reader.
pub(super) type Read =
    Box<dyn for<'t> FnOnce(&'t mut BoxSnapshot) -> Pin<Box<dyn Future<Output = Answer> + 't>>>;

/// What a client asks of the storage server.
pub(super) enum Request {
    /// A transaction of that actor.
    Begin(ActorId),
    /// A reader of that actor.
    Snapshot(ActorId, Consistency),
    Call(Call),
    Read(Read),
    Commit,
    Rollback,
}

thread_local! {
    static MESSAGES: RefCell<Vec<Option<Box<dyn Any>>>> = const { RefCell::new(Vec::new()) };
}

/// Forgets the messages of the last universe.
pub(super) fn clear() {
    // What a message holds may reach the world as it is dropped, but never another message.
    drop(MESSAGES.take());
}

/// Lays a message down; returns its number.
pub(super) fn post<T: 'static>(message: T) -> u64 {
    post_any(Box::new(message))
}

/// The same for one whose kind only its receiver knows.
pub(super) fn post_any(message: Box<dyn Any>) -> u64 {
    MESSAGES.with_borrow_mut(|messages| {
        messages.push(Some(message));
        messages.len() as u64 - 1
    })
}

/// Takes the message of that number; nothing if it is of another kind, or was taken.
pub(super) fn take<T: 'static>(number: u64) -> Option<T> {
    let at = usize::try_from(number).ok()?;
    let message = MESSAGES.with_borrow_mut(|messages| messages.get_mut(at)?.take())?;
    message.downcast().ok().map(|message| *message)
}

/// Sends the frame of a message.
pub(super) async fn send(stream: &mut TcpStream, number: u64) -> io::Result<()> {
    stream.write_u64(number).await
}

/// Waits for a frame; returns the number of its message.
pub(super) async fn receive(stream: &mut TcpStream) -> io::Result<u64> {
    stream.read_u64().await
}
