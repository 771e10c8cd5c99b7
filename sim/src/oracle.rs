//! What a flow must come to: accept sets and policies in arithmetic of its own, and a sequential
//! evaluator over a whole graph. Pure; never calls the decisions of the engine.

pub mod replays;

use sluicegate::policy::{AcceptSet, Decision, JoinPolicy};
use sluicegate::state::Outcome;
use sluicegate::storage::Resolution;

/// What is known of an execution from outside the joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// No attempt of it ended it.
    Nothing,
    /// Its last attempt ended it so.
    Ran(Outcome),
    /// A deadline, an operator, its flow or a join ended it before an attempt did.
    Ended(Outcome),
}

/// An execution as the evaluator sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// How its inbound edges decide; `None` without any.
    pub policy: Option<JoinPolicy>,
    /// What is known of it.
    pub observed: Observed,
}

/// An edge between two nodes, by their positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The node that is waited for.
    pub upstream: usize,
    /// The node that waits.
    pub downstream: usize,
    /// The outcomes that satisfy it.
    pub accepts: AcceptSet,
    /// How an earlier incarnation of the upstream has resolved it for good.
    pub kept: Option<Resolution>,
}

/// How a node must stand at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Final {
    /// It ran, and this is how it ended.
    Ran(Outcome),
    /// Its join can not be satisfied: skipped.
    Unsatisfiable,
    /// It was ended from outside.
    Ended(Outcome),
    /// Its join is satisfied, and nothing is known of an end.
    MustRun,
    /// It waits for a node that must still run.
    Waits,
}

/// The graph has a cycle, so that it has no sequential order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the graph has a cycle")]
pub struct Cyclic;

/// How an edge must be resolved by that outcome of its upstream.
pub fn resolve(accepts: AcceptSet, outcome: Outcome) -> Resolution {
    let bit = match outcome {
        Outcome::Succeeded => 0b00001,
        Outcome::Failed => 0b00010,
        Outcome::Cancelled => 0b00100,
        Outcome::Expired => 0b01000,
        Outcome::Skipped => 0b10000,
    };
    if accepts.bits() & bit == 0 { Resolution::Unsatisfied } else { Resolution::Satisfied }
}

/// The decision of a group of `edges` edges, of which so many are resolved each way.
pub fn decide(policy: JoinPolicy, edges: u32, satisfied: u32, unsatisfied: u32) -> Decision {
    let needed = match policy {
        JoinPolicy::AllOf => edges,
        JoinPolicy::AnyOf { .. } => 1,
        JoinPolicy::Quorum { k, .. } => k,
    };
    let reachable = u64::from(edges).saturating_sub(u64::from(unsatisfied));
    if satisfied >= needed {
        Decision::Satisfied
    } else if reachable < u64::from(needed) {
        Decision::Impossible
    } else {
        Decision::Undecided
    }
}

/// Walks the graph in topological order and says how each node must stand, in node order.
pub fn evaluate(nodes: &[Node], links: &[Link]) -> Result<Vec<Final>, Cyclic> {
    let mut joins = vec![Join::default(); nodes.len()];
    for link in links {
        joins[link.downstream].edges += 1;
        joins[link.upstream].outbound += 1;
    }
    let order = by_upstream(links, &mut joins);
    let mut finals = vec![Final::Waits; nodes.len()];
    let mut walk: Vec<usize> = (0..nodes.len()).filter(|at| joins[*at].edges == 0).collect();
    let mut next = 0;
    while let Some(&at) = walk.get(next) {
        next += 1;
        finals[at] = conclude(nodes[at], joins[at]);
        let outcome = finals[at].outcome();
        let start = joins[at].first_outbound;
        for link in order[start..start + joins[at].outbound].iter().map(|link| links[*link]) {
            let join = &mut joins[link.downstream];
            join.visited += 1;
            match link.kept.or(outcome.map(|outcome| resolve(link.accepts, outcome))) {
                Some(Resolution::Satisfied) => join.satisfied += 1,
                Some(_) => join.unsatisfied += 1,
                None => {}
            }
            if join.visited == join.edges {
                walk.push(link.downstream);
            }
        }
    }
    if walk.len() == nodes.len() { Ok(finals) } else { Err(Cyclic) }
}

#[derive(Clone, Copy, Default)]
struct Join {
    edges: u32,
    visited: u32,
    satisfied: u32,
    unsatisfied: u32,
    outbound: usize,
    first_outbound: usize,
}

/// The positions of the links by upstream; notes where the links of each node begin.
fn by_upstream(links: &[Link], joins: &mut [Join]) -> Vec<usize> {
    let mut start = 0;
    for join in joins.iter_mut() {
        join.first_outbound = start;
        start += join.outbound;
    }
    let mut free: Vec<usize> = joins.iter().map(|join| join.first_outbound).collect();
    let mut order = vec![0; links.len()];
    for (at, link) in links.iter().enumerate() {
        order[free[link.upstream]] = at;
        free[link.upstream] += 1;
    }
    order
}

fn conclude(node: Node, join: Join) -> Final {
    let decision = node.policy.map_or(Decision::Satisfied, |policy| {
        decide(policy, join.edges, join.satisfied, join.unsatisfied)
    });
    match (node.observed, decision) {
        (Observed::Ended(outcome), _) => Final::Ended(outcome),
        (_, Decision::Undecided) => Final::Waits,
        (_, Decision::Impossible) => Final::Unsatisfiable,
        (Observed::Ran(outcome), Decision::Satisfied) => Final::Ran(outcome),
        (Observed::Nothing, Decision::Satisfied) => Final::MustRun,
    }
}

impl Final {
    /// The outcome that the edges out of it see, if it is known.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Final::Ran(outcome) | Final::Ended(outcome) => Some(outcome),
            Final::Unsatisfiable => Some(Outcome::Skipped),
            Final::MustRun | Final::Waits => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::OnSatisfied;

    use super::*;

    fn policies(edges: u32) -> Vec<JoinPolicy> {
        let on_satisfied = OnSatisfied::LetRun;
        let quorums = (1..=edges).map(|k| JoinPolicy::Quorum { k, on_satisfied });
        [JoinPolicy::AllOf, JoinPolicy::AnyOf { on_satisfied }].into_iter().chain(quorums).collect()
    }

    #[test]
    fn decisions_equal_those_of_the_engine_for_every_small_group() {
        for edges in 1..=6 {
            for policy in policies(edges) {
                for satisfied in 0..=edges {
                    for unsatisfied in 0..=edges - satisfied {
                        assert_eq!(
                            decide(policy, edges, satisfied, unsatisfied),
                            policy.decide(edges, satisfied, unsatisfied),
                            "{policy:?} of {edges}: {satisfied} + {unsatisfied}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn accept_sets_equal_those_of_the_engine() {
        for bits in 0..32 {
            let accepts = AcceptSet::from_bits(bits).unwrap();
            for outcome in Outcome::ALL {
                let satisfied = resolve(accepts, outcome) == Resolution::Satisfied;
                assert_eq!(satisfied, accepts.contains(outcome), "{bits:05b} {outcome:?}");
            }
        }
    }

    #[test]
    fn quorums_beyond_every_count_are_impossible_and_do_not_overflow() {
        let policy = JoinPolicy::Quorum { k: 1 << 31, on_satisfied: OnSatisfied::LetRun };
        assert_eq!(decide(policy, 2, 0, 0), Decision::Impossible);
        assert_eq!(decide(JoinPolicy::AllOf, u32::MAX, 0, u32::MAX), Decision::Impossible);
    }

    fn check(nodes: &[(Option<JoinPolicy>, Observed)], links: &[(usize, usize)], finals: &[Final]) {
        let nodes: Vec<Node> = nodes
            .iter()
            .map(|(policy, observed)| Node { policy: *policy, observed: *observed })
            .collect();
        let links: Vec<Link> = links
            .iter()
            .map(|(upstream, downstream)| Link {
                upstream: *upstream,
                downstream: *downstream,
                accepts: AcceptSet::ON_SUCCESS,
                kept: None,
            })
            .collect();
        assert_eq!(evaluate(&nodes, &links).as_deref(), Ok(finals));
    }

    const ALL: Option<JoinPolicy> = Some(JoinPolicy::AllOf);
    const ANY: Option<JoinPolicy> = Some(JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun });
    const SUCCESS: Observed = Observed::Ran(Outcome::Succeeded);
    const FAILURE: Observed = Observed::Ran(Outcome::Failed);

    #[test]
    fn failure_skips_what_can_no_longer_run_all_the_way_down() {
        check(
            &[(None, FAILURE), (ALL, Observed::Nothing), (ALL, Observed::Nothing)],
            &[(0, 1), (1, 2)],
            &[Final::Ran(Outcome::Failed), Final::Unsatisfiable, Final::Unsatisfiable],
        );
    }

    #[test]
    fn join_of_any_runs_beside_a_failure_whatever_the_order_of_the_nodes() {
        check(
            &[(ANY, SUCCESS), (None, FAILURE), (None, SUCCESS)],
            &[(1, 0), (2, 0)],
            &[
                Final::Ran(Outcome::Succeeded),
                Final::Ran(Outcome::Failed),
                Final::Ran(Outcome::Succeeded),
            ],
        );
    }

    #[test]
    fn execution_that_ran_although_its_join_is_impossible_must_be_skipped() {
        check(
            &[(None, FAILURE), (ALL, SUCCESS)],
            &[(0, 1)],
            &[Final::Ran(Outcome::Failed), Final::Unsatisfiable],
        );
    }

    #[test]
    fn execution_without_an_end_must_run_and_its_downstream_waits() {
        check(
            &[(None, Observed::Nothing), (ALL, Observed::Nothing)],
            &[(0, 1)],
            &[Final::MustRun, Final::Waits],
        );
    }

    #[test]
    fn execution_ended_from_outside_passes_its_outcome_on() {
        check(
            &[(None, Observed::Ended(Outcome::Expired)), (ALL, Observed::Nothing)],
            &[(0, 1)],
            &[Final::Ended(Outcome::Expired), Final::Unsatisfiable],
        );
    }

    #[test]
    fn cycles_are_refused() {
        let node = Node { policy: ALL, observed: Observed::Nothing };
        let link = |upstream, downstream| Link {
            upstream,
            downstream,
            accepts: AcceptSet::ON_SUCCESS,
            kept: None,
        };
        assert_eq!(evaluate(&[node, node], &[link(0, 1), link(1, 0)]), Err(Cyclic));
    }
}
