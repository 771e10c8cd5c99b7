//! Directed graphs over the indices `0..nodes`: order, cycle, depth and reach. Pure; knows no names
//! and no rows.

/// A directed graph over the indices `0..nodes`; keeps the order in which edges were listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    starts: Vec<usize>,
    targets: Vec<usize>,
    in_degrees: Vec<u32>,
}

impl Graph {
    /// The graph of these edges, each from its first index to its second, all below `nodes`.
    pub fn new(nodes: usize, edges: &[(usize, usize)]) -> Self {
        let mut starts = vec![0; nodes + 1];
        let mut in_degrees = vec![0; nodes];
        for &(from, to) in edges {
            starts[from + 1] += 1;
            in_degrees[to] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut free = starts.clone();
        let mut targets = vec![0; edges.len()];
        for &(from, to) in edges {
            targets[free[from]] = to;
            free[from] += 1;
        }
        Self { starts, targets, in_degrees }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.in_degrees.len()
    }

    /// The nodes that the edges of `node` lead to, in listed order.
    pub fn successors(&self, node: usize) -> &[usize] {
        &self.targets[self.starts[node]..self.starts[node + 1]]
    }

    /// How many edges lead to `node`.
    pub fn in_degree(&self, node: usize) -> u32 {
        self.in_degrees[node]
    }

    /// How many edges lead from `node`.
    pub fn out_degree(&self, node: usize) -> u32 {
        u32::try_from(self.successors(node).len()).expect("degrees are counted in 32 bits")
    }

    /// Every node after all nodes that lead to it, or `None` if there is a cycle.
    ///
    /// A function of the lists alone (Kahn, "Topological sorting of large networks", 1962).
    pub fn topological_order(&self) -> Option<Vec<usize>> {
        let (order, _) = self.peel();
        (order.len() == self.nodes()).then_some(order)
    }

    /// A cycle, if there is one, as a path that starts and ends with its smallest index.
    pub fn cycle(&self) -> Option<Vec<usize>> {
        let (_, waits_for) = self.peel();
        let first = waits_for.iter().position(|count| *count > 0)?;
        // A node that is left waits for one that is left, so that walking back never ends early.
        let mut came_from = vec![None; self.nodes()];
        for from in (0..self.nodes()).rev().filter(|node| waits_for[*node] > 0) {
            for to in self.successors(from) {
                came_from[*to] = Some(from);
            }
        }
        let back = |node: usize| came_from[node].expect("a node on a cycle has a predecessor");
        let mut seen = vec![false; self.nodes()];
        let mut node = first;
        while !seen[node] {
            seen[node] = true;
            node = back(node);
        }
        let mut path = vec![node];
        let mut previous = back(node);
        while previous != node {
            path.push(previous);
            previous = back(previous);
        }
        path.reverse();
        let smallest = (0..path.len()).min_by_key(|index| path[*index])?;
        path.rotate_left(smallest);
        path.push(path[0]);
        Some(path)
    }

    /// Edges on the longest path that ends at each node, or `None` if there is a cycle.
    pub fn depths(&self) -> Option<Vec<u32>> {
        let mut depths = vec![0; self.nodes()];
        for from in self.topological_order()? {
            for to in self.successors(from) {
                depths[*to] = depths[*to].max(depths[from] + 1);
            }
        }
        Some(depths)
    }

    /// Edges on the longest path, or `None` if there is a cycle; 0 without edges.
    pub fn longest_path(&self) -> Option<u32> {
        self.depths().map(|depths| depths.into_iter().max().unwrap_or(0))
    }

    /// For each node, whether a path, possibly an empty one, leads to it from one of `roots`.
    pub fn reachable_from(&self, roots: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut reached = vec![false; self.nodes()];
        let mut open: Vec<usize> = roots.into_iter().collect();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(self.successors(node).iter().filter(|next| !reached[**next]));
            }
        }
        reached
    }

    /// Takes nodes away that nothing left leads to: their order, and what each node still waits
    /// for.
    fn peel(&self) -> (Vec<usize>, Vec<u32>) {
        let mut waits_for = self.in_degrees.clone();
        let mut order = Vec::with_capacity(self.nodes());
        order.extend((0..self.nodes()).filter(|node| waits_for[*node] == 0));
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for to in self.successors(node) {
                waits_for[*to] -= 1;
                if waits_for[*to] == 0 {
                    order.push(*to);
                }
            }
        }
        (order, waits_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_puts_every_edge_forward() {
        let edges = [(4, 0), (0, 2), (4, 3), (3, 2), (2, 1)];
        let graph = Graph::new(5, &edges);
        let order = graph.topological_order().unwrap();
        let place = |node| order.iter().position(|other| *other == node).unwrap();
        assert!(edges.iter().all(|(from, to)| place(*from) < place(*to)), "{order:?}");
        assert_eq!(order, [4, 0, 3, 2, 1]);
        assert_eq!(graph.cycle(), None);
    }

    #[test]
    fn a_cycle_is_a_closed_path_along_edges_from_its_smallest_index() {
        // Node 0 hangs off the cycle 1 -> 4 -> 2 -> 1, and 3 leads into it.
        let edges = [(2, 1), (1, 4), (4, 2), (3, 4), (2, 0)];
        let graph = Graph::new(5, &edges);
        assert_eq!(graph.topological_order(), None);
        assert_eq!(graph.cycle(), Some(vec![1, 4, 2, 1]));
        assert_eq!(Graph::new(1, &[(0, 0)]).cycle(), Some(vec![0, 0]));
    }

    #[test]
    fn every_graph_of_four_nodes_has_either_an_order_or_a_cycle() {
        let pairs: Vec<(usize, usize)> = (0..16).map(|i| (i / 4, i % 4)).collect();
        for bits in 0u32..1 << 16 {
            let chosen = (0..16).filter(|bit| bits & 1 << bit != 0).map(|bit| pairs[bit]);
            let edges: Vec<(usize, usize)> = chosen.collect();
            let graph = Graph::new(4, &edges);
            match (graph.topological_order(), graph.cycle()) {
                (Some(order), None) => assert_eq!(order.len(), 4),
                (None, Some(path)) => {
                    assert!(path.windows(2).all(|step| edges.contains(&(step[0], step[1]))));
                    assert!(path.len() >= 2 && path.first() == path.last(), "{path:?}");
                }
                both => panic!("{edges:?}: {both:?}"),
            }
        }
    }

    #[test]
    fn depth_follows_the_longest_path() {
        let graph = Graph::new(5, &[(0, 1), (1, 2), (0, 2), (3, 2)]);
        assert_eq!(graph.depths(), Some(vec![0, 1, 2, 0, 0]));
        assert_eq!(graph.longest_path(), Some(2));
        assert_eq!(Graph::new(2, &[(0, 1), (1, 0)]).depths(), None);
        assert_eq!(Graph::new(0, &[]).longest_path(), Some(0));
    }

    #[test]
    fn reach_includes_the_roots_and_survives_cycles() {
        let graph = Graph::new(5, &[(0, 1), (1, 0), (1, 2), (3, 2)]);
        assert_eq!(graph.reachable_from([1]), [true, true, true, false, false]);
        assert_eq!(graph.reachable_from([]), [false; 5]);
    }

    #[test]
    fn degrees_count_edges() {
        let graph = Graph::new(3, &[(0, 2), (1, 2), (0, 1)]);
        assert_eq!((0..3).map(|node| graph.in_degree(node)).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((0..3).map(|node| graph.out_degree(node)).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(graph.successors(0), [2, 1]);
    }
}
