//! The verbs of a transaction that changes a flow as a whole: its lock, its requests, the backlog
//! of cancelled flows and the requests for sibling cancellation.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    FedGroup, Flow, FlowPage, Group, Inserted, Member as OpenMember, MemberQuery, Page, Request,
    RequestKey, Resolution, Result, SiblingRequest, StorageError,
};

use super::Database;
use super::reads::sorted_by_key;
use super::rows::{Backlog, TableName};
use super::session::{Cursor, NOBODY, SessionId, Step};
use super::table::Dirty;

/// Locks and writes.
impl Database {
    /// Locks a flow and returns its newest version.
    pub fn lock_flow(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        key: &FlowKey,
    ) -> Step<Result<Option<Flow>>> {
        if self.start(cursor) {
            self.choose_by_key::<Flow>(session, cursor, &[*key]);
        }
        let locked = self.lock_candidates(session, cursor, TableName::Flow);
        locked
            .map(|()| {
                let flow = self.flows.see(key, session).filter(|_| !cursor.candidates.is_empty());
                let flow = flow.cloned();
                self.finish(cursor);
                Ok(flow)
            })
            .into()
    }

    /// Stores how a locked flow was closed, its revision and its tags.
    pub fn write_flow(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Flow,
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            self.choose_write(session, cursor, &row.key, |_: &Flow| true);
        }
        self.write_candidates(session, cursor, |flow: &Flow, _| {
            let Flow { closing, closed_by, revision, .. } = *row;
            let tags = row.tags.clone();
            Some(Dirty::Written(Flow { closing, closed_by, revision, tags, ..flow.clone() }))
        })
        .map(|()| Ok(self.written_keys::<Flow>(cursor).len() as u64))
        .into()
    }

    /// Stores policies and numbers of edges of locked groups.
    pub fn write_joins(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[Group],
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            for group in rows {
                self.choose_write(session, cursor, &group.downstream, |_: &Group| true);
            }
        }
        self.write_candidates(session, cursor, |group: &Group, row| {
            let Group { policy, edges, .. } = rows[row];
            Some(Dirty::Written(Group { policy, edges, ..*group }))
        })
        .map(|()| Ok(self.written_keys::<Group>(cursor).len() as u64))
        .into()
    }

    /// Records a call; waits while another transaction holds its key in flight.
    pub fn insert_request(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Request,
    ) -> Step<Result<Inserted>> {
        self.start(cursor);
        let inserted = self.insert_or_find(session, &row.key, |_| row.clone());
        self.end_insert(cursor, inserted.map(Ok))
    }

    /// Stores the reply of a recorded call whose flow is locked.
    pub fn write_request(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Request,
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            self.choose_write(session, cursor, &row.key, |_: &Request| true);
        }
        self.write_candidates(session, cursor, |known: &Request, _| {
            Some(Dirty::Written(Request { reply: row.reply.clone(), ..known.clone() }))
        })
        .map(|()| Ok(self.written_keys::<Request>(cursor).len() as u64))
        .into()
    }

    /// Puts flows on the backlog; one that is on it stays.
    pub fn insert_cancel_backlog(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flows: &[FlowKey],
    ) -> Step<Result<()>> {
        self.start(cursor);
        let flows = super::inserts::in_order(flows, |flow| *flow);
        while let Some(flow) = flows.get(cursor.at) {
            if let Err(pause) = self.insert_or_find(session, flow, |_| Backlog(*flow)) {
                return Err(pause).into();
            }
            cursor.at += 1;
        }
        self.end_insert(cursor, Ok(Ok(())))
    }

    /// Takes locked flows off the backlog; returns those that were on it.
    pub fn delete_cancel_backlog(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flows: &[FlowKey],
    ) -> Step<Result<Vec<FlowKey>>> {
        if self.start(cursor) {
            for flow in flows {
                self.choose_write(session, cursor, flow, |_: &Backlog| true);
            }
        }
        self.write_candidates(session, cursor, |_: &Backlog, _| Some(Dirty::Deleted))
            .map(|()| Ok(self.written_keys::<Backlog>(cursor)))
            .into()
    }

    /// Removes requests for sibling cancellation whose flows are locked.
    pub fn delete_sibling_requests(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[SiblingRequest],
    ) -> Step<Result<Vec<ExecutionId>>> {
        if self.start(cursor) {
            for row in rows {
                self.choose_write(session, cursor, &row.group, |_: &SiblingRequest| true);
            }
        }
        self.write_candidates(session, cursor, |_: &SiblingRequest, _| Some(Dirty::Deleted))
            .map(|()| Ok(self.written_keys::<SiblingRequest>(cursor)))
            .into()
    }
}

/// Reads.
impl Database {
    /// The record of a call.
    pub fn read_request(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        key: &RequestKey,
    ) -> Step<Result<Option<Request>>> {
        self.read(cursor, |db| db.requests.see(key, session).cloned())
    }

    /// The members of a flow that have not ended, in id order.
    pub fn read_members(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &MemberQuery,
    ) -> Step<Result<Vec<OpenMember>>> {
        self.read(cursor, |db| {
            let least = ExecutionId {
                partition: query.flow.partition,
                uuid: *query.flow.execution_range().start(),
            };
            let entries = match query.after {
                None => db.executions.entries_from(&least),
                Some(after) => db.executions.entries_after(Some(&after)),
            };
            let last = *query.flow.execution_range().end();
            let own = entries.iter().take_while(|entry| {
                entry.0.partition == query.flow.partition && entry.0.uuid <= last
            });
            let open = own.filter_map(|entry| {
                let execution = &db.executions.visible(entry.1, session)?.execution;
                let wanted = execution.flow == query.flow.id && !execution.state.is_terminal();
                wanted.then_some(OpenMember { id: execution.id, state: execution.state })
            });
            open.take(query.limit as usize).collect()
        })
    }

    /// The groups at the ends of the pending out-edges of these executions, in key order of the
    /// edges; an edge without a group is corrupt.
    pub fn read_fed_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        upstreams: &[ExecutionId],
    ) -> Step<Result<Vec<FedGroup>>> {
        self.try_read(cursor, |db| {
            let mut fed = Vec::new();
            for upstream in upstreams {
                for slot in db.edges_from(*upstream) {
                    let Some(edge) = db.edges.visible(slot, session) else { continue };
                    if edge.resolution != Resolution::Pending {
                        continue;
                    }
                    let Some(group) = db.groups.see(&edge.key.downstream, session) else {
                        let reason = format!("edge {:?} has no group", edge.key);
                        return Err(StorageError::Corrupt(reason.into()));
                    };
                    let (policy, decision) = (group.policy, group.decision);
                    fed.push(FedGroup { edge: edge.key, policy, decision });
                }
            }
            Ok(sorted_by_key(fed, |group: &FedGroup| group.edge))
        })
    }

    /// Flows on the backlog, in key order.
    pub fn scan_cancel_backlog(&self, page: &FlowPage) -> Result<Vec<FlowKey>> {
        let listed = self.backlog.entries_after(page.after.as_ref()).iter();
        let listed = listed.filter_map(|entry| self.backlog.visible(entry.1, NOBODY));
        let wanted = listed.filter(|row| self.flow_in_scope(row.0, &page.scope));
        Ok(wanted.map(|row| row.0).take(page.limit as usize).collect())
    }

    /// Requests for sibling cancellation, in the order of their groups.
    pub fn scan_sibling_requests(&self, page: &Page) -> Result<Vec<SiblingRequest>> {
        let asked = self.sibling_requests.entries_after(page.after.as_ref()).iter();
        let asked = asked.filter_map(|entry| self.sibling_requests.visible(entry.1, NOBODY));
        let wanted = asked.filter(|row| {
            let flow = FlowKey { partition: row.group.partition, id: row.flow };
            self.flow_in_scope(flow, &page.scope)
        });
        Ok(wanted.copied().take(page.limit as usize).collect())
    }

    pub(super) fn flow_in_scope(&self, key: FlowKey, scope: &sluicegate::storage::Scope) -> bool {
        let Some(flow) = self.flows.see(&key, NOBODY) else { return false };
        scope.partitions.contains(&key.partition.0)
            && scope.namespace.as_ref().is_none_or(|wanted| *wanted == flow.namespace)
            && (scope.instance_tag.is_none() || scope.instance_tag == flow.instance_tag)
    }
}
