//! What is worked on: flows drawn from the seed, and what becomes of each attempt, a pure function
//! of the seed, so that the judge knows it too. Never touches a database.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::flow::{Additions, ExecutionSpec, FlowSpec};
use sluicegate::identity::ExecutionId;
use sluicegate::operations::report::Report;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::storage::ProgressMark;

use super::LEASE;
use crate::tape::{Chance, Site, Tape};
use crate::workload;

/// Executions of one flow at most.
const EXECUTIONS_MAX: u16 = 9;
/// Time limit of an attempt that has one.
const ATTEMPT_TIMEOUT_MS: u32 = 1_500;
/// Deadline of an execution that has one.
const DEADLINE_MS: u32 = 5_000;
/// Delay of an execution that has one.
const DELAY_MS: u32 = 300;
/// How long a worker puts work off.
pub(super) const SNOOZE: Duration = Duration::from_millis(120);
/// How the names of executions begin that a flow is extended by.
const GROWN: &str = "grown";
/// Delays between attempts: real time passes here.
const BACKOFF: Backoff = Backoff::Exponential { initial_ms: 50, factor: 2, cap_ms: 200 };

/// The flow of that number.
pub(super) fn flow(seed: u64, round: u32, number: u32) -> FlowSpec {
    let stream = u64::from(round) << 32 | u64::from(number);
    let mut flow = workload::flow(&mut Tape::random(seed, stream), EXECUTIONS_MAX);
    flow.namespace = namespace(round);
    flow.idempotency_key = Some(format!("flow-{number}"));
    for execution in &mut flow.executions {
        execution.retry.backoff = BACKOFF;
        execution.retry.attempt_timeout_ms =
            execution.retry.attempt_timeout_ms.map(|_| ATTEMPT_TIMEOUT_MS);
        execution.deadline_ms = execution.deadline_ms.map(|_| DEADLINE_MS.into());
        execution.delay_ms = execution.delay_ms.map(|_| DELAY_MS.into());
    }
    for edge in flow.edges.iter_mut().step_by(2) {
        edge.passes_as = Some(format!("from_{}", edge.from));
    }
    flow
}

/// What the flow of that number is extended by: one or two executions below one of its own, one of
/// them before a join of its own if there is one further down.
pub(super) fn additions(seed: u64, round: u32, number: u32, flow: &FlowSpec) -> Additions {
    let mut tape = Tape::random(seed, u64::from(u32::MAX - round) << 32 | u64::from(number));
    let mut even = |arity: usize| {
        let arity = u16::try_from(arity).expect("a flow is small");
        usize::from(tape.draw(Site::Plan, arity, Chance::Even))
    };
    let count = 1 + even(2);
    let upstream = even(flow.executions.len());
    let spec = |name: &str| ExecutionSpec {
        retry: RetryPolicy { backoff: BACKOFF, ..RetryPolicy::default() },
        ..ExecutionSpec::new(name)
    };
    let name = |at: usize| format!("{GROWN}{at}of{count}");
    let mut additions = Additions::new()
        .execution_spec(spec(&name(1)))
        .edge(&flow.executions[upstream].name, name(1));
    if count == 2 {
        additions = additions.execution_spec(spec(&name(2))).edge(name(1), name(2));
    }
    // Edges of a flow lead from earlier to later executions, so that these close no cycle.
    let below = flow.executions[upstream + 1..].iter();
    let joins = below.filter(|one| flow.edges.iter().any(|edge| edge.to == one.name));
    let joins: Vec<&ExecutionSpec> = joins.collect();
    match joins.len() {
        0 => additions,
        joins_count => additions.edge(name(1), &joins[even(joins_count)].name),
    }
}

/// How many executions came with the one of that name, if it was added to its flow.
pub(super) fn added_with(name: &str) -> Option<usize> {
    name.strip_prefix(GROWN)?.split_once("of")?.1.parse().ok()
}

/// The flow with its additions.
pub(super) fn grown(flow: &FlowSpec, additions: &Additions) -> FlowSpec {
    let mut grown = flow.clone();
    grown.executions.extend(additions.executions.iter().cloned());
    grown.edges.extend(additions.edges.iter().cloned());
    grown.groups.extend(additions.groups.iter().map(|(name, policy)| (name.clone(), *policy)));
    grown
}

/// A join of a flow that may have another policy, and that policy: any of its edges where it took
/// all of them, and all of them where it did not.
pub(super) fn exchange(flow: &FlowSpec) -> Option<(String, JoinPolicy)> {
    let inbound = |name: &str| flow.edges.iter().filter(|edge| edge.to == name).count();
    let join = flow.executions.iter().find(|one| inbound(&one.name) > 1)?;
    let policy = match flow.groups.get(&join.name) {
        None | Some(JoinPolicy::AllOf) => JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun },
        Some(_) => JoinPolicy::AllOf,
    };
    Some((join.name.clone(), policy))
}

/// A number below `end` for the flow of that number.
pub(super) fn pick(seed: u64, round: u32, number: u32, end: usize) -> usize {
    let drawn = mix(seed ^ u64::from(round) << 32 ^ u64::from(number));
    usize::try_from(drawn % end as u64).expect("it is below a size")
}

/// The tenant that stands for a round.
pub(super) fn namespace(round: u32) -> String {
    format!("round{round}")
}

/// Whether a worker keeps its lease alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Renewal {
    /// It renews at half of each lease.
    Kept,
    /// It lets the lease run out.
    Forgotten,
}

/// What becomes of an attempt that nothing interrupts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fate {
    /// What its worker reports.
    pub(super) report: Report,
    /// How long it works.
    pub(super) work: Duration,
    /// Whether it renews meanwhile.
    pub(super) renewal: Renewal,
    /// The number of the last progress that it reports; 0 if it reports none.
    pub(super) progress: u64,
}

/// The longest that an attempt works.
pub(super) const WORK_MAX: Duration = Duration::from_secs(3);

/// The fate of an attempt: the same for the same seed, execution, incarnation and attempt.
pub(super) fn fate(seed: u64, execution: ExecutionId, incarnation: u32, attempt: u32) -> Fate {
    let first = mix(seed ^ bits(execution) ^ u64::from(incarnation) << 32 ^ u64::from(attempt));
    let second = mix(first);
    let bytes: Arc<[u8]> = first.to_be_bytes().into();
    let report = match first % 100 {
        0..10 => Report::FailRetryable(bytes),
        10..17 => Report::FailFatal(bytes),
        // Only once in each life, so that nothing is given back for ever.
        17..21 if attempt == 1 => Report::Release,
        21..25 if attempt == 1 => Report::Snooze(SNOOZE),
        25..28 => Report::Skip,
        28..34 if attempt == 1 => Report::Suspend,
        _ => Report::Complete(bytes),
    };
    let (work_ms, renewal) = match second % 100 {
        0..90 => (1 + second % 37, Renewal::Kept),
        90..96 => (200 + second % 311, Renewal::Kept),
        96..98 => (2_500, Renewal::Kept),
        _ => (3_000, Renewal::Forgotten),
    };
    let progress = match mix(second) % 10 {
        0..2 => 1 + mix(second) / 10 % 3,
        _ => 0,
    };
    let work = Duration::from_millis(work_ms);
    assert!(work <= WORK_MAX && WORK_MAX > LEASE, "work may outlast a lease, and knows its limit");
    Fate { report, work, renewal, progress }
}

/// What an attempt says of its progress: the same for the same seed, execution, incarnation and
/// mark.
pub(super) fn progress(
    seed: u64,
    execution: ExecutionId,
    incarnation: u32,
    mark: ProgressMark,
) -> [u8; 8] {
    let ProgressMark { attempt, sequence } = mark;
    let first = mix(seed ^ bits(execution) ^ u64::from(incarnation) << 32 ^ u64::from(attempt));
    mix(!first ^ sequence).to_be_bytes()
}

/// The bits of an id, folded.
pub(super) fn bits(execution: ExecutionId) -> u64 {
    let (high, low) = execution.uuid.as_u64_pair();
    high ^ low.rotate_left(32)
}

/// The finalizer of `SplitMix64` (Steele, Lea, Flood, 2014).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sluicegate::flow::Limits;
    use sluicegate::identity::{FlowId, PartitionCount};

    use super::*;

    #[test]
    fn flows_of_a_seed_are_the_same_and_valid() {
        for number in 0..200 {
            let drawn = flow(7, 1, number);
            assert_eq!(drawn, flow(7, 1, number));
            drawn.validate(&Limits::default()).unwrap();
        }
        assert_ne!(flow(7, 1, 0).edges, flow(8, 1, 3).edges);
    }

    #[test]
    fn additions_fit_their_flow_and_know_how_many_they_are() {
        for number in 0..200 {
            let flow = flow(7, 1, number);
            let more = additions(7, 1, number, &flow);
            grown(&flow, &more).validate(&Limits::default()).unwrap();
            let count = more.executions.len();
            assert!(more.executions.iter().all(|one| added_with(&one.name) == Some(count)));
            assert!(flow.executions.iter().all(|one| added_with(&one.name).is_none()));
            if let Some((join, policy)) = exchange(&flow) {
                assert_ne!(flow.groups.get(&join), Some(&policy));
            }
        }
    }

    #[test]
    fn fates_of_a_seed_are_the_same_and_every_kind_of_end_occurs() {
        let key = PartitionCount::default().key(FlowId::from_parts(1, [3; 10]));
        let ids = (0..500).map(|number| key.execution(&number.to_string()));
        let ends: BTreeSet<_> = ids
            .map(|id| {
                assert_eq!(fate(7, id, 0, 1), fate(7, id, 0, 1));
                fate(7, id, 0, 1).report.end()
            })
            .collect();
        assert_eq!(ends.len(), 7, "{ends:?}");
    }
}
