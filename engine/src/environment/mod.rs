//! Time, randomness and wake-ups, injected. The engine asks nobody else for them.

#[cfg(feature = "system")]
mod system;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use crate::identity::Partition;
use crate::time::Timestamp;

#[cfg(feature = "system")]
pub use system::SystemEnvironment;

/// A hint, sent after a commit, that executions of a partition ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Notice {
    /// Where to look.
    pub partition: Partition,
}

/// A process whose notices are carried to others, and theirs to it.
pub trait Relay: Send + Sync {
    /// Waits until the process has something to tell, and takes it; many notices of one partition
    /// are one. Cancellation: dropping the future takes nothing.
    fn outgoing(&self) -> impl Future<Output = BTreeSet<Notice>> + Send;
    /// Another process has told something, or may have while nobody listened.
    fn incoming(&self);
}

/// What an engine needs of the process that it lives in.
pub trait Environment: Clone + Send + Sync + 'static {
    /// The wall clock; goes into flow ids and nowhere else.
    fn wall_clock(&self) -> Timestamp;
    /// Sixty-four random bits.
    fn random(&self) -> u64;
    /// Time on the monotonic clock since a moment that the process chose once; never goes back.
    fn monotonic(&self) -> Duration;
    /// Waits on the monotonic clock. Cancellation: dropping the future ends the wait.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// Wakes dispatchers. Losing it costs latency, never progress.
    fn notify(&self, notice: Notice);
    /// Wakes workers: something of that partition may have become claimable. Losing it costs
    /// latency, never progress; a process without workers need not listen.
    fn released(&self, notice: Notice) {
        let _ = notice;
    }
    /// Wakes whoever waits for the feed. Losing it costs latency; an environment may ignore it.
    fn notify_feed(&self) {}
    /// Waits until the feed may have more, or `poll` has passed. Cancellation: dropping the future
    /// ends the wait.
    fn feed_noticed(&self, poll: Duration) -> impl Future<Output = ()> + Send {
        self.sleep(poll)
    }
}

/// What a process offers besides when workers and supervisors run in it.
#[cfg(feature = "system")]
pub trait Host: Environment {
    /// Waits until some execution has ended since the last call, or so much time has passed.
    ///
    /// Notices that arrive while nobody waits are kept as one. Cancellation: a dropped wait loses
    /// nothing but latency.
    fn noticed(&self, poll: Duration) -> impl Future<Output = ()> + Send;
    /// Waits until something may have become claimable after the moment `seen`, which begins at
    /// zero, or so much time has passed; moves `seen` on. Every waiter is woken.
    ///
    /// Cancellation: a dropped wait leaves `seen` as it was, and the next one is woken at once.
    fn workable(&self, seen: &mut u64, poll: Duration) -> impl Future<Output = ()> + Send;
    /// Runs what keeps a lease, to its own end: where no handler that blocks a thread holds it up,
    /// if the process has such a place; as a task beside the handlers otherwise.
    fn keep(&self, keeper: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(keeper);
    }
}
