//! What must hold of retention: what is over goes, as a whole and from the oldest event on, and
//! nothing else does.

use std::collections::BTreeSet;

use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::time::Timestamp;

use super::super::ledger::{Book, Entry};
use super::super::reader::Lagged;
use super::super::remains::Remains;
use super::super::rows::Rows;
use super::{Finding, Violation};

/// The flows that were judged and had ended when retention was told to take them away.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in super::super) struct Past {
    /// Whatever had happened by then may go, on the storage's clock.
    pub(in super::super) by: Timestamp,
    /// When the first of it had ended.
    pub(in super::super) from: Timestamp,
    /// How many flows there were then.
    pub(in super::super) due: usize,
    /// They, and those that went before them: books still tell of all.
    pub(in super::super) flows: BTreeSet<FlowId>,
    pub(in super::super) executions: BTreeSet<ExecutionId>,
    /// The place of the last event that may go.
    pub(in super::super) horizon: u64,
}

impl Past {
    /// Everything that there is goes the way of what went before it.
    pub(in super::super) fn and(self, rows: &Rows, remains: &Remains) -> Self {
        let flows = rows.flows.iter().map(|row| row.id);
        let executions = rows.executions.iter().map(|row| row.id);
        let ends = rows.executions.iter().filter_map(|row| row.finished_at);
        Self {
            by: rows.now,
            from: ends.min().unwrap_or(rows.now),
            due: rows.flows.len(),
            flows: self.flows.into_iter().chain(flows).collect(),
            executions: self.executions.into_iter().chain(executions).collect(),
            horizon: remains.places.last().copied().unwrap_or(remains.horizon),
        }
    }

    /// By when what goes had happened, once so many of all parts are to go.
    pub(in super::super) fn until(&self, part: u32, parts: u32) -> Timestamp {
        let left = parts.saturating_sub(part);
        self.by - self.by.since(self.from) / parts.max(1) * left
    }

    /// The books without what they say of these flows: no row is left that would bear it out. What
    /// no plan allows is left in, of whomever it tells, and so is the feed.
    pub(in super::super) fn leave_out(&self, books: Vec<Book>) -> Vec<Book> {
        let kept = books.into_iter().map(|Book { name, mut entries }| {
            entries.retain(|entry| !self.is_told_of(entry));
            Book { name, entries }
        });
        kept.collect()
    }

    fn is_told_of(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Submitted { flow, .. }
            | Entry::FlowCancelled { flow, .. }
            | Entry::Extended { flow, .. }
            | Entry::NotExtended { flow, .. }
            | Entry::PolicySet { flow, .. }
            | Entry::PolicyKept { flow, .. }
            | Entry::ExecutionCancelled { flow, .. }
            | Entry::Tagged { flow, .. }
            | Entry::Replayed { flow, .. }
            | Entry::GivenUp { flow, .. }
            | Entry::Unanswered { flow, .. } => self.flows.contains(flow),
            Entry::Granted { lease }
            | Entry::Passed { lease, .. }
            | Entry::Reported { lease, .. }
            | Entry::Lost { lease }
            | Entry::TurnedOver { lease, .. }
            | Entry::Progressed { lease, .. } => self.executions.contains(&lease.execution),
            Entry::Resumed { execution, .. } => self.executions.contains(execution),
            Entry::Began { .. }
            | Entry::Called { .. }
            | Entry::Erred { .. }
            | Entry::Spoilt { .. }
            | Entry::Opened
            | Entry::Handed(_)
            | Entry::Acknowledged { .. }
            | Entry::Answered { .. } => false,
        }
    }
}

/// What does not hold of what is left, at any instant.
pub(in super::super) fn judge(remains: &Remains, past: &Past) -> Vec<Violation> {
    let Remains { horizon, places, alone, .. } = remains;
    let mut violations = Vec::new();
    let mut found = |invariant, title, message| {
        let finding = Finding { message, flow: None };
        violations.push(Violation { invariant, title, finding });
    };
    if !alone.is_empty() {
        let message = format!("stand alone: {alone:?}");
        found("I20", "a flow goes as a whole, and after its events", message);
    }
    if *horizon > past.horizon {
        let message = format!("gone up to {horizon}, and only {} was over", past.horizon);
        found("I20", "no event goes that is not over", message);
    }
    if let Some((due, place)) = (horizon + 1..).zip(places).find(|(due, place)| due != *place) {
        let message = format!("place {place} behind horizon {horizon}, where {due} is next");
        found("I17", "events go from the oldest on, and the horizon stands at the last", message);
    }
    violations
}

/// What does not hold once everything that was to go must be gone.
pub(in super::super) fn judge_drained(
    rows: &Rows,
    remains: &Remains,
    past: &Past,
) -> Vec<Violation> {
    let left: Vec<FlowId> =
        rows.flows.iter().map(|row| row.id).filter(|id| past.flows.contains(id)).collect();
    let mut violations = judge(remains, past);
    if !left.is_empty() || remains.horizon != past.horizon {
        let horizon = remains.horizon;
        let message = format!(
            "{} flows are left, the first is {:?}; the horizon stands at {horizon} and not at {}",
            left.len(),
            left.first(),
            past.horizon
        );
        let (invariant, title) = ("I8", "what was over is gone within L2");
        let finding = Finding { message, flow: left.first().copied() };
        violations.push(Violation { invariant, title, finding });
    }
    violations
}

/// What does not hold of what a consumer was told that had not seen all of what is gone: it must
/// learn that there is a gap, and go on right behind it.
pub(in super::super) fn judge_lagged(lagged: Lagged, remains: &Remains) -> Option<Violation> {
    let Lagged { stored, expired, next } = lagged;
    let due = (stored < remains.horizon).then_some(remains.horizon);
    let from = due.unwrap_or(stored);
    let left = remains.places.iter().copied().find(|place| *place > from);
    (expired != due || next != left).then(|| {
        let horizon = remains.horizon;
        let message = format!("{lagged:?}, behind horizon {horizon}, where {left:?} is next");
        let (invariant, title) = ("I17", "a consumer is never led over a gap unawares");
        Violation { invariant, title, finding: Finding { message, flow: None } }
    })
}
