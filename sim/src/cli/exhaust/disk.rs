//! `exhaust --lane sqlite`: from its arguments to its exit code. The universes are
//! `crate::exhaust::disk`'s.

use std::sync::Mutex;

use super::{alphabet, check, report, write_failures};
use crate::cli::{ExhaustArguments, jobs};
use crate::exhaust::disk::{DiskSettings, DiskSummary, run as explore};
use crate::exit::Exit;
use crate::failure::Sighting;
use crate::plan::{EngineKind, LaneKind};
use crate::report::progress::{Goal, Progress};
use crate::report::{complain, json, print, reproduction};

pub(super) fn run(arguments: &ExhaustArguments) -> Result<Exit, String> {
    check(arguments)?;
    let model_only = arguments.faults != 1 || arguments.delays != 0;
    if model_only || arguments.engine != EngineKind::Sluicegate {
        return Err("on a disk one operation goes wrong, in the default order".to_owned());
    }
    let settings = DiskSettings {
        nodes: arguments.nodes,
        alphabet: alphabet(arguments),
        mutant: arguments.mutant,
        memo: !arguments.no_memo,
        jobs: jobs(arguments.jobs),
    };
    let command = command(arguments);
    print(&reproduction(&command));
    let parts = Mutex::new(None);
    let summary = explore(&settings, &|done, total| {
        let Ok(mut parts) = parts.lock() else { return };
        let start = || (Progress::new("parts", Goal::Count(total as u64)), 0);
        let (progress, before) = parts.get_or_insert_with(start);
        let more = (done as u64).saturating_sub(*before);
        *before += more;
        progress.advance(more, 0);
    });
    if let Ok(Some((progress, _))) = parts.into_inner() {
        progress.finish();
    }
    print(&format!("{summary}\n"));
    let mut exits = exits(&summary);
    for line in write_failures(&summary.findings, arguments) {
        match line {
            Ok(file) => print(&format!("  cargo sim replay {file}\n")),
            Err(why) => {
                complain(&format!("error: {why}"));
                exits.push(Exit::Environment);
            }
        }
    }
    if let Some(path) = &arguments.json {
        let figures = summary.to_json();
        let report =
            report(&command, LaneKind::Sqlite, EngineKind::Sluicegate, settings.mutant, figures);
        if let Err(why) = json::write(path, &report) {
            complain(&format!("error: {why}"));
            exits.push(Exit::Environment);
        }
    }
    print(&reproduction(&command));
    Ok(Exit::first_of(&exits))
}

fn command(arguments: &ExhaustArguments) -> String {
    let ExhaustArguments { nodes, alphabet, .. } = arguments;
    let mut line = format!("cargo sim exhaust --lane sqlite --nodes {nodes} --alphabet {alphabet}");
    if let Some(mutant) = arguments.mutant {
        line += &[" --mutant ", mutant.id()].concat();
    }
    if arguments.no_memo {
        line.push_str(" --no-memo");
    }
    line
}

fn exits(summary: &DiskSummary) -> Vec<Exit> {
    let seen = summary.findings.iter().filter_map(|finding| Sighting::of(&finding.outcome.end));
    let mut exits: Vec<Exit> = seen.map(|sighting| sighting.exit()).collect();
    if !summary.is_clean() && exits.is_empty() {
        exits.push(Exit::Safety);
    }
    if !summary.complete {
        exits.push(Exit::Vacuous);
    }
    exits
}
