//! Fluent construction of specifications. Pure; checks nothing, which is what `validate` is for.

use super::{EdgeSpec, ExecutionSpec, FlowSpec, Payload};
use crate::identity::FlowId;
use crate::policy::{AcceptSet, JoinPolicy};
use crate::retry::RetryPolicy;

/// Collects a specification part by part.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct FlowBuilder {
    spec: FlowSpec,
}

impl FlowSpec {
    /// An empty builder.
    pub fn builder() -> FlowBuilder {
        FlowBuilder::default()
    }
}

impl FlowBuilder {
    /// Sets the tenant label.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.spec.namespace = namespace.into();
        self
    }

    /// Sets the deployment label `key=value`.
    pub fn instance_tag(mut self, tag: impl Into<String>) -> Self {
        self.spec.instance_tag = Some(tag.into());
        self
    }

    /// Sets the key that makes a second submission the first one again.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.spec.idempotency_key = Some(key.into());
        self
    }

    /// Sets the caller's own flow id.
    pub fn flow_id(mut self, id: FlowId) -> Self {
        self.spec.flow_id = Some(id);
        self
    }

    /// Adds an execution with every field but its name at the default.
    pub fn execution(self, name: impl Into<String>) -> Self {
        self.execution_spec(ExecutionSpec::new(name))
    }

    /// Adds an execution.
    pub fn execution_spec(mut self, execution: ExecutionSpec) -> Self {
        self.spec.executions.push(execution);
        self
    }

    /// Adds an edge that success satisfies.
    pub fn edge(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.edge_spec(EdgeSpec::new(from, to))
    }

    /// Adds an edge.
    pub fn edge_spec(mut self, edge: EdgeSpec) -> Self {
        self.spec.edges.push(edge);
        self
    }

    /// Sets how the inbound edges of that execution release it; the last call for a name counts.
    pub fn join(mut self, downstream: impl Into<String>, policy: JoinPolicy) -> Self {
        self.spec.groups.insert(downstream.into(), policy);
        self
    }

    /// The specification, unchecked.
    pub fn build(self) -> FlowSpec {
        self.spec
    }
}

impl ExecutionSpec {
    /// Sets the handler that it needs.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the queue that it is claimed from.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = lane.into();
        self
    }

    /// Sets its priority; higher is claimed earlier.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets what the handler is given: a [`Payload`], or a [`serde_json::Value`].
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Payload>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the limits and delays of its attempts.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the milliseconds from the submission after which it expires.
    #[must_use]
    pub fn deadline_ms(mut self, deadline_ms: u64) -> Self {
        self.deadline_ms = Some(deadline_ms);
        self
    }

    /// Sets the milliseconds that it waits once it is released.
    #[must_use]
    pub fn delay_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = Some(delay_ms);
        self
    }
}

impl EdgeSpec {
    /// Sets the upstream outcomes that satisfy it.
    #[must_use]
    pub fn accepts(mut self, accepts: AcceptSet) -> Self {
        self.accepts = accepts;
        self
    }

    /// Sets the input name under which the downstream is given the upstream's result.
    #[must_use]
    pub fn passes_as(mut self, input: impl Into<String>) -> Self {
        self.passes_as = Some(input.into());
        self
    }
}
