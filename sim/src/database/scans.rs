//! The verbs of a snapshot, on committed rows alone; a [`Database::frozen`] copy answers for one
//! instant.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::policy::{Decision, JoinPolicy};
use sluicegate::state::{Outcome, State};
use sluicegate::storage::{
    Decoded, Edge, EdgeKey, Event, EventId, ExecutionView, Flow, Group, OverdueScan, Page,
    PlanQuery, Resolution, Result, Scope, UpstreamScan,
};
use sluicegate::time::Timestamp;

use super::Database;
use super::reads::sorted_by_key;
use super::rows::Member;
use super::session::NOBODY;
use super::table::Slot;
use crate::mirror::Damaged;

impl Database {
    /// The storage's clock, now. Ask the live database: a frozen copy's clock stands still.
    pub fn read_clock(&self) -> Result<Timestamp> {
        Ok(self.show_clock())
    }

    /// Terminal executions that are not propagated, in id order.
    pub fn scan_upstreams(&self, scan: &UpstreamScan) -> Result<Vec<ExecutionId>> {
        let finished = |member: &Member| match scan.finished_by {
            None => true,
            Some(by) => member.execution.finished_at.is_some_and(|at| at <= by),
        };
        Ok(self.page(&scan.page, self.sets.unpropagated.iter(), finished))
    }

    /// Decided groups whose downstream is still blocked, in id order.
    pub fn scan_stuck_groups(&self, page: &Page) -> Result<Vec<ExecutionId>> {
        let stuck = self.groups.entries_after(page.after.as_ref()).iter().filter_map(|entry| {
            let group = self.groups.visible(entry.1, NOBODY)?;
            if group.decision == Decision::Undecided {
                return None;
            }
            let downstream = self.executions.see(&group.downstream, NOBODY)?;
            let wanted =
                downstream.execution.state == State::Blocked && in_scope(downstream, &page.scope);
            wanted.then_some(group.downstream)
        });
        Ok(stuck.take(page.limit as usize).collect())
    }

    /// Executions whose lease, attempt or deadline is over, in id order.
    pub fn scan_overdue(&self, scan: &OverdueScan) -> Result<Vec<ExecutionId>> {
        let overdue = |member: &Member| member.execution.is_overdue(scan.now);
        Ok(self.page(&scan.page, self.sets.timed.iter(), overdue))
    }

    /// The groups that a hop from these upstreams may change, in id order, at most `limit`: breadth
    /// first along their pending edges, and on from each group that such an edge makes impossible.
    pub fn plan_groups(&self, query: &PlanQuery) -> Result<Vec<ExecutionId>> {
        let limit = query.limit as usize;
        let mut planned: Vec<Planned> = Vec::new();
        let mut walk: Vec<(ExecutionId, Outcome)> = Vec::new();
        for upstream in &query.upstreams {
            let member = self.executions.see(upstream, NOBODY);
            let outcome = member.and_then(|member| member.execution.state.outcome());
            walk.extend(outcome.map(|outcome| (*upstream, outcome)));
        }
        let mut at = 0;
        while let Some((upstream, outcome)) = walk.get(at).copied() {
            at += 1;
            for slot in self.edges_from(upstream) {
                let Some(edge) = self.edges.visible(slot, NOBODY) else { continue };
                if edge.resolution != Resolution::Pending {
                    continue;
                }
                let downstream = edge.key.downstream;
                let found = planned.binary_search_by(|group| group.downstream.cmp(&downstream));
                let position = match found {
                    Ok(position) => position,
                    Err(_) if planned.len() == limit => continue,
                    Err(position) => {
                        planned.insert(position, Planned { downstream, walked: false });
                        position
                    }
                };
                let accepted = edge.accepts.bits() & (1 << outcome as u8) != 0;
                let group = &mut planned[position];
                if !accepted && !group.walked && self.may_be_skipped(downstream) {
                    group.walked = true;
                    walk.push((downstream, Outcome::Skipped));
                }
            }
        }
        Ok(planned.into_iter().map(|group| group.downstream).collect())
    }

    /// A completion event by its number.
    pub fn read_event(&self, id: &EventId) -> Result<Option<Event>> {
        let position = self.event_keys.binary_search_by(|entry| entry.0.cmp(id));
        let event = position
            .ok()
            .and_then(|position| self.events.see(&self.event_keys[position].1, NOBODY))
            .map(|row| &row.event);
        Ok(event.filter(|event| event.id == *id).cloned())
    }

    /// A flow.
    pub fn describe_flow(&self, key: &FlowKey) -> Result<Option<Flow>> {
        Ok(self.flows.see(key, NOBODY).cloned())
    }

    /// The executions of a flow, in id order.
    pub fn describe_executions(&self, key: &FlowKey) -> Result<Vec<Decoded<ExecutionView>>> {
        let members = self.executions.committed();
        let members = members.filter(|member| member.execution.flow_key() == *key);
        let damaged = |member: &Member| Damaged::ExecutionUnreadable(member.execution.id);
        Ok(members.map(|member| self.unless(damaged(member), || view(member))).collect())
    }

    /// The groups of a flow, in id order.
    pub fn describe_groups(&self, key: &FlowKey) -> Result<Vec<Decoded<Group>>> {
        let of_flow =
            |group: &&Group| group.downstream.partition == key.partition && group.flow == key.id;
        let groups = self.groups.committed().filter(of_flow);
        let damaged = |group: &Group| Damaged::GroupUnreadable(group.downstream);
        Ok(groups.map(|group| self.unless(damaged(group), || *group)).collect())
    }

    /// The edges of a flow, found through its groups, in key order.
    pub fn describe_edges(&self, key: &FlowKey) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
        let of_flow = |edge: &&Edge| {
            let group = self.groups.see(&edge.key.downstream, NOBODY);
            let in_partition = edge.key.downstream.partition == key.partition;
            in_partition && group.is_some_and(|group| group.flow == key.id)
        };
        Ok(self.edges.committed().filter(of_flow).cloned().map(Ok).collect())
    }

    /// An execution.
    pub fn describe_execution(&self, id: &ExecutionId) -> Result<Option<ExecutionView>> {
        Ok(self.executions.see(id, NOBODY).map(view))
    }

    /// A page of the committed rows among these slots.
    fn page(
        &self,
        page: &Page,
        slots: impl Iterator<Item = Slot>,
        wanted: impl Fn(&Member) -> bool,
    ) -> Vec<ExecutionId> {
        let found = slots.filter_map(|slot| {
            let member = self.executions.visible(slot, NOBODY)?;
            let id = member.execution.id;
            let later = page.after.is_none_or(|after| id > after);
            (later && in_scope(member, &page.scope) && wanted(member)).then_some(id)
        });
        let mut ids = sorted_by_key(found.collect(), |id: &ExecutionId| *id);
        ids.truncate(page.limit as usize);
        ids
    }

    /// An edge that is not accepted makes this group impossible and its downstream skipped.
    fn may_be_skipped(&self, downstream: ExecutionId) -> bool {
        let group = self.groups.see(&downstream, NOBODY);
        let falls = group.is_some_and(|group| {
            group.decision == Decision::Undecided && group.policy == JoinPolicy::AllOf
        });
        let member = self.executions.see(&downstream, NOBODY);
        falls && member.is_some_and(|member| member.execution.state == State::Blocked)
    }
}

/// A group of a plan, and whether the walk went on from it.
struct Planned {
    downstream: ExecutionId,
    walked: bool,
}

pub(super) fn in_scope(member: &Member, scope: &Scope) -> bool {
    let definition = &member.definition;
    let partition = member.execution.id.partition;
    scope.admits(partition, &definition.namespace, definition.instance_tag.as_deref())
}

fn view(member: &Member) -> ExecutionView {
    ExecutionView {
        execution: member.execution,
        definition: (*member.definition).clone(),
        worker: member.worker.clone(),
        result: member.result.clone(),
        progress: member.progress.clone(),
    }
}
