//! Flow specifications: what a caller submits. Pure; says what a flow is, never whether it is valid
//! (`validate`) and never what is stored of it.

mod builder;
mod canonical;
mod file;
mod growth;
mod limits;
mod names;
mod payload;
mod problem;
mod validate;
mod wfformat;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::FlowId;
use crate::policy::{AcceptSet, JoinPolicy};
use crate::retry::RetryPolicy;

pub use builder::FlowBuilder;
pub use file::FlowFileError;
pub use growth::{Additions, ValidAdditions};
pub(crate) use growth::{Held, HeldEdge};
pub use limits::Limits;
pub use payload::Payload;
pub use problem::{InvalidFlow, Problem};
pub use validate::ValidFlow;

const DEFAULT_NAME: &str = "default";

/// A directed acyclic graph of executions, submitted as a whole.
///
/// JSON leaves fields at their default out and refuses fields that it does not know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowSpec {
    /// Tenant label that scans and subscriptions filter on.
    #[serde(skip_serializing_if = "is_default_name")]
    pub namespace: String,
    /// Deployment label `key=value` that scans and subscriptions filter on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_tag: Option<String>,
    /// A second submission with this key, in this namespace, is the first one again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The caller's own id; a second submission with it is the first one again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<FlowId>,
    /// The nodes.
    pub executions: Vec<ExecutionSpec>,
    /// The edges, at most one from an execution to another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<EdgeSpec>,
    /// How inbound edges release an execution, by its name; `AllOf` where absent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "file::unique_groups")]
    pub groups: BTreeMap<String, JoinPolicy>,
}

/// A node: one unit of work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionSpec {
    /// Unique in the flow; the execution's id derives from it.
    pub name: String,
    /// The handler that it needs.
    #[serde(default = "default_name", skip_serializing_if = "is_default_name")]
    pub kind: String,
    /// The queue that it is claimed from.
    #[serde(default = "default_name", skip_serializing_if = "is_default_name")]
    pub lane: String,
    /// Higher is claimed earlier.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// What the handler is given.
    #[serde(default, skip_serializing_if = "Payload::is_null")]
    pub payload: Payload,
    /// Limits and delays of its attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: RetryPolicy,
    /// Milliseconds from the submission after which it expires, whatever its state; at most
    /// [`Limits::wait_max_ms`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Milliseconds that it waits once it is released, before its first claim; at most
    /// [`Limits::wait_max_ms`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

/// A dependency of one execution on another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeSpec {
    /// Name of the upstream.
    pub from: String,
    /// Name of the downstream.
    pub to: String,
    /// The upstream outcomes that satisfy the edge.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accepts: AcceptSet,
    /// The input name under which the downstream is given the upstream's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes_as: Option<String>,
}

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            namespace: default_name(),
            instance_tag: None,
            idempotency_key: None,
            flow_id: None,
            executions: Vec::new(),
            edges: Vec::new(),
            groups: BTreeMap::new(),
        }
    }
}

impl ExecutionSpec {
    /// An execution of that name with every other field at its default.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: default_name(),
            lane: default_name(),
            priority: 0,
            payload: Payload::default(),
            retry: RetryPolicy::default(),
            deadline_ms: None,
            delay_ms: None,
        }
    }
}

impl EdgeSpec {
    /// An edge that success satisfies and that passes no result.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), accepts: AcceptSet::default(), passes_as: None }
    }
}

fn default_name() -> String {
    DEFAULT_NAME.to_owned()
}

fn is_default_name(name: &str) -> bool {
    name == DEFAULT_NAME
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
