//! The decision of a hop: which pending edges flip, which groups decide, which downstreams move.
//! Pure and in topological order; never reads or writes a row.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::operations::cancel::stops_ready;
use crate::operations::finish::{self, Move};
use crate::policy::Decision;
use crate::state::{Cause, ClosePolicy, Outcome, State};
use crate::storage::{
    EdgeFlip, Execution, Group, Guarded, PendingEdge, Resolution, ResultChange, SiblingRequest,
};
use crate::time::Timestamp;

/// What a hop writes.
#[derive(Default, Debug)]
pub(crate) struct Resolved {
    /// Edges to flip, in key order.
    pub flips: Vec<EdgeFlip>,
    /// Groups whose counters or decision changed, in id order.
    pub groups: Vec<Group>,
    /// Downstreams released or skipped, in id order.
    pub moves: BTreeMap<ExecutionId, Move>,
    /// Requests for sibling cancellation, in id order.
    pub requests: Vec<SiblingRequest>,
}

impl Resolved {
    /// The flows of the downstreams that it releases.
    pub(crate) fn released(&self) -> BTreeSet<FlowKey> {
        let ready = self.moves.values().filter(|one| one.after.state == State::Ready);
        ready.map(|one| one.after.flow_key()).collect()
    }
}

/// The locked rows that a hop decides over.
pub(crate) struct Locked<'a> {
    /// Groups by their downstream.
    pub groups: &'a BTreeMap<ExecutionId, Group>,
    /// Upstreams and downstreams by id.
    pub executions: &'a BTreeMap<ExecutionId, Execution>,
    /// The pending edges of the groups, with the present rows of their upstreams.
    pub pending: &'a [PendingEdge],
    /// The storage's clock after the locks.
    pub now: Timestamp,
    /// Flows that were closed, and how; read after the locks.
    pub closings: &'a BTreeMap<FlowKey, ClosePolicy>,
}

struct Work<'a> {
    locked: &'a Locked<'a>,
    groups: BTreeMap<ExecutionId, Group>,
    by_upstream: BTreeMap<ExecutionId, Vec<&'a PendingEdge>>,
    ended: Vec<(ExecutionId, Outcome, u32)>,
    resolved: Resolved,
}

/// Flips every pending edge whose upstream has ended, follows the skips that this causes among the
/// locked groups, and repairs a decided group whose downstream is still blocked.
pub(crate) fn resolve(locked: &Locked<'_>) -> Resolved {
    let mut by_upstream: BTreeMap<ExecutionId, Vec<&PendingEdge>> = BTreeMap::new();
    let mut ended = Vec::new();
    for edge in locked.pending {
        let edges = by_upstream.entry(edge.key.upstream).or_default();
        if edges.is_empty()
            && let Some(outcome) = edge.upstream_state.outcome()
        {
            ended.push((edge.key.upstream, outcome, edge.upstream_incarnation));
        }
        edges.push(edge);
    }
    let groups = BTreeMap::new();
    let mut work = Work { locked, groups, by_upstream, ended, resolved: Resolved::default() };
    for group in locked.groups.values() {
        if group.decision != Decision::Undecided {
            work.release(group);
        }
    }
    while let Some((upstream, outcome, incarnation)) = work.ended.pop() {
        for edge in work.by_upstream.remove(&upstream).unwrap_or_default() {
            work.flip(edge, outcome, incarnation);
        }
    }
    work.finish()
}

impl Work<'_> {
    fn flip(&mut self, edge: &PendingEdge, outcome: Outcome, upstream_incarnation: u32) {
        let Some(locked) = self.locked.groups.get(&edge.key.downstream) else { return };
        let mut group = *self.groups.get(&locked.downstream).unwrap_or(locked);
        let accepted = edge.accepts.contains(outcome);
        let resolution = if accepted { Resolution::Satisfied } else { Resolution::Unsatisfied };
        let guarded = if mutated!(P05) { Guarded::No } else { Guarded::Yes };
        self.resolved.flips.push(EdgeFlip {
            key: edge.key,
            resolution,
            upstream_incarnation,
            input: input(locked, resolution, outcome),
            guarded,
        });
        let counts = !(mutated!(S04) && self.groups.contains_key(&locked.downstream));
        match resolution {
            Resolution::Satisfied => group.satisfied += u32::from(counts),
            _ => group.unsatisfied += u32::from(counts),
        }
        self.decide(&mut group);
        self.groups.insert(group.downstream, group);
    }

    fn decide(&mut self, group: &mut Group) {
        if group.decision != Decision::Undecided {
            if mutated!(P08) || mutated!(P09) {
                self.release_again(group);
            }
            return;
        }
        group.decision = group.policy.decide(group.edges, group.satisfied, group.unsatisfied);
        if group.decision == Decision::Undecided {
            return;
        }
        let unresolved = group.satisfied + group.unsatisfied < group.edges;
        let lost = mutated!(P28) && group.decision == Decision::Impossible;
        if group.policy.cancels_remaining() && unresolved && !lost {
            self.resolved
                .requests
                .push(SiblingRequest { group: group.downstream, flow: group.flow });
        }
        self.release(group);
    }

    /// Moves the downstream of a decided group, if it still waits for the decision.
    fn release(&mut self, group: &Group) {
        let Some(before) = self.locked.executions.get(&group.downstream) else { return };
        if before.state != State::Blocked || self.resolved.moves.contains_key(&before.id) {
            return;
        }
        let now = self.locked.now;
        let closing = self.locked.closings.get(&before.flow_key()).copied();
        let after = match group.decision {
            Decision::Satisfied if stops_ready(closing) && !mutated!(S03) => {
                finish::finished(before, Outcome::Cancelled, Cause::Flow, now)
            }
            Decision::Satisfied => Execution { state: State::Ready, ..*before },
            _ => finish::finished(before, Outcome::Skipped, Cause::Unsatisfiable, now),
        };
        if let Some(outcome) = after.state.outcome() {
            self.ended.push((after.id, outcome, after.incarnation));
        }
        self.push(before, after);
    }

    fn release_again(&mut self, group: &Group) {
        let Some(before) = self.locked.executions.get(&group.downstream) else { return };
        if group.decision != Decision::Satisfied {
            return;
        }
        if mutated!(P08) && before.state == State::Active {
            self.push(before, Execution { state: State::Ready, lease: None, ..*before });
        }
        if mutated!(P09) && before.state == State::Ready && before.not_before > self.locked.now {
            self.push(before, Execution { not_before: self.locked.now, ..*before });
        }
    }

    fn push(&mut self, before: &Execution, after: Execution) {
        let one = Move { before: *before, after, result: ResultChange::Keep, attempt: None };
        self.resolved.moves.insert(before.id, one);
    }

    fn finish(self) -> Resolved {
        let mut resolved = self.resolved;
        resolved.flips.sort_unstable_by_key(|flip| flip.key);
        resolved.groups = self.groups.into_values().collect();
        resolved.requests.sort_unstable();
        resolved
    }
}

/// An edge that was satisfied before its group had decided, or in the transaction that decides it,
/// is an input. One that is satisfied later is none, so that every attempt is passed the same.
fn input(group: &Group, resolution: Resolution, outcome: Outcome) -> Option<Outcome> {
    let late = group.decision != Decision::Undecided && !mutated!(S40);
    (resolution == Resolution::Satisfied && !late).then_some(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{FlowId, FlowKey, PartitionCount};
    use crate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
    use crate::retry::RetryPolicy;
    use crate::storage::EdgeKey;

    fn flow() -> FlowKey {
        PartitionCount::default().key(FlowId::from_parts(1, [1; 10]))
    }

    fn execution(name: &str, state: State) -> Execution {
        Execution {
            id: flow().execution(name),
            flow: flow().id,
            state,
            cause: None,
            incarnation: 0,
            propagated: false,
            has_in: true,
            has_inputs: false,
            has_out: true,
            not_before: Timestamp::default(),
            deadline: None,
            attempt: 0,
            charged: 0,
            give_backs: 0,
            resumed: None,
            progress: None,
            epoch: 0,
            lease: None,
            finished_at: None,
            retry: RetryPolicy::default(),
        }
    }

    /// A graph in words: executions with their states, and edges with default accept sets.
    struct Case {
        executions: BTreeMap<ExecutionId, Execution>,
        groups: BTreeMap<ExecutionId, Group>,
        pending: Vec<PendingEdge>,
    }

    fn case(states: &[(&str, State)], edges: &[(&str, &str)], policy: JoinPolicy) -> Case {
        let executions: BTreeMap<ExecutionId, Execution> = states
            .iter()
            .map(|(name, state)| (flow().execution(name), execution(name, *state)))
            .collect();
        let mut groups: BTreeMap<ExecutionId, Group> = BTreeMap::new();
        let mut pending = Vec::new();
        for (upstream, downstream) in edges {
            let key = EdgeKey {
                downstream: flow().execution(downstream),
                upstream: flow().execution(upstream),
            };
            let group = groups.entry(key.downstream).or_insert(Group {
                downstream: key.downstream,
                flow: flow().id,
                policy,
                edges: 0,
                satisfied: 0,
                unsatisfied: 0,
                decision: Decision::Undecided,
            });
            group.edges += 1;
            pending.push(PendingEdge {
                key,
                accepts: AcceptSet::default(),
                upstream_state: executions[&key.upstream].state,
                upstream_incarnation: 0,
            });
        }
        Case { executions, groups, pending }
    }

    fn check(case: &Case) -> Resolved {
        resolve(&Locked {
            groups: &case.groups,
            executions: &case.executions,
            pending: &case.pending,
            now: Timestamp(5),
            closings: &BTreeMap::new(),
        })
    }

    const SUCCEEDED: State = State::Terminal(Outcome::Succeeded);
    const FAILED: State = State::Terminal(Outcome::Failed);

    #[test]
    fn a_failure_skips_a_whole_chain_in_one_decision() {
        let states =
            [("a", FAILED), ("b", State::Blocked), ("c", State::Blocked), ("d", State::Blocked)];
        let case = case(&states, &[("a", "b"), ("b", "c"), ("c", "d")], JoinPolicy::AllOf);
        let resolved = check(&case);
        assert_eq!(resolved.flips.len(), 3);
        let skipped = State::Terminal(Outcome::Skipped);
        assert!(resolved.moves.values().all(|one| one.after.state == skipped));
        assert_eq!(resolved.moves.len(), 3);
    }

    #[test]
    fn every_arrival_of_a_hot_join_is_served_by_one_hop() {
        let states =
            [("a", SUCCEEDED), ("b", SUCCEEDED), ("c", State::Active), ("d", State::Blocked)];
        let case = case(&states, &[("a", "d"), ("b", "d"), ("c", "d")], JoinPolicy::AllOf);
        let resolved = check(&case);
        assert_eq!(resolved.flips.len(), 2);
        assert_eq!(resolved.groups[0].satisfied, 2);
        assert!(resolved.moves.is_empty());
    }

    #[test]
    fn a_decided_race_asks_for_its_losers_only_while_some_are_unresolved() {
        let race = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };
        let open = [("a", SUCCEEDED), ("b", State::Active), ("d", State::Blocked)];
        assert_eq!(check(&case(&open, &[("a", "d"), ("b", "d")], race)).requests.len(), 1);
        let alone = [("a", SUCCEEDED), ("d", State::Blocked)];
        assert!(check(&case(&alone, &[("a", "d")], race)).requests.is_empty());
    }

    #[test]
    fn a_decided_group_with_a_blocked_downstream_is_repaired() {
        let states = [("a", SUCCEEDED), ("d", State::Blocked)];
        let mut case = case(&states, &[("a", "d")], JoinPolicy::AllOf);
        case.pending.clear();
        for group in case.groups.values_mut() {
            group.satisfied = 1;
            group.decision = Decision::Satisfied;
        }
        let resolved = check(&case);
        assert_eq!(resolved.moves.len(), 1);
        assert!(resolved.flips.is_empty());
    }
}
