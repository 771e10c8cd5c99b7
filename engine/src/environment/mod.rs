//! Time, randomness and wake-ups, injected. The engine asks nobody else for them.

#[cfg(feature = "system")]
mod system;

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
