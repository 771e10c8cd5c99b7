//! The commands other than `run`, each from its arguments to its exit code.

use std::path::Path;

use sluicegate::mutants::Mutant;

use super::{MutantsArguments, ReplayArguments, jobs, paint, seeds};
use crate::campaign::{Shard, Subject, quoted, tape};
use crate::exit::Exit;
use crate::failure::FailureFile;
use crate::mutants::{Caught, Hunt, hunt, score};
use crate::plan::{Campaign, EngineKind, LaneKind, Plan, Profile};
use crate::replay::{Verdict, record};
use crate::report::list::{HAS_MUTANTS, listing};
use crate::report::progress::{Goal, Progress};
use crate::report::story::{Detail, Frame, tell};
use crate::report::text::hunts;
use crate::report::{complain, json, print, reproduction};
use crate::scenario::Workload;
use crate::tape::Tape;

pub(super) fn replay(arguments: &ReplayArguments) -> Result<Exit, String> {
    let trace = if arguments.trace { " --trace" } else { "" };
    let detail = if arguments.trace { Detail::Statements } else { Detail::Changes };
    let Ok(seed) = arguments.what.parse::<u64>() else {
        if let Some(option) = arguments.subject.given() {
            let file = &arguments.what;
            return Err(format!("{option} goes with a seed; `{file}` is none, and a file says it"));
        }
        let file = FailureFile::load(Path::new(&arguments.what)).map_err(|e| e.to_string())?;
        let command = format!("cargo sim replay {}{trace}", quoted(&arguments.what));
        return Ok(told(file.plan.clone(), Some(&file), &command, detail));
    };
    let subject = arguments.subject.subject()?;
    let command = format!("cargo sim replay {seed}{}{trace}", subject.options());
    Ok(told_of_seed(&subject, seed, &command, detail))
}

fn told_of_seed(subject: &Subject, seed: u64, command: &str, detail: Detail) -> Exit {
    let plan = subject.campaign.plan(seed);
    let title = format!("seed {seed}, profile {}", subject.campaign.profile.name());
    tell_universe(plan, tape(seed), &title, None, command, detail)
}

fn told(plan: Plan, file: Option<&FailureFile>, command: &str, detail: Detail) -> Exit {
    let cells = file.map(|file| file.tape.clone()).unwrap_or_default();
    let title = file.map_or_else(String::new, |file| {
        format!("failure of seed {}, found at commit {}", file.seed, file.commit)
    });
    tell_universe(plan, Tape::replay(cells), &title, file, command, detail)
}

fn tell_universe(
    plan: Plan,
    tape: Tape,
    title: &str,
    file: Option<&FailureFile>,
    command: &str,
    detail: Detail,
) -> Exit {
    let recorded = match record(plan, tape) {
        Ok(recorded) => recorded,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Exit::Environment;
        }
    };
    let verdict = file.map(|file| recorded.verdict(file));
    let frame = Frame { title, command, verdict: verdict.as_ref(), detail };
    print(&tell(&recorded, &frame, paint()));
    match verdict {
        Some(Verdict::NotApplicable(_)) => Exit::Usage,
        _ => recorded.exit(),
    }
}

pub(super) fn list(as_json: bool) -> Exit {
    let listing = listing();
    print(&match as_json {
        true => json::text(&listing),
        false => listing.to_text(),
    });
    Exit::Clean
}

pub(super) fn mutants(arguments: &MutantsArguments) -> Result<Exit, String> {
    if !HAS_MUTANTS {
        return Err("this build holds no planted bugs: feature `mutants` is off".to_owned());
    }
    let mutants = arguments.only.map_or_else(|| Mutant::ALL.to_vec(), |only| vec![only]);
    let only = arguments.only.map_or_else(String::new, |one| format!(" --only {}", one.id()));
    let (start, end) = (arguments.seeds.start, arguments.seeds.end);
    let lane = arguments.lane.map_or_else(String::new, |lane| format!(" --lane {}", lane.name()));
    let command = format!("cargo sim mutants{only}{lane} --seeds {start}..{end}");
    print(&reproduction(&command));
    let seeds = seeds(arguments.seeds, Shard::default());
    let mut progress = Progress::new("mutants", Goal::Count(mutants.len() as u64));
    let found = match hunt(&mutants, arguments.lane, seeds, jobs(arguments.jobs), &mut progress) {
        Ok(found) => found,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Ok(Exit::Environment);
        }
    };
    progress.finish();
    print(&hunts(&found, paint()));
    print(&reproduction(&command));
    let mut exits = Vec::new();
    if found.iter().any(Hunt::is_missed) {
        exits.push(Exit::Vacuous);
    }
    if let Some(path) = &arguments.json
        && let Err(why) = json::write(path, &mutants_report(&command, arguments.lane, &found))
    {
        complain(&format!("error: {why}"));
        exits.push(Exit::Environment);
    }
    Ok(Exit::first_of(&exits))
}

fn mutants_report(command: &str, lane: Option<LaneKind>, hunts: &[Hunt]) -> json::Mutants {
    let campaign = Campaign {
        lane: lane.unwrap_or(LaneKind::Model),
        profile: Profile::Quick,
        engine: EngineKind::Sluicegate,
        mutant: None,
        workload: Workload::Drawn,
    };
    let rows = hunts.iter().map(|hunt| json::MutantRow {
        id: hunt.mutant.id(),
        caught: hunt.caught() == Caught::ByName,
        seeds: hunt.seeds,
        seconds: hunt.wall.as_secs_f64(),
        invariant: hunt.detection.as_ref().map(|one| one.sighting.invariant.clone()),
    });
    json::Mutants {
        head: json::Head::new(command, &Subject { campaign, file: None }),
        mutants: rows.collect(),
        score: score(hunts),
    }
}
