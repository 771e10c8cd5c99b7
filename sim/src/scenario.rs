//! Public bug reports of systems that do this job, each as a campaign of its own: a graph, actors
//! and faults that bring the engine to the instant of the report. Never judges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sluicegate::flow::{Additions, FlowSpec, Limits};
use sluicegate::mutants::Mutant;

use crate::driver::tally::Sometimes;
use crate::faults::FaultKind;
use crate::files::read_text;
use crate::plan::{Backend, EngineKind, LaneKind};

/// The rules that users of such systems rely on, and the invariants that keep them here.
pub const RULES: [(&str, &[&str], &str); 22] = [
    ("R1", &["I8", "I21"], "once faults stop, everything ends or waits for what can still happen"),
    ("R2", &["I4"], "a join decides, and releases its downstream, once an incarnation"),
    ("R3", &["I3"], "counters equal a recount of distinct upstreams that have ended"),
    ("R4", &["I1"], "an end and its one completion event commit together"),
    ("R5", &["I4", "I6"], "a decision is what a pure oracle says of the direct upstreams"),
    ("R6", &["I2", "I9"], "an end is final, but for a replay; stored states are legal"),
    ("R7", &["I7"], "only the holder of the present lease writes"),
    ("R8", &["I12", "I13"], "after a cancel nothing in its scope starts, and what runs is fenced"),
    ("R9", &["I12"], "each cancel policy touches exactly its set"),
    ("R10", &["I12"], "a cancel says done only when it is"),
    ("R11", &["I11"], "grants are limited and charged, and delays respected"),
    ("R12", &["I7"], "an execution has one valid lease at most, by one clock"),
    ("R13", &["I17"], "every consumer sees every event, whatever the order of commits"),
    ("R14", &["I8"], "every row is tried within a bound, whatever others do"),
    ("R15", &["I7", "I11"], "what a lease takes is given back once"),
    ("R16", &["I15", "I16"], "contention runs the whole transaction again, and never for ever"),
    ("R17", &["I16"], "a call repeated after a lost answer does no more than once"),
    ("R18", &["I7", "I8"], "safety depends on no clock, liveness by the skew alone"),
    ("R19", &["I8"], "notifications are for speed only"),
    ("R20", &["I20"], "nothing that an open flow needs is taken away"),
    ("R21", &["I15"], "locks are taken in one order"),
    ("R22", &["I10", "I8"], "the status of a flow follows from its members"),
];

/// The flows of a campaign.
#[derive(Clone, Debug, Default)]
pub enum Workload {
    /// Drawn from each seed.
    #[default]
    Drawn,
    /// The user's own.
    Flow(FlowSpec),
    /// That of a report, with its actors and faults.
    Scenario(Arc<Scenario>),
}

/// A report as a campaign.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Id of the report.
    pub id: String,
    /// Its class.
    pub class: String,
    /// The system that it is of.
    pub system: String,
    /// Where it stands.
    pub url: String,
    /// What was seen there, and why.
    pub report: String,
    /// The same in terms of this engine.
    pub here: String,
    /// The rules that it is about, of [`RULES`].
    pub rules: Vec<String>,
    /// The lanes that can express it, each with the seeds that are run there, from 0.
    pub lanes: BTreeMap<LaneKind, u64>,
    /// The flow.
    pub flow: FlowSpec,
    /// What may be added to it.
    #[serde(default)]
    pub extensions: Vec<Additions>,
    /// Operators, who cancel, replay and change joins.
    #[serde(default)]
    pub operators: u8,
    /// Those who resume what is suspended; without one no worker suspends.
    #[serde(default)]
    pub resumers: u8,
    /// Faults that may strike.
    pub faults: BTreeSet<FaultKind>,
    /// At most so many in one universe.
    pub faults_max: u16,
    /// Everything else that differs from the default.
    #[serde(default)]
    pub settings: Settings,
    /// Conditions that have to occur, in the words of `cargo sim list`.
    pub reaches: Vec<String>,
    /// What must fail in it.
    pub specimens: Vec<Specimen>,
}

/// What a scenario sets apart from flow, actors and faults.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Groups that one hop may change.
    pub hop_groups_max: Option<u32>,
    /// Upstreams that one hop starts from.
    pub hop_upstreams_max: Option<u32>,
    /// Members that one transaction of a cancel looks at.
    pub cancel_batch: Option<u32>,
    /// How often a handler reports something else than success, in 65 536ths.
    pub outcome: Option<u16>,
    /// Reconcilers take away what is over.
    pub prunes: bool,
    /// Operators and extenders act in the middle of hops.
    pub ambushes: bool,
}

/// A defect that the scenario has to show: a planted bug, or another protocol.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Specimen {
    /// The planted bug, by its id.
    #[serde(default)]
    pub mutant: Option<String>,
    /// The protocol.
    #[serde(default)]
    pub engine: EngineKind,
    /// The lanes in which it shows; every one of the scenario if there are none. A race of two
    /// transactions that are open at once shows in none where one writer is let in at a time.
    #[serde(default)]
    pub lanes: BTreeSet<LaneKind>,
}

impl Specimen {
    /// Its name.
    pub fn name(&self) -> &str {
        self.mutant.as_deref().unwrap_or(self.engine.name())
    }

    /// The planted bug.
    pub fn planted(&self) -> Option<Mutant> {
        self.mutant.as_deref().and_then(mutant)
    }

    /// True if it shows in that lane.
    pub fn shows_in(&self, lane: LaneKind) -> bool {
        self.lanes.is_empty() || self.lanes.contains(&lane)
    }
}

fn mutant(id: &str) -> Option<Mutant> {
    Mutant::ALL.iter().copied().find(|mutant| mutant.id() == id)
}

impl Scenario {
    /// Reads one. An error names the file, the line where there is one, and what is wrong there.
    pub fn load(path: &Path) -> Result<Self, String> {
        let file = path.display();
        let text = read_text(path).map_err(|why| format!("{file}: {why}"))?;
        Self::parse(&text).map_err(|why| format!("{file}{why}"))
    }

    /// Reads every one of a folder, in the order of their names.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>, String> {
        let said = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(said)? {
            let path: PathBuf = entry.map_err(said)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::load(path)).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let scenario: Scenario =
            serde_json::from_str(text).map_err(|error| format!(":{}: {error}", error.line()))?;
        match scenario.problem() {
            Some(problem) => Err(format!(": {problem}")),
            None => Ok(scenario),
        }
    }

    fn problem(&self) -> Option<String> {
        if let Err(invalid) = self.flow.clone().validate(&Limits::default()) {
            return Some(format!("flow: {invalid}"));
        }
        if self.flow.idempotency_key.is_none() {
            return Some("flow: it needs an idempotency key, for two clients submit it".into());
        }
        let known = |rule: &&String| RULES.iter().all(|(id, _, _)| id != rule);
        if let Some(rule) = self.rules.iter().find(known) {
            return Some(format!("rules: there is no `{rule}`"));
        }
        if self.rules.is_empty() || self.lanes.is_empty() || self.specimens.is_empty() {
            return Some("it names at least one rule, one lane and one specimen".into());
        }
        if let Some(text) = self.reaches.iter().find(|text| condition(text).is_none()) {
            return Some(format!("reaches: `{text}` is no condition of `cargo sim list`"));
        }
        let unknown = |specimen: &&Specimen| {
            let planted = specimen.planted().is_some();
            let named = specimen.mutant.is_some() || specimen.engine != EngineKind::default();
            !named || planted != specimen.mutant.is_some()
        };
        if let Some(specimen) = self.specimens.iter().find(unknown) {
            return Some(format!("specimens: `{}` is none", specimen.name()));
        }
        let unseen = |lane: &&LaneKind| !self.specimens.iter().any(|one| one.shows_in(**lane));
        let lane = self.lanes.keys().find(unseen)?;
        Some(format!("specimens: none shows in lane {}", lane.name()))
    }

    /// The conditions that have to occur.
    pub fn conditions(&self) -> Vec<Sometimes> {
        self.reaches.iter().filter_map(|text| condition(text)).collect()
    }

    /// The invariants that stand for its rules.
    pub fn invariants(&self) -> BTreeSet<&'static str> {
        let rules = RULES.iter().filter(|(id, _, _)| self.rules.iter().any(|rule| rule == id));
        rules.flat_map(|(_, invariants, _)| invariants.iter().copied()).collect()
    }

    /// Its faults that strike in a lane.
    pub fn faults_in(&self, lane: LaneKind) -> BTreeSet<FaultKind> {
        self.faults.iter().copied().filter(|kind| kind.strikes_in(lane)).collect()
    }

    /// Its faults that strike in a lane where that holds the rows.
    pub(crate) fn faults_on(&self, lane: LaneKind, backend: Backend) -> BTreeSet<FaultKind> {
        self.faults.iter().copied().filter(|kind| kind.strikes_on(lane, backend)).collect()
    }
}

fn condition(text: &str) -> Option<Sometimes> {
    Sometimes::ALL.iter().copied().find(|condition| condition.text() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::TABLE;

    const LEAST: &str = r#"{"id": "B00", "class": "C", "system": "s", "url": "u", "report": "r",
        "here": "h", "rules": ["R1"], "lanes": {"model": 1},
        "flow": {"idempotency_key": "k", "executions": [{"name": "a"}]},
        "faults": ["crash"], "faults_max": 1, "reaches": [], "specimens": [{"mutant": "P01"}]}"#;

    fn check_refused(from: &str, to: &str, words: &str) {
        assert!(LEAST.contains(from), "{from}");
        let why = Scenario::parse(&LEAST.replace(from, to)).unwrap_err();
        assert!(why.contains(words), "{why}");
    }

    #[test]
    fn a_scenario_that_names_what_does_not_exist_is_refused_by_name() {
        assert!(Scenario::parse(LEAST).is_ok());
        check_refused("R1", "R99", "`R99`");
        check_refused("P01", "P99", "`P99`");
        check_refused("\"reaches\": []", "\"reaches\": [\"rain\"]", "`rain`");
        check_refused("\"crash\"", "\"rain\"", "rain");
        check_refused("\"idempotency_key\": \"k\", ", "", "idempotency key");
        check_refused("[{\"name\": \"a\"}]", "[]", "flow");
        check_refused("\"id\"", "\"name\"", ":1:");
        check_refused("\"P01\"", "\"P01\", \"lanes\": [\"sqlite\"]", "lane model");
    }

    #[test]
    fn every_rule_stands_on_invariants_that_exist() {
        for (rule, invariants, _) in RULES {
            assert!(!invariants.is_empty(), "{rule}");
            for invariant in invariants {
                assert!(TABLE.iter().any(|row| row.id == *invariant), "{rule}: {invariant}");
            }
        }
    }
}
