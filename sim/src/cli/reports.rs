//! The `reports` command: public bug reports, each green on the engine and red on its specimens.
//! Never runs a universe itself.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::{jobs, paint, values};
use crate::campaign::{Subject, quoted};
use crate::exit::Exit;
use crate::plan::LaneKind;
use crate::report::progress::{Goal, Progress};
use crate::report::{Paint, complain, first_line, json, print, reproduction};
use crate::reports::{self, Shown, Staged};
use crate::scenario::Scenario;
use crate::signature::essence;

/// Characters of a message that is shown.
const MESSAGE_MAX: usize = 120;

#[derive(Args, Debug)]
pub(crate) struct ReportsArguments {
    /// Only the report with this id
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Only in this lane [default: every lane that can express it]
    #[arg(long, value_name = "LANE", value_parser = values::lane())]
    lane: Option<LaneKind>,
    /// Where the scenarios are
    #[arg(long, value_name = "DIR", default_value = "fixtures/reports")]
    scenarios: PathBuf,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The report for programs.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    head: json::Head,
    reports: Vec<Row>,
}

/// A scenario in a lane.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    lane: &'static str,
    rules: Vec<String>,
    universes: u64,
    failures: u64,
    missing: Vec<String>,
    specimens: Vec<SpecimenRow>,
}

#[derive(Debug, Serialize)]
struct SpecimenRow {
    specimen: String,
    invariant: Option<String>,
    seed: Option<u64>,
}

pub(super) fn run(arguments: &ReportsArguments) -> Result<Exit, String> {
    let mut scenarios = Scenario::load_all(&arguments.scenarios)?;
    if let Some(only) = &arguments.only {
        let ids: Vec<String> = scenarios.iter().map(|one| one.id.clone()).collect();
        scenarios.retain(|one| one.id == *only);
        if scenarios.is_empty() {
            return Err(format!("there is no report `{only}`; there are {}", ids.join(" ")));
        }
    }
    let command = command(arguments);
    print(&reproduction(&command));
    let work = scenarios.into_iter().map(Arc::new).flat_map(|scenario| {
        let lanes: Vec<LaneKind> = scenario.lanes.keys().copied().collect();
        lanes.into_iter().map(move |lane| (Arc::clone(&scenario), lane))
    });
    let work: Vec<(Arc<Scenario>, LaneKind)> =
        work.filter(|(_, lane)| arguments.lane.is_none_or(|only| only == *lane)).collect();
    if work.is_empty() {
        return Err("none of these reports can be expressed in that lane".to_owned());
    }
    let mut progress = Progress::new("reports", Goal::Count(work.len() as u64));
    let mut done = Vec::new();
    for (scenario, lane) in &work {
        match reports::run(scenario, *lane, jobs(arguments.jobs)) {
            Ok(staged) => {
                progress.advance(1, u64::from(!staged.holds()));
                done.push(staged);
            }
            Err(why) => {
                complain(&format!("error: {why}"));
                return Ok(Exit::Environment);
            }
        }
    }
    progress.finish();
    let shown: Vec<String> = done.iter().map(|one| words(one, arguments, paint())).collect();
    print(&shown.concat());
    let good = done.iter().filter(|one| one.holds()).count();
    print(&format!("{good} of {} hold: green on the engine, red on their specimens\n", done.len()));
    print(&reproduction(&command));
    let mut exits: Vec<Exit> = done.iter().flat_map(Staged::exits).collect();
    if let Some(path) = &arguments.json
        && let Err(why) = json::write(path, &report(&command, &done))
    {
        complain(&format!("error: {why}"));
        exits.push(Exit::Environment);
    }
    Ok(Exit::first_of(&exits))
}

fn command(arguments: &ReportsArguments) -> String {
    let only = arguments.only.as_ref().map(|id| format!(" --only {}", quoted(id)));
    let lane = arguments.lane.map(|lane| format!(" --lane {}", lane.name()));
    let folder = quoted(&arguments.scenarios.display().to_string());
    format!(
        "cargo sim reports{}{} --scenarios {folder}",
        only.unwrap_or_default(),
        lane.unwrap_or_default()
    )
}

fn words(staged: &Staged, arguments: &ReportsArguments, paint: Paint) -> String {
    let Staged { scenario, lane, universes, failures, .. } = staged;
    let file = arguments.scenarios.join(format!("{}.json", scenario.id));
    let replay = |seed: u64, with: &str| {
        let file = quoted(&file.display().to_string());
        let lane = lane.name();
        format!(
            "     cargo sim replay {seed} --lane {lane} --profile swarm{with} --scenario {file}"
        )
    };
    let head = format!("{}  {} in lane {}: ", scenario.id, scenario.class, lane.name());
    let mut lines = match &staged.failed {
        None => vec![format!("{head}{universes} universes pass")],
        Some((seed, seen)) => {
            let message = first_line(&essence(&seen.message), MESSAGE_MAX);
            let failed = format!("{failures} of {universes} universes fail: {}", seen.invariant);
            vec![format!("{head}{} {message}", paint.alarm(&failed)), replay(*seed, "")]
        }
    };
    if !staged.missing.is_empty() {
        let never = format!("never reached: {}", staged.missing.join(", "));
        lines.push(format!("     {}", paint.alarm(&never)));
    }
    for shown in &staged.specimens {
        lines.extend(specimen(shown, scenario, paint, &replay));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn specimen(
    shown: &Shown,
    scenario: &Scenario,
    paint: Paint,
    replay: &dyn Fn(u64, &str) -> String,
) -> Vec<String> {
    let name = shown.specimen.name();
    let option = if shown.specimen.mutant.is_some() { "mutant" } else { "engine" };
    let with = format!(" --{option} {name}");
    match (&shown.seen, &shown.otherwise) {
        (Some((seed, seen)), None) => {
            let words = format!("     {name} fails by {} at seed {seed}", seen.invariant);
            vec![words, replay(*seed, &with)]
        }
        (_, Some((seed, seen))) => {
            let wanted: Vec<&str> = scenario.invariants().into_iter().collect();
            let words = format!(
                "{name} fails by {}, which stands for none of its rules ({})",
                seen.invariant,
                wanted.join(" ")
            );
            vec![format!("     {}", paint.alarm(&words)), replay(*seed, &with)]
        }
        (None, None) => vec![format!("     {}", paint.alarm(&format!("{name} passes")))],
    }
}

fn report(command: &str, done: &[Staged]) -> Report {
    let first = done.first().expect("there is work");
    let campaign = reports::staged(&first.scenario, first.lane, None);
    let rows = done.iter().map(|one| Row {
        id: one.scenario.id.clone(),
        lane: one.lane.name(),
        rules: one.scenario.rules.clone(),
        universes: one.universes,
        failures: one.failures,
        missing: one.missing.clone(),
        specimens: one.specimens.iter().map(specimen_row).collect(),
    });
    Report {
        head: json::Head::new(command, &Subject { campaign, file: None }),
        reports: rows.collect(),
    }
}

fn specimen_row(shown: &Shown) -> SpecimenRow {
    SpecimenRow {
        specimen: shown.specimen.name().to_owned(),
        invariant: shown.seen.as_ref().map(|(_, seen)| seen.invariant.clone()),
        seed: shown.seen.as_ref().map(|(seed, _)| *seed),
    }
}
