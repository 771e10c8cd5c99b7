//! What must hold of committed rows, and of what processes were told, at any instant and once
//! nothing moves any more. Reads rows and ledgers only; never a decision of the engine.

mod acknowledged;
mod attempts;
mod calls;
mod drained;
mod feed;
mod inputs;
mod joins;
mod lives;
mod replays;
mod retired;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::state::Outcome;
use sluicegate::storage::{Attempt, Edge, Execution, Group, NewEvent};

use super::ledger::{Book, Entry};
use super::rows::{FlowRow, Rows};
use super::work;
pub(super) use retired::{
    Past, judge as judge_remains, judge_drained as judge_retired, judge_lagged,
};
pub(super) use waits::{Healed, Seen};

/// When a check holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// At every instant.
    Always,
    /// Once every flow must have drained.
    Drained,
}

/// One property of committed rows.
pub(super) struct Check {
    /// Id of the invariant in the specification.
    pub(super) id: &'static str,
    /// What holds, in one sentence.
    pub(super) title: &'static str,
    when: When,
    ask: fn(&Evidence<'_>) -> Verdict,
}

/// Every check, in the order in which they are asked.
pub(super) static TABLE: &[Check] = &[
    Check {
        id: "I1",
        title: "an execution is terminal iff exactly one completion event says so",
        when: When::Always,
        ask: lives::one_event_for_each_end,
    },
    Check {
        id: "I1",
        title: "a life that the report of its last attempt ended has ended so",
        when: When::Always,
        ask: lives::ends_are_as_reported,
    },
    Check {
        id: "I2",
        title: "what starts again was replayed, once for each life after the first",
        when: When::Drained,
        ask: replays::lives_are_counted_by_replays,
    },
    Check {
        id: "I2",
        title: "a replay starts again what its scope holds, and nothing else",
        when: When::Drained,
        ask: replays::scopes_are_kept,
    },
    Check {
        id: "I3",
        title: "counters equal a recount; edges agree with their upstreams and accept sets",
        when: When::Always,
        ask: joins::counters_equal_a_recount,
    },
    Check {
        id: "I4",
        title: "a group stands as the policy decides from its counters",
        when: When::Always,
        ask: joins::decisions_are_the_policys,
    },
    Check {
        id: "I4",
        title: "every attempt of a life is passed what its join took when it decided",
        when: When::Drained,
        ask: inputs::every_attempt_is_passed_the_same,
    },
    Check {
        id: "I5",
        title: "nothing is ready or granted whose group is not satisfied",
        when: When::Always,
        ask: joins::starts_need_a_satisfied_group,
    },
    Check {
        id: "I6",
        title: "skipped if the group is impossible, and then never granted, or by a handler",
        when: When::Always,
        ask: joins::skips_are_called_for,
    },
    Check {
        id: "I7",
        title: "epochs rise from attempt to attempt and no nonce comes twice",
        when: When::Always,
        ask: lives::leases_follow_each_other,
    },
    Check {
        id: "I9",
        title: "the columns of a row agree with its state",
        when: When::Always,
        ask: lives::states_are_legal,
    },
    Check {
        id: "I9",
        title: "what was suspended goes on only once it was resumed",
        when: When::Always,
        ask: attempts::suspensions_end_by_a_resume,
    },
    Check {
        id: "I9",
        title: "progress is what an attempt said, as its seed has it",
        when: When::Always,
        ask: attempts::progress_is_what_an_attempt_said,
    },
    Check {
        id: "I11",
        title: "attempts are recorded, charged unless given back, and come after their delay",
        when: When::Always,
        ask: lives::attempts_are_counted,
    },
    Check {
        id: "I16",
        title: "a lease that was reported lost has not been ended by its holder",
        when: When::Always,
        ask: acknowledged::lost_leases_were_taken,
    },
    Check {
        id: "I17",
        title: "the end of every lease is told, unless a report ended the execution with it",
        when: When::Always,
        ask: feed::ends_of_leases_are_told,
    },
    Check {
        id: "I17",
        title: "a consumer is handed every event, in the order of its execution",
        when: When::Drained,
        ask: feed::every_event_is_handed_over,
    },
    Check {
        id: "I19",
        title: "whatever was acknowledged is in the database",
        when: When::Always,
        ask: acknowledged::nothing_acknowledged_is_lost,
    },
    Check {
        id: "I19",
        title: "an extension is in the database as a whole or not at all",
        when: When::Always,
        ask: calls::extensions_are_whole,
    },
    Check {
        id: "I16",
        title: "a call, however often it is repeated, is answered as its plan allows",
        when: When::Always,
        ask: calls::calls_are_answered_as_planned,
    },
    Check {
        id: "I21",
        title: "a propagated execution has no pending out-edge",
        when: When::Always,
        ask: joins::propagated_means_resolved,
    },
    Check {
        id: "I8",
        title: "cascades and leases are looked after within L1",
        when: When::Always,
        ask: waits::nothing_waits_beyond_l1,
    },
    Check {
        id: "I8",
        title: "every reconciler completes ticks",
        when: When::Always,
        ask: waits::reconcilers_tick,
    },
    Check {
        id: "I8",
        title: "every execution is terminal and propagated within L2",
        when: When::Drained,
        ask: drained::everything_has_ended,
    },
    Check {
        id: "I18",
        title: "attempts ended as their seed says, flows as a sequential evaluator does",
        when: When::Drained,
        ask: drained::ends_equal_the_evaluators,
    },
];

/// What a check says.
pub(super) type Verdict = Result<(), Finding>;

/// What breaks a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// What is wrong.
    pub(super) message: String,
    /// The flow that shows it, if one does.
    pub(super) flow: Option<FlowId>,
}

/// A property that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    /// Id of the invariant.
    pub(super) invariant: &'static str,
    /// What should hold.
    pub(super) title: &'static str,
    /// What breaks it.
    pub(super) finding: Finding,
}

/// The rows of an instant with ways to find them, and what processes had been told before it.
pub(super) struct Evidence<'a> {
    rows: &'a Rows,
    books: &'a [Book],
    seed: u64,
    healed: Option<&'a Healed>,
    flows: BTreeMap<FlowId, &'a FlowRow>,
    executions: BTreeMap<ExecutionId, &'a Execution>,
    groups: BTreeMap<ExecutionId, &'a Group>,
    into: BTreeMap<ExecutionId, Vec<&'a Edge>>,
    out_of: BTreeMap<ExecutionId, Vec<&'a Edge>>,
    attempts: BTreeMap<ExecutionId, Vec<&'a Attempt>>,
    events: BTreeMap<ExecutionId, Vec<&'a NewEvent>>,
}

impl<'a> Evidence<'a> {
    /// The books were read before the rows. What holds at every instant is asked of all rows that
    /// there are, or without books; once drained, the rows of some flows will do.
    pub(super) fn new(
        rows: &'a Rows,
        books: &'a [Book],
        seed: u64,
        healed: Option<&'a Healed>,
    ) -> Self {
        let mut evidence = Self {
            rows,
            books,
            seed,
            healed,
            flows: rows.flows.iter().map(|row| (row.id, row)).collect(),
            executions: rows.executions.iter().map(|row| (row.id, row)).collect(),
            groups: rows.groups.iter().map(|row| (row.downstream, row)).collect(),
            into: BTreeMap::new(),
            out_of: BTreeMap::new(),
            attempts: BTreeMap::new(),
            events: BTreeMap::new(),
        };
        for edge in &rows.edges {
            evidence.into.entry(edge.key.downstream).or_default().push(edge);
            evidence.out_of.entry(edge.key.upstream).or_default().push(edge);
        }
        for attempt in &rows.attempts {
            evidence.attempts.entry(attempt.key.execution).or_default().push(attempt);
        }
        for (_, event) in &rows.events {
            evidence.events.entry(event.execution).or_default().push(event);
        }
        evidence
    }

    /// The first violation of each invariant among the checks of that time.
    pub(super) fn judge(&self, when: When) -> Vec<Violation> {
        let mut violations: Vec<Violation> = Vec::new();
        for check in TABLE.iter().filter(|check| check.when == when) {
            if violations.iter().any(|violation| violation.invariant == check.id) {
                continue;
            }
            if let Err(finding) = (check.ask)(self) {
                let Check { id, title, .. } = *check;
                violations.push(Violation { invariant: id, title, finding });
            }
        }
        violations
    }

    /// What waits for a tick, with when it was first seen.
    pub(super) fn seen(&self, before: &Seen) -> Seen {
        waits::seen(self, before)
    }

    /// Everything that processes were told, with the name of each.
    fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let books = self.books.iter();
        books.flat_map(|book| book.entries.iter().map(|entry| (book.name.as_str(), entry)))
    }

    fn members(&self, flow: FlowId) -> impl Iterator<Item = &Execution> {
        self.rows.executions.iter().filter(move |row| row.flow == flow)
    }

    /// An extension brought that execution.
    fn was_added(&self, id: ExecutionId) -> bool {
        self.rows.names.get(&id).is_some_and(|name| work::added_with(name).is_some())
    }

    fn into(&self, id: ExecutionId) -> &[&'a Edge] {
        self.into.get(&id).map_or(&[], Vec::as_slice)
    }

    fn out_of(&self, id: ExecutionId) -> &[&'a Edge] {
        self.out_of.get(&id).map_or(&[], Vec::as_slice)
    }

    fn attempts(&self, id: ExecutionId) -> &[&'a Attempt] {
        self.attempts.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The attempts of one life of an execution.
    fn life(&self, id: ExecutionId, incarnation: u32) -> Vec<&'a Attempt> {
        let attempts = self.attempts(id).iter().copied();
        attempts.filter(|attempt| attempt.key.incarnation == incarnation).collect()
    }

    /// How a life of an execution ended, by its event.
    fn end_of(&self, id: ExecutionId, incarnation: u32) -> Option<Outcome> {
        let mut events = self.events(id).iter();
        events.find(|event| event.incarnation == incarnation).and_then(|event| event.outcome())
    }

    fn events(&self, id: ExecutionId) -> &[&'a NewEvent] {
        self.events.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// Ends a check with what is wrong about an execution.
fn wrong<T>(row: &Execution, message: impl std::fmt::Display) -> Result<T, Finding> {
    Err(Finding { message: format!("execution {}: {message}", row.id), flow: Some(row.flow) })
}

/// Ends a check with what is wrong about a group.
fn wrong_group<T>(row: &Group, message: impl std::fmt::Display) -> Result<T, Finding> {
    let id = row.downstream;
    Err(Finding { message: format!("group of {id}: {message}: {row:?}"), flow: Some(row.flow) })
}
