//! `exhaust`: from its arguments to its exit code. The universes are `crate::exhaust`'s.

mod disk;

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

use super::{ExhaustArguments, jobs};
use crate::campaign::Subject;
use crate::exhaust::graphs::Alphabet;
use crate::exhaust::shapes::NODES_MAX;
use crate::exhaust::{Finding, Settings, run as explore, usual_kinds};
use crate::exit::Exit;
use crate::failure::{Failure, FailureFile, Sighting};
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::report::list::HAS_MUTANTS;
use crate::report::progress::{Goal, Progress};
use crate::report::{commit, complain, json, print, reproduction};
use crate::scenario::Workload;

pub(super) fn run(arguments: &ExhaustArguments) -> Result<Exit, String> {
    match arguments.lane {
        LaneKind::Model => {}
        LaneKind::Sqlite => return disk::run(arguments),
        LaneKind::Network => {
            let why = "latency is no choice that is counted: use --lane model or --lane sqlite";
            return Err(format!("lane network: {why}"));
        }
    }
    let settings = settings(arguments)?;
    let command = command(arguments);
    print(&reproduction(&command));
    let flows = Mutex::new((Progress::new("flows", Goal::Count(0)), 0_u64, 0_usize));
    let summary = explore(&settings, &|done, total| {
        let Ok(mut progress) = flows.lock() else { return };
        if progress.2 != total {
            *progress = (Progress::new("flows", Goal::Count(total as u64)), 0, total);
        }
        let more = (done as u64).saturating_sub(progress.1);
        progress.1 += more;
        progress.0.advance(more, 0);
    });
    if let Ok(progress) = flows.into_inner() {
        progress.0.finish();
    }
    let ending = Ending {
        text: summary.to_string(),
        figures: summary.to_json(),
        findings: &summary.findings,
        clean: summary.is_clean(),
        complete: summary.complete,
    };
    Ok(end(arguments, &command, ending))
}

/// What a run of either lane comes to.
struct Ending<'a> {
    /// For whoever reads.
    text: String,
    /// For programs, without the head of the report.
    figures: Value,
    findings: &'a [Finding],
    clean: bool,
    complete: bool,
}

/// Prints what came of it, files the failures and writes the report.
fn end(arguments: &ExhaustArguments, command: &str, ending: Ending<'_>) -> Exit {
    print(&[&ending.text, "\n"].concat());
    let mut exits = exits(&ending);
    let mut complain_of = |why: String| {
        complain(&["error: ", &why].concat());
        exits.push(Exit::Environment);
    };
    for line in write_failures(ending.findings, arguments) {
        match line {
            Ok(file) => print(&format!("  cargo sim replay {file}\n")),
            Err(why) => complain_of(why),
        }
    }
    if let Some(path) = &arguments.json {
        let report = report(command, arguments, ending.figures);
        if let Err(why) = json::write(path, &report) {
            complain_of(why);
        }
    }
    print(&reproduction(command));
    Exit::first_of(&exits)
}

fn settings(arguments: &ExhaustArguments) -> Result<Settings, String> {
    check(arguments)?;
    Ok(Settings {
        nodes: arguments.nodes,
        faults: arguments.faults,
        delays: arguments.delays,
        alphabet: alphabet(arguments),
        kinds: usual_kinds(arguments.delays),
        engine: arguments.engine,
        mutant: arguments.mutant,
        memo: !arguments.no_memo,
        jobs: jobs(arguments.jobs),
        budget: None,
    })
}

fn check(arguments: &ExhaustArguments) -> Result<(), String> {
    let nodes = arguments.nodes;
    if nodes == 0 || nodes > NODES_MAX {
        return Err(format!("--nodes {nodes}: flows of 1 to {NODES_MAX} nodes are enumerated"));
    }
    if arguments.mutant.is_some() && !HAS_MUTANTS {
        return Err("this build holds no planted bugs: feature `mutants` is off".to_owned());
    }
    Ok(())
}

fn alphabet(arguments: &ExhaustArguments) -> Alphabet {
    match arguments.alphabet.as_str() {
        "B" => Alphabet::B,
        _ => Alphabet::A,
    }
}

fn command(arguments: &ExhaustArguments) -> String {
    let ExhaustArguments { nodes, faults, delays, alphabet, .. } = arguments;
    let mut line = format!(
        "cargo sim exhaust --nodes {nodes} --faults {faults} --delays {delays} \
         --alphabet {alphabet}"
    );
    if arguments.engine != EngineKind::Sluicegate {
        line += &[" --engine ", arguments.engine.name()].concat();
    }
    if let Some(mutant) = arguments.mutant {
        line += &[" --mutant ", mutant.id()].concat();
    }
    if arguments.no_memo {
        line.push_str(" --no-memo");
    }
    line
}

fn exits(ending: &Ending<'_>) -> Vec<Exit> {
    let seen = ending.findings.iter().filter_map(|finding| Sighting::of(&finding.outcome.end));
    let mut exits: Vec<Exit> = seen.map(|sighting| sighting.exit()).collect();
    if !ending.clean && exits.is_empty() {
        exits.push(Exit::Safety);
    }
    if !ending.complete {
        exits.push(Exit::Vacuous);
    }
    exits
}

/// One failure file for each signature; the names of those that were written.
fn write_failures(
    findings: &[Finding],
    arguments: &ExhaustArguments,
) -> Vec<Result<String, String>> {
    let files: BTreeMap<String, FailureFile> =
        findings.iter().rev().filter_map(failure_file).collect();
    let write = |file: FailureFile| {
        file.file_into(&arguments.failures).map(|filed| filed.path.display().to_string())
    };
    files.into_values().map(write).collect()
}

fn failure_file(finding: &Finding) -> Option<(String, FailureFile)> {
    let Finding { plan, outcome, .. } = finding;
    let sighting = Sighting::of(&outcome.end)?;
    let failure = Failure::new(0, sighting, &plan.flow, outcome.trace_hash, outcome.tape.clone());
    let file = FailureFile::new(&failure, plan.clone(), &commit());
    Some((file.entry_name(), file))
}

/// The head that every report begins with, and the figures of this one.
fn report(command: &str, arguments: &ExhaustArguments, figures: Value) -> Value {
    let ExhaustArguments { lane, engine, mutant, .. } = *arguments;
    let profile = Profile::Quick;
    let campaign = Campaign { lane, profile, engine, mutant, workload: Workload::Drawn };
    let head = json::Head::new(command, &Subject { campaign, file: None });
    let mut report = serde_json::to_value(&head).unwrap_or_default();
    if let (Value::Object(report), Value::Object(figures)) = (&mut report, figures) {
        report.extend(figures);
    }
    report
}
