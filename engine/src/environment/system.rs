//! The environment of an ordinary process: the system's clock and randomness, tokio's timer, and
//! wake-ups inside the process. The only place of the engine that touches any of them.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::environment::{Environment, Host, Notice, Relay};
use crate::time::{Timestamp, micros};

/// Time, randomness and wake-ups of this process. Clones share their wake-ups.
#[derive(Clone, Debug)]
pub struct SystemEnvironment {
    wake: Arc<Notify>,
    /// How often something may have become claimable.
    released: watch::Sender<u64>,
    feed: Arc<Notify>,
    outbound: Arc<Outbound>,
    apart: Arc<Apart>,
    started: Instant,
}

impl Default for SystemEnvironment {
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is injected from")]
    fn default() -> Self {
        Self {
            wake: Arc::default(),
            released: watch::Sender::new(0),
            feed: Arc::default(),
            outbound: Arc::default(),
            apart: Arc::default(),
            started: Instant::now(),
        }
    }
}

/// What a relay has yet to carry to other processes; at most one notice a partition.
#[derive(Debug, Default)]
struct Outbound {
    notices: Mutex<BTreeSet<Notice>>,
    filled: Notify,
}

/// A thread with a second runtime, on which no handler runs. The first task starts it; it ends with
/// the last clone of its environment.
#[derive(Debug, Default)]
struct Apart(OnceLock<Option<Thread>>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

impl Apart {
    /// Runs a task there; beside the caller where the system gives no further thread.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.0.get_or_init(Thread::start) {
            Some(thread) => thread.runtime.spawn(task),
            None => tokio::spawn(task),
        };
    }
}

impl Thread {
    fn start() -> Option<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let started = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let handle = runtime.handle().clone();
            let work = move || {
                // It ends with its sender, which sends nothing.
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            };
            std::thread::Builder::new().name("sluicegate-leases".into()).spawn(work)?;
            Ok(handle)
        });
        match started {
            Ok(runtime) => Some(Self { runtime, _stop: stop }),
            Err(error) => {
                tracing::warn!(%error, "no thread for leases: a handler that blocks loses its own");
                None
            }
        }
    }
}

/// How long the system's clock must have gone on to show that tokio's stands.
const STANDS_AFTER: Duration = Duration::from_micros(1);

/// True under tokio's paused clock, which another thread would not share.
#[expect(clippy::disallowed_methods, reason = "this is where the clock is injected from")]
fn time_stands() -> bool {
    let shown = Instant::now();
    let begun = std::time::Instant::now();
    while begun.elapsed() < STANDS_AFTER {
        std::hint::spin_loop();
    }
    Instant::now() == shown
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

    fn wake_workers(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// Leaves a notice for the relay, if there is one.
    fn tell(&self, notice: Notice) {
        let mut notices = self.outbound.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.insert(notice);
        self.outbound.filled.notify_one();
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

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn notify(&self, notice: Notice) {
        self.wake.notify_one();
        // A storage with one writer has the event in its feed already.
        self.notify_feed();
        self.tell(notice);
    }

    fn released(&self, notice: Notice) {
        self.wake_workers();
        self.tell(notice);
    }

    fn notify_feed(&self) {
        self.feed.notify_waiters();
    }

    async fn feed_noticed(&self, poll: Duration) {
        // A wait that times out is a poll.
        let _ = tokio::time::timeout(poll, self.feed.notified()).await;
    }
}

impl Host for SystemEnvironment {
    async fn noticed(&self, poll: Duration) {
        SystemEnvironment::noticed(self, poll).await;
    }

    async fn workable(&self, seen: &mut u64, poll: Duration) {
        let (mut released, before) = (self.released.subscribe(), *seen);
        let waiting = tokio::time::timeout(poll, released.wait_for(|times| *times != before));
        // A wait that times out is a poll.
        let moved = waiting.await.ok().and_then(Result::ok).map(|times| *times);
        *seen = moved.unwrap_or(before);
    }

    /// On a separate thread, unless tokio's clock is paused: such a clock goes on when every task
    /// of one runtime waits.
    fn keep(&self, keeper: impl Future<Output = ()> + Send + 'static) {
        match time_stands() {
            true => drop(tokio::spawn(keeper)),
            false => self.apart.spawn(keeper),
        }
    }
}

impl Relay for SystemEnvironment {
    async fn outgoing(&self) -> BTreeSet<Notice> {
        loop {
            let notices = {
                let waiting = self.outbound.notices.lock();
                std::mem::take(&mut *waiting.unwrap_or_else(PoisonError::into_inner))
            };
            if !notices.is_empty() {
                return notices;
            }
            self.outbound.filled.notified().await;
        }
    }

    fn incoming(&self) {
        self.wake.notify_one();
        self.wake_workers();
        self.notify_feed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Partition;

    #[tokio::test]
    async fn notices_of_one_partition_are_told_once_and_wake_the_process_itself() {
        let environment = SystemEnvironment::new();
        let other = environment.clone();
        for partition in [7, 3, 7, 7] {
            other.notify(Notice { partition: Partition(partition) });
        }
        let told: Vec<u16> =
            environment.outgoing().await.iter().map(|notice| notice.partition.0).collect();
        assert_eq!(told, [3, 7]);
        environment.noticed(Duration::MAX).await;
        other.incoming();
        environment.noticed(Duration::MAX).await;
    }

    #[tokio::test]
    async fn a_lease_is_kept_on_a_thread_that_ends_with_its_environment() {
        let environment = SystemEnvironment::new();
        let (tell, told) = oneshot::channel();
        let (held, dropped) = oneshot::channel::<()>();
        environment.keep(async move {
            let thread = std::thread::current();
            tell.send(thread.name().map(str::to_owned)).expect("the test listens");
            std::future::pending::<()>().await;
            drop(held);
        });
        assert_eq!(told.await, Ok(Some("sluicegate-leases".to_owned())));
        drop(environment);
        assert!(dropped.await.is_err(), "what it kept ends with it");
    }

    #[tokio::test]
    async fn what_is_released_wakes_every_worker_once_and_is_told_to_others() {
        let environment = SystemEnvironment::new();
        environment.released(Notice { partition: Partition(5) });
        let mut seen = [0, 0];
        for seen in &mut seen {
            environment.workable(seen, Duration::MAX).await;
        }
        assert_eq!(seen, [1, 1]);
        environment.workable(&mut seen[0], Duration::ZERO).await;
        assert_eq!(seen, [1, 1], "nothing was released meanwhile");
        environment.incoming();
        environment.workable(&mut seen[1], Duration::MAX).await;
        assert_eq!(seen, [1, 2]);
        assert_eq!(environment.outgoing().await, [Notice { partition: Partition(5) }].into());
    }
}
