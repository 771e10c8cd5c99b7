//! Everything that can be named on the command line or in a report. Never runs anything.

use std::fmt::Write as _;

use serde::Serialize;
use sluicegate::mutants::Mutant;
use sluicegate::storage::Verb;

use crate::database::ModelMutant;
use crate::driver::tally::Sometimes;
use crate::faults::FaultKind;
use crate::invariants::TABLE;
use crate::plan::{EngineKind, LaneKind, Profile};

/// Whether planted bugs are compiled in.
pub const HAS_MUTANTS: bool = cfg!(feature = "mutants");

/// A name with what it stands for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Named {
    /// What is written.
    pub name: &'static str,
    /// What it means.
    pub what: &'static str,
}

/// A kind of fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FaultRow {
    /// Its name.
    pub name: &'static str,
    /// What happens.
    pub what: &'static str,
    /// Lanes in which it strikes.
    pub lanes: Vec<&'static str>,
}

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VerbRow {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: String,
    /// The table that it locks, writes or starts from.
    pub table: &'static str,
}

/// A planted bug.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MutantRow {
    /// Its id.
    pub id: &'static str,
    /// What is wrong while it is on.
    pub defect: &'static str,
    /// The invariants of which one must see it first.
    pub seen_by: Vec<&'static str>,
}

/// Everything that there is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Listing {
    /// Storages, each with its time.
    pub lanes: Vec<Named>,
    /// Sizes of universes.
    pub profiles: Vec<Named>,
    /// Protocols that can be judged.
    pub engines: Vec<Named>,
    /// Kinds of faults.
    pub faults: Vec<FaultRow>,
    /// Statements.
    pub verbs: Vec<VerbRow>,
    /// Properties that are checked.
    pub invariants: Vec<Named>,
    /// Conditions that a campaign must reach sometimes.
    pub sometimes: Vec<&'static str>,
    /// Planted bugs that are compiled in.
    pub mutants: Vec<MutantRow>,
    /// Planted bugs of the simulated Postgres, which `conform` must see.
    pub model_mutants: Vec<Named>,
    /// What `--flow` and `replay` read.
    pub scenarios: Vec<Named>,
}

/// Everything that there is.
pub fn listing() -> Listing {
    let lane = |lane| match lane {
        LaneKind::Model => "the simulated Postgres, in memory",
        LaneKind::Sqlite => "the SQLite backend on a disk that may fail",
        LaneKind::Network => "either of them behind a server, on hosts of a network",
    };
    let engine = |engine| match engine {
        EngineKind::Sluicegate => "the engine of this repository",
        EngineKind::Published => "the published protocol, a specimen that must fail",
    };
    let mutants = if HAS_MUTANTS { Mutant::ALL } else { &[] };
    Listing {
        lanes: LaneKind::ALL.map(|one| Named { name: one.name(), what: lane(one) }).into(),
        profiles: Profile::ALL
            .iter()
            .map(|one| Named { name: one.name(), what: one.what() })
            .collect(),
        engines: EngineKind::ALL.map(|one| Named { name: one.name(), what: engine(one) }).into(),
        faults: FaultKind::ALL.iter().map(|kind| fault(*kind)).collect(),
        verbs: Verb::ALL.iter().map(|one| verb(*one)).collect(),
        invariants: TABLE.iter().map(|one| Named { name: one.id, what: one.title }).collect(),
        sometimes: Sometimes::ALL.iter().map(|condition| condition.text()).collect(),
        mutants: mutants.iter().map(|one| mutant(*one)).collect(),
        model_mutants: ModelMutant::ALL
            .iter()
            .map(|one| Named { name: one.id(), what: one.defect() })
            .collect(),
        scenarios: vec![
            Named { name: "drawn", what: "flows that the profile draws from the seed" },
            Named { name: "--flow FILE", what: "a FlowSpec or a WfFormat 1.5 document, as JSON" },
            Named { name: "--scenario FILE", what: "a public bug report, of fixtures/reports" },
            Named { name: "replay FILE", what: "a failure file that a campaign wrote" },
        ],
    }
}

fn fault(kind: FaultKind) -> FaultRow {
    let lanes = LaneKind::ALL.into_iter().filter(|lane| kind.strikes_in(*lane));
    let lanes = lanes.map(LaneKind::name).collect();
    FaultRow { name: kind.name(), what: kind.what(), lanes }
}

fn verb(verb: Verb) -> VerbRow {
    let row = verb.descriptor();
    let kind = format!("{:?}", row.kind).to_lowercase();
    VerbRow { name: row.name, kind, table: row.table }
}

fn mutant(mutant: Mutant) -> MutantRow {
    let seen_by = mutant.seen_by().split_whitespace().collect();
    MutantRow { id: mutant.id(), defect: mutant.defect(), seen_by }
}

impl Listing {
    /// The listing for people.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let named = |rows: &[Named]| {
            let rows = rows.iter().map(|row| [row.name.into(), row.what.into()]);
            rows.collect::<Vec<[String; 2]>>()
        };
        section(&mut out, "lanes", &named(&self.lanes));
        section(&mut out, "profiles", &named(&self.profiles));
        section(&mut out, "engines", &named(&self.engines));
        let faults = self.faults.iter();
        let faults = faults.map(|row| [row.name.into(), row.lanes.join(" "), row.what.into()]);
        section(&mut out, "faults", &faults.collect::<Vec<_>>());
        let verbs = self.verbs.iter();
        let verbs = verbs.map(|row| [row.name.into(), row.kind.clone(), row.table.into()]);
        section(&mut out, "verbs", &verbs.collect::<Vec<_>>());
        section(&mut out, "invariants", &named(&self.invariants));
        let sometimes = self.sometimes.iter().map(|text| [(*text).into()]);
        section(&mut out, "sometimes", &sometimes.collect::<Vec<_>>());
        let mutants = self.mutants.iter();
        let mutants = mutants.map(|row| [row.id.into(), row.seen_by.join(" "), row.defect.into()]);
        section(
            &mut out,
            "mutants (id, must be seen first by, defect)",
            &mutants.collect::<Vec<_>>(),
        );
        section(&mut out, "mutants of the model", &named(&self.model_mutants));
        section(&mut out, "scenarios", &named(&self.scenarios));
        out
    }
}

/// A heading and its rows, in columns.
fn section<const N: usize>(out: &mut String, title: &str, rows: &[[String; N]]) {
    writeln!(out, "{title}").expect("a string takes any text");
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "  {}", cells.join("  ").trim_end()).expect("a string takes any text");
    }
    if rows.is_empty() {
        writeln!(out, "  none in this build").expect("a string takes any text");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_names_everything_in_the_tables() {
        let text = listing().to_text();
        let faults = FaultKind::ALL.iter().map(|kind| kind.name());
        let verbs = Verb::ALL.iter().map(|verb| verb.descriptor().name);
        let invariants = TABLE.iter().map(|invariant| invariant.id);
        let mutants = ModelMutant::ALL.iter().map(|mutant| mutant.id());
        for name in faults.chain(verbs).chain(invariants).chain(mutants) {
            assert!(text.contains(&format!("  {name} ")), "{name}");
        }
    }
}
