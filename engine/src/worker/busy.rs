//! For how long a handler has held its thread, so that one that blocks can be told by its kind.
//! Never stops it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::environment::Environment;

/// Whether a handler holds its thread, and since when. Clones are of the same handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy {
    /// Microseconds of the monotonic clock and one more; zero while it holds none.
    since: Arc<AtomicU64>,
}

/// Lets go of the thread, also when the handler panics.
struct Polling<'a>(&'a Busy);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.since.store(0, Ordering::Relaxed);
    }
}

impl Busy {
    /// Runs the work of a handler, noting whenever it has the thread.
    pub(super) async fn note<E: Environment, W: Future>(
        self,
        environment: E,
        work: W,
    ) -> W::Output {
        let mut work = pin!(work);
        let poll = poll_fn(|context| {
            let since = u64::try_from(environment.monotonic().as_micros()).unwrap_or(u64::MAX - 1);
            self.since.store(since.saturating_add(1), Ordering::Relaxed);
            let _polling = Polling(&self);
            work.as_mut().poll(context)
        });
        poll.await
    }

    /// How long the handler has held its thread at a moment of the monotonic clock; `None` while it
    /// holds none.
    pub(super) fn holds(&self, now: Duration) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(now.saturating_sub(Duration::from_micros(since)))
    }
}
