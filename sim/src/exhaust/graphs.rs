//! Every flow of an alphabet: a shape with a policy for each join and an accept set for each edge.
//! Symmetric assignments are not folded. Never runs one.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::identity::FlowId;
use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};

use super::shapes::{Shape, shapes};
use crate::workload;

/// Attempts of each execution: more than an exhaustive run has faults.
const ATTEMPTS_MAX: u32 = 4;

/// Which policies and accept sets flows are made of.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Alphabet {
    /// `AllOf`, `AnyOf` and `Quorum 2..d-1`; success satisfies an edge.
    #[default]
    A,
    /// `AllOf`, `AnyOf` and `Quorum 2..d`; each of the five presets on each edge.
    B,
}

/// A flow of the enumeration.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// Its nodes and edges.
    pub shape: Shape,
    /// The policy of each node; `AllOf` where there is no choice.
    pub policies: Vec<JoinPolicy>,
    /// The accept set of each edge, by its position in the shape.
    pub accepts: Vec<AcceptSet>,
}

impl Alphabet {
    /// Every alphabet.
    pub const ALL: [Alphabet; 2] = [Alphabet::A, Alphabet::B];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Alphabet::A => "A",
            Alphabet::B => "B",
        }
    }

    /// What its flows are made of.
    pub fn what(self) -> &'static str {
        match self {
            Alphabet::A => {
                "AllOf, AnyOf and Quorum 2..d-1 (d upstreams, d >= 2), both on_satisfied; \
                 edges on_success"
            }
            Alphabet::B => {
                "AllOf, AnyOf and Quorum 2..d (d upstreams, d >= 2), both on_satisfied; \
                 edges on_success, on_failure, on_skip, on_done, none_failed"
            }
        }
    }

    /// The policies of a node with so many upstreams.
    fn policies(self, in_degree: usize) -> Vec<JoinPolicy> {
        let mut policies = vec![JoinPolicy::AllOf];
        if in_degree < 2 {
            return policies;
        }
        let in_degree = u32::try_from(in_degree).expect("a shape is small");
        let quorum_last = match self {
            Alphabet::A => in_degree - 1,
            Alphabet::B => in_degree,
        };
        for on_satisfied in [OnSatisfied::LetRun, OnSatisfied::CancelRemaining] {
            policies.push(JoinPolicy::AnyOf { on_satisfied });
            policies.extend((2..=quorum_last).map(|k| JoinPolicy::Quorum { k, on_satisfied }));
        }
        policies
    }

    fn accepts(self) -> Vec<AcceptSet> {
        match self {
            Alphabet::A => vec![AcceptSet::default()],
            Alphabet::B => AcceptSet::PRESETS.iter().map(|preset| preset.1).collect(),
        }
    }
}

/// Every flow of exactly that many nodes.
pub fn graphs(nodes: u8, alphabet: Alphabet) -> Vec<Graph> {
    let mut graphs = Vec::new();
    for shape in shapes(nodes) {
        let joins = (0..nodes).map(|node| alphabet.policies(shape.in_degree(node)));
        let joins = combinations(&joins.collect::<Vec<_>>());
        let accepts = combinations(&vec![alphabet.accepts(); shape.edges.len()]);
        for policies in &joins {
            graphs.extend(accepts.iter().map(|accepts| Graph {
                shape: shape.clone(),
                policies: policies.clone(),
                accepts: accepts.clone(),
            }));
        }
    }
    graphs
}

/// One of each list, in every way.
fn combinations<T: Clone>(lists: &[Vec<T>]) -> Vec<Vec<T>> {
    lists.iter().fold(vec![Vec::new()], |chosen, list| {
        let longer = |chosen: &Vec<T>| {
            let chosen = chosen.clone();
            list.iter().map(move |one| [chosen.as_slice(), std::slice::from_ref(one)].concat())
        };
        chosen.iter().flat_map(longer).collect()
    })
}

impl Graph {
    /// The flow to submit. Its id is fixed, so that equal states have equal rows; the order of the
    /// executions' ids is neither that of the graph nor its reverse.
    pub fn spec(&self) -> FlowSpec {
        let nodes = 0..self.shape.nodes;
        let executions = nodes.clone().map(|node| ExecutionSpec {
            retry: workload::short_retries(ATTEMPTS_MAX),
            ..ExecutionSpec::new(name(node))
        });
        let edges = self.shape.edges.iter().zip(&self.accepts).map(|((from, to), accepts)| {
            EdgeSpec { accepts: *accepts, ..EdgeSpec::new(name(*from), name(*to)) }
        });
        let joins = nodes.filter(|node| self.shape.in_degree(*node) > 0);
        FlowSpec {
            idempotency_key: Some("the-flow".into()),
            flow_id: Some(FlowId::from_parts(0, [7; 10])),
            executions: executions.collect(),
            edges: edges.collect(),
            groups: joins
                .map(|node| (name(node), self.policies[usize::from(node)]))
                .filter(|(_, policy)| *policy != JoinPolicy::AllOf)
                .collect(),
            ..FlowSpec::default()
        }
    }

    /// The graph in one line: `a b c d; a -> c, b -> c, c -> d (on_done); c any_of let_run`.
    pub fn text(&self) -> String {
        let names: Vec<String> = (0..self.shape.nodes).map(name).collect();
        let mut text = names.join(" ");
        for (at, ((from, to), accepts)) in self.shape.edges.iter().zip(&self.accepts).enumerate() {
            let separator = if at == 0 { "; " } else { ", " };
            let (from, to) = (&names[usize::from(*from)], &names[usize::from(*to)]);
            write!(text, "{separator}{from} -> {to}").expect("a string takes it");
            let preset = AcceptSet::PRESETS.iter().find(|preset| preset.1 == *accepts);
            if let Some((preset, _)) = preset.filter(|_| *accepts != AcceptSet::default()) {
                write!(text, " ({preset})").expect("a string takes it");
            }
        }
        for (name, policy) in names.iter().zip(&self.policies) {
            let (policy, on_satisfied) = match policy {
                JoinPolicy::AllOf => continue,
                JoinPolicy::AnyOf { on_satisfied } => ("any_of".to_owned(), on_satisfied),
                JoinPolicy::Quorum { k, on_satisfied } => (format!("quorum {k}"), on_satisfied),
            };
            let on_satisfied = match on_satisfied {
                OnSatisfied::LetRun => "let_run",
                OnSatisfied::CancelRemaining => "cancel_remaining",
            };
            write!(text, "; {name} {policy} {on_satisfied}").expect("a string takes it");
        }
        text
    }
}

fn name(node: u8) -> String {
    workload::name(node.into())
}

#[cfg(test)]
mod tests {
    use sluicegate::flow::Limits;

    use super::*;

    /// Policies of a join of `d`: one `AllOf`; two for each threshold from 1 to the last.
    fn product(alphabet: Alphabet, nodes: u8) -> usize {
        let of_shape = |shape: Shape| {
            let joins = (0..nodes).map(|node| match (shape.in_degree(node), alphabet) {
                (0 | 1, _) => 1,
                (degree, Alphabet::A) => 2 * degree - 1,
                (degree, Alphabet::B) => 2 * degree + 1,
            });
            let edges = u32::try_from(shape.edges.len()).unwrap();
            let presets: usize = if alphabet == Alphabet::A { 1 } else { 5 };
            joins.product::<usize>() * presets.pow(edges)
        };
        shapes(nodes).into_iter().map(of_shape).sum()
    }

    #[test]
    fn graphs_are_as_many_as_the_product_says() {
        for nodes in 1..=4 {
            assert_eq!(graphs(nodes, Alphabet::A).len(), product(Alphabet::A, nodes), "{nodes}");
        }
        for nodes in 1..=3 {
            assert_eq!(graphs(nodes, Alphabet::B).len(), product(Alphabet::B, nodes), "{nodes}");
        }
    }

    #[test]
    fn graphs_of_alphabet_a_are_counted() {
        let counts: Vec<usize> = (1..=5).map(|nodes| graphs(nodes, Alphabet::A).len()).collect();
        assert_eq!(counts, [1, 2, 10, 137, 4_970]);
    }

    #[test]
    fn every_graph_is_a_valid_flow_and_no_two_are_alike() {
        for alphabet in Alphabet::ALL {
            let graphs = graphs(3, alphabet);
            let mut texts: Vec<String> = graphs.iter().map(Graph::text).collect();
            for graph in &graphs {
                assert!(graph.spec().validate(&Limits::default()).is_ok(), "{}", graph.text());
            }
            texts.sort();
            texts.dedup();
            assert_eq!(texts.len(), graphs.len());
        }
    }

    #[test]
    fn a_graph_reads_as_one_line() {
        let line = |alphabet: Alphabet| graphs(3, alphabet).last().unwrap().text();
        assert_eq!(line(Alphabet::A), "a b c; a -> b, a -> c, b -> c; c any_of cancel_remaining");
        assert_eq!(
            line(Alphabet::B),
            "a b c; a -> b (none_failed), a -> c (none_failed), b -> c (none_failed); \
             c quorum 2 cancel_remaining"
        );
    }
}
