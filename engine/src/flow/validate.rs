//! The checks before a flow is written, and what they find out. Pure; names every offender it can,
//! never just the first.

use super::canonical::content_hash;
use super::names::Names;
use super::{EdgeSpec, ExecutionSpec, FlowSpec, InvalidFlow, Limits, Problem};
use crate::graph::Graph;
use crate::policy::JoinPolicy;
use crate::retry::Backoff;

/// Characters of a text that a message shows.
const LABEL_SHOWN_MAX: usize = 64;

/// A specification that passed every check; executions and edges are known by their index in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidFlow {
    spec: FlowSpec,
    shape: Shape,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Shape {
    ends: Vec<(usize, usize)>,
    graph: Graph,
    order: Vec<usize>,
    policies: Vec<JoinPolicy>,
    content_hash: [u8; 32],
}

impl FlowSpec {
    /// Checks everything that can be known before a flow is written.
    ///
    /// A flow with more executions or edges than the limits allow is not looked at any further.
    pub fn validate(self, limits: &Limits) -> Result<ValidFlow, InvalidFlow> {
        let shape = inspect(&self, limits)?;
        Ok(ValidFlow { spec: self, shape })
    }
}

impl ValidFlow {
    /// The specification.
    pub fn spec(&self) -> &FlowSpec {
        &self.spec
    }

    /// Gives the specification back.
    pub fn into_spec(self) -> FlowSpec {
        self.spec
    }

    /// The executions, each after all its upstreams.
    pub fn order(&self) -> &[usize] {
        &self.shape.order
    }

    /// The edges as listed, each with the indices of its upstream and downstream.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = (usize, usize, &EdgeSpec)> {
        self.shape.ends.iter().zip(&self.spec.edges).map(|(&(from, to), edge)| (from, to, edge))
    }

    /// The executions and edges by index.
    pub fn graph(&self) -> &Graph {
        &self.shape.graph
    }

    /// How many edges an execution's group has.
    pub fn in_degree(&self, execution: usize) -> u32 {
        self.shape.graph.in_degree(execution)
    }

    /// How many edges an execution resolves.
    pub fn out_degree(&self, execution: usize) -> u32 {
        self.shape.graph.out_degree(execution)
    }

    /// How an execution's group is decided; `AllOf` if the specification says nothing.
    pub fn policy(&self, execution: usize) -> JoinPolicy {
        self.shape.policies[execution]
    }

    /// SHA-256 of the canonical specification.
    ///
    /// Equal for two specifications that ask for the same flow, in whatever order they list it,
    /// with the same payloads byte for byte; the idempotency key and the flow id are not part of
    /// it.
    pub fn content_hash(&self) -> [u8; 32] {
        self.shape.content_hash
    }
}

fn inspect(spec: &FlowSpec, limits: &Limits) -> Result<Shape, InvalidFlow> {
    let mut inspection = Inspection { spec, limits, problems: Vec::new() };
    inspection.check_sizes();
    if !inspection.problems.is_empty() {
        return Err(InvalidFlow { problems: inspection.problems });
    }
    let names = Names::of(spec);
    inspection.check_flow();
    inspection.check_executions();
    inspection.check_names(&names);
    let links = inspection.check_edges(&names);
    let edge_order = inspection.check_duplicate_edges(&names, &links.ends);
    inspection.check_inputs(links.inputs);
    let graph = Graph::new(spec.executions.len(), &links.ends);
    let order = graph.topological_order();
    if order.is_none() {
        inspection.report_cycle(&graph);
    }
    let policies = inspection.check_groups(&names, &links.in_degrees);
    if !inspection.problems.is_empty() {
        return Err(InvalidFlow { problems: inspection.problems });
    }
    assert_eq!(links.ends.len(), spec.edges.len(), "every edge of a valid flow has both ends");
    let executions = names.sorted().iter().map(|(_, index)| *index);
    let content_hash = content_hash(spec, executions, edge_order.into_iter());
    let order = order.expect("a flow without a cycle has an order");
    Ok(Shape { ends: links.ends, graph, order, policies, content_hash })
}

/// The edges with names turned into indices.
struct Links<'a> {
    /// Both ends of every edge that has them and is no self edge; of all edges if all are sound.
    ends: Vec<(usize, usize)>,
    /// Edges listed into each execution, sound or not, so that one mistake is reported once.
    in_degrees: Vec<u32>,
    inputs: Vec<(usize, &'a str)>,
}

struct Inspection<'a> {
    spec: &'a FlowSpec,
    limits: &'a Limits,
    problems: Vec<Problem>,
}

impl<'a> Inspection<'a> {
    fn check_sizes(&mut self) {
        let (executions, edges) = (self.spec.executions.len(), self.spec.edges.len());
        if executions == 0 {
            self.problems.push(Problem::EmptyFlow);
        }
        let flow = || "the flow".to_owned();
        self.check_limit(flow, executions, "executions", self.limits.executions_max.into());
        self.check_limit(flow, edges, "edges", self.limits.edges_max.into());
        let groups = self.spec.groups.len();
        self.check_limit(flow, groups, "groups", self.limits.executions_max.into());
    }

    fn check_flow(&mut self) {
        let spec = self.spec;
        let flow = || "the flow".to_owned();
        self.check_text(&spec.namespace, "namespace", flow);
        if let Some(key) = &spec.idempotency_key {
            self.check_text(key, "idempotency key", flow);
        }
        let Some(tag) = &spec.instance_tag else { return };
        self.check_text(tag, "instance tag", flow);
        let parts = tag.split_once('=');
        if !tag.is_empty() && parts.is_none_or(|(key, value)| key.is_empty() || value.is_empty()) {
            self.problems.push(Problem::MalformedInstanceTag { tag: label(tag) });
        }
    }

    fn check_executions(&mut self) {
        let payloads = self.spec.executions.iter().map(|execution| execution.payload.as_bytes());
        let bytes: usize = payloads.map(<[u8]>::len).sum();
        let limit = self.limits.flow_max_bytes;
        let flow = || "the flow".to_owned();
        self.check_limit(flow, bytes, "bytes of payloads (`flow_max_bytes`)", limit);
        for (position, execution) in self.spec.executions.iter().enumerate() {
            if execution.name.is_empty() {
                self.problems.push(Problem::EmptyName { position });
            } else {
                self.check_text(&execution.name, "name", || owner(execution));
            }
            self.check_text(&execution.kind, "kind", || owner(execution));
            self.check_text(&execution.lane, "lane", || owner(execution));
            self.check_retry(execution);
            self.check_wait(execution, "delay_ms", execution.delay_ms);
            self.check_wait(execution, "deadline_ms", execution.deadline_ms);
            let payload_bytes = execution.payload.as_bytes().len() as u64;
            if payload_bytes > self.limits.payload_max_bytes {
                self.problems.push(Problem::LimitExceeded {
                    subject: format!("payload of {}", owner(execution)),
                    found: payload_bytes,
                    unit: "bytes",
                    limit: self.limits.payload_max_bytes,
                });
            }
        }
    }

    fn check_retry(&mut self, execution: &ExecutionSpec) {
        if execution.retry.max_attempts == 0 {
            self.problems.push(Problem::ZeroAttempts { name: label(&execution.name) });
        }
        if matches!(execution.retry.backoff, Backoff::Exponential { factor: 0, .. }) {
            self.problems.push(Problem::ZeroBackoffFactor { name: label(&execution.name) });
        }
        if execution.retry.attempt_timeout_ms == Some(0) {
            self.problems.push(Problem::ZeroAttemptTimeout { name: label(&execution.name) });
        }
    }

    fn check_wait(&mut self, execution: &ExecutionSpec, field: &str, wait_ms: Option<u64>) {
        let limit = self.limits.wait_max_ms;
        if let Some(found) = wait_ms.filter(|found| *found > limit) {
            let subject = format!("{field} of {}", owner(execution));
            self.problems.push(Problem::LimitExceeded { subject, found, unit: "ms", limit });
        }
    }

    fn check_names(&mut self, names: &Names) {
        let same = names.sorted().chunk_by(|left, right| left.0 == right.0);
        let repeated = same.filter(|group| group.len() > 1 && !group[0].0.is_empty());
        self.problems.extend(
            repeated.map(|group| Problem::DuplicateName {
                name: label(group[0].0),
                times: group.len(),
            }),
        );
    }

    fn check_edges(&mut self, names: &Names) -> Links<'a> {
        let spec = self.spec;
        let mut links = Links {
            ends: Vec::with_capacity(spec.edges.len()),
            in_degrees: vec![0; spec.executions.len()],
            inputs: Vec::new(),
        };
        for edge in &spec.edges {
            let (from, to) = (names.find(&edge.from), names.find(&edge.to));
            self.check_edge(edge, from, to);
            if let Some(to) = to {
                links.in_degrees[to] += 1;
                links.inputs.extend(edge.passes_as.as_deref().map(|input| (to, input)));
            }
            if let (Some(from), Some(to)) = (from, to)
                && from != to
            {
                links.ends.push((from, to));
            }
        }
        links
    }

    fn check_edge(&mut self, edge: &EdgeSpec, from: Option<usize>, to: Option<usize>) {
        for (name, _) in [(&edge.from, from), (&edge.to, to)].iter().filter(|end| end.1.is_none()) {
            let (from, to, missing) = (label(&edge.from), label(&edge.to), label(name));
            self.problems.push(Problem::DanglingEdge { from, to, missing });
        }
        if from.is_some() && from == to {
            self.problems.push(Problem::SelfEdge { name: label(&edge.from) });
        }
        if edge.accepts.is_empty() {
            let (from, to) = (label(&edge.from), label(&edge.to));
            self.problems.push(Problem::EmptyAcceptSet { from, to });
        }
        if let Some(input) = &edge.passes_as {
            let owner = || format!("edge `{}` -> `{}`", label(&edge.from), label(&edge.to));
            self.check_text(input, "passes_as", owner);
        }
    }

    /// Returns the edges in the order of the names of their ends.
    fn check_duplicate_edges(&mut self, names: &Names, ends: &[(usize, usize)]) -> Vec<usize> {
        let ranks = names.ranks();
        let ranked = ends.iter().enumerate();
        let mut ranked: Vec<(usize, usize, usize)> =
            ranked.map(|(edge, &(from, to))| (ranks[from], ranks[to], edge)).collect();
        ranked.sort_unstable();
        let same = ranked.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1));
        self.problems.extend(same.filter(|group| group.len() > 1).map(|group| {
            let (from, to, _) = group[0];
            let (from, to) = (label(names.sorted()[from].0), label(names.sorted()[to].0));
            Problem::DuplicateEdge { from, to, times: group.len() }
        }));
        ranked.into_iter().map(|(_, _, edge)| edge).collect()
    }

    fn check_inputs(&mut self, mut inputs: Vec<(usize, &str)>) {
        inputs.sort_unstable();
        let same = inputs.chunk_by(|left, right| left == right);
        self.problems.extend(same.filter(|group| group.len() > 1).map(|group| {
            let (to, input) = group[0];
            let name = label(&self.spec.executions[to].name);
            Problem::DuplicateInput { name, input: label(input), times: group.len() }
        }));
    }

    fn report_cycle(&mut self, graph: &Graph) {
        let path = graph.cycle().expect("a graph without an order has a cycle");
        let names = path.into_iter().map(|index| label(&self.spec.executions[index].name));
        self.problems.push(Problem::Cycle { path: names.collect() });
    }

    fn check_groups(&mut self, names: &Names, in_degrees: &[u32]) -> Vec<JoinPolicy> {
        for (execution, edges) in self.spec.executions.iter().zip(in_degrees) {
            if *edges > self.limits.in_degree_max {
                self.problems.push(Problem::LimitExceeded {
                    subject: owner(execution),
                    found: (*edges).into(),
                    unit: "inbound edges",
                    limit: self.limits.in_degree_max.into(),
                });
            }
        }
        let mut policies = vec![JoinPolicy::AllOf; self.spec.executions.len()];
        for (name, policy) in &self.spec.groups {
            let Some(index) = names.find(name) else {
                self.problems.push(Problem::UnknownGroup { name: label(name) });
                continue;
            };
            self.problems.extend(policy_problem(name, *policy, in_degrees[index]));
            policies[index] = *policy;
        }
        policies
    }

    fn check_text(&mut self, text: &str, field: &'static str, owner: impl Fn() -> String) {
        if text.is_empty() {
            self.problems.push(Problem::EmptyText { field, owner: owner() });
        }
        if text.chars().any(char::is_control) {
            self.problems.push(Problem::ControlCharacter { field, owner: owner() });
        }
        let subject = || format!("{field} of {}", owner());
        self.check_limit(subject, text.len(), "bytes", self.limits.name_max_bytes);
    }

    fn check_limit(
        &mut self,
        subject: impl Fn() -> String,
        found: usize,
        unit: &'static str,
        limit: u64,
    ) {
        let found = u64::try_from(found).expect("a size fits 64 bits");
        if found > limit {
            self.problems.push(Problem::LimitExceeded { subject: subject(), found, unit, limit });
        }
    }
}

fn policy_problem(name: &str, policy: JoinPolicy, edges: u32) -> Option<Problem> {
    let word = match policy {
        JoinPolicy::AllOf => return None,
        JoinPolicy::AnyOf { .. } => "any_of",
        JoinPolicy::Quorum { .. } => "quorum",
    };
    match policy {
        _ if edges == 0 => Some(Problem::JoinWithoutEdges { name: label(name), policy: word }),
        JoinPolicy::Quorum { k, .. } if !policy.fits(edges) => {
            Some(Problem::QuorumOutOfRange { name: label(name), k, edges })
        }
        _ => None,
    }
}

fn owner(execution: &ExecutionSpec) -> String {
    format!("execution `{}`", label(&execution.name))
}

/// A text as a message shows it: on one line, and cut where nobody would read on.
pub(super) fn label(text: &str) -> String {
    let visible = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    let mut label: String = text.chars().take(LABEL_SHOWN_MAX).map(visible).collect();
    if label.len() < text.len() && text.chars().nth(LABEL_SHOWN_MAX).is_some() {
        label.push('…');
    }
    label
}

#[cfg(test)]
mod tests;
