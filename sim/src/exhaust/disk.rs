//! Exhaustive runs over operations on the disk: every flow up to a size on a SQLite file, and in
//! each universe one operation at which something goes wrong, once: every operation, and everything
//! that can go wrong with it. Recovery follows, and the flow drains and is judged. Before them come
//! the crash points of the same flows (`crash_points.rs`). Splits the work among threads and sums
//! up; the universes themselves are the driver's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::mutants::Mutant;

use super::crash_points::{CrashPoints, crash_points};
use super::graphs::{Alphabet, Graph, graphs};
use super::shapes::NODES_MAX;
use super::{Finding, Settings, in_parallel, name, report, unknown};
use crate::driver::{End, Universe};
use crate::faults::FaultKind;
use crate::plan::{EngineKind, FailingDisk, LaneKind, Odds, Plan, Strike};
use crate::report::progress::Stopwatch;
use crate::tape::Tape;

/// What goes wrong, and the ways in which a power cut goes: everything unsynced is lost, everything
/// is kept, and two in between.
pub(super) const STRUCK: [(FaultKind, [u16; 2]); 8] = [
    (FaultKind::PowerCut, [0, 0]),
    (FaultKind::PowerCut, [1, 0]),
    (FaultKind::PowerCut, [2, 1]),
    (FaultKind::PowerCut, [3, 2]),
    (FaultKind::ProcessCrash, [0, 0]),
    (FaultKind::IoError, [0, 0]),
    (FaultKind::DiskFull, [0, 0]),
    (FaultKind::FsyncLies, [0, 0]),
];
/// Pages after which the log is written back: few, so that every flow does it.
const CHECKPOINT_PAGES: u32 = 16;
/// Operations of one universe at most; a run that meets more says that it was not all.
const OPERATIONS_MAX: u32 = 200_000;
/// So many failing universes are kept.
const FINDINGS_MAX: usize = 16;

/// What is run through.
#[derive(Clone, Debug)]
pub struct DiskSettings {
    /// Flows of 1 to so many nodes.
    pub nodes: u8,
    /// What flows are made of.
    pub alphabet: Alphabet,
    /// The planted bug that is on.
    pub mutant: Option<Mutant>,
    /// Equal disks are recovered once; without it each crash point recovers its own.
    pub memo: bool,
    /// Threads.
    pub jobs: usize,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct DiskSummary {
    /// What was asked for.
    pub settings: DiskSettings,
    /// Flows.
    pub flows: usize,
    /// Operations that were struck, by what went wrong, in the order of the table.
    pub struck: Vec<(FaultKind, u64)>,
    /// What the crash points of all flows came to.
    pub crash_points: CrashPoints,
    /// Universes that failed.
    pub failed: u64,
    /// The first of them, in the order in which flows are run.
    pub findings: Vec<Finding>,
    /// It was all of them.
    pub complete: bool,
    /// How long it took.
    pub wall: Duration,
}

/// One flow, and one thing that goes wrong.
#[derive(Default)]
pub(super) struct Explored {
    pub(super) struck: u64,
    failed: u64,
    findings: Vec<Finding>,
    complete: bool,
}

impl DiskSettings {
    /// The universe of a flow that is struck so, or not at all.
    pub(super) fn plan(&self, graph: &Graph, strike: Option<Strike>) -> Plan {
        let settings = Settings {
            nodes: self.nodes,
            faults: 0,
            kinds: strike.iter().map(|strike| strike.fault).collect(),
            delays: 0,
            alphabet: self.alphabet,
            engine: EngineKind::Sluicegate,
            mutant: self.mutant,
            memo: false,
            jobs: self.jobs,
            budget: None,
        };
        let disk = FailingDisk {
            checkpoint_pages: CHECKPOINT_PAGES,
            processes: 2,
            powersafe_overwrite: strike.is_some_and(|one| one.fault == FaultKind::FsyncLies),
            strike,
        };
        let odds = Odds { schedule: 0, fault: 0, wait: 0, outcome: 0 };
        let lane = LaneKind::Sqlite;
        Plan { lane, disk: Some(disk), counting: false, odds, ..settings.plan(graph, 0) }
    }
}

/// Runs through everything; `progress` hears how many parts of how many are done.
pub fn run(settings: &DiskSettings, progress: &(dyn Fn(usize, usize) + Sync)) -> DiskSummary {
    assert!((1..=NODES_MAX).contains(&settings.nodes), "1 to {NODES_MAX} nodes");
    let watch = Stopwatch::start();
    let flows: Vec<Graph> =
        (1..=settings.nodes).flat_map(|nodes| graphs(nodes, settings.alphabet)).collect();
    let universes = flows.len() * STRUCK.len();
    let parts = flows.len() + universes;
    let done = AtomicUsize::new(0);
    let one_more = || progress(1 + done.fetch_add(1, Ordering::Relaxed), parts);
    let mut summary = DiskSummary {
        settings: settings.clone(),
        flows: flows.len(),
        struck: Vec::new(),
        crash_points: CrashPoints::none(),
        failed: 0,
        findings: Vec::new(),
        complete: true,
        wall: Duration::ZERO,
    };
    let crashed = in_parallel(settings.jobs, &unknown(flows.len()), |at| {
        let crashed = crash_points(settings, &flows[at]);
        one_more();
        crashed
    });
    for (one, findings) in crashed {
        summary.crash_points.add(&one);
        summary.complete &= !one.cut_short;
        summary.findings.extend(findings);
    }
    let explored = in_parallel(settings.jobs, &unknown(universes), |at| {
        let (fault, way) = STRUCK[at % STRUCK.len()];
        let explored = explore(settings, &flows[at / STRUCK.len()], fault, way);
        one_more();
        explored
    });
    for (at, one) in explored.into_iter().enumerate() {
        let (fault, _) = STRUCK[at % STRUCK.len()];
        match summary.struck.iter_mut().find(|(kind, _)| *kind == fault) {
            Some((_, count)) => *count += one.struck,
            None => summary.struck.push((fault, one.struck)),
        }
        summary.failed += one.failed;
        summary.complete &= one.complete;
        summary.findings.extend(one.findings);
    }
    summary.findings.truncate(FINDINGS_MAX);
    summary.wall = watch.elapsed();
    summary
}

/// Lets it go wrong at each operation in turn, until a universe ends before it does.
pub(super) fn explore(
    settings: &DiskSettings,
    graph: &Graph,
    fault: FaultKind,
    way: [u16; 2],
) -> Explored {
    let mut explored = Explored::default();
    for after in 0..OPERATIONS_MAX {
        let plan = settings.plan(graph, Some(Strike { fault, after, way }));
        let universe = Universe::new(Arc::new(plan.clone()));
        let mut universe = universe.expect("every graph is a valid flow, and memory holds a disk");
        Universe::take_tally();
        let outcome = universe.run(Tape::quiet());
        let struck = Universe::take_tally().struck_by(fault);
        if outcome.end != End::Clean {
            explored.failed += 1;
            if explored.findings.len() < FINDINGS_MAX {
                explored.findings.push(Finding { graph: graph.text(), plan, outcome });
            }
        }
        if struck == 0 {
            explored.complete = true;
            break;
        }
        explored.struck += 1;
    }
    explored
}

impl DiskSummary {
    /// The figures of the run; the head that every command writes is the caller's.
    pub fn to_json(&self) -> Value {
        let struck: serde_json::Map<String, Value> = self
            .struck
            .iter()
            .map(|(kind, count)| (kind.name().to_owned(), json!(count)))
            .collect();
        json!({
            "nodes": self.settings.nodes,
            "alphabet": self.settings.alphabet.name(),
            "graphs": self.flows,
            "universes": self.universes(),
            "struck": struck,
            "memo": self.settings.memo,
            "crash_points": self.crash_points.points,
            "crash_points_failed": self.crash_points.failed,
            "images": self.crash_points.images,
            "crash_points_per_s": self.crash_points.per_s(),
            "failed": self.failed,
            "failures": self.findings.iter().map(report::finding_json).collect::<Vec<_>>(),
            "complete": self.complete,
            "wall_s": self.wall.as_secs_f64(),
        })
    }

    /// True if no universe and no crash point failed.
    pub fn is_clean(&self) -> bool {
        self.failed == 0 && self.crash_points.failed == 0
    }

    fn universes(&self) -> u64 {
        self.struck.iter().map(|(_, count)| count).sum()
    }
}

/// What is run through, and what came of it.
impl fmt::Display for DiskSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, flows, .. } = self;
        writeln!(f, "alphabet {}", settings.alphabet.name())?;
        writeln!(f, "  policies  {}", settings.alphabet.what())?;
        writeln!(
            f,
            "  actors    1 client, 1 worker, 1 dispatcher, 1 reconciler in 2 processes, in the \
             default order"
        )?;
        writeln!(
            f,
            "  power     what is not synced is all lost, all kept, and in two ways in between"
        )?;
        writeln!(
            f,
            "product: flows of 1..{} nodes x every operation on the disk x what can go wrong with \
             it, once; then recovery, and the flow drains",
            settings.nodes
        )?;
        writeln!(
            f,
            "  crash points: the same flows x every operation x every death, half of a write \
             included; recovery, and what was acknowledged is there"
        )?;
        for (kind, count) in &self.struck {
            writeln!(f, "  {:<14} {count} universes", kind.name())?;
        }
        let crashes = &self.crash_points;
        writeln!(
            f,
            "{} crash points, {} recoveries, {:.0} crash points/s a core, {} failed",
            crashes.points,
            crashes.images,
            crashes.per_s(),
            crashes.failed
        )?;
        for finding in &self.findings {
            let end = &finding.outcome.end;
            writeln!(f, "{}: {} ({})", name(end), report::message(end), finding.graph)?;
        }
        let (universes, wall) = (self.universes(), self.wall.as_secs_f64());
        writeln!(f, "{universes} universes, {} failed", self.failed)?;
        match self.complete {
            true => write!(f, "all operations of {flows} flows in {wall:.1} s"),
            false => write!(f, "not all of it: stopped after {wall:.1} s"),
        }
    }
}
