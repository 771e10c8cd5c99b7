//! The canonical form of a specification and its hash. Pure; never depends on the order in which
//! things were listed.
//!
//! The form is one line of compact JSON for the labels of the flow, then one for each execution by
//! name, each edge by (from, to) and each group that is not `AllOf` by name. Fields at their
//! default are left out, so that a field added later keeps the hashes of the flows that do not use
//! it. A payload stands in its line with the bytes that it has: two are the same content if their
//! bytes are, so that neither the order of members nor a blank nor the form of a number is passed
//! over.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::FlowSpec;
use crate::policy::JoinPolicy;

/// The labels of a flow that are part of its content; its keys are not.
#[derive(Serialize)]
struct Labels<'a> {
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_tag: Option<&'a str>,
}

/// SHA-256 of the canonical form, given the indices of executions and edges in canonical order.
pub(super) fn content_hash(
    spec: &FlowSpec,
    executions: impl Iterator<Item = usize>,
    edges: impl Iterator<Item = usize>,
) -> [u8; 32] {
    let mut form = Form { hasher: Sha256::new(), pending: Vec::with_capacity(2 * FLUSH_BYTES) };
    let instance_tag = spec.instance_tag.as_deref();
    form.line(&Labels { namespace: &spec.namespace, instance_tag });
    executions.for_each(|index| form.line(&spec.executions[index]));
    edges.for_each(|index| form.line(&spec.edges[index]));
    let joins = spec.groups.iter().filter(|(_, policy)| **policy != JoinPolicy::AllOf);
    joins.for_each(|group| form.line(&group));
    form.hasher.update(&form.pending);
    form.hasher.finalize().into()
}

/// Bytes collected before they are hashed; many small updates cost more than the hash itself.
const FLUSH_BYTES: usize = 4096;

struct Form {
    hasher: Sha256,
    pending: Vec<u8>,
}

impl Form {
    fn line(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.pending, value).expect("a specification always serializes");
        self.pending.push(b'\n');
        if self.pending.len() >= FLUSH_BYTES {
            self.hasher.update(&self.pending);
            self.pending.clear();
        }
    }
}
