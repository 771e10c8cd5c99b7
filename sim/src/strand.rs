//! `strand`: the shapes on which the published system strands, on a real server, driven by
//! dispatchers alone. No reconciler runs: what they leave is counted and never repaired.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::state::{Outcome, State};
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::{Consistency, EventId, Resolution, Snapshot, Storage};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::bench::drive::{self, Handle};
use crate::bench::place::Place;
use crate::bench::shapes::Shape;
use crate::bench::verify::{self, Expected, Seen};
use crate::exit::Exit;
use crate::postgres::Server;
use crate::report::progress::{Goal, Progress, Stopwatch};
use crate::report::{Paint, complain, print, reproduction};

/// Workers that complete whatever is ready.
const WORKERS: usize = 4;
/// Executions of one claim of theirs.
const CLAIM: u32 = 10;
/// Numbers beyond the last event at which the feed looks for the next.
const AHEAD: u64 = 32;
/// Pause of whoever found nothing to do.
const PAUSE: Duration = Duration::from_millis(1);

/// How completions reach a dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dispatchers {
    /// So many share one queue of events.
    Queue(usize),
    /// Each event has a task of its own, all at once.
    TaskPerEvent,
}

const DISPATCHERS: [Dispatchers; 4] = [
    Dispatchers::Queue(1),
    Dispatchers::Queue(4),
    Dispatchers::Queue(16),
    Dispatchers::TaskPerEvent,
];

impl Dispatchers {
    fn name(self) -> String {
        match self {
            Dispatchers::Queue(count) => format!("{count} at once"),
            Dispatchers::TaskPerEvent => "task per event".to_owned(),
        }
    }

    fn at_once(self) -> usize {
        match self {
            Dispatchers::Queue(count) => count,
            Dispatchers::TaskPerEvent => Semaphore::MAX_PERMITS,
        }
    }
}

/// The shapes, by name.
fn shapes() -> [(&'static str, Shape); 4] {
    [
        ("50 -> 1", Shape::fan_in(50)),
        ("200 -> 1", Shape::fan_in(200)),
        ("1000 -> 1", Shape::fan_in(1_000)),
        ("diamond 50 x 20", Shape::diamond()),
    ]
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Runs of each shape with each kind of dispatchers.
    pub runs: u32,
    /// Which Postgres.
    pub postgres: Server,
    /// Whether the table is coloured.
    pub paint: Paint,
    /// The line that repeats it.
    pub command: String,
}

/// What one run left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Left {
    /// Executions that nobody will move, unless a reconciler runs.
    stuck: usize,
    /// Completions that were acknowledged and that no reconciler would find.
    lost: usize,
    /// What is lost or stuck, in words.
    words: Vec<String>,
}

/// The runs of one shape with one kind of dispatchers.
struct Row {
    shape: &'static str,
    dispatchers: Dispatchers,
    runs: u32,
    /// Runs that left something stuck, and something lost.
    stuck: u32,
    lost: u32,
    wall: Duration,
    words: Vec<String>,
}

/// Runs it and reports.
pub fn run(request: &Request) -> Exit {
    print(&reproduction(&request.command));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let rows = match runtime {
        Ok(runtime) => runtime.block_on(request.rows()),
        Err(error) => Err(error.to_string()),
    };
    let rows = match rows {
        Ok(rows) => rows,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Exit::Environment;
        }
    };
    print(&table(&rows, request.paint));
    print(&reproduction(&request.command));
    let mut exits = Vec::new();
    if rows.iter().any(|row| row.lost > 0) {
        exits.push(Exit::Safety);
    }
    if rows.iter().any(|row| row.stuck > 0) {
        exits.push(Exit::Liveness);
    }
    Exit::first_of(&exits)
}

impl Request {
    async fn rows(&self) -> Result<Vec<Row>, String> {
        // No crash of the machine is at stake, so nothing has to reach the disk.
        let place = Place::postgres(&self.postgres, &[]).await?;
        print(&format!("{}\n", place.settings()));
        let shapes = shapes();
        let runs = u64::from(self.runs) * (shapes.len() * DISPATCHERS.len()) as u64;
        let mut progress = Progress::new("runs", Goal::Count(runs));
        let mut rows = Vec::new();
        for (name, shape) in &shapes {
            for dispatchers in DISPATCHERS {
                let mut row = Row {
                    shape: name,
                    dispatchers,
                    runs: self.runs,
                    stuck: 0,
                    lost: 0,
                    wall: Duration::ZERO,
                    words: Vec::new(),
                };
                for _ in 0..self.runs {
                    let watch = Stopwatch::start();
                    let left = drained(&place, shape, dispatchers).await?;
                    row.wall += watch.elapsed();
                    progress.advance(1, u64::from(left.stuck + left.lost > 0));
                    row.absorb(left);
                }
                rows.push(row);
            }
        }
        progress.finish();
        place.clean_up().await?;
        Ok(rows)
    }
}

impl Row {
    fn absorb(&mut self, left: Left) {
        self.stuck += u32::from(left.stuck > 0);
        self.lost += u32::from(left.lost > 0);
        self.words.extend(left.words);
    }
}

fn table(rows: &[Row], paint: Paint) -> String {
    let mut out = String::from(
        "\nno reconciler runs; stuck: runs that left work to one, lost: runs that left what none \
         would find\n\n",
    );
    let heading = format!(
        "{:16} {:15} {:>5} {:>6} {:>5} {:>8}",
        "shape", "dispatchers", "runs", "stuck", "lost", "s a run"
    );
    let _ = writeln!(out, "{}", paint.strong(&heading));
    for row in rows {
        let count = |count: u32, width: usize| match count {
            0 => format!("{count:>width$}"),
            _ => paint.alarm(&format!("{count:>width$}")),
        };
        let _ = writeln!(
            out,
            "{:16} {:15} {:>5} {} {} {:>8.2}",
            row.shape,
            row.dispatchers.name(),
            row.runs,
            count(row.stuck, 6),
            count(row.lost, 5),
            row.wall.as_secs_f64() / f64::from(row.runs.max(1)),
        );
        for words in row.words.iter().take(3) {
            let _ = writeln!(out, "    {words}");
        }
    }
    let sum = |of: fn(&Row) -> u32| rows.iter().map(of).sum::<u32>();
    let _ = writeln!(out, "\nstuck {}, lost {}\n", sum(|row| row.stuck), sum(|row| row.lost));
    out
}

/// What the tasks of one run share.
///
/// A run is over when nothing can move any more, however long that takes: every worker and the feed
/// have looked since the last move and found nothing, and no dispatch is under way.
struct Shared {
    engine: Handle,
    /// Grows with everything that moves, once that is committed.
    moved: AtomicU64,
    over: AtomicBool,
    /// How much had moved when a worker, and last the feed, began the look that found nothing.
    idle_since: [AtomicU64; WORKERS + 1],
    /// Completions that were acknowledged.
    acknowledged: Mutex<BTreeSet<ExecutionId>>,
    /// Dispatches that returned an error.
    errors: Mutex<Vec<String>>,
    /// Dispatches that began, and those that have returned.
    begun: AtomicU64,
    dispatched: AtomicU64,
}

/// The mark of whoever has not looked yet.
const NEVER: u64 = u64::MAX;
/// The place of the feed among the marks.
const FEED: usize = WORKERS;

impl Shared {
    fn mark(&self, place: usize, moved: u64) {
        self.idle_since[place].store(moved, Ordering::SeqCst);
    }

    /// What becomes ready is made so by a dispatch, which counts as a move before it has returned:
    /// a mark that equals the count is of a look that a later one would repeat in vain.
    fn is_over(&self) -> bool {
        let moved = self.moved.load(Ordering::SeqCst);
        let idle = |mark: &AtomicU64| mark.load(Ordering::SeqCst) == moved;
        let begun = self.begun.load(Ordering::SeqCst);
        begun == self.dispatched.load(Ordering::SeqCst) && self.idle_since.iter().all(idle)
    }
}

/// One flow from its submission until nothing moves any more.
async fn drained(place: &Place, shape: &Shape, dispatchers: Dispatchers) -> Result<Left, String> {
    let fresh = place.fresh(None).await?;
    let engine = drive::handle(&fresh.storage);
    let flow = drive::submit(&engine, shape).await?;
    let shared = Arc::new(Shared {
        engine,
        moved: AtomicU64::new(0),
        over: AtomicBool::new(false),
        idle_since: std::array::from_fn(|_| AtomicU64::new(NEVER)),
        acknowledged: Mutex::default(),
        errors: Mutex::default(),
        begun: AtomicU64::new(0),
        dispatched: AtomicU64::new(0),
    });
    let mut tasks = JoinSet::new();
    for index in 0..WORKERS {
        tasks.spawn(worker(Arc::clone(&shared), index));
    }
    let outbox = fresh.beside().await?;
    tasks.spawn(feed(Arc::clone(&shared), outbox, dispatchers));
    let ended = tasks.join_next();
    tokio::select! {
        // A task that ends before the run is over has failed.
        Some(ended) = ended => ended.map_err(|error| error.to_string())??,
        () = quiescence(&shared) => {}
    }
    shared.over.store(true, Ordering::Relaxed);
    while let Some(joined) = tasks.join_next().await {
        joined.map_err(|error| error.to_string())??;
    }
    let events = verify::read_events(&fresh.storage).await.map_err(|error| error.to_string())?;
    let seen = verify::read(&fresh.storage, flow, &events).await;
    let seen = seen.map_err(|error| error.to_string())?;
    fresh.close().await?;
    let acknowledged = shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
    let mut left = left(shape, flow, &seen, &acknowledged);
    let errors = shared.errors.lock().unwrap_or_else(PoisonError::into_inner);
    left.words.extend(errors.iter().cloned());
    Ok(left)
}

/// Returns when nothing can move any more.
async fn quiescence(shared: &Shared) {
    while !shared.is_over() {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn worker(shared: Arc<Shared>, index: usize) -> Result<(), String> {
    let name: Arc<str> = format!("worker-{index}").into();
    while !shared.over.load(Ordering::Relaxed) {
        let moved = shared.moved.load(Ordering::SeqCst);
        let grants = drive::claim(&shared.engine, &name, CLAIM).await?;
        for grant in &grants {
            drive::report(&shared.engine, grant, drive::done()).await?;
            let mut acknowledged =
                shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            acknowledged.insert(grant.execution.id);
            shared.moved.fetch_add(1, Ordering::SeqCst);
        }
        if grants.is_empty() {
            shared.mark(index, moved);
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Reads the outbox in the order of its numbers, with late commits in mind, and gives each event a
/// task; the tasks wait for each other as the dispatchers say.
async fn feed(
    shared: Arc<Shared>,
    outbox: BoxStorage,
    dispatchers: Dispatchers,
) -> Result<(), String> {
    let permits = Arc::new(Semaphore::new(dispatchers.at_once()));
    let mut missing: BTreeSet<u64> = (1..=AHEAD).collect();
    let mut last = AHEAD;
    let mut tasks = JoinSet::new();
    let unread = |error: sluicegate::storage::StorageError| format!("outbox: {error}");
    while !shared.over.load(Ordering::Relaxed) {
        let moved = shared.moved.load(Ordering::SeqCst);
        let mut reader = outbox.snapshot(Consistency::Statement).await.map_err(unread)?;
        let mut found = Vec::new();
        for id in &missing {
            if reader.read_event(&EventId(*id)).await.map_err(unread)?.is_some() {
                found.push(*id);
            }
        }
        for id in &found {
            missing.remove(id);
            missing.extend(last + 1..=id + AHEAD);
            last = last.max(id + AHEAD);
            shared.begun.fetch_add(1, Ordering::SeqCst);
            tasks.spawn(dispatch(Arc::clone(&shared), Arc::clone(&permits), EventId(*id)));
        }
        if found.is_empty() {
            shared.mark(FEED, moved);
            tokio::time::sleep(PAUSE).await;
        }
    }
    while let Some(joined) = tasks.join_next().await {
        joined.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn dispatch(shared: Arc<Shared>, permits: Arc<Semaphore>, event: EventId) {
    let _permit = permits.acquire().await.expect("the semaphore is never closed");
    if let Err(error) = shared.engine.dispatch(event).await {
        let mut errors = shared.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.push(format!("event {}: {error}", event.0));
    }
    shared.moved.fetch_add(1, Ordering::SeqCst);
    shared.dispatched.fetch_add(1, Ordering::SeqCst);
}

/// Sorts what differs from a drained flow into what a reconciler would find and what none would.
fn left(shape: &Shape, flow: FlowKey, seen: &Seen, acknowledged: &BTreeSet<ExecutionId>) -> Left {
    let expected = Expected::all(shape, flow, Outcome::Succeeded);
    let mut left = Left { words: expected.differences(seen), ..Left::default() };
    left.words.truncate(3);
    let rows: BTreeMap<ExecutionId, _> =
        seen.executions.iter().map(|view| (view.execution.id, view.execution)).collect();
    let succeeded = State::Terminal(Outcome::Succeeded);
    let forgotten =
        acknowledged.iter().filter(|id| rows.get(id).is_none_or(|row| row.state != succeeded));
    left.lost += forgotten.count();
    for row in rows.values() {
        let events = seen.events.iter().filter(|event| event.event.execution == row.id).count();
        let terminal = row.state.is_terminal();
        left.lost += usize::from(events != usize::from(terminal));
        left.stuck += usize::from(!terminal || !row.propagated);
    }
    for edge in &seen.edges {
        // Its upstream says that nothing is left to do, so nobody will look.
        let over = rows.get(&edge.key.upstream).is_none_or(|row| row.propagated);
        left.lost += usize::from(over && edge.resolution == Resolution::Pending);
    }
    for group in &seen.groups {
        let edges = seen.edges.iter().filter(|edge| edge.key.downstream == group.downstream);
        let satisfied = edges.filter(|edge| edge.resolution == Resolution::Satisfied).count();
        left.lost += usize::from(group.satisfied as usize != satisfied);
    }
    left.lost += shape.nodes.abs_diff(rows.len()) + shape.edges.len().abs_diff(seen.edges.len());
    left
}

#[cfg(test)]
mod tests;
