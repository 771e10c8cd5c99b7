//! Makes a failing universe smaller as long as it fails in the same way: the flow, the actors and
//! the faults of its plan, and the choices of its tape, all together. Never judges by itself.
//!
//! A smaller plan is tried with the choices that it has in common with the present tape, and then
//! with tapes drawn anew, which finds the same mistake where nothing of the old schedule fits. A
//! tape is made quieter by halving what is left of it (Zeller, Hildebrandt, "Simplifying and
//! Isolating Failure-Inducing Input", 2002).

mod smaller;

use std::sync::Arc;
use std::time::Duration;

use crate::driver::Universe;
use crate::driver::trace::What;
use crate::driver::world::world;
use crate::failure::{Extent, Failure, FailureFile, NecessaryFault, Sighting};
use crate::panics::guarded;
use crate::plan::Plan;
use crate::replay::{Recorded, Verdict, record};
use crate::report::names::seconds;
use crate::report::progress::Stopwatch;
use crate::signature::signature;
use crate::tape::{Cell, Tape};

/// Tapes that are drawn for a smaller plan in the first round; each later round draws more.
const DRAWN_FIRST: u64 = 24;
/// The factor from one round to the next.
const DRAWN_FACTOR: u64 = 4;
/// Tapes that are drawn for a smaller plan at most.
const DRAWN_MAX: u64 = 6_000;
/// The odds of drawn tapes, as parts of those of the plan.
const SHARES: [u16; 4] = [1, 4, 16, 64];
/// How often a smaller universe is told of while the search goes on.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// The stream of drawn tapes, which no campaign uses.
const STREAM: u64 = 2;

/// A failing universe.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Before it runs.
    pub plan: Plan,
    /// Its choices; what lies past them is quiet.
    pub tape: Vec<Cell>,
}

/// What became of a failure file.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller universe.
    pub case: Case,
    /// How large the file's was.
    pub before: Extent,
    /// How large this one is.
    pub after: Extent,
    /// The faults that it does not do without, in the order in which they strike.
    pub necessary: Vec<NecessaryFault>,
    /// Universes that were run.
    pub universes: u64,
    /// Nothing smaller was found any more; otherwise time was up.
    pub minimal: bool,
    failure: Failure,
}

impl Case {
    /// How large it is.
    pub fn extent(&self) -> Extent {
        Extent::of(&self.plan, &self.tape)
    }

    /// Choices that are not quiet, and how far they reach.
    fn choices(&self) -> (usize, usize) {
        (self.tape.iter().filter(|cell| cell.value > 0).count(), self.tape.len())
    }
}

/// Makes the universe of a failure file smaller until nothing smaller is found or the time is up;
/// `better` sees each smaller one, so that an interrupted search has lost nothing.
///
/// Fails if the file does not fail as it says.
pub fn shrink(
    file: &FailureFile,
    budget: Duration,
    better: &mut dyn FnMut(&Shrunk) -> Result<(), String>,
) -> Result<Shrunk, String> {
    let recorded = record(file.plan.clone(), Tape::replay(file.tape.clone()))?;
    let verdict = recorded.verdict(file);
    if verdict != Verdict::Same {
        return Err(format!("it does not fail as it says here: {}", verdict.text()));
    }
    let case = Case { plan: file.plan.clone(), tape: file.tape.clone() };
    let mut search = Search {
        file,
        before: case.extent(),
        case,
        watch: Stopwatch::start(),
        budget,
        told_at: None,
        universes: 0,
        better,
    };
    let minimal = search.rounds()?;
    search.finish(minimal)
}

/// A part of some odds; never none of them.
fn share_of(odds: u16, share: u16) -> u16 {
    if odds == 0 { 0 } else { (odds / share).max(1) }
}

struct Search<'a> {
    file: &'a FailureFile,
    before: Extent,
    case: Case,
    watch: Stopwatch,
    budget: Duration,
    told_at: Option<Duration>,
    universes: u64,
    better: &'a mut dyn FnMut(&Shrunk) -> Result<(), String>,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.watch.elapsed() >= self.budget
    }

    /// True once a round with as many drawn tapes as there may be has found nothing.
    fn rounds(&mut self) -> Result<bool, String> {
        let mut drawn = DRAWN_FIRST;
        loop {
            let simpler = self.simplify(drawn)?;
            let quieter = self.quiet()?;
            if self.is_over() {
                return Ok(false);
            }
            if quieter || simpler {
                continue;
            }
            if drawn >= DRAWN_MAX {
                return Ok(true);
            }
            drawn *= DRAWN_FACTOR;
        }
    }

    /// Tries simpler plans; true if one of them still fails.
    fn simplify(&mut self, drawn: u64) -> Result<bool, String> {
        let (mut at, mut found) = (0, false);
        loop {
            let plans = smaller::plans(&self.case.plan, self.case.extent());
            let Some(plan) = plans.into_iter().nth(at) else { return Ok(found) };
            if self.is_over() {
                return Ok(found);
            }
            match self.fails_with(&plan, drawn)? {
                Some(case) => {
                    self.adopt(case)?;
                    found = true;
                }
                None => at += 1,
            }
        }
    }

    /// That plan with a tape under which it fails and is not larger than the present one.
    fn fails_with(&mut self, plan: &Plan, drawn: u64) -> Result<Option<Case>, String> {
        let extent = self.case.extent();
        let given = Tape::edited(self.case.tape.clone());
        if let Some(case) = self.fails_within(plan, [given], extent)? {
            return Ok(Some(case));
        }
        // Few deviations far apart are other universes than many in a row.
        for (nth, share) in (0..).zip(SHARES) {
            let mut plan = plan.clone();
            plan.odds.schedule = share_of(plan.odds.schedule, share);
            plan.odds.fault = share_of(plan.odds.fault, share);
            let tapes = (0..drawn.div_ceil(SHARES.len() as u64))
                .map(|tape| Tape::random(tape * SHARES.len() as u64 + nth, STREAM));
            if let Some(case) = self.fails_within(&plan, tapes, extent)? {
                return Ok(Some(case));
            }
        }
        Ok(None)
    }

    /// That plan with the first of the tapes under which it fails and is no larger than that.
    fn fails_within(
        &mut self,
        plan: &Plan,
        tapes: impl IntoIterator<Item = Tape>,
        extent: Extent,
    ) -> Result<Option<Case>, String> {
        let plan = Arc::new(plan.clone());
        let mut universe = Universe::new(Arc::clone(&plan))?;
        for tape in tapes {
            if self.is_over() {
                break;
            }
            let Some(tape) = self.fails(&mut universe, &plan, tape) else { continue };
            let case = Case { plan: Plan::clone(&plan), tape };
            if case.extent() <= extent {
                return Ok(Some(case));
            }
        }
        Ok(None)
    }

    /// Makes the tape quieter and shorter; true if it could be.
    fn quiet(&mut self) -> Result<bool, String> {
        let mut found = false;
        let plan = Arc::new(self.case.plan.clone());
        let mut universe = Universe::new(Arc::clone(&plan))?;
        let mut size = self.case.tape.len().div_ceil(2);
        while size > 0 {
            let mut end = self.case.tape.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let loud = self.case.tape[start..end].iter().any(|cell| cell.value > 0);
                if loud && self.is_over() {
                    return Ok(found);
                }
                if loud && let Some(case) = self.quieter(&mut universe, &plan, start..end) {
                    self.adopt(case)?;
                    found = true;
                }
                end = start.min(self.case.tape.len());
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        Ok(found)
    }

    /// The present case with those cells quiet, if it still fails and is smaller.
    fn quieter(
        &mut self,
        universe: &mut Universe,
        plan: &Arc<Plan>,
        cells: std::ops::Range<usize>,
    ) -> Option<Case> {
        let mut given = self.case.tape.clone();
        for cell in &mut given[cells] {
            cell.value = 0;
        }
        let tape = self.fails(universe, plan, Tape::edited(given))?;
        let case = Case { plan: self.case.plan.clone(), tape };
        let measure = |case: &Case| (case.extent(), case.choices());
        (measure(&case) < measure(&self.case)).then_some(case)
    }

    /// The choices of a universe that fails as the file does.
    fn fails(
        &mut self,
        universe: &mut Universe,
        plan: &Arc<Plan>,
        tape: Tape,
    ) -> Option<Vec<Cell>> {
        self.universes += 1;
        let ran = guarded(|| universe.run(tape));
        let (sighting, mut cells) = match ran {
            Ok(outcome) => (Sighting::of(&outcome.end)?, outcome.tape),
            Err(said) => {
                let cells = world(|world| world.tape.cells().to_vec());
                // What it was in the middle of is not to be used again.
                if let Ok(fresh) = Universe::new(Arc::clone(plan)) {
                    let left = std::mem::replace(universe, fresh);
                    let _ = guarded(|| drop(left));
                }
                (Sighting::panic(said), cells)
            }
        };
        let same = sighting.invariant == self.file.invariant
            && signature(&sighting.invariant, &sighting.message, &plan.whole())
                == self.file.signature;
        while cells.last().is_some_and(|cell| cell.value == 0) {
            cells.pop();
        }
        same.then_some(cells)
    }

    fn adopt(&mut self, case: Case) -> Result<(), String> {
        self.case = case;
        let now = self.watch.elapsed();
        if self.told_at.is_some_and(|told_at| now < told_at + TOLD_EVERY) {
            return Ok(());
        }
        self.told_at = Some(now);
        let recorded = self.recorded(self.case.tape.clone())?;
        let shrunk = self.shrunk(&recorded, Vec::new(), false);
        (self.better)(&shrunk)
    }

    fn recorded(&self, tape: Vec<Cell>) -> Result<Recorded, String> {
        record(self.case.plan.clone(), Tape::edited(tape))
    }

    fn shrunk(&self, recorded: &Recorded, necessary: Vec<NecessaryFault>, minimal: bool) -> Shrunk {
        let sighting = recorded.sighting.clone().unwrap_or_else(|| Sighting {
            invariant: self.file.invariant.clone(),
            message: self.file.message.clone(),
        });
        let flow = self.case.plan.whole();
        let tape = self.case.tape.clone();
        Shrunk {
            case: self.case.clone(),
            before: self.before,
            after: self.case.extent(),
            necessary,
            universes: self.universes,
            minimal,
            failure: Failure::new(self.file.seed, sighting, &flow, recorded.trace_hash, tape),
        }
    }

    fn finish(self, minimal: bool) -> Result<Shrunk, String> {
        let recorded = self.recorded(self.case.tape.clone())?;
        let necessary = self.necessary(&recorded)?;
        Ok(self.shrunk(&recorded, necessary, minimal))
    }

    /// Takes away each fault by itself and looks what becomes of the universe.
    fn necessary(&self, recorded: &Recorded) -> Result<Vec<NecessaryFault>, String> {
        let struck = recorded.entries.iter().filter_map(|entry| match entry.what {
            What::Fault(kind) => Some((entry, kind)),
            _ => None,
        });
        let words: Vec<String> = struck
            .map(|(entry, kind)| {
                let actor = recorded.actors.get(usize::from(entry.actor));
                let actor = actor.map_or("the storage", String::as_str);
                let at = seconds(entry.at_us);
                format!("{} at {at}, {actor}", kind.name())
            })
            .collect();
        let cells = self.case.tape.iter().enumerate().filter(|(_, cell)| cell.is_fault());
        let mut necessary = Vec::new();
        for (nth, (at, _)) in cells.enumerate() {
            let mut tape = self.case.tape.clone();
            tape[at].value = 0;
            let without = self.recorded(tape)?.verdict(self.file);
            if without != Verdict::Same {
                let fault = words.get(nth).cloned().unwrap_or_else(|| "a fault".to_owned());
                necessary.push(NecessaryFault { fault, without: without.text() });
            }
        }
        Ok(necessary)
    }
}

impl Shrunk {
    /// The failure file of the smaller universe.
    pub fn to_file(&self, commit: &str) -> FailureFile {
        let mut file = FailureFile::new(&self.failure, self.case.plan.clone(), commit);
        file.necessary.clone_from(&self.necessary);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::testing::failing;

    /// One in which more than one fault strikes.
    fn file() -> FailureFile {
        failing(|file| Extent::of(&file.plan, &file.tape).faults > 1)
    }

    #[test]
    fn a_shrunk_file_is_smaller_and_replays_as_the_same_violation() {
        let file = file();
        let mut told = 0;
        let budget = Duration::from_secs(4);
        let shrunk = shrink(&file, budget, &mut |smaller| {
            assert!(smaller.after <= smaller.before);
            told += 1;
            Ok(())
        });
        let shrunk = shrunk.unwrap();
        assert!(told > 0, "each smaller one is told of");
        assert!(shrunk.after < shrunk.before, "{:?}", shrunk.after);
        assert_eq!(shrunk.after, shrunk.case.extent());
        let smaller = shrunk.to_file("unknown");
        assert_eq!(smaller.signature, file.signature);
        let again = record(smaller.plan.clone(), Tape::replay(smaller.tape.clone())).unwrap();
        assert_eq!(again.verdict(&file), Verdict::Same);
        assert_eq!(again.strayed, None, "it replays cell by cell");
        assert_eq!(format!("{:016x}", again.trace_hash), smaller.trace_hash);
        assert!(smaller.necessary.len() <= shrunk.after.faults);
    }

    #[test]
    fn each_fault_is_taken_away_by_itself() {
        let file = file();
        let shrunk = shrink(&file, Duration::ZERO, &mut |_| Ok(())).unwrap();
        assert_eq!(shrunk.before, shrunk.after, "there was no time");
        assert!(!shrunk.minimal);
        for fault in &shrunk.necessary {
            assert_ne!(fault.without, Verdict::Same.text(), "{fault:?}");
        }
    }

    #[test]
    fn a_file_that_does_not_fail_as_it_says_is_not_shrunk() {
        let file = FailureFile { invariant: "I1".into(), ..file() };
        let why = shrink(&file, Duration::ZERO, &mut |_| Ok(())).unwrap_err();
        assert!(why.contains("does not fail as it says"), "{why}");
    }

    #[test]
    fn a_search_that_cannot_keep_what_it_found_ends() {
        let refuse = &mut |_: &Shrunk| Err("no room".to_owned());
        assert_eq!(shrink(&file(), Duration::from_mins(1), refuse).unwrap_err(), "no room");
    }
}
