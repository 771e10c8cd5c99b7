//! Additions to a flow that exists: executions, edges and joins. Pure; checked by themselves first
//! and then against what the flow holds, which others read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::validate::label;
use super::{EdgeSpec, ExecutionSpec, FlowSpec, InvalidFlow, Limits, Problem, ValidFlow, file};
use crate::graph::Graph;
use crate::identity::ExecutionId;
use crate::mutants::mutated;
use crate::policy::JoinPolicy;

/// What a flow is extended by. An edge may lead from and to executions that the flow has, by name.
///
/// JSON leaves fields at their default out and refuses fields that it does not know.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use = "additions do nothing until a flow is extended by them"]
pub struct Additions {
    /// The new nodes; their names are new in the flow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<ExecutionSpec>,
    /// The new edges, at most one from an execution to another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<EdgeSpec>,
    /// How inbound edges release a new execution, by its name; `AllOf` where absent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "file::unique_groups")]
    pub groups: BTreeMap<String, JoinPolicy>,
}

impl Additions {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an execution with every field but its name at the default.
    pub fn execution(self, name: impl Into<String>) -> Self {
        self.execution_spec(ExecutionSpec::new(name))
    }

    /// Adds an execution.
    pub fn execution_spec(mut self, execution: ExecutionSpec) -> Self {
        self.executions.push(execution);
        self
    }

    /// Adds an edge that success satisfies.
    pub fn edge(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.edge_spec(EdgeSpec::new(from, to))
    }

    /// Adds an edge.
    pub fn edge_spec(mut self, edge: EdgeSpec) -> Self {
        self.edges.push(edge);
        self
    }

    /// Sets how the inbound edges of that new execution release it; the last call for a name
    /// counts.
    pub fn join(mut self, downstream: impl Into<String>, policy: JoinPolicy) -> Self {
        self.groups.insert(downstream.into(), policy);
        self
    }

    /// Checks everything that can be known without the flow. Names that are not added here are
    /// taken for executions of the flow.
    pub fn validate(self, limits: &Limits) -> Result<ValidAdditions, InvalidFlow> {
        if self == Self::default() {
            return Err(InvalidFlow { problems: vec![Problem::NothingToAdd] });
        }
        let Self { mut executions, edges, mut groups } = self;
        let added: BTreeSet<&str> = executions.iter().map(|one| one.name.as_str()).collect();
        let (mut others, mut problems) = (BTreeSet::new(), Vec::new());
        for edge in &edges {
            let ends = [edge.from.as_str(), edge.to.as_str()].into_iter();
            others.extend(ends.filter(|name| !name.is_empty() && !added.contains(name)));
        }
        for name in groups.keys().filter(|name| !added.contains(name.as_str())) {
            problems.push(Problem::GroupNotAdded { name: label(name) });
        }
        let others: Vec<ExecutionSpec> = others.into_iter().map(ExecutionSpec::new).collect();
        groups.retain(|name, _| added.contains(name.as_str()));
        let added = executions.len();
        executions.extend(others);
        let spec = FlowSpec { executions, edges, groups, ..FlowSpec::default() };
        match spec.validate(limits) {
            Ok(valid) if problems.is_empty() => Ok(ValidAdditions { valid, added }),
            Ok(_) => Err(InvalidFlow { problems }),
            Err(mut invalid) => {
                invalid.problems.extend(problems);
                Err(invalid)
            }
        }
    }
}

/// Additions that are sound in themselves. What they name is known by its index: first what is
/// added, as listed, then what the flow must have, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidAdditions {
    valid: ValidFlow,
    added: usize,
}

/// An inbound edge that the flow has of an execution that the additions name.
pub(crate) struct HeldEdge {
    /// Its downstream, by index.
    pub downstream: usize,
    /// Its upstream.
    pub upstream: ExecutionId,
    /// Name under which the downstream is given the upstream's result.
    pub passes_as: Option<Arc<str>>,
}

/// What a flow holds of what additions name.
pub(crate) struct Held {
    /// The id of everything that they name, by index.
    pub ids: Vec<ExecutionId>,
    /// Whether it exists, by index.
    pub exists: Vec<bool>,
    /// Executions of the flow.
    pub executions: u64,
    /// Edges of the flow.
    pub edges: u64,
    /// The inbound edges of the downstreams that are there.
    pub inbound: Vec<HeldEdge>,
    /// The edges, from upstream to downstream, on every path that leads to an upstream.
    pub paths: Vec<(ExecutionId, ExecutionId)>,
}

impl ValidAdditions {
    /// What they name, as a flow of its own.
    pub(crate) fn valid(&self) -> &ValidFlow {
        &self.valid
    }

    /// What is added, by index.
    pub fn executions(&self) -> &[ExecutionSpec] {
        &self.valid.spec().executions[..self.added]
    }

    /// True if the execution of that index is added, not of the flow.
    pub fn is_added(&self, index: usize) -> bool {
        index < self.added
    }

    /// The name of the execution of that index.
    pub fn name(&self, index: usize) -> &str {
        &self.valid.spec().executions[index].name
    }

    /// How many executions they name.
    pub(crate) fn named(&self) -> usize {
        self.valid.spec().executions.len()
    }

    /// True if an edge leads into an execution that the flow has.
    pub(crate) fn leads_back(&self) -> bool {
        self.valid.edges().any(|(_, to, _)| !self.is_added(to))
    }

    /// Checks them against what the flow holds.
    pub(crate) fn check(&self, held: &Held, limits: &Limits) -> Result<(), InvalidFlow> {
        let mut problems = Vec::new();
        self.check_names(held, &mut problems);
        self.check_edges(held, &mut problems);
        self.check_sizes(held, limits, &mut problems);
        problems.extend(self.cycle(held));
        if problems.is_empty() { Ok(()) } else { Err(InvalidFlow { problems }) }
    }

    fn check_names(&self, held: &Held, problems: &mut Vec<Problem>) {
        let taken = (0..self.added).filter(|index| held.exists[*index]);
        problems.extend(taken.map(|index| Problem::NameTaken { name: label(self.name(index)) }));
        for (from, to, edge) in self.valid.edges() {
            let ends = [(from, &edge.from), (to, &edge.to)].into_iter();
            let missing = ends.filter(|end| !self.is_added(end.0) && !held.exists[end.0]);
            problems.extend(missing.map(|(_, missing)| Problem::DanglingEdge {
                from: label(&edge.from),
                to: label(&edge.to),
                missing: label(missing),
            }));
        }
    }

    fn check_edges(&self, held: &Held, problems: &mut Vec<Problem>) {
        let (mut ends, mut inputs) = (BTreeSet::new(), BTreeSet::new());
        for edge in &held.inbound {
            ends.insert((edge.upstream, edge.downstream));
            inputs.extend(edge.passes_as.as_deref().map(|input| (edge.downstream, input)));
        }
        for (from, to, edge) in self.valid.edges().filter(|(_, to, _)| !self.is_added(*to)) {
            if ends.contains(&(held.ids[from], to)) {
                let (from, to) = (label(&edge.from), label(&edge.to));
                problems.push(Problem::EdgeExists { from, to });
            }
            let input = edge.passes_as.as_deref();
            if let Some(input) = input.filter(|input| inputs.contains(&(to, *input))) {
                let (name, input) = (label(&edge.to), label(input));
                problems.push(Problem::DuplicateInput { name, input, times: 2 });
            }
        }
    }

    fn check_sizes(&self, held: &Held, limits: &Limits, problems: &mut Vec<Problem>) {
        let mut check = |subject: String, unit, found: u64, limit: u32| {
            let limit = u64::from(limit);
            if found > limit {
                problems.push(Problem::LimitExceeded { subject, found, unit, limit });
            }
        };
        let flow = || "the flow with its additions".to_owned();
        let executions = held.executions + self.added as u64;
        check(flow(), "executions", executions, limits.executions_max);
        let edges = held.edges + self.valid.edges().len() as u64;
        check(flow(), "edges", edges, limits.edges_max);
        let mut inbound: Vec<u64> =
            (0..self.named()).map(|index| self.valid.in_degree(index).into()).collect();
        for edge in &held.inbound {
            inbound[edge.downstream] += 1;
        }
        for (index, edges) in inbound.into_iter().enumerate().skip(self.added) {
            let owner = format!("execution `{}`", label(self.name(index)));
            check(owner, "inbound edges", edges, limits.in_degree_max);
        }
    }

    /// A cycle of new edges and of paths that the flow has. What the additions do not name is shown
    /// by its id.
    fn cycle(&self, held: &Held) -> Option<Problem> {
        if !self.leads_back() {
            return None;
        }
        // What is named comes first, so that a path begins with a name whatever the ids are.
        let mut nodes = held.ids.clone();
        let mut places: BTreeMap<ExecutionId, usize> =
            nodes.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        for id in held.paths.iter().flat_map(|(from, to)| [*from, *to]) {
            places.entry(id).or_insert_with(|| {
                nodes.push(id);
                nodes.len() - 1
            });
        }
        let new = self.valid.edges().map(|(from, to, _)| (held.ids[from], held.ids[to]));
        // An edge that exists already is told of as such.
        let mut edges: Vec<(ExecutionId, ExecutionId)> =
            held.paths.iter().filter(|path| self.may_close(path, held)).copied().collect();
        edges.extend(new);
        edges.sort_unstable();
        edges.dedup();
        let edges: Vec<(usize, usize)> =
            edges.iter().map(|(from, to)| (places[from], places[to])).collect();
        let path = Graph::new(nodes.len(), &edges).cycle()?;
        let named = |node: usize| match node < held.ids.len() {
            true => label(self.name(node)),
            false => nodes[node].to_string(),
        };
        Some(Problem::Cycle { path: path.into_iter().map(named).collect() })
    }

    /// Every path may close a cycle; the planted bug looks at those of one edge only.
    fn may_close(&self, path: &(ExecutionId, ExecutionId), held: &Held) -> bool {
        let ends = |from: ExecutionId, to: ExecutionId| {
            self.valid.edges().any(|(up, down, _)| held.ids[down] == from && held.ids[up] == to)
        };
        !mutated!(P51) || ends(path.0, path.1)
    }
}
