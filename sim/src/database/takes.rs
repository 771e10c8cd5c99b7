//! The verbs of kinds Lock and Take. Which rows they want is fixed in the statement's snapshot;
//! what they return is each row as it stands once its lock is held.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::state::{ClosePolicy, lets_start};
use sluicegate::storage::{
    ClaimQuery, Contention, Execution, Flow, Grant, Group, Result, StorageError,
};

use super::rows::{Member, Stored, TableName};
use super::session::{Cursor, Progress, SessionId, Step};
use super::sets::claim_key;
use super::table::{Dirty, Slot};
use super::{Database, ModelMutant};

impl Database {
    /// Locks groups one by one in id order; missing ones are left out.
    pub fn lock_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[ExecutionId],
    ) -> Step<Result<Vec<Group>>> {
        if self.start(cursor) {
            if self.stuck_group.is_some_and(|stuck| keys.contains(&stuck)) {
                return Step::Done(Err(StorageError::Contention(Contention::LockTimeout)));
            }
            self.choose_by_key::<Group>(session, cursor, keys);
        } else if self.mutant == Some(ModelMutant::M02) {
            self.choose_again::<Group>(session, cursor, keys);
        }
        let locked = self.lock_candidates(session, cursor, TableName::Group);
        locked
            .map(|()| Ok(self.reply(cursor, |db, slot| db.groups.visible(slot, session).copied())))
            .into()
    }

    /// Locks executions one by one in id order; missing ones are left out.
    pub fn lock_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[ExecutionId],
    ) -> Step<Result<Vec<Execution>>> {
        if self.start(cursor) {
            self.choose_by_key::<Member>(session, cursor, keys);
        } else if self.mutant == Some(ModelMutant::M02) {
            self.choose_again::<Member>(session, cursor, keys);
        }
        let locked = self.lock_candidates(session, cursor, TableName::Execution);
        locked
            .map(|()| Ok(self.reply(cursor, |db, slot| db.newest_execution(slot, session))))
            .into()
    }

    /// Locks those of the executions that nobody else has locked, in id order.
    pub fn take_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[ExecutionId],
    ) -> Step<Result<Vec<Execution>>> {
        if self.start(cursor) {
            self.choose_by_key::<Member>(session, cursor, keys);
        }
        let taken = self.take_candidates(session, cursor, usize::MAX, |_| true);
        taken.map(|()| Ok(self.reply(cursor, |db, slot| db.newest_execution(slot, session)))).into()
    }

    /// Grants what may be claimed, in claim order, passing over locked rows.
    pub fn claim_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &ClaimQuery,
    ) -> Step<Result<Vec<Grant>>> {
        let limit = query.limit as usize;
        if self.start(cursor) {
            self.choose_claimable(session, cursor, query);
            self.session_mut(session).closed_at_claim = self.cancelled_flows();
        }
        let still_claimable = |member: &Member| member.execution.is_claimable(query.now);
        let taken = self.take_candidates(session, cursor, limit, still_claimable);
        taken.map(|()| Ok(self.grant_best(session, cursor, query))).into()
    }

    /// The flows in which nothing may become ready any more.
    pub(super) fn cancelled_flows(&self) -> Vec<FlowKey> {
        let closed = |flow: &&Flow| flow.closing.is_some_and(|by| by != ClosePolicy::FlowOnly);
        self.flows.committed().filter(closed).map(|flow| flow.key).collect()
    }

    /// What a planted bug does after a wait: the candidates of a statement are chosen anew.
    fn choose_again<V: Stored>(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[V::Key],
    ) {
        // What it waited for may be gone.
        self.session_mut(session).waiting = None;
        cursor.at = 0;
        cursor.candidates.clear();
        self.choose_by_key::<V>(session, cursor, keys);
    }

    /// Locks candidates that nobody else holds until it has enough of each lane, and moves those
    /// that still qualify to the front. A row that no longer does is dropped; its lock stays.
    fn take_candidates(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        limit: usize,
        qualifies: impl Fn(&Member) -> bool,
    ) -> Progress<()> {
        while let Some(slot) = self.next_candidate(cursor, limit) {
            cursor.at += 1;
            let Some(acquired) = self.acquire_free(session, TableName::Execution.row(slot)) else {
                if self.mutant == Some(ModelMutant::M05) {
                    break;
                }
                continue;
            };
            if self.executions.visible(slot, session).is_some_and(&qualifies) {
                cursor.candidates[cursor.got] = slot;
                cursor.got += 1;
            }
            let wants_more = self.next_candidate(cursor, limit).is_some();
            self.pause_after(acquired, wants_more)?;
        }
        cursor.candidates.truncate(cursor.got);
        Ok(())
    }

    /// Goes to the next candidate of a lane of which the statement has not got enough.
    fn next_candidate(&self, cursor: &mut Cursor, limit: usize) -> Option<Slot> {
        loop {
            let slot = *cursor.candidates.get(cursor.at)?;
            if limit == usize::MAX {
                return Some(slot);
            }
            // The candidates of a lane stand together, so what it got of this one came last.
            let got = cursor.candidates[..cursor.got].iter().rev();
            let of_lane = got.take_while(|got| self.lane(**got) == self.lane(slot)).count();
            if of_lane < limit {
                return Some(slot);
            }
            cursor.at += 1;
        }
    }

    /// The lane of an execution, which is constant.
    fn lane(&self, slot: Slot) -> Option<&str> {
        let member = self.executions.row(slot).any_version();
        member.map(|member| &*member.definition.lane)
    }

    /// Grants the best of what a claim got in all its lanes and ends it; what it locked beyond its
    /// limit stays locked as it is.
    fn grant_best(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &ClaimQuery,
    ) -> Vec<Grant> {
        let key = |slot: &Slot| self.executions.visible(*slot, session).map(claim_key);
        if !cursor.candidates.is_sorted_by_key(key) {
            cursor.candidates.sort_unstable_by_key(key);
        }
        cursor.candidates.truncate(query.limit as usize);
        self.reply(cursor, |db, slot| db.grant(slot, session, query))
    }

    /// Reads what the statement got and ends it.
    pub(super) fn reply<T>(
        &mut self,
        cursor: &mut Cursor,
        mut read: impl FnMut(&mut Self, Slot) -> Option<T>,
    ) -> Vec<T> {
        let rows = cursor.candidates.iter().filter_map(|slot| read(self, *slot)).collect();
        self.finish(cursor);
        rows
    }

    fn newest_execution(&self, slot: Slot, session: SessionId) -> Option<Execution> {
        self.executions.visible(slot, session).map(|member| member.execution)
    }

    /// Writes a grant into a row that the session has locked.
    fn grant(&mut self, slot: Slot, session: SessionId, query: &ClaimQuery) -> Option<Grant> {
        let member = self.executions.visible(slot, session)?;
        let execution = member.execution.granted(query);
        let granted = Member { execution, worker: Some(query.worker.clone()), ..member.clone() };
        let definition = (*granted.definition).clone();
        self.executions.row_mut(slot).dirty = Some(Dirty::Written(granted));
        Some(Grant { execution, definition })
    }

    /// Fixes what a claim may get, lane by lane, in claim order.
    fn choose_claimable(&self, session: SessionId, cursor: &mut Cursor, query: &ClaimQuery) {
        for lane in &query.lanes {
            self.choose_in_lane(session, cursor, query, lane);
        }
    }

    /// Adds what a claim may get of one lane. Where locks are not taken one step at a time, nothing
    /// can change before the statement ends, so that the first free rows are enough.
    fn choose_in_lane(
        &self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &ClaimQuery,
        lane: &str,
    ) {
        let (limit, mut free) = (query.limit as usize, 0);
        let wants = |slot: Slot| {
            let visible = self.executions.visible(slot, session);
            visible.is_some_and(|member| {
                *member.definition.lane == *lane && self.may_be_claimed(member, session, query)
            })
        };
        let first = cursor.candidates.len();
        for (key, slot) in self.sets.ready() {
            if !self.granular && free == limit {
                break;
            }
            let row = self.executions.row(slot);
            let own = row.owner == session && row.dirty.is_some();
            if !own && key.1 <= query.now && wants(slot) {
                cursor.candidates.push(slot);
                free += usize::from(row.owner == 0 || row.owner == session);
            }
        }
        let committed = cursor.candidates.len();
        cursor.candidates.extend(self.own_executions(session).filter(|slot| wants(*slot)));
        if cursor.candidates.len() > committed {
            let key = |slot: &Slot| self.executions.visible(*slot, session).map(claim_key);
            cursor.candidates[first..].sort_unstable_by_key(key);
        }
    }

    /// The predicate of a claim in the statement's snapshot, joined rows included.
    fn may_be_claimed(&self, member: &Member, session: SessionId, query: &ClaimQuery) -> bool {
        let (execution, definition) = (&member.execution, &member.definition);
        let in_scope = query.partitions.contains(&execution.id.partition.0)
            && query.namespace.as_ref().is_none_or(|wanted| *wanted == definition.namespace)
            && (query.kinds.is_empty() || query.kinds.contains(&definition.kind))
            && !query.except.contains(&execution.id);
        if !in_scope || !execution.is_claimable(query.now) {
            return false;
        }
        let flow = self.flows.see(&execution.flow_key(), session);
        flow.is_some_and(|flow| lets_start(flow.closing))
    }
}
