//! The verbs of lists, on committed rows alone; a [`Database::frozen`] copy answers for one
//! instant.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Decoded, Edge, EdgeKey, EdgeListing, ExecutionListing, Flow, FlowListing, FlowPage, FlowView,
    ListedExecution, Result, Summary,
};

use super::Database;
use super::rows::Member;
use super::scans::in_scope;
use super::session::NOBODY;
use crate::mirror::Damaged;

impl Database {
    /// Flows that have change rows, in key order, each once.
    pub fn scan_flow_changes(&self, page: &FlowPage) -> Result<Vec<FlowKey>> {
        let mut changed: Vec<FlowKey> = self.flow_changes().collect();
        changed.sort_unstable();
        changed.dedup();
        let wanted = |key: &FlowKey| {
            let flow = self.flows.see(key, NOBODY);
            flow.is_some_and(|flow| on_page(flow, page))
        };
        Ok(changed.into_iter().filter(wanted).take(page.limit as usize).collect())
    }

    /// The summary of a flow.
    pub fn describe_summary(&self, key: &FlowKey) -> Result<Option<Summary>> {
        Ok(self.summaries.see(key, NOBODY).copied())
    }

    /// Flows with their summaries, in key order.
    pub fn list_flows(&self, listing: &FlowListing) -> Result<Vec<Decoded<FlowView, FlowKey>>> {
        let flows = self.flows.committed().filter(|flow| on_page(flow, &listing.page));
        let views = flows.filter_map(|flow| {
            let summary = *self.summaries.see(&flow.key, NOBODY)?;
            let wanted = listing.statuses.is_empty() || listing.statuses.contains(&summary.status);
            wanted.then(|| FlowView { flow: flow.clone(), summary })
        });
        Ok(views.take(listing.page.limit as usize).map(Ok).collect())
    }

    /// Executions, in id order.
    pub fn list_executions(
        &self,
        listing: &ExecutionListing,
    ) -> Result<Vec<Decoded<ListedExecution>>> {
        let members = self.executions.committed().filter(|member| {
            let row = &member.execution;
            in_scope(member, &listing.page.scope)
                && listing.page.after.is_none_or(|after| row.id > after)
                && listing.flow.is_none_or(|flow| row.flow_key() == flow)
                && (listing.states.is_empty() || listing.states.contains(&row.state))
        });
        let members = members.take(listing.page.limit as usize);
        let damaged = |member: &Member| Damaged::ExecutionUnreadable(member.execution.id);
        Ok(members.map(|member| self.unless(damaged(member), || listed(member))).collect())
    }

    /// The inbound edges of an execution, in the order of their upstreams.
    pub fn list_in_edges(&self, listing: &EdgeListing) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
        let EdgeListing { execution, after, limit } = *listing;
        let edges = self.edges.committed().filter(|edge| {
            edge.key.downstream == execution
                && after.is_none_or(|after| edge.key.upstream.uuid > after.uuid)
        });
        Ok(edges.take(limit as usize).cloned().map(Ok).collect())
    }

    /// The outbound edges of an execution, in the order of their downstreams.
    pub fn list_out_edges(&self, listing: &EdgeListing) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
        let EdgeListing { execution, after, limit } = *listing;
        let Some(member) = self.executions.see(&execution, NOBODY) else { return Ok(Vec::new()) };
        let flow = member.execution.flow;
        let of_flow = |downstream: ExecutionId| {
            self.groups.see(&downstream, NOBODY).is_some_and(|group| group.flow == flow)
        };
        let edges = self.edges.committed().filter(|edge| {
            let EdgeKey { downstream, upstream } = edge.key;
            let later = after.is_none_or(|after| downstream.uuid > after.uuid);
            upstream == execution && later && of_flow(downstream)
        });
        Ok(edges.take(limit as usize).cloned().map(Ok).collect())
    }

    /// An edge.
    pub fn describe_edge(&self, key: &EdgeKey) -> Result<Option<Edge>> {
        Ok(self.edges.see(key, NOBODY).cloned())
    }
}

fn on_page(flow: &Flow, page: &FlowPage) -> bool {
    let later = page.after.is_none_or(|after| flow.key > after);
    later && page.scope.admits(flow.key.partition, &flow.namespace, flow.instance_tag.as_deref())
}

fn listed(member: &Member) -> ListedExecution {
    let definition = &member.definition;
    ListedExecution {
        execution: member.execution,
        name: definition.name.clone(),
        kind: definition.kind.clone(),
        lane: definition.lane.clone(),
        priority: definition.priority,
        namespace: definition.namespace.clone(),
        instance_tag: definition.instance_tag.clone(),
        worker: member.worker.clone(),
    }
}
