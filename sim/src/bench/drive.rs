//! What the measured works do with an engine: submit, end, drain, each by the engine's own calls.
//! Says how long a part took; never says what is fast.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::Limits;
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, Sent};
use sluicegate::operations::inputs::Claimed;
use sluicegate::operations::report::{REPORTS_MAX, Report};
use sluicegate::operations::submit::Submitted;
use sluicegate::storage::Scope;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::{Engine, Settings};
use tokio::task::JoinSet;

use super::shapes::Shape;
use crate::report::progress::Stopwatch;

/// How long a claim lasts: no run comes near it.
const LEASE: Duration = Duration::from_mins(10);
/// Executions that one claim of a preparation takes.
const CLAIM_MAX: u32 = 1_000;
/// The first and the longest pause of a dispatcher whose pass changed nothing.
const IDLE_PAUSE: (Duration, Duration) = (Duration::from_micros(250), Duration::from_millis(8));
/// Passes of a dispatcher before it is taken to be stuck.
const PASSES_MAX: u32 = 100_000;
/// Claims of a worker before it is taken to be stuck.
const CLAIMS_MAX: u32 = 10_000_000;

/// What the workers of a benchmark call: an engine over a storage chosen at run time.
pub(crate) type Handle = Engine<BoxStorage, SystemEnvironment>;

/// A new handle on that storage.
pub(crate) fn handle(storage: &BoxStorage) -> Handle {
    let limits = Limits { in_degree_max: 100_000, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    Engine::new(storage.clone(), SystemEnvironment::new(), settings)
}

/// Submits a flow of that shape.
pub(crate) async fn submit(engine: &Handle, shape: &Shape) -> Result<FlowKey, String> {
    engine.submit(shape.spec()).await.map(Submitted::flow).map_err(|error| error.to_string())
}

/// Claims up to so many executions of any flow.
pub(crate) async fn claim(
    engine: &Handle,
    worker: &Arc<str>,
    limit: u32,
) -> Result<Vec<Claimed>, String> {
    let request = claim_request(engine, worker, limit);
    engine.claim(request).await.map_err(|error| error.to_string())
}

fn claim_request(engine: &Handle, worker: &Arc<str>, limit: u32) -> ClaimRequest {
    ClaimRequest {
        request: engine.request_id(),
        sent: Sent::First,
        worker: Arc::clone(worker),
        instance: Arc::clone(worker),
        namespace: None,
        partitions: 0..u16::MAX,
        lanes: vec!["default".into()],
        kinds: Vec::new(),
        limit,
        lease: LEASE,
    }
}

/// Reports one granted execution.
pub(crate) async fn report(engine: &Handle, grant: &Claimed, report: Report) -> Result<(), String> {
    engine.report(grant.token(), report).await.map(drop).map_err(|error| error.to_string())
}

/// Completes all of these executions in one call.
async fn complete_all(engine: &Handle, grants: &[Claimed]) -> Result<(), String> {
    let reports = grants.iter().map(|grant| (grant.token(), done())).collect();
    let replies = engine.report_all(reports).await.map_err(|error| error.to_string())?;
    replies.into_iter().try_for_each(|reply| reply.map(drop).map_err(|error| error.to_string()))
}

/// The report of a task that does nothing.
pub(crate) fn done() -> Report {
    Report::Complete(Arc::from(*b"null"))
}

/// How a worker takes its work and gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// A claim of so many, and then a report of them all.
    Calls {
        /// How many.
        batch: u32,
    },
    /// One at a time, each report with the next claim in one call.
    Fused,
}

/// One worker, until nothing may be claimed. Returns how many executions it ended.
async fn work(engine: Handle, name: String, way: Way) -> Result<usize, String> {
    let worker: Arc<str> = name.into();
    let mut ended = 0;
    let limit = match way {
        Way::Calls { batch } => batch,
        Way::Fused => 1,
    };
    let mut grants = claim(&engine, &worker, limit).await?;
    for _ in 0..CLAIMS_MAX {
        if grants.is_empty() {
            return Ok(ended);
        }
        ended += grants.len();
        grants = match way {
            Way::Calls { .. } => {
                complete_all(&engine, &grants).await?;
                claim(&engine, &worker, limit).await?
            }
            Way::Fused => complete_and_claim(&engine, &grants, &worker).await?,
        };
    }
    Err(format!("worker {worker} still finds work after {CLAIMS_MAX} claims"))
}

/// Completes all of these executions and claims the next one, in one call.
async fn complete_and_claim(
    engine: &Handle,
    grants: &[Claimed],
    worker: &Arc<str>,
) -> Result<Vec<Claimed>, String> {
    let reports = grants.iter().map(|grant| (grant.token(), done())).collect();
    let request = claim_request(engine, worker, 1);
    let called = engine.complete_and_claim(reports, request).await;
    let (replies, next) = called.map_err(|error| error.to_string())?;
    for reply in replies {
        reply.map_err(|error| error.to_string())?;
    }
    Ok(next)
}

/// Claims one execution and completes it; false if none may be claimed.
pub(crate) async fn one(engine: &Handle) -> Result<bool, String> {
    let worker: Arc<str> = "worker".into();
    let grants = claim(engine, &worker, 1).await?;
    for grant in &grants {
        report(engine, grant, done()).await?;
    }
    Ok(!grants.is_empty())
}

/// Runs so many of the same at once, and adds up what they return.
pub(crate) async fn at_once<F>(count: usize, task: impl Fn(usize) -> F) -> Result<usize, String>
where
    F: Future<Output = Result<usize, String>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for index in 0..count {
        tasks.spawn(task(index));
    }
    let mut sum = 0;
    while let Some(joined) = tasks.join_next().await {
        sum += joined.map_err(|error| error.to_string())??;
    }
    Ok(sum)
}

/// So many workers at once, until nothing may be claimed.
pub(crate) async fn workers(engine: &Handle, count: usize, way: Way) -> Result<usize, String> {
    at_once(count, |index| work(engine.clone(), format!("worker-{index}"), way)).await
}

/// Completes everything that may be claimed now: a preparation.
pub(crate) async fn complete_ready(engine: &Handle, expected: usize) -> Result<(), String> {
    let worker: Arc<str> = "preparation".into();
    let mut grants = Vec::new();
    while grants.len() < expected {
        let more = claim(engine, &worker, CLAIM_MAX).await?;
        if more.is_empty() {
            return Err(format!("{} of {expected} executions may be claimed", grants.len()));
        }
        grants.extend(more);
    }
    for some in grants.chunks(REPORTS_MAX) {
        complete_all(engine, some).await?;
    }
    Ok(())
}

/// Fails the one execution that may be claimed.
pub(crate) async fn fail_ready(engine: &Handle) -> Result<(), String> {
    let worker: Arc<str> = "preparation".into();
    let grants = claim(engine, &worker, CLAIM_MAX).await?;
    let [grant] = grants.as_slice() else {
        return Err(format!("{} executions may be claimed, and not one", grants.len()));
    };
    report(engine, grant, Report::FailFatal(Arc::from(*b"null"))).await
}

/// Lets the reaper end so many executions, whose deadline is over by then.
pub(crate) async fn expire(engine: &Handle, expected: usize) -> Result<(), String> {
    let mut expired = 0;
    for _ in 0..PASSES_MAX {
        let report =
            engine.reaper_tick(&Scope::default()).await.map_err(|error| error.to_string())?;
        expired += usize::try_from(report.reconciled).unwrap_or(usize::MAX);
        if expired >= expected {
            return Ok(());
        }
        tokio::time::sleep(IDLE_PAUSE.1).await;
    }
    Err(format!("{expired} of {expected} executions expired"))
}

/// The scope of one flow's partition.
pub(crate) fn scope(flow: FlowKey) -> Scope {
    let partition = flow.partition.0;
    Scope { partitions: partition..partition + 1, ..Scope::default() }
}

/// What a drain came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Drained {
    /// From the start to the last pass that changed something.
    pub wall: Duration,
    /// Visits that gave up and left their rows for a later pass.
    pub errors: u64,
}

/// Those who drain a scope side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dispatchers {
    /// A single one.
    One,
    /// So many of one process, which routes partitions to them.
    OfOneProcess(u16),
    /// One each of so many processes, which know nothing of each other.
    OfProcesses(u16),
}

impl Dispatchers {
    fn scopes(self, engine: &Handle, scope: &Scope) -> Vec<Scope> {
        match self {
            Self::One => vec![scope.clone()],
            Self::OfOneProcess(count) => {
                (0..count).map(|index| engine.routed(scope, index, count)).collect()
            }
            Self::OfProcesses(count) => vec![scope.clone(); usize::from(count)],
        }
    }
}

/// Drains a scope: until no dispatcher finds anything.
///
/// The time ends with the last pass that changed something, not when an idle dispatcher notices.
pub(crate) async fn drain(
    engine: &Handle,
    dispatchers: Dispatchers,
    scope: &Scope,
) -> Result<Drained, String> {
    let watch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for scope in dispatchers.scopes(engine, scope) {
        tasks.spawn(dispatcher(engine.clone(), scope, watch));
    }
    let mut drained = Drained::default();
    while let Some(joined) = tasks.join_next().await {
        let one = joined.map_err(|error| error.to_string())??;
        drained.wall = drained.wall.max(one.wall);
        drained.errors += one.errors;
    }
    Ok(drained)
}

async fn dispatcher(engine: Handle, scope: Scope, watch: Stopwatch) -> Result<Drained, String> {
    let mut drained = Drained::default();
    let mut pause = IDLE_PAUSE.0;
    for _ in 0..PASSES_MAX {
        let report = engine.dispatch_pass(&scope).await.map_err(|error| error.to_string())?;
        drained.errors += report.errors;
        if report.scanned == 0 {
            return Ok(drained);
        }
        if report.reconciled > 0 {
            drained.wall = watch.elapsed();
            pause = IDLE_PAUSE.0;
        } else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(IDLE_PAUSE.1);
        }
    }
    Err(format!("a dispatcher still finds something after {PASSES_MAX} passes"))
}
