//! The supervisor of a process: dispatch passes as work ends, and every reconciler in its turn.
//! Adds no decision to the engine's; a pass that fails is made again later.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::environment::Host;
use crate::measure;
use crate::pace::{Pace, spread};
use crate::reconcile::{FAILING_MAX, Reconciler, Report};
use crate::signal::Signal;
use crate::storage::{Scope, Storage};
use crate::{Engine, EngineError};

/// The first pause of a dispatcher that fails.
const FAILING_LEAST: Duration = Duration::from_millis(100);
/// How often a dispatcher looks without being woken, unless told otherwise.
pub const POLL: Duration = Duration::from_millis(500);
/// How long passes may go on after a shutdown, unless told otherwise.
pub const GRACE: Duration = Duration::from_secs(20);
/// The name of dispatchers in reports, traces and metrics.
pub const DISPATCHER: &str = "dispatcher";

/// What a sweep has done so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Passes that ended, failed ones among them.
    pub passes: u64,
    /// What the last pass that succeeded did.
    pub last: Report,
    /// What all passes did.
    pub total: Report,
    /// Passes that failed, up to the last one, without one that succeeded between them.
    pub failing: u32,
    /// Why the last pass failed; `None` if it succeeded.
    pub error: Option<String>,
}

/// What each sweep has done so far, by its name; a sweep is there from its first pass on.
pub type Statuses = BTreeMap<&'static str, Status>;

/// Runs dispatchers and reconcilers for an engine, on tokio, until it is told to stop.
///
/// Dispatchers make a pass whenever work has ended, as the notices of the environment tell, and now
/// and then without; partitions are routed to them. Each reconciler ticks at its period, spread by
/// a quarter. A pass that fails, or panics, is made again after a pause that doubles up to
/// [`FAILING_MAX`], and holds up no other sweep; nothing of that ends the supervisor.
///
/// Any number of processes may run one, and a process may run several with different scopes; of
/// those, a notice wakes one, and the others find the work when they poll.
pub struct Supervisor<S, H> {
    engine: Engine<S, H>,
    scope: Scope,
    dispatchers: u16,
    poll: Duration,
    grace: Duration,
    periods: BTreeMap<Reconciler, Duration>,
    statuses: watch::Sender<Statuses>,
}

impl<S: Storage, H: Host> Supervisor<S, H> {
    /// A supervisor with one dispatcher and every reconciler, over everything in the database.
    pub fn new(engine: Engine<S, H>) -> Self {
        Self {
            engine,
            scope: Scope::default(),
            dispatchers: 1,
            poll: POLL,
            grace: GRACE,
            periods: Reconciler::ALL.iter().map(|one| (*one, one.every())).collect(),
            statuses: watch::Sender::new(Statuses::new()),
        }
    }

    /// Looks only at these partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: Range<u16>) -> Self {
        self.scope.partitions = partitions;
        self
    }

    /// Looks only at this tenant's flows.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Arc<str>>) -> Self {
        self.scope.namespace = Some(namespace.into());
        self
    }

    /// Looks only at the flows of this deployment, `key=value`.
    #[must_use]
    pub fn instance_tag(mut self, tag: impl Into<Arc<str>>) -> Self {
        self.scope.instance_tag = Some(tag.into());
        self
    }

    /// Sets how many dispatchers run; zero leaves cascades to the reconcilers and other processes.
    #[must_use]
    pub fn dispatchers(mut self, count: u16) -> Self {
        self.dispatchers = count;
        self
    }

    /// Sets how often dispatchers look without being woken; longer than zero.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        assert!(!poll.is_zero(), "a dispatcher pauses between two polls");
        self.poll = poll;
        self
    }

    /// Sets how often a reconciler ticks, instead of [`Reconciler::every`]; longer than zero.
    #[must_use]
    pub fn every(mut self, reconciler: Reconciler, period: Duration) -> Self {
        assert!(!period.is_zero(), "a reconciler pauses between two ticks");
        self.periods.insert(reconciler, period);
        self
    }

    /// Leaves a reconciler to other processes.
    #[must_use]
    pub fn without(mut self, reconciler: Reconciler) -> Self {
        self.periods.remove(&reconciler);
        self
    }

    /// Sets how long passes may go on after a shutdown before they are dropped.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What each sweep has done so far; the receiver is told of every pass, and may miss some when
    /// it is slower than they are.
    pub fn statuses(&self) -> watch::Receiver<Statuses> {
        self.statuses.subscribe()
    }

    /// Runs until the shutdown is ready, and then until the passes on their way are over; returns
    /// what each sweep has done.
    ///
    /// Cancellation: dropping the future drops what is on its way, as a crash would; everything it
    /// left is found by the next pass, here or elsewhere. Calls on a tokio runtime only.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Statuses {
        let grace = self.grace;
        let supervised = Arc::new(Supervised { supervisor: self, closing: Signal::new() });
        let mut tasks = JoinSet::new();
        let wakers: Vec<Arc<Notify>> =
            (0..supervised.supervisor.dispatchers).map(|_| Arc::default()).collect();
        for (index, wake) in (0..).zip(&wakers) {
            let dispatcher = Arc::clone(&supervised).dispatch(index, Arc::clone(wake));
            tasks.spawn(dispatcher);
        }
        tasks.spawn(Arc::clone(&supervised).listen(wakers));
        for (reconciler, period) in &supervised.supervisor.periods {
            tasks.spawn(Arc::clone(&supervised).reconcile(*reconciler, *period));
        }
        shutdown.await;
        supervised.closing.give(());
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            () = all => {}
            () = supervised.host().sleep(grace) => {}
        }
        supervised.supervisor.statuses.borrow().clone()
    }
}

/// A supervisor at work.
struct Supervised<S, H> {
    supervisor: Supervisor<S, H>,
    closing: Signal<()>,
}

/// What one pass looks at.
#[derive(Clone)]
enum Sweep {
    Dispatcher(Scope),
    Reconciler(Reconciler, Scope),
}

impl Sweep {
    fn name(&self) -> &'static str {
        match self {
            Sweep::Dispatcher(_) => DISPATCHER,
            Sweep::Reconciler(reconciler, _) => reconciler.name(),
        }
    }

    async fn pass<S: Storage, H: Host>(self, engine: Engine<S, H>) -> Result<Report, EngineError> {
        match self {
            Sweep::Dispatcher(scope) => engine.dispatch_pass(&scope).await,
            Sweep::Reconciler(reconciler, scope) => reconciler.tick(&engine, &scope).await,
        }
    }
}

impl<S: Storage, H: Host> Supervised<S, H> {
    fn host(&self) -> &H {
        self.supervisor.engine.environment()
    }

    /// Wakes the dispatchers whenever work has ended, and to poll.
    async fn listen(self: Arc<Self>, wakers: Vec<Arc<Notify>>) {
        while self.closing.get().is_none() && !wakers.is_empty() {
            for wake in &wakers {
                wake.notify_one();
            }
            let poll = spread(self.supervisor.poll, self.host().random());
            tokio::select! {
                biased;
                () = self.closing.given() => {}
                () = self.host().noticed(poll) => {}
            }
        }
    }

    async fn dispatch(self: Arc<Self>, index: u16, wake: Arc<Notify>) {
        let Supervisor { engine, scope, dispatchers, .. } = &self.supervisor;
        let sweep = Sweep::Dispatcher(engine.routed(scope, index, *dispatchers));
        let mut failing = Pace::new(FAILING_LEAST, FAILING_MAX);
        loop {
            tokio::select! {
                biased;
                () = self.closing.given() => return,
                () = wake.notified() => {}
            }
            if self.pass(&sweep).await {
                failing.reset();
            } else {
                self.pause(failing.next(self.host().random())).await;
                // Whatever happened in between is still to be looked for.
                wake.notify_one();
            }
        }
    }

    async fn reconcile(self: Arc<Self>, reconciler: Reconciler, period: Duration) {
        let sweep = Sweep::Reconciler(reconciler, self.supervisor.scope.clone());
        let mut failing = Pace::new(period, FAILING_MAX);
        while self.closing.get().is_none() {
            let random = self.host().random();
            let pause = if self.pass(&sweep).await {
                failing.reset();
                spread(period, random)
            } else {
                failing.next(random)
            };
            self.pause(pause).await;
        }
    }

    /// Waits, but not beyond the shutdown.
    async fn pause(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.closing.given() => {}
            () = self.host().sleep(pause) => {}
        }
    }

    /// One pass, in a task of its own, so that a panic ends it alone; false if it failed.
    async fn pass(&self, sweep: &Sweep) -> bool {
        let name = sweep.name();
        let span = tracing::debug_span!("sweep", name);
        let started_at = self.host().monotonic();
        let mut task = JoinSet::new();
        let engine = self.supervisor.engine.clone();
        task.spawn(sweep.clone().pass(engine).instrument(span));
        let result = match task.join_next().await.expect("the set holds the task of the pass") {
            Ok(result) => {
                let took = self.host().monotonic().saturating_sub(started_at);
                measure::swept(name, took, &result);
                result.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match &result {
            Ok(report) if report.errors > 0 => tracing::warn!(sweep = name, ?report, "rows fail"),
            Ok(report) => tracing::trace!(sweep = name, ?report, "pass"),
            Err(error) => tracing::warn!(sweep = name, error, "pass failed"),
        }
        let succeeded = result.is_ok();
        self.supervisor.statuses.send_modify(|statuses| {
            statuses.entry(name).or_default().absorb(result);
        });
        succeeded
    }
}

impl Status {
    fn absorb(&mut self, result: Result<Report, String>) {
        self.passes += 1;
        match result {
            Ok(report) => {
                self.last = report;
                self.total += report;
                self.failing = 0;
                self.error = None;
            }
            Err(error) => {
                self.failing += 1;
                self.error = Some(error);
            }
        }
    }
}
