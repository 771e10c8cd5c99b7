//! Crash points: a flow runs once without trouble, and at each operation on its disk somebody dies
//! on a copy of that disk, in every way. SQLite itself opens what survives and recovers, and what
//! it holds has to be what was acknowledged at that instant, or that and the commit under way.
//! Never lets a flow go on after a death; the universes of `disk.rs` do, and they must agree.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use super::disk::{DiskSettings, STRUCK};
use super::graphs::Graph;
use super::recovery::{Pages, Rows, difference, pages, rows};
use crate::disk::{Death, Disk, Moment, Operation, Recording, Trouble};
use crate::driver::sqlite_lane::{Recorded, differs, opens_and_dies};
use crate::driver::{End, Outcome, Universe};
use crate::faults::FaultKind;
use crate::invariants::Violation;
use crate::mirror::Mirror;
use crate::plan::{Plan, Strike};
use crate::report::progress::Stopwatch;
use crate::tape::{Cell, Site, Tape};

/// So many failing crash points of a flow are run as universes too.
const FINDINGS_PER_FLOW_MAX: usize = 4;
/// Choices of a universe that may be the one by which everybody dies along with a process.
const DEATHS_TRIED_MAX: usize = 16;

/// What the crash points of one flow, or of several, came to.
#[derive(Clone, Debug)]
pub struct CrashPoints {
    /// Deaths, each at its operation.
    pub points: u64,
    /// Recoveries by SQLite: one for each different disk, or for each crash point without a memo.
    pub images: u64,
    /// Crash points after which something else was there than may be.
    pub failed: u64,
    /// Operations were more than could be kept.
    pub cut_short: bool,
    /// The time of one core, in the runs and in what followed from them.
    pub spent: Duration,
}

impl CrashPoints {
    pub(super) fn none() -> Self {
        Self { points: 0, images: 0, failed: 0, cut_short: false, spent: Duration::ZERO }
    }

    pub(super) fn add(&mut self, other: &CrashPoints) {
        self.points += other.points;
        self.images += other.images;
        self.failed += other.failed;
        self.cut_short |= other.cut_short;
        self.spent += other.spent;
    }

    /// Crash points by the second of one core.
    pub fn per_s(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
        let points = self.points as f64;
        points / self.spent.as_secs_f64().max(f64::EPSILON)
    }
}

/// Why a crash point fails, and what strikes there.
struct Failed {
    strike: Strike,
    /// Others die along with the process, and the power goes once the next one has opened the
    /// file.
    twice: bool,
    why: String,
}

/// One flow, as its crash points are gone through.
struct Pass<'a> {
    recording: &'a Recording,
    memo: bool,
    /// What the pages held at the beginning and after each acknowledged commit.
    known: Vec<Pages>,
    /// What recovery found on disks, by their fingerprints.
    found: BTreeMap<u128, Result<Pages, String>>,
    /// What was read row by row, by the disk and what was acknowledged.
    read: BTreeMap<(u128, usize, bool), Option<String>>,
    /// What the tables held after acknowledged commits.
    rows: BTreeMap<usize, Rows>,
    /// What was found once somebody had read a disk and the power had gone, by that disk with and
    /// without what is not synced.
    lost: BTreeMap<(u128, u128), Result<Pages, String>>,
    points: u64,
    images: u64,
    failed: Vec<Failed>,
    failures: u64,
}

/// Every crash point of a flow.
pub(super) fn crash_points(settings: &DiskSettings, graph: &Graph) -> (CrashPoints, Vec<Finding>) {
    of_disk(settings, graph, |_| {})
}

/// The same on a disk that somebody has prepared.
fn of_disk(
    settings: &DiskSettings,
    graph: &Graph,
    ready: impl FnOnce(&mut Disk),
) -> (CrashPoints, Vec<Finding>) {
    let watch = Stopwatch::start();
    let plan = settings.plan(graph, None);
    let Recorded { outcome, recording, mirrors } =
        universe(&plan).run_recorded(Tape::quiet(), ready);
    let mut counted = CrashPoints { cut_short: !recording.is_whole(), ..CrashPoints::none() };
    let mut pass = Pass::new(&recording, settings.memo);
    let wrong = match outcome.end {
        End::Clean => pass.anchor(&mirrors),
        _ => None,
    };
    if wrong.is_some() || outcome.end != End::Clean {
        counted.failed = 1;
        counted.spent = watch.elapsed();
        let outcome = wrong.map_or(outcome.clone(), |why| violated(why, outcome));
        return (counted, vec![Finding { graph: graph.text(), plan, outcome }]);
    }
    pass.go_through();
    counted.points = pass.points;
    counted.images = pass.images;
    counted.failed = pass.failures;
    counted.spent = watch.elapsed();
    let findings = pass.failed.iter().map(|failed| finding(settings, graph, failed));
    (counted, findings.collect())
}

fn universe(plan: &Plan) -> Universe {
    let universe = Universe::new(Arc::new(plan.clone()));
    universe.expect("every graph is a valid flow, and memory holds a disk")
}

fn violated(message: String, outcome: Outcome) -> Outcome {
    Outcome { end: End::Violated(Violation { invariant: "I19", message }), ..outcome }
}

/// The universe that dies where a crash point failed; that it fails too is part of the check.
fn finding(settings: &DiskSettings, graph: &Graph, failed: &Failed) -> Finding {
    let (plan, outcome) = match failed.twice {
        true => die_twice(settings, graph, failed.strike),
        false => {
            let plan = settings.plan(graph, Some(failed.strike));
            let outcome = universe(&plan).run(Tape::quiet());
            (plan, outcome)
        }
    };
    let outcome = match outcome.end {
        End::Clean => {
            let Strike { fault, after, way } = failed.strike;
            let message = format!(
                "{} after {after} operations {way:?}: {}; yet the universe that it strikes passes, \
                 and the two must agree",
                fault.name(),
                failed.why
            );
            violated(message, outcome)
        }
        _ => outcome,
    };
    Finding { graph: graph.text(), plan, outcome }
}

/// The universe in which everybody dies along with a process, and the power goes after that. Which
/// of its choices lets them is found by trying.
fn die_twice(settings: &DiskSettings, graph: &Graph, strike: Strike) -> (Plan, Outcome) {
    let plan = Plan { faults_max: 1, ..settings.plan(graph, Some(strike)) };
    let mut universe = universe(&plan);
    let quiet = universe.run(Tape::quiet());
    let yes = Cell { site: Site::Detail, arity: 2, value: 1 };
    let cells = quiet.tape.iter().enumerate();
    let asks = cells.filter(|(_, cell)| cell.site == yes.site && cell.arity == yes.arity);
    for (at, _) in asks.take(DEATHS_TRIED_MAX) {
        let mut tape = quiet.tape[..at].to_vec();
        tape.extend([yes, yes]);
        let outcome = universe.run(Tape::replay(tape));
        if matches!(outcome.end, End::Violated(_)) {
            return (plan, outcome);
        }
    }
    (plan, quiet)
}

fn death(strike: Strike) -> Death {
    let trouble = strike.fault.trouble().expect("what kills strikes the disk");
    Death { trouble, way: strike.way, halfway: strike.is_halfway() }
}

/// The deaths at an operation, if so many power cuts and crashes of processes came before.
fn strikes(operation: Operation, before: [u32; 2]) -> impl Iterator<Item = Strike> {
    let whole = STRUCK.into_iter();
    let half = [(FaultKind::PowerCut, [1, 1]), (FaultKind::ProcessCrash, [0, 1])];
    let half = half.into_iter().filter(move |_| operation == Operation::Write);
    whole.chain(half).filter_map(move |(fault, way)| {
        let after = match fault.trouble()? {
            Trouble::PowerCut => before[0],
            Trouble::ProcessCrash => before[1],
            Trouble::IoError | Trouble::DiskFull | Trouble::FsyncLies => return None,
        };
        let strikes = fault.trouble()?.strikes(operation);
        strikes.then_some(Strike { fault, after, way })
    })
}

impl<'a> Pass<'a> {
    fn new(recording: &'a Recording, memo: bool) -> Self {
        Self {
            recording,
            memo,
            known: Vec::new(),
            found: BTreeMap::new(),
            read: BTreeMap::new(),
            rows: BTreeMap::new(),
            lost: BTreeMap::new(),
            points: 0,
            images: 0,
            failed: Vec::new(),
            failures: 0,
        }
    }

    /// Takes note of what there was after each commit. That it is what the judge knew, and that the
    /// file was sound, is seen here: all the rest is compared with it.
    fn anchor(&mut self, mirrors: &[Mirror]) -> Option<String> {
        assert!(mirrors.len() >= self.recording.states(), "the judge is told of every commit");
        for (count, mirror) in mirrors.iter().enumerate().take(self.recording.states()) {
            let disk = || self.recording.after_commits(count);
            let said = |why| format!("after {count} commits and without any trouble: {why}");
            if let Some(why) = differs(disk(), mirror) {
                return Some(said(why));
            }
            match pages(disk()).and_then(|pages| Ok((pages, rows(disk())?))) {
                Err(why) => return Some(said(why)),
                Ok((pages, rows)) => {
                    self.known.push(pages);
                    self.rows.insert(count, rows);
                }
            }
        }
        None
    }

    fn go_through(&mut self) {
        let recording = self.recording;
        let mut before = [0, 0];
        for moment in &recording.moments {
            for strike in strikes(moment.operation, before) {
                self.points += 1;
                if let Some(why) = self.check(moment, strike) {
                    self.fail(Failed { strike, twice: false, why });
                }
                if strike.fault == FaultKind::ProcessCrash {
                    self.read_and_lose(moment, strike);
                }
            }
            before[0] += u32::from(Trouble::PowerCut.strikes(moment.operation));
            before[1] += u32::from(Trouble::ProcessCrash.strikes(moment.operation));
        }
    }

    fn fail(&mut self, failed: Failed) {
        self.failures += 1;
        if self.failed.len() < FINDINGS_PER_FLOW_MAX {
            self.failed.push(failed);
        }
    }

    /// What is wrong with what recovery finds after a death, if anything is.
    fn check(&mut self, moment: &Moment, strike: Strike) -> Option<String> {
        let disk = self.recording.after_death(moment, death(strike));
        let key = disk.fingerprint();
        let found = self.recover(key, disk);
        let acknowledged = moment.acknowledged;
        let may_be = acknowledged..=acknowledged + usize::from(moment.committing);
        let known = self.known.get(may_be.clone()).unwrap_or(&self.known[acknowledged..]);
        if found.as_ref().is_ok_and(|found| known.contains(found)) {
            return None;
        }
        // Pages may differ in what no table shows.
        let key = (key, acknowledged, moment.committing);
        if let Some(known) = self.read.get(&key).filter(|_| self.memo) {
            return known.clone();
        }
        let disk = || self.recording.after_death(moment, death(strike));
        let wrong = match found.and_then(|_| rows(disk())) {
            Err(why) => Some(why),
            Ok(rows) => self.differ(may_be, &rows),
        };
        self.read.insert(key, wrong.clone());
        wrong
    }

    /// In what rows differ from those after that many commits, if they are of none of them.
    fn differ(&self, mut may_be: RangeInclusive<usize>, rows: &Rows) -> Option<String> {
        let first = *may_be.start();
        let known = |count: usize| self.rows.get(&count);
        let one =
            |count: usize| known(count).is_some_and(|known| difference(known, rows).is_none());
        match may_be.any(one) {
            true => None,
            false => difference(known(first)?, rows).map(|differs| {
                format!("{first} commits were acknowledged, and something else is found: {differs}")
            }),
        }
    }

    fn recover(&mut self, key: u128, disk: Disk) -> Result<Pages, String> {
        if let Some(known) = self.found.get(&key).filter(|_| self.memo) {
            return known.clone();
        }
        self.images += 1;
        let found = pages(disk);
        self.found.insert(key, found.clone());
        found
    }

    /// A process has died in the middle of a commit, another one opens the file, and then the power
    /// goes: if that one could read the commit, it is still there. If it could not, the commit may
    /// come to light all the same, as its log can be on the device before anybody is shown it.
    fn read_and_lose(&mut self, moment: &Moment, strike: Strike) {
        let kept = self.recording.after_death(moment, death(strike));
        if !moment.committing || !kept.is_unsynced() {
            return;
        }
        let mut lost = kept.copy();
        lost.lose_power([0, 0]);
        let key = (kept.fingerprint(), lost.fingerprint());
        let readable = self.recover(key.0, kept.copy());
        let acknowledged = self.known[moment.acknowledged];
        if readable == Ok(acknowledged) || self.recover(key.1, lost) == readable {
            return;
        }
        self.points += 1;
        let known = self.lost.get(&key).filter(|_| self.memo).cloned();
        let left = known.unwrap_or_else(|| {
            self.images += 1;
            opens_and_dies(kept).and_then(pages)
        });
        self.lost.insert(key, left.clone());
        if left != readable {
            let gone =
                "what could be read after the death of a process is gone when the power goes";
            let why = left.err().unwrap_or_else(|| gone.to_owned());
            self.fail(Failed { strike, twice: true, why });
        }
    }
}
