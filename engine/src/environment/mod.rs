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
    /// Waits on the monotonic clock. Cancellation: dropping the future ends the wait.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// Wakes dispatchers. Losing it costs latency, never progress.
    fn notify(&self, notice: Notice);
}
