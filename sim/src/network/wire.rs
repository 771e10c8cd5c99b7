//! What goes over the simulated TCP: a frame is the number of a message that lies in this thread's
//! memory, so that no verb needs a format. Frames are lost, held and cut like any bytes; a message
//! whose frame never arrives is never taken. Never sends anything.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;

use sluicegate::storage::boxed::{BoxSnapshot, BoxTransaction};
use sluicegate::storage::{Consistency, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::TcpStream;

use crate::history::ActorId;

/// The answer of a verb, of the type that its caller knows.
pub(super) type Answer = Box<dyn Any>;
/// A verb with its arguments, to be run where the database is, on what was opened for it, if that
/// could be opened.
type Statement<S> =
    Box<dyn for<'t> FnOnce(Result<&'t mut S>) -> Pin<Box<dyn Future<Output = Answer> + 't>>>;
/// One of a transaction.
pub(super) type Call = Statement<BoxTransaction>;
/// One of a reader.
pub(super) type Read = Statement<BoxSnapshot>;

/// What a client asks of the storage server. The first statement of a transaction, or of a reader,
/// says whose that is and opens it: no round trip is spent on that alone.
pub(super) enum Request {
    Call { begins: Option<ActorId>, call: Call },
    Read { opens: Option<(ActorId, Consistency)>, read: Read },
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
