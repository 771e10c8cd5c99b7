//! The verbs of summaries in a transaction. Change rows have no lock of their own: that of their
//! flow's summary covers them, as that of a group covers its edges.

use std::collections::BTreeMap;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::state::{Outcome, State};
use sluicegate::storage::{ChangeId, CountQuery, Result, Summary, codes};
use sluicegate::summary::Counted;

use super::Database;
use super::rows::{Member, TableName};
use super::session::{Cursor, SessionId, Step};
use super::table::{Dirty, Slot};

impl Database {
    /// Locks summaries one by one in key order.
    pub fn lock_summaries(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flows: &[FlowKey],
    ) -> Step<Result<Vec<Summary>>> {
        if self.start(cursor) {
            self.choose_by_key::<Summary>(session, cursor, flows);
        }
        let locked = self.lock_candidates(session, cursor, TableName::Summary);
        let visible = |db: &mut Self, slot: Slot| db.summaries.visible(slot, session).copied();
        locked.map(|()| Ok(self.reply(cursor, visible))).into()
    }

    /// Takes away the change rows of a flow whose summary is locked; returns their numbers in
    /// order.
    pub fn delete_flow_changes(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<Vec<ChangeId>>> {
        self.start(cursor);
        if let Some(summary) = self.summaries.find(flow) {
            self.assert_writable(session, TableName::Summary.row(summary));
        }
        let committed = self.flow_changes.iter().filter(|change| change.1 == *flow);
        let mut numbers: Vec<ChangeId> = committed.map(|change| change.0).collect();
        let state = self.session_mut(session);
        numbers.retain(|number| !state.taken_changes.contains(number));
        state.taken_changes.extend_from_slice(&numbers);
        let own = state.flow_changes.extract_if(.., |change| change.1 == *flow);
        numbers.extend(own.map(|change| change.0));
        numbers.sort_unstable();
        self.finish(cursor);
        Step::Done(Ok(numbers))
    }

    /// The executions of a flow, alike ones counted together.
    pub fn count_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &CountQuery,
    ) -> Step<Result<Vec<Counted>>> {
        self.read(cursor, |db| db.counted(session, query))
    }

    /// The first failed or expired execution of a flow that no out-edge accepts.
    pub fn unhandled_failure(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<Option<ExecutionId>>> {
        self.read(cursor, |db| {
            let mut members = db.members(session, *flow);
            let unhandled = members.find(|member| {
                let outcome = member.execution.state.outcome();
                outcome.is_some_and(|outcome| {
                    matches!(outcome, Outcome::Failed | Outcome::Expired)
                        && !db.accepts(session, *flow, member.execution.id, outcome as u8)
                })
            });
            unhandled.map(|member| member.execution.id)
        })
    }

    /// Stores a locked summary; returns how many it changed.
    pub fn write_summary(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Summary,
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            self.choose_write(session, cursor, &row.flow, |_: &Summary| true);
        }
        self.write_candidates(session, cursor, |_: &Summary, _| Some(Dirty::Written(*row)))
            .map(|()| Ok(self.written_keys::<Summary>(cursor).len() as u64))
            .into()
    }

    /// The executions of a flow that the session sees, in id order.
    fn members(&self, session: SessionId, flow: FlowKey) -> impl Iterator<Item = &Member> {
        let entries = self.executions.entries_after(None).iter();
        let visible = entries.filter_map(move |entry| self.executions.visible(entry.1, session));
        visible.filter(move |member| member.execution.flow_key() == flow)
    }

    fn counted(&self, session: SessionId, query: &CountQuery) -> Vec<Counted> {
        let mut alike: BTreeMap<(u8, Option<u8>, bool), Counted> = BTreeMap::new();
        for Member { execution, .. } in self.members(session, query.flow) {
            let delayed = execution.state == State::Ready
                && query.now.is_some_and(|now| execution.not_before > now);
            let key = (execution.state.code(), execution.cause.map(codes::cause), delayed);
            let row = alike.entry(key).or_insert(Counted {
                state: execution.state,
                cause: execution.cause,
                delayed,
                executions: 0,
                finished_at: None,
            });
            row.executions += 1;
            row.finished_at = row.finished_at.max(execution.finished_at);
        }
        alike.into_values().collect()
    }

    /// True if an out-edge into a group of the flow accepts that outcome.
    fn accepts(&self, session: SessionId, flow: FlowKey, upstream: ExecutionId, code: u8) -> bool {
        self.edges_from(upstream).any(|slot| {
            let edge = self.edges.visible(slot, session);
            edge.is_some_and(|edge| {
                let group = self.groups.see(&edge.key.downstream, session);
                edge.accepts.bits() & (1 << code) != 0
                    && group.is_some_and(|group| group.flow == flow.id)
            })
        })
    }
}
