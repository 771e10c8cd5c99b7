//! The table and the JSON of a benchmark. Never decides whether a target is met.

use std::fmt::Write as _;

use serde::Serialize;

use super::figures::{Spread, Target, Unit};
use super::{Figures, Measured, Profile, Request, Row, Scale};
use crate::report::json::Head;
use crate::report::{Paint, commit};

/// Columns of the name of a work.
const NAME_COLUMNS: usize = 20;

/// The report for programs.
#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    head: Head,
    /// What the figures depend on, one text for each storage.
    settings: Vec<String>,
    rows: Vec<JsonRow>,
}

#[derive(Serialize)]
struct JsonRow {
    work: &'static str,
    storage: &'static str,
    unit: &'static str,
    ours: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    peer: Option<f64>,
    peer_name: Option<&'static str>,
    ceiling: Option<f64>,
    ceiling_name: Option<String>,
    ratio: Option<f64>,
    #[serde(flatten)]
    target: Target,
    meets: Option<bool>,
    statements: Option<u64>,
    commits: Option<u64>,
    units: Option<usize>,
    /// Why there is no figure.
    missing: Option<String>,
}

/// The report for programs.
pub(super) fn json(rows: &[Row], settings: &[String], request: &Request) -> Report {
    let lane = match request.lanes.as_slice() {
        [one] => one.name(),
        _ => "all",
    };
    let profile = match request.scale {
        Scale::Quick => "quick",
        Scale::Full => "full",
    };
    let command = request.command.clone();
    let head =
        Head { version: env!("CARGO_PKG_VERSION"), commit: commit(), command, lane, profile };
    Report { head, settings: settings.to_vec(), rows: rows.iter().map(json_row).collect() }
}

fn json_row(row: &Row) -> JsonRow {
    let (measured, missing) = match &row.result {
        Figures::Measured(measured) => (Some(measured), None),
        Figures::Wrong(why) => (None, Some(why.clone())),
    };
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    JsonRow {
        work: row.work.name,
        storage: row.lane.name(),
        unit: row.work.unit.name(),
        ours: measured.map(|one| one.ours.median),
        min: measured.map(|one| one.ours.min),
        max: measured.map(|one| one.ours.max),
        peer: row.work.peer.map(|peer| peer.figure),
        peer_name: row.work.peer.map(|peer| peer.name),
        ceiling: measured.and_then(|one| median(one.ceiling)),
        ceiling_name: row.work.ceiling.map(super::Ceiling::name),
        ratio: measured.and_then(|one| median(one.ratio)),
        target: row.work.target(row.lane),
        meets: measured.and_then(|one| one.meets(row.work, row.lane)),
        statements: measured.map(|one| one.statements),
        commits: measured.map(|one| one.commits),
        units: measured.map(|one| one.units),
        missing,
    }
}

/// The table for people.
pub(super) fn text(rows: &[Row], settings: &[String], request: &Request) -> String {
    let mut out = String::new();
    for (lane, settings) in request.lanes.iter().zip(settings) {
        let _ = writeln!(out, "{:10}{settings}", lane.name());
    }
    let repeats = request.repeats;
    let _ = writeln!(out, "median of {repeats} repeats, least and most in brackets; ratio: ours");
    let _ = writeln!(out, "over the ceiling of the same repeat; every result verified\n");
    let heading = format!(
        "{:NAME_COLUMNS$} {:8} {:>9} {:<21} {:7} {:>9} {:>6} {:>16} {:7} {:>7} {:>7}",
        "work",
        "storage",
        "ours",
        "[least most]",
        "unit",
        "ceiling",
        "ratio",
        "target",
        "",
        "stmts",
        "commits"
    );
    let _ = writeln!(out, "{}", request.paint.strong(&heading));
    for row in rows {
        let name = format!("{:NAME_COLUMNS$} {:8}", row.work.name, row.lane.name());
        match &row.result {
            Figures::Measured(one) => measured(&mut out, &name, row, one, request.paint),
            Figures::Wrong(why) => {
                let wrong = request.paint.alarm("wrong result");
                let _ = writeln!(out, "{name} {:>9} {wrong}: {why}", "-");
            }
        }
    }
    legend(&mut out, rows);
    if request.profile == Profile::Statements {
        for row in rows {
            statements(&mut out, row);
        }
    }
    out
}

fn measured(out: &mut String, name: &str, row: &Row, one: &Measured, paint: Paint) {
    let unit = row.work.unit;
    let ours = figure(unit, one.ours.median);
    let range = format!("[{} {}]", figure(unit, one.ours.min), figure(unit, one.ours.max));
    let ceiling = one.ceiling.map_or_else(String::new, |most| format!("{:.0}", most.median));
    let ratio = one.ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.median));
    let verdict = match one.meets(row.work, row.lane) {
        Some(true) => "meets  ".to_owned(),
        Some(false) => paint.alarm("misses "),
        None => "       ".to_owned(),
    };
    let target = target(unit, row.work.target(row.lane));
    let (statements, commits) = (share(one.statements, one.units), share(one.commits, one.units));
    let _ = writeln!(
        out,
        "{name} {ours:>9} {range:<21} {:7} {ceiling:>9} {ratio:>6} {target:>16} {verdict} \
         {statements:>7} {commits:>7}",
        unit.name(),
    );
}

/// What the columns mean, for the works that are shown.
fn legend(out: &mut String, rows: &[Row]) {
    let _ =
        writeln!(out, "\nstatements and commits by hop, node or task, counted in a run apart\n");
    let mut shown = Vec::new();
    for row in rows {
        if shown.contains(&row.work.name) {
            continue;
        }
        shown.push(row.work.name);
        let ceiling = row.work.ceiling.map_or_else(String::new, |one| format!(" | {}", one.name()));
        let peer = row.work.peer.map_or_else(String::new, |peer| {
            format!(" | {}: {}", peer.name, figure(row.work.unit, peer.figure))
        });
        let _ = writeln!(out, "{:NAME_COLUMNS$} {}{ceiling}{peer}", row.work.name, row.work.what);
    }
}

/// Count and mean time of every verb, the most expensive first.
fn statements(out: &mut String, row: &Row) {
    let Figures::Measured(one) = &row.result else { return };
    let _ = writeln!(out, "\n{} on {}", row.work.name, row.lane.name());
    let all: f64 = one.verbs.iter().map(|tally| tally.wall.as_secs_f64()).sum();
    for tally in &one.verbs {
        let wall = tally.wall.as_secs_f64();
        let mean_us = tally.wall.as_micros() / u128::from(tally.count.max(1));
        let name = tally.verb.descriptor().name;
        let percent = 100.0 * wall / all.max(1e-9);
        let count = tally.count;
        let _ = writeln!(out, "  {name:26} {count:>8} x {mean_us:>8} us {percent:>5.1} %");
    }
}

fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => format!("{value:.3}"),
        Unit::Ratio | Unit::Cost => format!("{value:.2}"),
        Unit::Hops | Unit::Nodes | Unit::Tasks | Unit::Megabytes => format!("{value:.0}"),
    }
}

fn target(unit: Unit, target: Target) -> String {
    let at = match unit {
        Unit::Seconds | Unit::Megabytes | Unit::Cost => "<=",
        Unit::Hops | Unit::Nodes | Unit::Tasks | Unit::Ratio => ">=",
    };
    let ours = target.ours.map(|bound| format!("{at} {}", figure(unit, bound)));
    let ratio = target.ratio.map(|bound| format!("{bound:.2}x"));
    ours.into_iter().chain(ratio).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "figures are read by people")]
fn share(count: u64, units: usize) -> String {
    format!("{:.2}", count as f64 / units.max(1) as f64)
}
