//! The verbs of kind Read of a transaction, and its clock. Each sees what is committed and what its
//! own transaction wrote; none takes a lock or waits.

use sluicegate::identity::{ExecutionId, FlowKey, RequestId};
use sluicegate::state::ClosePolicy;
use sluicegate::storage::{
    Attempt, AttemptKey, EdgeKey, Flow, Grant, Group, PendingEdge, Resolution, Result,
    StorageError, Submission, SubmissionKey,
};
use sluicegate::time::Timestamp;
use uuid::Uuid;

use super::Database;
use super::rows::TableName;
use super::session::{Cursor, SessionId, Step};
use super::table::Slot;

impl Database {
    /// The storage's clock, now.
    pub fn clock(&mut self, session: SessionId, cursor: &mut Cursor) -> Step<Result<Timestamp>> {
        self.read(cursor, |db| {
            let now = db.show_clock();
            if db.session(session).clock.is_none() {
                db.session_mut(session).closed_at_clock = db.cancelled_flows();
            }
            db.session_mut(session).clock = Some(now);
            now
        })
    }

    /// The submission of a key.
    pub fn read_submission(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        key: &SubmissionKey,
    ) -> Step<Result<Option<Submission>>> {
        self.read(cursor, |db| db.submissions.see(key, session).cloned())
    }

    /// A flow by its key.
    pub fn read_flow(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        key: &FlowKey,
    ) -> Step<Result<Option<Flow>>> {
        self.read(cursor, |db| db.flows.see(key, session).cloned())
    }

    /// The live grants that carry a claim's request id, in id order.
    pub fn read_grants(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        request: &RequestId,
    ) -> Step<Result<Vec<Grant>>> {
        self.read(cursor, |db| db.grants_of(session, *request))
    }

    /// The history row of an attempt.
    pub fn read_attempt(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        key: &AttemptKey,
    ) -> Step<Result<Option<Attempt>>> {
        self.read(cursor, |db| db.attempts.see(key, session).copied())
    }

    /// Groups as they stand, in id order, without a lock.
    pub fn read_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[ExecutionId],
    ) -> Step<Result<Vec<Group>>> {
        self.read(cursor, |db| {
            let visible = keys.iter().filter_map(|key| db.groups.see(key, session).copied());
            sorted_by_key(visible.collect(), |group: &Group| group.downstream)
        })
    }

    /// The pending edges of groups with the present rows of their upstreams, in key order; an edge
    /// without an upstream is corrupt.
    pub fn pending_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        groups: &[ExecutionId],
    ) -> Step<Result<Vec<PendingEdge>>> {
        self.try_read(cursor, |db| {
            let mut pending = Vec::new();
            for group in groups {
                for edge in db.pending_edges_into(session, *group) {
                    pending.push(edge?);
                }
            }
            Ok(sorted_by_key(pending, |edge: &PendingEdge| edge.key))
        })
    }

    /// Those of the executions that still have a pending out-edge, in id order.
    pub fn with_pending_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        upstreams: &[ExecutionId],
    ) -> Step<Result<Vec<ExecutionId>>> {
        self.read(cursor, |db| {
            let left = |upstream: &ExecutionId| {
                db.edges_from(*upstream).any(|edge| db.is_pending(edge, session))
            };
            let found = upstreams.iter().copied().filter(left).collect();
            sorted_by_key(found, |id: &ExecutionId| *id)
        })
    }

    /// How these flows were closed; only closed ones are returned, in key order.
    pub fn read_closings(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flows: &[FlowKey],
    ) -> Step<Result<Vec<(FlowKey, ClosePolicy)>>> {
        self.read(cursor, |db| {
            let closed = flows.iter().filter_map(|key| {
                db.flows.see(key, session)?.closing.map(|closing| (*key, closing))
            });
            sorted_by_key(closed.collect(), |closed: &(FlowKey, ClosePolicy)| closed.0)
        })
    }

    pub(super) fn read<T>(
        &mut self,
        cursor: &mut Cursor,
        query: impl FnOnce(&mut Self) -> T,
    ) -> Step<Result<T>> {
        self.try_read(cursor, |db| Ok(query(db)))
    }

    pub(super) fn try_read<T>(
        &mut self,
        cursor: &mut Cursor,
        query: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Step<Result<T>> {
        if !cursor.started {
            cursor.started = true;
            self.counters.statements += 1;
        }
        Step::Done(query(self))
    }

    fn grants_of(&self, session: SessionId, request: RequestId) -> Vec<Grant> {
        let committed = self.sets.timed.iter().filter(|slot| !self.is_own(*slot, session));
        let live = committed.chain(self.own_executions(session)).filter_map(|slot| {
            let member = self.executions.visible(slot, session)?;
            member.execution.lease.filter(|lease| lease.request == request)?;
            Some(Grant { execution: member.execution, definition: (*member.definition).clone() })
        });
        sorted_by_key(live.collect(), |grant: &Grant| grant.execution.id)
    }

    fn pending_edges_into(
        &self,
        session: SessionId,
        group: ExecutionId,
    ) -> impl Iterator<Item = Result<PendingEdge>> {
        self.edges_into(group).filter_map(move |slot| {
            let edge = self.edges.visible(slot, session)?;
            if edge.resolution != Resolution::Pending {
                return None;
            }
            let upstream = self.upstream_of(slot);
            let upstream = upstream.and_then(|slot| self.executions.visible(slot, session));
            let Some(upstream) = upstream else {
                let reason = format!("edge {:?} has no upstream", edge.key);
                return Some(Err(StorageError::Corrupt(reason.into())));
            };
            Some(Ok(PendingEdge {
                key: edge.key,
                accepts: edge.accepts,
                upstream_state: upstream.execution.state,
                upstream_incarnation: upstream.execution.incarnation,
            }))
        })
    }

    /// Slots of the inbound edges of a group, in key order.
    pub(super) fn edges_into(&self, group: ExecutionId) -> impl Iterator<Item = Slot> {
        let least =
            ExecutionId { partition: sluicegate::identity::Partition(0), uuid: Uuid::nil() };
        let entries = self.edges.entries_from(&EdgeKey { downstream: group, upstream: least });
        let own = entries.iter().take_while(move |entry| entry.0.downstream == group);
        own.map(|entry| entry.1)
    }

    /// Slots of the outbound edges of an execution.
    pub(super) fn edges_from(&self, upstream: ExecutionId) -> impl Iterator<Item = Slot> {
        let start = self.edges_by_upstream.partition_point(|entry| entry.0 < upstream);
        let entries = self.edges_by_upstream[start..].iter();
        entries.take_while(move |entry| entry.0 == upstream).map(|entry| entry.1)
    }

    fn is_pending(&self, edge: Slot, session: SessionId) -> bool {
        let edge = self.edges.visible(edge, session);
        edge.is_some_and(|edge| edge.resolution == Resolution::Pending)
    }

    fn is_own(&self, execution: Slot, session: SessionId) -> bool {
        let row = self.executions.row(execution);
        row.owner == session && row.dirty.is_some()
    }

    /// The executions that the session has written.
    pub(super) fn own_executions(&self, session: SessionId) -> impl Iterator<Item = Slot> {
        let owned = self.session(session).owned.iter();
        let executions = owned.filter(|target| target.table == TableName::Execution);
        executions.map(|target| target.slot).filter(move |slot| self.is_own(*slot, session))
    }
}

/// The rows in the order of their keys.
pub(super) fn sorted_by_key<T, K: Ord>(mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    if !rows.is_sorted_by_key(&key) {
        rows.sort_by_key(key);
    }
    rows
}
