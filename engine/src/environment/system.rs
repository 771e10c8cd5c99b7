//! The environment of an ordinary process: the system's clock and randomness, tokio's timer, and
//! wake-ups inside the process. The only place of the engine that touches any of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use crate::environment::{Environment, Notice};
use crate::time::{Timestamp, micros};

/// Time, randomness and wake-ups of this process. Clones share their wake-ups.
#[derive(Clone, Debug, Default)]
pub struct SystemEnvironment {
    wake: Arc<Notify>,
}

impl SystemEnvironment {
    /// An environment whose clones wake each other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until some execution has ended since the last call, or the poll interval has passed.
    ///
    /// Notifications that arrive while nobody waits are kept as one. Cancellation: a dropped wait
    /// loses nothing but latency, since a dispatcher trusts no notification.
    pub async fn noticed(&self, poll: Duration) {
        // A wait that times out is a poll.
        let _ = tokio::time::timeout(poll, self.wake.notified()).await;
    }
}

impl Environment for SystemEnvironment {
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is injected from")]
    fn wall_clock(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(micros(since))
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        u64::from_ne_bytes(bytes)
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn notify(&self, _notice: Notice) {
        self.wake.notify_one();
    }
}
