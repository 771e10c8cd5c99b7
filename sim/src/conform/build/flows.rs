//! The verbs that change a flow as a whole, from the named arguments of a step.

use std::sync::Arc;

use sluicegate::identity::FlowKey;
use sluicegate::state::ClosePolicy;
use sluicegate::storage::{
    Flow, FlowPage, Group, MemberQuery, Request, RequestKey, SiblingRequest,
};

use super::{Built, Given, NOW, named};
use crate::conform::names::NOWHERE;

/// What a flow may be closed with.
const CLOSINGS: [(&str, Option<ClosePolicy>); 4] = [
    ("none", None),
    ("flow_only", Some(ClosePolicy::FlowOnly)),
    ("cancel_pending", Some(ClosePolicy::CancelPending)),
    ("cancel_all", Some(ClosePolicy::CancelAll)),
];

impl Given<'_> {
    /// A locked group with another policy and number of edges.
    pub(super) fn join(&self, name: &str) -> Built<Group> {
        let before = self.locked_group(name)?;
        let Group { policy, edges, .. } = self.new_group(name)?;
        match before.satisfied + before.unsatisfied <= edges {
            true => Ok(Group { policy, edges, ..before }),
            false => Err(format!("`{name}` has more than {edges} edges resolved")),
        }
    }

    pub(super) fn new_flow(&self) -> Built<Flow> {
        let closing = self.choice("closing", &CLOSINGS)?;
        Ok(Flow {
            key: self.flow()?,
            namespace: self.names.namespace(),
            instance_tag: Some("env=test".into()),
            closing,
            closed_by: closing.map(|_| self.names.request("closer")),
            revision: 0,
            tags: sluicegate::storage::Tags::default(),
            content_hash: [9; 32],
            request: self.names.request(self.optional("request")?.unwrap_or("submit")),
            created_at: NOW,
        })
    }

    pub(super) fn sibling_request(&self, name: &str) -> Built<SiblingRequest> {
        Ok(SiblingRequest { group: self.names.execution(named(name)?), flow: self.flow()?.id })
    }

    /// A flow that the transaction has locked; a made-up one where nothing ever is.
    pub(super) fn locked_flow(&self, key: FlowKey, name: &str) -> Built<Flow> {
        if name.starts_with(NOWHERE) {
            return Ok(Flow { key, ..self.new_flow()? });
        }
        let seen = self.seen.flow(key).cloned();
        seen.ok_or_else(|| format!("the session has not locked flow `{name}`"))
    }

    pub(super) fn flow_to_write(&self) -> Built<Flow> {
        let before = self.locked_flow(self.flow()?, self.optional("flow")?.unwrap_or("f"))?;
        let closing = self.choice("closing", &CLOSINGS)?;
        let closed_by = closing.map(|_| self.names.request("closer"));
        let revision = self.number("revision", before.revision)?;
        let tags = match self.optional("tag")? {
            Some(tag) => before.tags.with("sim.tag", tag),
            None => before.tags.clone(),
        };
        Ok(Flow { closing, closed_by, revision, tags, ..before })
    }

    pub(super) fn request_key(&self) -> Built<RequestKey> {
        let request = self.names.request(self.name("request")?);
        Ok(RequestKey { flow: self.flow()?, request })
    }

    pub(super) fn request(&self) -> Built<Request> {
        let reply = Arc::from(self.optional("reply")?.unwrap_or("reply").as_bytes());
        Ok(Request { key: self.request_key()?, content_hash: [5; 32], reply })
    }

    pub(super) fn request_to_write(&self) -> Built<Request> {
        let row = self.request()?;
        self.locked_flow(row.key.flow, self.optional("flow")?.unwrap_or("f"))?;
        Ok(row)
    }

    pub(super) fn locked_flows(&self) -> Built<Vec<FlowKey>> {
        for name in self.list("flows")? {
            self.locked_flow(self.names.flow(named(name)?), name)?;
        }
        self.flows()
    }

    pub(super) fn locked_siblings(&self) -> Built<Vec<SiblingRequest>> {
        self.locked_flow(self.flow()?, self.optional("flow")?.unwrap_or("f"))?;
        self.rows(|row| self.sibling_request(row))
    }

    pub(super) fn members(&self) -> Built<MemberQuery> {
        let after = self.optional("after")?.map(named).transpose()?;
        Ok(MemberQuery {
            flow: self.flow()?,
            after: after.map(|name| self.names.execution(name)),
            limit: self.number("limit", 100)?,
        })
    }

    pub(super) fn flow_page(&self) -> Built<FlowPage> {
        let after = self.optional("after")?.map(named).transpose()?;
        let page = self.page()?;
        let after = after.map(|name| self.names.flow(name));
        Ok(FlowPage { scope: page.scope, after, limit: page.limit })
    }
}
