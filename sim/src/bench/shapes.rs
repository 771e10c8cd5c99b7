//! The graphs that are measured, by index: every edge leads from a lower to a higher node. Pure;
//! never submits anything.

use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::policy::AcceptSet;

/// Layers of the diamond.
pub(crate) const DIAMOND_LAYERS: usize = 50;
/// Nodes of a layer of the diamond.
pub(crate) const DIAMOND_WIDTH: usize = 20;
/// Inbound edges of a node below the first layer of the diamond.
const DIAMOND_DEGREE: usize = 7;
/// Nodes of the chain.
pub(crate) const CHAIN_NODES: usize = 501;

/// A graph whose joins are all `AllOf`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// How many nodes it has.
    pub nodes: usize,
    /// From an upstream to a downstream with a higher index.
    pub edges: Vec<(usize, usize)>,
    /// The outcomes that satisfy each edge.
    pub accepts: AcceptSet,
    /// Milliseconds after which every node expires, if there is such a deadline.
    pub deadline_ms: Option<u64>,
}

impl Shape {
    fn of(nodes: usize, edges: Vec<(usize, usize)>) -> Self {
        assert!(edges.iter().all(|(from, to)| from < to && *to < nodes), "edges lead upward");
        Self { nodes, edges, accepts: AcceptSet::ON_SUCCESS, deadline_ms: None }
    }

    /// Nodes without edges.
    pub(crate) fn flat(nodes: usize) -> Self {
        Self::of(nodes, Vec::new())
    }

    /// One root and so many leaves.
    pub(crate) fn fan_out(leaves: usize) -> Self {
        Self::of(leaves + 1, (1..=leaves).map(|leaf| (0, leaf)).collect())
    }

    /// So many roots and one sink, the last node.
    pub(crate) fn fan_in(roots: usize) -> Self {
        Self::of(roots + 1, (0..roots).map(|root| (root, roots)).collect())
    }

    /// One node after the other.
    pub(crate) fn chain(nodes: usize) -> Self {
        Self::of(nodes, (1..nodes).map(|node| (node - 1, node)).collect())
    }

    /// Layers in which node `j` depends on `j .. j + degree` of the layer above, modulo the width.
    pub(crate) fn layers(layers: usize, width: usize, degree: usize) -> Self {
        assert!(degree <= width, "no edge twice");
        let below = 1..layers;
        let edges = below.flat_map(|layer| {
            let above = (layer - 1) * width;
            let nodes = 0..width;
            nodes.flat_map(move |j| {
                (0..degree).map(move |k| (above + (j + k) % width, layer * width + j))
            })
        });
        Self::of(layers * width, edges.collect())
    }

    /// Fifty layers of twenty nodes with seven inbound edges each.
    pub(crate) fn diamond() -> Self {
        Self::layers(DIAMOND_LAYERS, DIAMOND_WIDTH, DIAMOND_DEGREE)
    }

    /// The same graph, whose edges accept any end and whose nodes all expire at once.
    pub(crate) fn expiring(self, deadline_ms: u64) -> Self {
        Self { accepts: AcceptSet::ON_DONE, deadline_ms: Some(deadline_ms), ..self }
    }

    /// The name of a node.
    pub(crate) fn name(node: usize) -> String {
        format!("n{node}")
    }

    /// The flow to submit.
    pub(crate) fn spec(&self) -> FlowSpec {
        let execution = |node: usize| {
            let mut execution = ExecutionSpec::new(Self::name(node));
            execution.deadline_ms = self.deadline_ms;
            execution
        };
        let edge = |(from, to): &(usize, usize)| {
            EdgeSpec::new(Self::name(*from), Self::name(*to)).accepts(self.accepts)
        };
        FlowSpec {
            executions: (0..self.nodes).map(execution).collect(),
            edges: self.edges.iter().map(edge).collect(),
            ..FlowSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::flow::Limits;

    use super::*;

    fn check(shape: &Shape, nodes: usize, edges: usize) {
        assert_eq!((shape.nodes, shape.edges.len()), (nodes, edges));
        let valid = shape.spec().validate(&Limits::default()).unwrap();
        assert_eq!(valid.edges().count(), edges, "no edge is named twice");
    }

    #[test]
    fn shapes_have_the_nodes_and_edges_of_the_published_measurements() {
        check(&Shape::diamond(), 1_000, 6_860);
        check(&Shape::fan_out(1_000), 1_001, 1_000);
        check(&Shape::fan_in(1_000), 1_001, 1_000);
        check(&Shape::chain(CHAIN_NODES), 501, 500);
        check(&Shape::flat(1_000), 1_000, 0);
    }

    #[test]
    fn a_node_of_the_diamond_depends_on_seven_of_the_layer_above() {
        let shape = Shape::diamond();
        let of = |node: usize| -> Vec<usize> {
            let inbound = shape.edges.iter().filter(|edge| edge.1 == node);
            inbound.map(|edge| edge.0).collect()
        };
        assert_eq!(of(20), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(of(38), [18, 19, 0, 1, 2, 3, 4]);
        assert!((0..20).all(|root| of(root).is_empty()));
    }
}
