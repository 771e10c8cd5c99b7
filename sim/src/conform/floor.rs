//! What the schedules of a run must have shown of every verb, counted. What applies to a verb
//! follows from its kind, but for the exceptions of one table, each with its reason.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::ser::SerializeMap;
use sluicegate::identity::ExecutionId;
use sluicegate::storage::{Inserted, Kind, Verb};

use super::calls::{Call, Reply};
use super::names::NOWHERE;
use super::outcome::{Answer, Failure};
use super::words::Words;

/// How a verb may meet other transactions and the rows that it names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cell {
    /// It answered without a wait.
    Free,
    /// It waited, and went on when a transaction committed.
    WaitsCommit,
    /// It waited, and went on when a transaction ended otherwise.
    WaitsRollback,
    /// A row that it names is not there, or is another transaction's alone.
    RowGone,
    /// A guard did not hold any more; of an insert, its key was taken.
    GuardFalse,
    /// It passed over a row that another transaction holds.
    PassesOver,
}

impl Cell {
    /// Every cell.
    pub const ALL: [Cell; 6] = [
        Cell::Free,
        Cell::WaitsCommit,
        Cell::WaitsRollback,
        Cell::RowGone,
        Cell::GuardFalse,
        Cell::PassesOver,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cell::Free => "free",
            Cell::WaitsCommit => "waits_commit",
            Cell::WaitsRollback => "waits_rollback",
            Cell::RowGone => "row_gone",
            Cell::GuardFalse => "guard_false",
            Cell::PassesOver => "passes_over",
        }
    }
}

/// What applies to the verbs of a kind.
fn of_kind(kind: Kind) -> &'static [Cell] {
    match kind {
        Kind::Control => &[Cell::Free],
        Kind::Read => &[Cell::Free, Cell::RowGone],
        Kind::Lock => &[Cell::Free, Cell::WaitsCommit, Cell::WaitsRollback, Cell::RowGone],
        Kind::Take => &[Cell::Free, Cell::RowGone, Cell::PassesOver],
        Kind::Write => &[Cell::Free, Cell::RowGone, Cell::GuardFalse],
        Kind::Insert => &[Cell::Free, Cell::WaitsCommit, Cell::WaitsRollback, Cell::GuardFalse],
    }
}

/// Cells that a verb has against its kind, or lacks.
const EXCEPTIONS: &[(Verb, Cell, bool, &str)] = &[
    (Verb::ScanUpstreams, Cell::RowGone, false, "it names no row"),
    (Verb::ScanStuckGroups, Cell::RowGone, false, "it names no row"),
    (Verb::ScanOverdue, Cell::RowGone, false, "it names no row"),
    (Verb::ScanCancelBacklog, Cell::RowGone, false, "it names no row"),
    (Verb::ScanSiblingRequests, Cell::RowGone, false, "it names no row"),
    (Verb::LockUnnumberedEvents, Cell::RowGone, false, "it names no row"),
    (Verb::ClaimExecutions, Cell::RowGone, false, "it names no row"),
    (Verb::MendExecutions, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::WriteGroups, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::ResetEdges, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::WriteJoins, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::WriteFlow, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::WriteRequest, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteCancelBacklog, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteSiblingRequests, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteAttempts, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteEdges, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteGroups, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteExecutions, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteRequests, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteSubmission, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteSummary, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::DeleteFlow, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::ScanEndedFlows, Cell::RowGone, false, "it names no row"),
    (Verb::InsertFlowChanges, Cell::WaitsCommit, false, "its table has no key to meet on"),
    (Verb::InsertFlowChanges, Cell::WaitsRollback, false, "its table has no key to meet on"),
    (Verb::InsertFlowChanges, Cell::GuardFalse, false, "its table has no key to meet on"),
    (Verb::DeleteFlowChanges, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::WriteSummary, Cell::GuardFalse, false, "it guards nothing but the key"),
    (Verb::ScanFlowChanges, Cell::RowGone, false, "it names no row"),
    (Verb::ListFlows, Cell::RowGone, false, "it names no row"),
    (Verb::ListExecutions, Cell::RowGone, false, "it names no row"),
    (Verb::InsertEvents, Cell::RowGone, true, "it joins the execution for its labels"),
    (Verb::InsertAttempts, Cell::RowGone, true, "it joins the execution for its worker"),
];

/// The cells that a run must hit of a verb.
pub fn applies(verb: Verb) -> Vec<Cell> {
    let exception = |cell: Cell| {
        let row = EXCEPTIONS.iter().find(|row| row.0 == verb && row.1 == cell);
        row.map(|row| row.2)
    };
    let usual = of_kind(verb.descriptor().kind);
    let wanted = |cell: &Cell| exception(*cell).unwrap_or_else(|| usual.contains(cell));
    Cell::ALL.into_iter().filter(wanted).collect()
}

/// How often each cell was hit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(BTreeMap<(Verb, Cell), u64>);

/// A verb that answered.
pub struct Answered<'a> {
    /// The step.
    pub words: &'a Words,
    /// The verb and its argument.
    pub call: &'a Call,
    /// What it said.
    pub answer: &'a Answer,
    /// How it came to answer.
    pub how: Cell,
    /// Executions that other transactions held when the step was taken, of which a claim would
    /// have wanted those in its lanes.
    pub held: &'a BTreeSet<ExecutionId>,
    /// Every key that it inserts was new.
    pub keys_new: bool,
}

impl Counts {
    /// Adds one.
    pub fn hit(&mut self, verb: Verb, cell: Cell) {
        *self.0.entry((verb, cell)).or_default() += 1;
    }

    /// Adds what an answer shows.
    pub fn note(&mut self, answered: &Answered<'_>) {
        let verb = answered.call.verb();
        let kind = verb.descriptor().kind;
        let refused = kind == Kind::Insert && *answered.answer == Answer::Failed(Failure::Corrupt);
        let Answer::Reply(reply) = answered.answer else {
            if refused && nowhere(answered.words) > 0 {
                self.hit(verb, Cell::RowGone);
            } else if refused {
                self.hit(verb, answered.how);
                self.hit(verb, Cell::GuardFalse);
            }
            return;
        };
        self.hit(verb, answered.how);
        if nowhere(answered.words) > 0 {
            self.hit(verb, Cell::RowGone);
        }
        if guard_was_false(answered, reply) {
            self.hit(verb, Cell::GuardFalse);
        }
        if passed_over(answered, reply) {
            self.hit(verb, Cell::PassesOver);
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Counts) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// How often a cell was hit.
    pub fn of(&self, verb: Verb, cell: Cell) -> u64 {
        self.0.get(&(verb, cell)).copied().unwrap_or(0)
    }

    /// The cells that apply and were never hit.
    pub fn missing(&self) -> Vec<(Verb, Cell)> {
        let wanted =
            Verb::ALL.iter().flat_map(|verb| applies(*verb).into_iter().map(|cell| (*verb, cell)));
        wanted.filter(|(verb, cell)| self.of(*verb, *cell) == 0).collect()
    }
}

impl Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut verbs = serializer.serialize_map(None)?;
        for verb in Verb::ALL {
            let cells = applies(*verb).into_iter();
            let cells: BTreeMap<&str, u64> =
                cells.map(|cell| (cell.name(), self.of(*verb, cell))).collect();
            verbs.serialize_entry(verb.descriptor().name, &cells)?;
        }
        verbs.end()
    }
}

/// How many values name what is nowhere.
fn nowhere(words: &Words) -> usize {
    words.all_values().filter(|value| value.split('>').any(|end| end.starts_with(NOWHERE))).count()
}

fn guard_was_false(answered: &Answered<'_>, reply: &Reply) -> bool {
    let named = || answered.words.values("rows").len() - nowhere(answered.words);
    match reply {
        Reply::WriteExecutions(written) => written.len() < named(),
        Reply::ResolveEdges(flipped) => flipped.len() < named(),
        Reply::WritePositions(written) | Reply::DeleteEvents(written) => *written < named() as u64,
        Reply::WriteProgress(moved)
        | Reply::WriteStreamHead(moved)
        | Reply::WriteSubscription(moved) => *moved == 0 && nowhere(answered.words) == 0,
        Reply::InsertSubmission(inserted)
        | Reply::InsertFlow(inserted)
        | Reply::InsertRequest(inserted)
        | Reply::InsertSubscription(inserted) => *inserted == Inserted::Exists,
        Reply::InsertSiblingRequests(()) | Reply::InsertCancelBacklog(()) => !answered.keys_new,
        _ => false,
    }
}

fn passed_over(answered: &Answered<'_>, reply: &Reply) -> bool {
    let wanted: Vec<ExecutionId> = match (answered.call, reply) {
        (Call::TakeExecutions(keys), Reply::TakeExecutions(_)) => {
            keys.iter().copied().filter(|key| answered.held.contains(key)).collect()
        }
        // What another transaction holds is passed over only if it stood before a row that was
        // granted, or if the limit was not reached.
        (Call::ClaimExecutions(query), Reply::ClaimExecutions(grants)) => {
            let short = grants.len() < query.limit as usize;
            answered.held.iter().copied().filter(|_| short).collect()
        }
        _ => return false,
    };
    !wanted.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_every_verb_is_missing_until_it_is_hit() {
        let mut counts = Counts::default();
        let all = counts.missing();
        assert!(all.len() > Verb::ALL.len());
        for (verb, cell) in &all[1..] {
            counts.hit(*verb, *cell);
        }
        assert_eq!(counts.missing(), all[..1]);
    }

    #[test]
    fn an_exception_says_something_that_the_kind_does_not() {
        for (verb, cell, applies, reason) in EXCEPTIONS {
            let usual = of_kind(verb.descriptor().kind).contains(cell);
            assert_ne!(usual, *applies, "{verb:?} {cell:?}: {reason}");
        }
    }

    #[test]
    fn a_verb_that_never_waits_need_not_show_a_wait() {
        for verb in Verb::ALL {
            let waits = applies(*verb).contains(&Cell::WaitsCommit);
            let kind = verb.descriptor().kind;
            assert!(!waits || matches!(kind, Kind::Lock | Kind::Insert), "{verb:?}");
        }
    }
}
