//! `exhaust --lane sqlite`: from its arguments to what came of it. The universes are
//! `crate::exhaust::disk`'s.

use std::sync::Mutex;

use super::{Ending, alphabet, check, end};
use crate::cli::{ExhaustArguments, jobs};
use crate::exhaust::disk::{DiskSettings, run as explore};
use crate::exit::Exit;
use crate::plan::EngineKind;
use crate::report::progress::{Goal, Progress};
use crate::report::{print, reproduction};

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
    let ending = Ending {
        text: summary.to_string(),
        figures: summary.to_json(),
        findings: &summary.findings,
        clean: summary.is_clean(),
        complete: summary.complete,
    };
    Ok(end(arguments, &command, ending))
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
