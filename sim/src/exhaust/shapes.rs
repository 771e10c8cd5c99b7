//! Every shape of a flow: directed acyclic graphs up to isomorphism. Pure; knows neither policies
//! nor outcomes.

use std::collections::BTreeSet;

/// The largest flow whose shapes are enumerated; its adjacency matrix fits 64 bits.
pub const NODES_MAX: u8 = 6;

/// A directed acyclic graph without names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// Number of nodes.
    pub nodes: u8,
    /// Upstream and downstream; the upstream has the lower number. Sorted.
    pub edges: Vec<(u8, u8)>,
}

impl Shape {
    /// Number of edges into a node.
    pub fn in_degree(&self, node: u8) -> usize {
        self.edges.iter().filter(|edge| edge.1 == node).count()
    }
}

/// Every shape of exactly that many nodes, one of each isomorphism class.
///
/// Each graph without cycles has a sink, and is some smaller one without it: so every smaller shape
/// is given one more sink, below each subset of its nodes, and what is isomorphic is dropped.
pub fn shapes(nodes: u8) -> Vec<Shape> {
    assert!((1..=NODES_MAX).contains(&nodes), "a flow of 1 to {NODES_MAX} nodes");
    let mut shapes = vec![Shape { nodes: 1, edges: Vec::new() }];
    for sink in 1..nodes {
        let orders = permutations(sink + 1);
        let mut seen = BTreeSet::new();
        let mut larger = Vec::new();
        for shape in &shapes {
            for upstreams in 0..1_u32 << sink {
                let above = (0..sink).filter(|node| upstreams >> node & 1 == 1);
                let mut edges = shape.edges.clone();
                edges.extend(above.map(|node| (node, sink)));
                edges.sort_unstable();
                if seen.insert(canonical(sink + 1, &edges, &orders)) {
                    larger.push(Shape { nodes: sink + 1, edges });
                }
            }
        }
        shapes = larger;
    }
    shapes
}

/// The least adjacency matrix among all numberings, as bits.
fn canonical(nodes: u8, edges: &[(u8, u8)], orders: &[Vec<u8>]) -> u64 {
    let bits = |order: &Vec<u8>| {
        edges.iter().fold(0_u64, |bits, (from, to)| {
            let (from, to) = (order[usize::from(*from)], order[usize::from(*to)]);
            bits | 1 << (from * nodes + to)
        })
    };
    orders.iter().map(bits).min().expect("there is a numbering")
}

fn permutations(nodes: u8) -> Vec<Vec<u8>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..nodes {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<u8>| {
                let rest: Vec<u8> = (0..nodes).filter(|node| !order.contains(node)).collect();
                rest.into_iter().map(move |node| [order.as_slice(), &[node]].concat())
            })
            .collect();
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts classes among all labelled digraphs without cycles: each weighs one by the number of
    /// its relabellings, which are walked by swaps of neighbours until nothing new appears.
    fn classes_of_labelled_digraphs(nodes: u32) -> usize {
        let pairs: Vec<(u32, u32)> = (0..nodes)
            .flat_map(|from| (0..nodes).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        let mut unseen: BTreeSet<u32> =
            (0..1_u32 << pairs.len()).filter(|graph| is_acyclic(nodes, &pairs, *graph)).collect();
        let mut classes = 0;
        while let Some(graph) = unseen.pop_first() {
            classes += 1;
            let mut walk = vec![graph];
            while let Some(graph) = walk.pop() {
                let swaps = (1..nodes).map(|node| swapped(&pairs, graph, node - 1, node));
                walk.extend(swaps.filter(|other| unseen.remove(other)));
            }
        }
        classes
    }

    fn is_acyclic(nodes: u32, pairs: &[(u32, u32)], graph: u32) -> bool {
        let edges = |left: u32| {
            let held = pairs.iter().enumerate().filter(move |(bit, _)| graph >> bit & 1 == 1);
            held.filter(move |(_, (from, to))| left >> from & 1 == 1 && left >> to & 1 == 1)
        };
        let mut left = (1_u32 << nodes) - 1;
        while left != 0 {
            let sink = (0..nodes)
                .find(|node| left >> node & 1 == 1 && edges(left).all(|(_, edge)| edge.0 != *node));
            match sink {
                Some(sink) => left &= !(1 << sink),
                None => return false,
            }
        }
        true
    }

    fn swapped(pairs: &[(u32, u32)], graph: u32, one: u32, other: u32) -> u32 {
        let rename = |node: u32| match node {
            node if node == one => other,
            node if node == other => one,
            node => node,
        };
        let held = pairs.iter().enumerate().filter(|(bit, _)| graph >> bit & 1 == 1);
        held.fold(0, |bits, (_, (from, to))| {
            let renamed = (rename(*from), rename(*to));
            bits | 1 << pairs.iter().position(|pair| *pair == renamed).expect("a pair of nodes")
        })
    }

    #[test]
    fn shapes_are_as_many_as_classes_of_labelled_digraphs() {
        for nodes in 1..=4 {
            assert_eq!(shapes(nodes).len(), classes_of_labelled_digraphs(nodes.into()), "{nodes}");
        }
    }

    /// The sequence A003087 of the encyclopedia of integer sequences.
    #[test]
    fn shapes_are_as_many_as_published() {
        let counts: Vec<usize> = (1..=5).map(|nodes| shapes(nodes).len()).collect();
        assert_eq!(counts, [1, 2, 6, 31, 302]);
    }

    #[test]
    fn edges_lead_from_lower_to_higher_numbers() {
        let shapes = shapes(4);
        let mut edges = shapes.iter().flat_map(|shape| &shape.edges);
        assert!(edges.all(|(from, to)| from < to && *to < 4));
    }
}
