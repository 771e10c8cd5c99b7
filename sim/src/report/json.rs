//! Reports for programs: the head that every command writes, and the figures of each. Never formats
//! for people.

use std::path::Path;

use serde::Serialize;

use crate::campaign::Subject;
use crate::plan::{LaneKind, Plan};
use crate::report::commit;
use crate::report::coverage::Coverage;

/// What the report of every command begins with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Head {
    /// Version of the package.
    pub version: &'static str,
    /// Commit of its sources.
    pub commit: String,
    /// The line that repeats the command.
    pub command: String,
    /// The lane.
    pub lane: &'static str,
    /// The profile.
    pub profile: &'static str,
}

impl Head {
    /// The head of a command about that subject.
    pub fn new(command: &str, subject: &Subject) -> Self {
        Self::of(command, subject.campaign.lane, subject.campaign.profile.name())
    }

    /// The head of a command about one failing universe, which no profile describes.
    pub fn of_plan(command: &str, plan: &Plan) -> Self {
        Self::of(command, plan.lane, "file")
    }

    fn of(command: &str, lane: LaneKind, profile: &'static str) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            command: command.to_owned(),
            lane: lane.name(),
            profile,
        }
    }
}

/// A failed universe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FailureRow {
    /// Its seed.
    pub seed: u64,
    /// Id of the violated invariant.
    pub invariant: String,
    /// The same for the same mistake.
    pub signature: String,
    /// The failure file of that signature, if one was written.
    pub file: Option<String>,
}

/// The report of `run`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Run {
    /// What every report begins with.
    #[serde(flatten)]
    pub head: Head,
    /// Universes.
    pub runs: u64,
    /// Executed statements.
    pub statements: u64,
    /// Commits that resolved an edge.
    pub hops: u64,
    /// Faults that struck, by kind.
    pub faults: Faults,
    /// Failed universes, in seed order.
    pub failures: Vec<FailureRow>,
    /// Seeds whose second run left another trace, and processes that did.
    pub mismatches: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// Seconds of wall time.
    pub wall_s: f64,
    /// Universes by second.
    pub runs_per_s: f64,
    /// Executed statements by second.
    pub statements_per_s: f64,
    /// Simulated seconds by second.
    pub sim_s_per_s: f64,
}

/// Counts by kind of fault, in the order of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults(pub Vec<(&'static str, u64)>);

impl Serialize for Faults {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// One planted bug in the report of `mutants`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MutantRow {
    /// Its id.
    pub id: &'static str,
    /// Whether an invariant of its list saw it first.
    pub caught: bool,
    /// Seeds up to the first that showed it, or all that were tried.
    pub seeds: u64,
    /// Wall time of them, in seconds.
    pub seconds: f64,
    /// What saw it first.
    pub invariant: Option<String>,
}

/// The report of `mutants`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mutants {
    /// What every report begins with.
    #[serde(flatten)]
    pub head: Head,
    /// Every planted bug, in the order of the table.
    pub mutants: Vec<MutantRow>,
    /// `caught 24 of 24`.
    pub score: String,
}

/// A report as text.
pub fn text(report: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(report).expect("a report is plain data");
    text + "\n"
}

/// Writes a report.
pub fn write(path: &Path, report: &impl Serialize) -> Result<(), String> {
    std::fs::write(path, text(report)).map_err(|error| format!("{}: {error}", path.display()))
}
