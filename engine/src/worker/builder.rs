//! How a worker is put together: its handlers, what it claims and for how long. Refuses what could
//! never work; starts nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Engine;
use crate::environment::Host;
use crate::said::Quoting;
use crate::signal::Signal;
use crate::storage::Storage;
use crate::worker::Worker;
use crate::worker::context::Context;
use crate::worker::handler::{self, Handler, HandlerError};
use crate::worker::station::{Settings, Station, Totals};

/// Attempts at once, unless told otherwise.
pub const CONCURRENCY: u32 = 8;
/// How long a lease lasts, unless told otherwise.
pub const LEASE: Duration = Duration::from_secs(30);
/// How long handlers may go on after a shutdown, unless told otherwise.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long reports are repeated after the grace period.
pub const FAREWELL: Duration = Duration::from_secs(10);
/// The shortest and the longest pause of an idle worker, unless told otherwise.
pub const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A worker that could never work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Register one handler for each kind.
    #[error("kind `{0}` has two handlers")]
    DuplicateKind(String),
    /// Register a handler.
    #[error("a worker has at least one handler")]
    NoHandler,
    /// Name a lane.
    #[error("a worker claims from at least one lane")]
    NoLane,
    /// Let it work on something.
    #[error("the concurrency of a worker is at least 1")]
    ZeroConcurrency,
    /// Let a lease last.
    #[error("the lease of a worker is longer than zero")]
    ZeroLease,
    /// Let it pause between two polls.
    #[error("the pause between two polls is longer than zero")]
    ZeroPoll,
    /// Give it some partitions.
    #[error("the range of partitions {}..{} is empty", .0.start, .0.end)]
    NoPartition(Range<u16>),
}

/// Puts a [`Worker`] together. Every method but [`WorkerBuilder::handler`] and
/// [`WorkerBuilder::build`] replaces a default.
pub struct WorkerBuilder<S, H> {
    engine: Engine<S, H>,
    renewals: Option<Engine<S, H>>,
    handlers: BTreeMap<Arc<str>, Handler>,
    duplicate: Option<String>,
    settings: Settings,
}

impl<S: Storage, H: Host> WorkerBuilder<S, H> {
    pub(super) fn new(engine: Engine<S, H>) -> Self {
        let instance = format!("{:016x}", engine.environment().random());
        let settings = Settings {
            name: "worker".into(),
            instance: instance.into(),
            namespace: None,
            partitions: 0..u16::MAX,
            lanes: vec!["default".into()],
            concurrency: CONCURRENCY,
            lease: LEASE,
            grace: GRACE,
            farewell: FAREWELL,
            poll_least: POLL.0,
            poll_most: POLL.1,
            quoting: Quoting::default(),
        };
        Self { engine, renewals: None, handlers: BTreeMap::new(), duplicate: None, settings }
    }

    /// Registers the handler of a kind; the worker claims the kinds that have one.
    ///
    /// The payload is read from JSON and the result is written as JSON. A payload that cannot be
    /// read, or a result that cannot be written, is a fatal failure that names the kind and the
    /// reason; a panic is a retryable one with its message. The handler runs on the tokio runtime:
    /// what blocks a thread belongs into `tokio::task::spawn_blocking`. Where one blocks all the
    /// same, leases are still renewed ([`Host::keep`]), a warning names its kind after
    /// [`BLOCKED_AFTER`](crate::worker::BLOCKED_AFTER), and only
    /// [`RetryPolicy::attempt_timeout_ms`](crate::retry::RetryPolicy) ends what never returns.
    #[must_use]
    pub fn handler<F, P, W, R>(mut self, kind: impl Into<Arc<str>>, function: F) -> Self
    where
        F: Fn(Context, P) -> W + Send + Sync + 'static,
        P: DeserializeOwned + Send + 'static,
        W: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Serialize + Send + 'static,
    {
        let kind = kind.into();
        if self.handlers.insert(Arc::clone(&kind), handler::handler(function)).is_some() {
            self.duplicate.get_or_insert(kind.to_string());
        }
        self
    }

    /// Sets the name under which leases are shown and metrics are counted; `worker` by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Sets which process of that name it is; random by default.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<Arc<str>>) -> Self {
        self.settings.instance = instance.into();
        self
    }

    /// Claims only this tenant's work; everybody's by default.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Arc<str>>) -> Self {
        self.settings.namespace = Some(namespace.into());
        self
    }

    /// Claims only from these partitions; from all by default.
    #[must_use]
    pub fn partitions(mut self, partitions: Range<u16>) -> Self {
        self.settings.partitions = partitions;
        self
    }

    /// Claims only from these lanes; from `default` by default.
    #[must_use]
    pub fn lanes<L: Into<Arc<str>>>(mut self, lanes: impl IntoIterator<Item = L>) -> Self {
        self.settings.lanes = lanes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how many attempts run at once, at most; [`CONCURRENCY`] by default.
    #[must_use]
    pub fn concurrency(mut self, attempts: u32) -> Self {
        self.settings.concurrency = attempts;
        self
    }

    /// Sets how long a lease lasts: so long after this process has died its work is claimed by
    /// another. It is renewed at a third of it. [`LEASE`] by default.
    ///
    /// [`Settings::lease_grace`](crate::Settings::lease_grace) of the engine that reaps is as long:
    /// a step of the storage's clock then costs no work that is under way.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets how long handlers may go on after a shutdown or after their lease is lost, before they
    /// are stopped at their next await; [`GRACE`] by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets the shortest and the longest pause of a worker that finds nothing; the pauses double
    /// from the one to the other, and notices of the process cut them short. [`POLL`] by default.
    #[must_use]
    pub fn poll(mut self, least: Duration, most: Duration) -> Self {
        (self.settings.poll_least, self.settings.poll_most) = (least, most);
        self
    }

    /// Sets whether messages about payloads, inputs, progress and panics quote values; they are
    /// logged and stored as results. By default none is quoted.
    #[must_use]
    pub fn quoting(mut self, quoting: Quoting) -> Self {
        self.settings.quoting = quoting;
        self
    }

    /// Renews leases through another engine of the same database: with connections of its own, a
    /// renewal never queues behind claims and reports. The same engine by default.
    #[must_use]
    pub fn renewals(mut self, engine: Engine<S, H>) -> Self {
        self.renewals = Some(engine);
        self
    }

    /// The worker, which does nothing until it is run.
    pub fn build(self) -> Result<Worker<S, H>, BuildError> {
        let Self { engine, renewals, handlers, duplicate, settings } = self;
        if let Some(kind) = duplicate {
            return Err(BuildError::DuplicateKind(kind));
        }
        if handlers.is_empty() {
            return Err(BuildError::NoHandler);
        }
        if settings.lanes.is_empty() {
            return Err(BuildError::NoLane);
        }
        if settings.concurrency == 0 {
            return Err(BuildError::ZeroConcurrency);
        }
        if settings.lease.is_zero() {
            return Err(BuildError::ZeroLease);
        }
        if settings.poll_least.is_zero() {
            return Err(BuildError::ZeroPoll);
        }
        if settings.partitions.is_empty() {
            return Err(BuildError::NoPartition(settings.partitions));
        }
        let renewals = renewals.unwrap_or_else(|| engine.clone());
        let station = Station {
            engine,
            renewals,
            handlers,
            settings,
            closing: Signal::new(),
            overtime: Signal::new(),
            end: Signal::new(),
            totals: Mutex::new(Totals::default()),
        };
        Ok(Worker { station: Arc::new(station) })
    }
}
