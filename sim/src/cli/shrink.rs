//! The `shrink` and `cause` commands: from a failure file to a smaller one, and to where it became
//! one that cannot be saved. Never searches by itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::values;
use crate::campaign::quoted;
use crate::cause::{Cause, Continued, cause};
use crate::exit::Exit;
use crate::failure::{Extent, FailureFile, NecessaryFault};
use crate::report::progress::{Goal, Progress};
use crate::report::story::moments;
use crate::report::{commit, complain, json, print, reproduction};
use crate::shrink::{Shrunk, shrink};

/// What happened last before a choice, as `cause` shows it.
const MOMENTS_BEFORE: usize = 6;
/// What happens after it.
const MOMENTS_AFTER: usize = 6;

#[derive(Args, Debug)]
pub(crate) struct ShrinkArguments {
    /// A failure file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How long to search for a smaller universe
    #[arg(long, value_name = "TIME", value_parser = values::budget, default_value = "30s")]
    budget: Duration,
    /// Where the smaller file goes [default: beside FILE, as NAME.min.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CauseArguments {
    /// A failure file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Random continuations of each beginning
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    continuations: u32,
}

/// The report of `shrink`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: json::Head,
    file: String,
    before: Extent,
    after: Extent,
    necessary: &'a [NecessaryFault],
    universes: u64,
    minimal: bool,
}

pub(super) fn run(arguments: &ShrinkArguments) -> Result<Exit, String> {
    let file = FailureFile::load(&arguments.file).map_err(|error| error.to_string())?;
    let out = arguments.out.clone().unwrap_or_else(|| beside(&arguments.file));
    let command = command(arguments);
    print(&reproduction(&command));
    let mut progress = Progress::new("universes", Goal::Time(arguments.budget));
    let commit = commit();
    let mut tried = 0;
    let done = shrink(&file, arguments.budget, &mut |smaller: &Shrunk| {
        progress.advance(smaller.universes - tried, 0);
        tried = smaller.universes;
        smaller.to_file(&commit).write_as(&out)
    });
    progress.finish();
    let shrunk = done.map_err(|why| format!("{}: {why}", arguments.file.display()))?;
    shrunk.to_file(&commit).write_as(&out)?;
    print(&words(&shrunk, &out));
    print(&reproduction(&command));
    if let Some(path) = &arguments.json {
        let report = Report {
            head: json::Head::of_plan(&command, &file.plan),
            file: out.display().to_string(),
            before: shrunk.before,
            after: shrunk.after,
            necessary: &shrunk.necessary,
            universes: shrunk.universes,
            minimal: shrunk.minimal,
        };
        if let Err(why) = json::write(path, &report) {
            complain(&format!("error: {why}"));
            return Ok(Exit::Environment);
        }
    }
    Ok(Exit::Clean)
}

fn command(arguments: &ShrinkArguments) -> String {
    let path = |path: &Path| quoted(&path.display().to_string());
    let out = arguments.out.as_deref().map(|out| format!(" --out {}", path(out)));
    format!(
        "cargo sim shrink {} --budget {}ms{}",
        path(&arguments.file),
        arguments.budget.as_millis(),
        out.unwrap_or_default()
    )
}

/// `NAME.min.json` for `NAME.json`.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("min.json")
}

fn words(shrunk: &Shrunk, out: &Path) -> String {
    let size = |extent: Extent| {
        format!(
            "{} executions, {} faults, {} deviations from the default schedule",
            extent.executions, extent.faults, extent.deviations
        )
    };
    let mut lines = vec![
        format!("before     {}", size(shrunk.before)),
        format!("after      {}", size(shrunk.after)),
    ];
    let necessary =
        |one: &NecessaryFault| format!("necessary  {}; without it: {}", one.fault, one.without);
    lines.extend(shrunk.necessary.iter().map(necessary));
    if shrunk.necessary.is_empty() {
        lines.push("necessary  no fault: the schedule alone does it".to_owned());
    }
    let universes = shrunk.universes;
    lines.push(match shrunk.minimal {
        true => format!("minimal    nothing smaller in {universes} universes"),
        false => format!("time is up after {universes} universes: --budget gives more"),
    });
    let path = quoted(&out.display().to_string());
    lines.push(format!("file       {path}"));
    lines.push(format!("replay     cargo sim replay {path}\n"));
    lines.join("\n")
}

pub(super) fn run_cause(arguments: &CauseArguments) -> Result<Exit, String> {
    let file = FailureFile::load(&arguments.file).map_err(|error| error.to_string())?;
    let path = quoted(&arguments.file.display().to_string());
    let of = arguments.continuations;
    let command = format!("cargo sim cause {path} --continuations {of}");
    print(&reproduction(&command));
    let looks = file.tape.len().max(1).ilog2() + 3;
    let mut progress = Progress::new("beginnings", Goal::Count(u64::from(looks)));
    let found = cause(&file, of, &mut |_| progress.advance(1, 0));
    progress.finish();
    let cause = found.map_err(|why| format!("{}: {why}", arguments.file.display()))?;
    print(&told(&cause, &file));
    print(&reproduction(&command));
    Ok(Exit::Clean)
}

fn told(cause: &Cause, file: &FailureFile) -> String {
    let count = |one: Continued| format!("{} of {} random continuations pass", one.passed, one.of);
    let mut lines = vec![format!("violated   {} ({})", file.invariant, file.message)];
    lines.push(match cause.open {
        Some(open) => format!("before     {} choices: {}", open.choices, count(open)),
        None => "before     its first choice it is lost already".to_owned(),
    });
    let closed = cause.closed;
    lines.push(format!("after      {} choices: {}", closed.choices, count(closed)));
    if let Some(cell) = cause.choice {
        lines.push(format!(
            "the choice {} of {}: {:?}, {} of {}",
            closed.choices, cause.choices, cell.site, cell.value, cell.arity
        ));
    }
    let from = cause.settled.saturating_sub(MOMENTS_BEFORE);
    let to = (cause.settled + MOMENTS_AFTER).min(cause.recorded.entries.len());
    lines.push("what every continuation has seen".to_owned());
    let seen = moments(&cause.recorded, from..cause.settled);
    let then = moments(&cause.recorded, cause.settled..to);
    format!("{}\n{seen}what the failing one does then\n{then}", lines.join("\n"))
}
