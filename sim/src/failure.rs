//! Failures of universes, in memory and as files that replay without the generator. Never runs a
//! universe.

mod base;
mod extent;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sluicegate::flow::{FlowSpec, Limits};
use sluicegate::mutants::Mutant;

use crate::driver::End;
use crate::exit::Exit;
use crate::files::read_text;
use crate::plan::{EngineKind, LaneKind, Plan};
use crate::signature::signature;
use crate::tape::Cell;

pub use base::{Filed, Known};
pub use extent::Extent;

/// Version of the file's form.
pub const FORMAT: u32 = 1;
/// The invariant that names a panic.
pub const PANIC: &str = "panic";
/// The invariant that names a flow that does not drain and a universe that does not end.
pub const LIVENESS: &str = "I8";
/// Failures of one campaign that are kept; the rest is counted.
const KEPT_MAX: usize = 10_000;
/// Cells on one line of a file.
const CELLS_PER_LINE: usize = 8;
/// Actors of a universe.
const ACTORS_MAX: u32 = 64;

/// What is wrong with a universe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Id of the invariant.
    pub invariant: String,
    /// What breaks it.
    pub message: String,
}

impl Sighting {
    /// What that end says; `None` if nothing is wrong.
    pub fn of(end: &End) -> Option<Sighting> {
        let (invariant, message) = match end {
            End::Clean | End::Pruned => return None,
            End::Violated(violation) => (violation.invariant, violation.message.clone()),
            End::Livelock(message) => (LIVENESS, format!("livelock: {message}")),
            End::Strayed(why) => ("tape", why.clone()),
        };
        Some(Self { invariant: invariant.to_owned(), message })
    }

    /// A universe that panicked.
    pub fn panic(said: String) -> Sighting {
        Self { invariant: PANIC.to_owned(), message: said }
    }

    /// The code that a command which sees it exits with.
    pub fn exit(&self) -> Exit {
        match self.invariant.as_str() {
            LIVENESS => Exit::Liveness,
            _ => Exit::Safety,
        }
    }
}

/// A universe that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was seen.
    pub sighting: Sighting,
    /// The same for the same mistake.
    pub signature: String,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// Its choices; kept for the first seed of each signature.
    pub tape: Option<Vec<Cell>>,
}

impl Failure {
    /// A failure of the universe with that seed and flow.
    pub fn new(
        seed: u64,
        sighting: Sighting,
        flow: &FlowSpec,
        trace_hash: u64,
        tape: Vec<Cell>,
    ) -> Self {
        let signature = signature(&sighting.invariant, &sighting.message, flow);
        Self { seed, sighting, signature, trace_hash, tape: Some(tape) }
    }
}

/// The failures of a campaign, in seed order whatever the order in which they came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    safety: u64,
    liveness: u64,
    by_seed: BTreeMap<u64, Failure>,
    first: BTreeMap<String, u64>,
}

impl Failures {
    /// Takes one in.
    pub fn add(&mut self, failure: Failure) {
        match failure.sighting.exit() {
            Exit::Liveness => self.liveness += 1,
            _ => self.safety += 1,
        }
        self.keep(failure);
    }

    /// Takes those of another part of the campaign in.
    pub fn merge(&mut self, other: Failures) {
        self.safety += other.safety;
        self.liveness += other.liveness;
        for failure in other.by_seed.into_values() {
            self.keep(failure);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.safety + self.liveness
    }

    /// Kept ones with the signature of that one, itself included.
    pub fn alike(&self, failure: &Failure) -> u64 {
        self.iter().filter(|other| other.signature == failure.signature).count() as u64
    }

    /// Those that are kept, in seed order.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.by_seed.values()
    }

    /// The first of each signature, in seed order.
    pub fn distinct(&self) -> impl Iterator<Item = &Failure> {
        self.iter().filter(|failure| failure.tape.is_some())
    }

    /// The codes that they stand for.
    pub fn exits(&self) -> Vec<Exit> {
        let mut exits = Vec::new();
        if self.safety > 0 {
            exits.push(Exit::Safety);
        }
        if self.liveness > 0 {
            exits.push(Exit::Liveness);
        }
        exits
    }

    fn keep(&mut self, mut failure: Failure) {
        match self.first.get(&failure.signature) {
            Some(first) if *first < failure.seed => failure.tape = None,
            Some(first) => {
                if let Some(later) = self.by_seed.get_mut(first) {
                    later.tape = None;
                }
                self.first.insert(failure.signature.clone(), failure.seed);
            }
            None => {
                self.first.insert(failure.signature.clone(), failure.seed);
            }
        }
        self.by_seed.insert(failure.seed, failure);
        if self.by_seed.len() > KEPT_MAX
            && let Some((seed, last)) = self.by_seed.pop_last()
            && self.first.get(&last.signature) == Some(&seed)
        {
            self.first.remove(&last.signature);
        }
    }
}

/// A fault without which the universe does not fail as it does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NecessaryFault {
    /// What strikes, when, and whom.
    pub fault: String,
    /// What becomes of the universe without it.
    pub without: String,
}

/// A failure as a file: everything that a replay needs, and what it should see.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureFile {
    /// Version of the form.
    pub format: u32,
    /// The commit that it was found with.
    pub commit: String,
    /// The seed that it was found with; nothing is drawn from it any more.
    pub seed: u64,
    /// The lane, as in the plan.
    pub lane: LaneKind,
    /// The protocol, as in the plan.
    pub engine: EngineKind,
    /// Id of the violated invariant.
    pub invariant: String,
    /// What broke it.
    pub message: String,
    /// The same for the same mistake.
    pub signature: String,
    /// Hash of everything that happened, in hexadecimal.
    pub trace_hash: String,
    /// Failures that stand for it: itself, and those that were folded into it.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub seen: u64,
    /// The faults that it does not do without, once it has been shrunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub necessary: Vec<NecessaryFault>,
    /// The universe before it ran.
    pub plan: Plan,
    /// Its choices.
    pub tape: Vec<Cell>,
}

/// A failure file that cannot be used. Prints as `file:line: reason`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FailureFileError {
    /// It cannot be read at all.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// Something in it is wrong.
    #[error("{file}:{line}: {reason}")]
    Malformed {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
}

impl FailureFile {
    /// The file of a failure whose tape is kept.
    pub fn new(failure: &Failure, plan: Plan, commit: &str) -> Self {
        Self {
            format: FORMAT,
            commit: commit.to_owned(),
            seed: failure.seed,
            lane: plan.lane,
            engine: plan.engine,
            invariant: failure.sighting.invariant.clone(),
            message: failure.sighting.message.clone(),
            signature: failure.signature.clone(),
            trace_hash: format!("{:016x}", failure.trace_hash),
            seen: 1,
            necessary: Vec::new(),
            plan,
            tape: failure.tape.clone().unwrap_or_default(),
        }
    }

    /// Writes it under that path. A file that is there is the old one or the new one, never half
    /// of one.
    pub fn write_as(&self, path: &Path) -> Result<(), String> {
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut half = path.as_os_str().to_owned();
        half.push(".part");
        std::fs::write(&half, self.to_text()).map_err(said)?;
        std::fs::rename(&half, path).map_err(said)
    }

    /// Reads one and checks that it can be replayed.
    pub fn load(path: &Path) -> Result<FailureFile, FailureFileError> {
        let file = path.display().to_string();
        let text = read_text(path)
            .map_err(|reason| FailureFileError::Unreadable { file: file.clone(), reason })?;
        Self::parse(&text).map_err(|(line, reason)| FailureFileError::Malformed {
            file,
            line,
            reason,
        })
    }

    /// The text of the file: one field a line, the tape in rows.
    fn to_text(&self) -> String {
        let json = |value: serde_json::Result<String>| value.expect("plain data is JSON");
        let mut text = String::from("{\n");
        let mut field = |name: &str, value: String| {
            writeln!(text, "  \"{name}\": {value},").expect("a string takes any text");
        };
        field("format", self.format.to_string());
        field("commit", json(serde_json::to_string(&self.commit)));
        field("seed", self.seed.to_string());
        field("lane", json(serde_json::to_string(&self.lane)));
        field("engine", json(serde_json::to_string(&self.engine)));
        field("invariant", json(serde_json::to_string(&self.invariant)));
        field("message", json(serde_json::to_string(&self.message)));
        field("signature", json(serde_json::to_string(&self.signature)));
        field("trace_hash", json(serde_json::to_string(&self.trace_hash)));
        if !is_once(&self.seen) {
            field("seen", self.seen.to_string());
        }
        if !self.necessary.is_empty() {
            let necessary = json(serde_json::to_string_pretty(&self.necessary));
            field("necessary", necessary.replace('\n', "\n  "));
        }
        let plan = json(serde_json::to_string_pretty(&self.plan));
        field("plan", plan.replace('\n', "\n  "));
        let rows: Vec<String> = self.tape.chunks(CELLS_PER_LINE).map(row).collect();
        match rows.is_empty() {
            true => text.push_str("  \"tape\": []\n}\n"),
            false => {
                text.push_str("  \"tape\": [\n    ");
                text.push_str(&rows.join(",\n    "));
                text.push_str("\n  ]\n}\n");
            }
        }
        text
    }

    fn parse(text: &str) -> Result<FailureFile, (usize, String)> {
        let said = |error: serde_json::Error| {
            let at = format!(" at line {} column {}", error.line(), error.column());
            let reason = error.to_string();
            let reason = reason.strip_suffix(&at).unwrap_or(&reason).to_owned();
            (error.line().max(1), reason)
        };
        let head: Head = serde_json::from_str(text).map_err(said)?;
        if head.format != FORMAT {
            let reason = format!("format {} is not {FORMAT}, which this build reads", head.format);
            return Err((line_of(text, "format"), reason));
        }
        let file: FailureFile = serde_json::from_str(text).map_err(said)?;
        match file.problem() {
            Some((field, reason)) => Err((line_of(text, field), reason)),
            None => Ok(file),
        }
    }

    /// The field that keeps it from being replayed, and why.
    fn problem(&self) -> Option<(&'static str, String)> {
        let plan = &self.plan;
        if plan.lane != self.lane {
            return Some(("lane", "lane differs from that of the plan".into()));
        }
        if plan.engine != self.engine {
            return Some(("engine", "engine differs from that of the plan".into()));
        }
        if u64::from_str_radix(&self.trace_hash, 16).is_err() {
            return Some(("trace_hash", format!("`{}` is not hexadecimal", self.trace_hash)));
        }
        if let Some(id) = &plan.mutant
            && Mutant::ALL.iter().all(|mutant| mutant.id() != id)
        {
            return Some(("mutant", format!("there is no planted bug `{id}`")));
        }
        if let Err(invalid) = plan.flow.clone().validate(&Limits::default()) {
            return Some(("flow", invalid.to_string()));
        }
        let cast = plan.cast;
        let roles = [cast.clients, cast.workers, cast.dispatchers, cast.reconcilers];
        // Files from before there were projectors have none.
        let actors: u32 = roles.into_iter().chain([cast.projectors]).map(u32::from).sum();
        if roles.contains(&0) || actors > ACTORS_MAX {
            let reason = format!("a cast has every role and at most {ACTORS_MAX} actors");
            return Some(("cast", reason));
        }
        if let Some(behind) = plan.behind
            && plan.lane != LaneKind::Network
        {
            let (lane, behind) = (plan.lane.name(), behind.name());
            return Some(("behind", format!("lane {lane} has no server with {behind} behind it")));
        }
        let backend = plan.backend();
        if let Some(kind) = plan.faults.iter().find(|kind| !kind.strikes_on(plan.lane, backend)) {
            let (kind, lane, backend) = (kind.name(), plan.lane.name(), backend.name());
            let reason = match plan.lane.backends() {
                [_] => format!("{kind} does not strike in lane {lane}"),
                _ => format!("{kind} does not strike in lane {lane} with {backend} behind it"),
            };
            return Some(("faults", reason));
        }
        if plan.hop_groups_max == 0 || plan.hop_upstreams_max == 0 {
            return Some(("hop_groups_max", "a hop needs at least one group and upstream".into()));
        }
        let out = self.tape.iter().position(|cell| cell.value >= cell.arity)?;
        let cell = self.tape[out];
        Some(("tape", format!("cell {out} chooses {} of {}", cell.value, cell.arity)))
    }
}

fn once() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_once(seen: &u64) -> bool {
    *seen == once()
}

#[derive(Deserialize)]
struct Head {
    format: u32,
}

fn row(cells: &[Cell]) -> String {
    let cells: Vec<String> =
        cells.iter().map(|cell| serde_json::to_string(cell).expect("a cell is JSON")).collect();
    cells.join(", ")
}

/// The line on which a field of that name first stands.
fn line_of(text: &str, field: &str) -> usize {
    let at = text.find(&format!("\"{field}\"")).unwrap_or(0);
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
