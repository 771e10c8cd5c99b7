//! Bodies whose statements somebody else carries out, who holds the caller's connection: the body
//! lays each on the desk and waits, and is polled again once its answer lies there. So a body needs
//! neither own the connection nor be on its thread. Never carries a statement out.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What lies on the desk.
enum Slot<Q, A> {
    Empty,
    Asked(Q),
    Answered(A),
}

/// The place where one body and whoever serves it meet.
pub(super) struct Desk<Q, A>(Arc<Mutex<Slot<Q, A>>>);

impl<Q, A> Clone for Desk<Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// How far a body has come.
pub(super) enum Step<Q, T> {
    /// It waits for the answer to this.
    Asks(Q),
    /// It has ended.
    Done(T),
}

impl<Q, A> Desk<Q, A> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Slot::Empty)))
    }

    fn slot(&self) -> MutexGuard<'_, Slot<Q, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, question: Q) -> A {
        *self.slot() = Slot::Asked(question);
        let answered = |_: &mut Context<'_>| {
            let mut slot = self.slot();
            match std::mem::replace(&mut *slot, Slot::Empty) {
                Slot::Answered(answer) => Poll::Ready(answer),
                other => {
                    *slot = other;
                    Poll::Pending
                }
            }
        };
        poll_fn(answered).await
    }

    /// Answers what was asked last.
    pub(super) fn answer(&self, answer: A) {
        *self.slot() = Slot::Answered(answer);
    }

    /// Runs a body until it asks something or ends. A body waits for its storage and nothing else,
    /// so that nobody has to be woken.
    pub(super) fn step<F: Future>(&self, body: Pin<&mut F>) -> Step<Q, F::Output> {
        match body.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(out) => Step::Done(out),
            Poll::Pending => match std::mem::replace(&mut *self.slot(), Slot::Empty) {
                Slot::Asked(question) => Step::Asks(question),
                Slot::Empty | Slot::Answered(_) => unreachable!("a body waits for its storage"),
            },
        }
    }
}
