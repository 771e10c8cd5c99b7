//! One universe again, with everything that happens in it kept for a story, and what that says of a
//! failure file. Never prints.

use std::sync::Arc;

use crate::driver::trace::Entry;
use crate::driver::universe::id;
use crate::driver::world::world;
use crate::driver::{End, Universe};
use crate::exit::Exit;
use crate::failure::{FailureFile, Sighting};
use crate::panics::guarded;
use crate::plan::Plan;
use crate::signature::signature;
use crate::tape::{Cell, Tape};

/// A universe with everything that happened in it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What it was made from.
    pub plan: Arc<Plan>,
    /// What was wrong with it.
    pub sighting: Option<Sighting>,
    /// Why its tape did not fit, if it did not.
    pub strayed: Option<String>,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// The choices that were made.
    pub tape: Vec<Cell>,
    /// What happened.
    pub entries: Vec<Entry>,
    /// Why each execution that has not ended stands where it stands, by name.
    pub stuck: Vec<(String, String)>,
    /// The bounds that the liveness phase had to keep; none after a panic.
    pub bounds: Option<String>,
    /// Names of its actors.
    pub actors: Vec<String>,
}

/// What a replay says of a failure file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The same invariant is violated in the same way.
    Same,
    /// Something else is wrong.
    Different,
    /// Nothing is wrong any more.
    Passes,
    /// The choices no longer fit what is run.
    NotApplicable(String),
}

/// Runs the universe of a plan with that tape. Fails if the flow is invalid or the lane's storage
/// cannot be opened.
pub fn record(plan: Plan, tape: Tape) -> Result<Recorded, String> {
    let plan = Arc::new(plan);
    let mut universe = Universe::new(Arc::clone(&plan))?;
    universe.keep_entries(true);
    let actors = (0..universe.actors.len()).map(|at| universe.actor_name(id(at))).collect();
    let ran = guarded(|| {
        let outcome = universe.run(tape);
        let bounds = universe.bounds().to_string();
        (outcome, bounds)
    });
    let recorded = match ran {
        Ok((outcome, bounds)) => {
            let strayed = world(|world| world.tape.strayed().map(str::to_owned));
            let sighting = match outcome.end {
                End::Strayed(_) => None,
                end => Sighting::of(&end),
            };
            Recorded {
                plan,
                sighting,
                strayed,
                trace_hash: outcome.trace_hash,
                tape: outcome.tape,
                entries: outcome.entries,
                stuck: outcome.stuck,
                bounds: Some(bounds),
                actors,
            }
        }
        Err(said) => {
            let (trace_hash, entries, strayed, tape) = world(|world| {
                let strayed = world.tape.strayed().map(str::to_owned);
                let tape = world.tape.cells().to_vec();
                (world.trace.hash(), world.trace.take_entries(), strayed, tape)
            });
            Recorded {
                plan,
                sighting: Some(Sighting::panic(said)),
                strayed,
                trace_hash,
                tape,
                entries,
                stuck: Vec::new(),
                bounds: None,
                actors,
            }
        }
    };
    // What a panic was in the middle of may panic once more as it is dropped.
    let _ = guarded(|| {
        universe.keep_entries(false);
        drop(universe);
    });
    Ok(recorded)
}

impl Recorded {
    /// What this run says of the file that it was made from.
    pub fn verdict(&self, file: &FailureFile) -> Verdict {
        let same = self.sighting.as_ref().is_some_and(|seen| {
            let signature = signature(&seen.invariant, &seen.message, &self.plan.whole());
            seen.invariant == file.invariant && signature == file.signature
        });
        match (same, &self.strayed, &self.sighting) {
            (true, _, _) => Verdict::Same,
            (false, Some(why), _) => Verdict::NotApplicable(why.clone()),
            (false, None, Some(_)) => Verdict::Different,
            (false, None, None) => Verdict::Passes,
        }
    }

    /// The code that a command which sees it exits with.
    pub fn exit(&self) -> Exit {
        self.sighting.as_ref().map_or(Exit::Clean, Sighting::exit)
    }
}

impl Verdict {
    /// The verdict in words.
    pub fn text(&self) -> String {
        match self {
            Verdict::Same => "same violation".to_owned(),
            Verdict::Different => "different violation".to_owned(),
            Verdict::Passes => "passes".to_owned(),
            Verdict::NotApplicable(why) => format!("no longer applicable: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tape;
    use crate::failure::testing::{failing, specimen};
    use crate::tape::Site;

    /// One that fails by its choices: without a fault and in the default order it passes.
    fn file() -> FailureFile {
        failing(|file| {
            let quiet = record(file.plan.clone(), Tape::replay(Vec::new())).unwrap();
            quiet.verdict(file) == Verdict::Passes
        })
    }

    fn check(file: &FailureFile, verdict: &Verdict) {
        let recorded = record(file.plan.clone(), Tape::replay(file.tape.clone())).unwrap();
        assert_eq!(&recorded.verdict(file), verdict);
    }

    #[test]
    fn a_failure_replays_from_its_tape_as_from_its_seed() {
        let file = file();
        check(&file, &Verdict::Same);
        let from_tape = record(file.plan.clone(), Tape::replay(file.tape.clone())).unwrap();
        let from_seed = record(specimen().plan(file.seed), tape(file.seed)).unwrap();
        assert_eq!(from_tape.entries, from_seed.entries);
        assert_eq!(format!("{:016x}", from_tape.trace_hash), file.trace_hash);
    }

    #[test]
    fn a_quiet_tape_passes_and_another_invariant_is_a_different_violation() {
        let mut file = file();
        file.invariant = "I1".into();
        check(&file, &Verdict::Different);
        file.tape.clear();
        check(&file, &Verdict::Passes);
    }

    #[test]
    fn a_tape_that_does_not_fit_is_no_longer_applicable() {
        let mut file = file();
        file.tape = vec![Cell { site: Site::Victim, arity: 2, value: 0 }];
        let recorded = record(file.plan.clone(), Tape::replay(file.tape.clone())).unwrap();
        let Verdict::NotApplicable(why) = recorded.verdict(&file) else {
            panic!("{:?}", recorded.verdict(&file));
        };
        assert!(why.contains("Victim"), "{why}");
    }
}
