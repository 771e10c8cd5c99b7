//! The verbs of retention. What has no lock of its own is covered by that of what it belongs to: an
//! attempt by its execution, an edge by its group, an event with a place by the head of the stream,
//! a record of a call and an idempotency key by their flow.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Attempt, AttemptKey, Edge, EdgeKey, EndedFlow, EndedScan, EventKey, Flow, Group, Request,
    RequestKey, Result, Submission, SubmissionKey, Summary,
};

use super::Database;
use super::rows::{Member, Outboxed, Stored};
use super::session::{Cursor, NOBODY, SessionId, Step};
use super::table::Dirty;

impl Database {
    /// How many events these executions have.
    pub fn count_events(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        executions: &[ExecutionId],
    ) -> Step<Result<u64>> {
        self.read(cursor, |db| {
            let entries = db.events.entries_after(None).iter();
            let own = entries.filter(|entry| executions.contains(&entry.0.execution));
            own.filter(|entry| db.events.visible(entry.1, session).is_some()).count() as u64
        })
    }

    /// Takes away the history of locked executions.
    pub fn delete_attempts(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        executions: &[ExecutionId],
    ) -> Step<Result<u64>> {
        let own = |key: &AttemptKey, _: &Attempt| executions.contains(&key.execution);
        self.delete_where::<Attempt>(session, cursor, own)
    }

    /// Takes away the edges into locked groups.
    pub fn delete_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        groups: &[ExecutionId],
    ) -> Step<Result<u64>> {
        let own = |key: &EdgeKey, _: &Edge| groups.contains(&key.downstream);
        self.delete_where::<Edge>(session, cursor, own)
    }

    /// Takes away locked groups.
    pub fn delete_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        groups: &[ExecutionId],
    ) -> Step<Result<u64>> {
        self.delete_by_key::<Group>(session, cursor, groups)
    }

    /// Takes away locked executions.
    pub fn delete_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        executions: &[ExecutionId],
    ) -> Step<Result<u64>> {
        self.delete_by_key::<Member>(session, cursor, executions)
    }

    /// Takes away the records of every call on a locked flow.
    pub fn delete_requests(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<u64>> {
        let own = |key: &RequestKey, _: &Request| key.flow == *flow;
        self.delete_where::<Request>(session, cursor, own)
    }

    /// Takes away the idempotency key of a locked flow.
    pub fn delete_submission(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<u64>> {
        let own = |_: &SubmissionKey, row: &Submission| row.flow == *flow;
        self.delete_where::<Submission>(session, cursor, own)
    }

    /// Takes away a locked summary.
    pub fn delete_summary(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<u64>> {
        self.delete_by_key::<Summary>(session, cursor, std::slice::from_ref(flow))
    }

    /// Takes away a locked flow.
    pub fn delete_flow(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<u64>> {
        self.delete_by_key::<Flow>(session, cursor, std::slice::from_ref(flow))
    }

    /// Takes away events that have a place in the stream whose head is locked.
    pub fn delete_events(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[EventKey],
    ) -> Step<Result<u64>> {
        let placed = |event: &Outboxed| event.position.is_some();
        if self.start(cursor) {
            for key in keys {
                if self.events.see(key, session).is_some_and(placed) {
                    self.choose_write(session, cursor, key, placed);
                }
            }
        }
        self.delete_candidates::<Outboxed>(session, cursor)
    }

    /// Flows that had ended by then, in the order in which they did.
    pub fn scan_ended_flows(&self, scan: &EndedScan) -> Result<Vec<EndedFlow>> {
        let ended = self.summaries.entries_after(None).iter().filter_map(|entry| {
            let summary = self.summaries.visible(entry.1, NOBODY)?;
            Some(EndedFlow { flow: summary.flow, ended_at: summary.ended_at? })
        });
        let wanted = ended.filter(|one| {
            one.ended_at <= scan.ended_by
                && scan.after.is_none_or(|after| *one > after)
                && self.flow_in_scope(one.flow, &scan.scope)
        });
        let mut found: Vec<EndedFlow> = wanted.collect();
        found.sort_unstable();
        found.truncate(scan.limit as usize);
        Ok(found)
    }

    fn delete_by_key<V: Stored>(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[V::Key],
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            for key in keys {
                self.choose_write(session, cursor, key, |_: &V| true);
            }
        }
        self.delete_candidates::<V>(session, cursor)
    }

    /// Deletes the visible rows that belong to what is locked.
    fn delete_where<V: Stored>(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        own: impl Fn(&V::Key, &V) -> bool,
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            let table = V::table(self);
            let visible = table.entries_after(None).iter().filter(|entry| {
                table.visible(entry.1, session).is_some_and(|row| own(&entry.0, row))
            });
            let keys: Vec<V::Key> = visible.map(|entry| entry.0.clone()).collect();
            for key in &keys {
                self.choose_write(session, cursor, key, |_: &V| true);
            }
        }
        self.delete_candidates::<V>(session, cursor)
    }

    fn delete_candidates<V: Stored>(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
    ) -> Step<Result<u64>> {
        self.write_candidates(session, cursor, |_: &V, _| Some(Dirty::Deleted))
            .map(|()| Ok(self.written_keys::<V>(cursor).len() as u64))
            .into()
    }
}
