//! Signals that are given once and kept: to a process that is to stop, and to a handler whose work
//! is no longer wanted. Never undone and never timed.

use std::future::Future;

use tokio::sync::watch;

/// A value that is set at most once and may be waited for. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Signal<T>(watch::Sender<Option<T>>);

impl<T: Copy + Send + Sync + 'static> Signal<T> {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Sets the value unless it is set already: the first one counts.
    pub(crate) fn give(&self, value: T) {
        self.0.send_if_modified(|held| {
            let first = held.is_none();
            if first {
                *held = Some(value);
            }
            first
        });
    }

    pub(crate) fn get(&self) -> Option<T> {
        *self.0.borrow()
    }

    /// Waits for the value. Cancellation: dropping the future loses nothing.
    pub(crate) async fn given(&self) -> T {
        let mut receiver = self.0.subscribe();
        let held = receiver.wait_for(Option::is_some).await;
        held.ok().and_then(|held| *held).expect("the sender lives as long as this signal")
    }
}

/// Tells workers and supervisors of a process to stop. Clones share it.
///
/// ```
/// # use sluicegate::signal::Shutdown;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let shutdown = Shutdown::new();
/// let stopped = shutdown.requested(); // for `Worker::run` and `Supervisor::run`
/// shutdown.request();
/// stopped.await;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Shutdown(Signal<()>);

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A shutdown that nobody has requested.
    pub fn new() -> Self {
        Self(Signal::new())
    }

    /// Requests it, for good.
    pub fn request(&self) {
        self.0.give(());
    }

    /// True once it is requested.
    pub fn is_requested(&self) -> bool {
        self.0.get().is_some()
    }

    /// Waits until it is requested; ready at once if it was. Cancellation: dropping the future
    /// loses nothing.
    pub fn requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let signal = self.0.clone();
        async move { signal.given().await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_value_counts_and_late_waiters_see_it() {
        let signal = Signal::new();
        assert_eq!(signal.get(), None);
        let other = signal.clone();
        let waiting = tokio::spawn(async move { other.given().await });
        signal.give(1);
        signal.give(2);
        assert_eq!(waiting.await.unwrap(), 1);
        assert_eq!(signal.given().await, 1);
    }

    #[tokio::test]
    async fn a_shutdown_is_seen_by_whoever_waits_before_and_after() {
        let shutdown = Shutdown::new();
        let before = shutdown.requested();
        assert!(!shutdown.is_requested());
        shutdown.clone().request();
        before.await;
        shutdown.requested().await;
        assert!(shutdown.is_requested());
    }
}
