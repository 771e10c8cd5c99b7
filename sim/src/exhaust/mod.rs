//! Exhaustive runs: every flow up to a size, every fault point and kind up to a number of faults,
//! every schedule up to a number of deviations, every outcome. Splits flows among threads and sums
//! up; the universes themselves are the driver's. `disk.rs` does it over operations on a disk.

pub mod crash_points;
pub mod disk;
pub(crate) mod explore;
pub mod graphs;
pub(crate) mod memo;
mod recovery;
pub mod report;
pub mod shapes;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::mutants::Mutant;

use crate::driver::{End, Outcome, Universe};
use crate::faults::FaultKind;
use crate::plan::{Cast, Commits, EngineKind, LaneKind, Odds, Plan};
use crate::report::progress::Stopwatch;
use crate::tape::Tape;

use explore::Explorer;
use graphs::{Alphabet, Graph, graphs};
use shapes::{NODES_MAX, shapes};

/// So many failing universes are kept of one flow, and of a run.
const FINDINGS_PER_GRAPH_MAX: usize = 4;
const FINDINGS_MAX: usize = 16;
/// A run looks at its budget once in so many universes.
const UNIVERSES_PER_LOOK: u64 = 1_024;

/// What is run through.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Flows of 1 to so many nodes.
    pub nodes: u8,
    /// Up to so many faults a universe.
    pub faults: u32,
    /// Of these kinds.
    pub kinds: BTreeSet<FaultKind>,
    /// Up to so many deviations from the default schedule a universe.
    pub delays: u32,
    /// What flows are made of.
    pub alphabet: Alphabet,
    /// The protocol that is judged.
    pub engine: EngineKind,
    /// The planted bug that is on.
    pub mutant: Option<Mutant>,
    /// States that were seen before end a universe; without it every universe runs to its end.
    pub memo: bool,
    /// Threads.
    pub jobs: usize,
    /// The run gives up after so long, and says that it was not all.
    pub budget: Option<Duration>,
}

/// A universe that failed.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its flow in one line.
    pub graph: String,
    /// Its plan, which replays it with the tape of the outcome.
    pub plan: Plan,
    /// How it ended, with its tape.
    pub outcome: Outcome,
}

/// Figures of one pass over every flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Universes begun.
    pub universes: u64,
    /// Those of them that ended in a state that was seen before.
    pub pruned: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Statements executed.
    pub statements: u64,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What was asked for.
    pub settings: Settings,
    /// Shapes by number of nodes, from 1.
    pub shapes: Vec<usize>,
    /// Flows by number of nodes, from 1.
    pub graphs: Vec<usize>,
    /// Figures by number of deviations allowed, from 0: each pass holds all of the one before.
    pub passes: Vec<Figures>,
    /// The first failures, in the order in which flows are run.
    pub findings: Vec<Finding>,
    /// Which invariants were violated on which flow; `livelock` and `strayed` stand for themselves.
    pub violated: BTreeSet<(String, String)>,
    /// It was all of them.
    pub complete: bool,
    /// How long it took.
    pub wall: Duration,
}

impl Settings {
    /// One of each; a second dispatcher where they can get into each other's way.
    fn cast(&self) -> Cast {
        let dispatchers = if self.delays == 0 { 1 } else { 2 };
        Cast {
            clients: 1,
            workers: 1,
            dispatchers,
            reconcilers: 1,
            operators: 0,
            projectors: 0,
            sequencers: 0,
            subscribers: 0,
            resumers: 0,
            extenders: 0,
        }
    }

    fn plan(&self, graph: &Graph, delays: u32) -> Plan {
        Plan {
            lane: LaneKind::Model,
            engine: self.engine,
            mutant: self.mutant.map(|mutant| mutant.id().to_owned()),
            ids_seed: 0,
            flow: graph.spec(),
            extensions: Vec::new(),
            cast: self.cast(),
            faults: self.kinds.clone(),
            faults_max: self.faults,
            first_fault: None,
            priorities: None,
            delays_max: delays,
            granular: delays > 0,
            hop_groups_max: 256,
            hop_upstreams_max: 1_000,
            cancel_batch: sluicegate::Settings::default().cancel_batch,
            hold: None,
            prunes: false,
            commits: Commits::Synchronous,
            inputs_max_bytes: sluicegate::flow::Limits::default().inputs_max_bytes,
            statement_max_bytes: sluicegate::flow::Limits::default().statement_max_bytes,
            progress: false,
            ambushes: false,
            spoils_ended: false,
            sparing: false,
            leases: None,
            behind: None,
            disk: None,
            heal_after: 0,
            odds: Odds { schedule: 0, fault: 0, wait: 0, outcome: 0 },
            counting: true,
        }
    }

    /// Every flow, those with the most edges first: they fail earliest.
    fn flows(&self) -> Vec<Graph> {
        let sizes = 1..=self.nodes;
        let mut flows: Vec<Graph> = sizes.flat_map(|nodes| graphs(nodes, self.alphabet)).collect();
        flows.sort_by_key(|graph| std::cmp::Reverse(graph.shape.edges.len()));
        flows
    }
}

/// Kinds of faults that strike where nothing else is asked for. Left out are other ways to the same
/// states, as every SQLSTATE restarts a transaction like 40001, and steps of the clock.
pub fn usual_kinds(delays: u32) -> BTreeSet<FaultKind> {
    let mut kinds = BTreeSet::from([
        FaultKind::Crash,
        FaultKind::CrashAfter,
        FaultKind::CrashAwait,
        FaultKind::LingeringSession,
        FaultKind::Serialization,
        FaultKind::CommitApplied,
        FaultKind::CommitLost,
        FaultKind::Pause,
        FaultKind::NoticeLost,
        FaultKind::NoticeLate,
    ]);
    if delays > 0 {
        kinds.insert(FaultKind::CrashWaiting);
    }
    kinds
}

/// What one flow came to.
#[derive(Clone, Debug, Default)]
struct Explored {
    figures: Figures,
    findings: Vec<Finding>,
    violated: BTreeSet<String>,
    complete: bool,
}

impl Explored {
    fn cost(&self) -> u64 {
        self.figures.statements
    }
}

/// Runs through everything; `progress` hears how many flows of how many are done.
///
/// Deviations are allowed one by one, so that what fails without any is found first.
pub fn run(settings: &Settings, progress: &(dyn Fn(usize, usize) + Sync)) -> Summary {
    assert!((1..=NODES_MAX).contains(&settings.nodes), "1 to {NODES_MAX} nodes");
    assert!(settings.jobs > 0, "at least one thread");
    let watch = Watch::start(settings.budget);
    let flows = settings.flows();
    let total = flows.len() * (1 + settings.delays as usize);
    let done = AtomicUsize::new(0);
    let mut summary = Summary::new(settings);
    let mut costs = rehearse(settings, &flows, &watch);
    for delays in 0..=settings.delays {
        let explored = in_parallel(settings.jobs, &costs, |at| {
            let explored = explore(settings, &flows[at], delays, &watch);
            progress(1 + done.fetch_add(1, Ordering::Relaxed), total);
            explored
        });
        costs = explored.iter().map(Explored::cost).collect();
        summary.add_pass(&flows, explored);
    }
    summary.wall = watch.elapsed();
    summary
}

/// What each flow will cost, by what it costs with one fault fewer, which is little beside it.
fn rehearse(settings: &Settings, flows: &[Graph], watch: &Watch) -> Vec<u64> {
    if settings.faults < 2 || settings.jobs == 1 {
        return unknown(flows.len());
    }
    let fewer = Settings { faults: settings.faults - 1, ..settings.clone() };
    let costs = in_parallel(settings.jobs, &unknown(flows.len()), |at| {
        explore(&fewer, &flows[at], 0, watch)
    });
    costs.iter().map(Explored::cost).collect()
}

/// Costs of which nothing is known: the order stays as it is.
fn unknown(count: usize) -> Vec<u64> {
    vec![0; count]
}

/// Runs `work` on each index and returns the results in their order, whoever did them. What costs
/// most is begun first, so that nobody waits long for the last one (Graham 1969).
fn in_parallel<T: Send>(jobs: usize, costs: &[u64], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(costs[*at]));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = order.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(order.len()) {
            scope.spawn(|| {
                loop {
                    let next = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&at) = order.get(next) else { return };
                    let one = work(at);
                    *results[at].lock().expect("nobody panics with the lock") = Some(one);
                }
            });
        }
    });
    let results = results.into_iter().map(|result| {
        let result = result.into_inner().expect("nobody panics with the lock");
        result.expect("every index was worked on")
    });
    results.collect()
}

/// Every universe of one flow.
fn explore(settings: &Settings, graph: &Graph, delays: u32, watch: &Watch) -> Explored {
    let mut explored = Explored::default();
    if watch.is_over() {
        return explored;
    }
    let plan = settings.plan(graph, delays);
    let mut universe = Universe::new(Arc::new(plan.clone())).expect("every graph is a valid flow");
    universe.explorer = Some(Box::new(Explorer::new(settings.memo, true)));
    Universe::take_tally();
    universe.reset(Tape::quiet());
    loop {
        let end = universe.explore();
        explored.figures.universes += 1;
        match &end {
            End::Clean => {}
            End::Pruned => explored.figures.pruned += 1,
            failure => {
                explored.figures.failed += 1;
                explored.violated.insert(name(failure).to_owned());
                if explored.findings.len() < FINDINGS_PER_GRAPH_MAX {
                    let outcome = universe.outcome(end);
                    let (graph, plan) = (graph.text(), plan.clone());
                    explored.findings.push(Finding { graph, plan, outcome });
                }
            }
        }
        if explored.figures.universes.is_multiple_of(UNIVERSES_PER_LOOK) && watch.is_over() {
            break;
        }
        if !universe.advance() {
            explored.complete = true;
            break;
        }
    }
    explored.figures.statements = Universe::take_tally().statements;
    explored
}

/// What a failure is called: the invariant, or what became of the universe.
pub(crate) fn name(end: &End) -> &str {
    match end {
        End::Violated(violation) => violation.invariant,
        End::Livelock(_) => "livelock",
        End::Strayed(_) => "strayed",
        End::Clean => "clean",
        End::Pruned => "pruned",
    }
}

impl Summary {
    fn new(settings: &Settings) -> Self {
        let sizes = 1..=settings.nodes;
        Self {
            shapes: sizes.clone().map(|nodes| shapes(nodes).len()).collect(),
            graphs: sizes.map(|nodes| graphs(nodes, settings.alphabet).len()).collect(),
            settings: settings.clone(),
            passes: Vec::new(),
            findings: Vec::new(),
            violated: BTreeSet::new(),
            complete: true,
            wall: Duration::ZERO,
        }
    }

    fn add_pass(&mut self, flows: &[Graph], explored: Vec<Explored>) {
        let mut pass = Figures::default();
        for (graph, one) in flows.iter().zip(explored) {
            pass.universes += one.figures.universes;
            pass.pruned += one.figures.pruned;
            pass.failed += one.figures.failed;
            pass.statements += one.figures.statements;
            let violated = one.violated.into_iter();
            self.violated.extend(violated.map(|invariant| (graph.text(), invariant)));
            self.findings.extend(one.findings);
            self.complete &= one.complete;
        }
        self.findings.truncate(FINDINGS_MAX);
        self.passes.push(pass);
    }

    /// The figures of the last pass, which holds all others.
    pub fn figures(&self) -> Figures {
        self.passes.last().copied().unwrap_or_default()
    }
}

/// The wall clock of a run and its budget.
struct Watch {
    started: Stopwatch,
    budget: Option<Duration>,
}

impl Watch {
    fn start(budget: Option<Duration>) -> Self {
        Self { started: Stopwatch::start(), budget }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn is_over(&self) -> bool {
        self.budget.is_some_and(|budget| self.elapsed() > budget)
    }
}
