//! Row locks: acquiring, waiting, cycles of waiters, and the one lock order. The only place where a
//! session starts to wait. Never reads a value.

use sluicegate::identity::FlowKey;
use sluicegate::mutants;

use super::rows::{Stored, TableName, Target, on_table};
use super::session::{Cursor, Pause, Progress, SessionId};
use super::{Database, ModelMutant};

/// Whether a lock was held before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acquired {
    /// The session owned the row.
    Before,
    /// It owns the row now.
    Now,
    /// There is no row any more, and so no lock.
    Gone,
}

impl Database {
    /// True while another session holds the lock that this one waits for.
    pub fn is_blocked(&self, session: SessionId) -> bool {
        self.blocker(session).is_some()
            || (self.mutant == Some(ModelMutant::M03) && self.session(session).waiting.is_some())
    }

    /// Takes the first violation of the lock order since the last call, in words.
    pub fn order_violation(&mut self) -> Option<String> {
        self.order_violation.take()
    }

    pub(super) fn owner(&self, target: Target) -> SessionId {
        on_table!([&] self, target.table, table => table.row(target.slot).owner)
    }

    fn set_owner(&mut self, target: Target, session: SessionId) {
        on_table!([&mut] self, target.table, table => table.row_mut(target.slot).owner = session);
    }

    /// Who holds the lock that the session waits for.
    fn blocker(&self, session: SessionId) -> Option<SessionId> {
        let target = self.session(session).waiting?;
        let owner = self.owner(target);
        (owner != 0 && owner != session).then_some(owner)
    }

    /// Takes a row lock, or starts to wait for it. Whoever has waited for a row that was deleted
    /// holds nothing.
    pub(super) fn acquire(&mut self, session: SessionId, target: Target) -> Progress<Acquired> {
        let owner = self.owner(target);
        if owner == session {
            return Ok(Acquired::Before);
        }
        if owner == 0 && self.is_gone(target) {
            self.session_mut(session).waiting = None;
            return Ok(Acquired::Gone);
        }
        self.check_order(session, target);
        if owner != 0 && !self.gives_way(owner, target) {
            return Err(self.wait(session, target));
        }
        self.own(session, target);
        Ok(Acquired::Now)
    }

    /// Under a planted bug a session loses the lock of a row that it has not written; true if it
    /// just did.
    fn gives_way(&mut self, owner: SessionId, target: Target) -> bool {
        if self.mutant != Some(ModelMutant::M04) || self.is_dirty(target) {
            return false;
        }
        self.session_mut(owner).owned.retain(|owned| *owned != target);
        true
    }

    fn is_dirty(&self, target: Target) -> bool {
        on_table!([&] self, target.table, table => table.row(target.slot).dirty.is_some())
    }

    fn is_gone(&self, target: Target) -> bool {
        on_table!([&] self, target.table, table => table.row(target.slot).any_version().is_none())
    }

    /// Takes a row lock if nobody else holds it; `None` if somebody does.
    pub(super) fn acquire_free(&mut self, session: SessionId, target: Target) -> Option<Acquired> {
        let owner = self.owner(target);
        if owner == session {
            return Some(Acquired::Before);
        }
        if owner != 0 {
            return None;
        }
        if self.is_gone(target) {
            return Some(Acquired::Gone);
        }
        self.own(session, target);
        Some(Acquired::Now)
    }

    /// Takes a free row under the cover of another lock; no lock of its own in the one order.
    pub(super) fn cover(&mut self, session: SessionId, target: Target) {
        self.set_owner(target, session);
        self.session_mut(session).owned.push(target);
    }

    fn own(&mut self, session: SessionId, target: Target) {
        self.set_owner(target, session);
        self.counters.row_locks += 1;
        let highest = self.session(session).highest;
        let raised = target.table.rank().is_some()
            && highest.is_none_or(|highest| self.precedes(highest, target));
        let state = self.session_mut(session);
        state.waiting = None;
        state.owned.push(target);
        if raised {
            state.highest = Some(target);
        }
    }

    /// Starts to wait for a row that another session owns, and looks for a cycle.
    pub(super) fn wait(&mut self, session: SessionId, target: Target) -> Pause {
        let state = self.session_mut(session);
        if state.waiting.replace(target) != Some(target) {
            self.counters.lock_waits += 1;
        }
        if !self.closes_cycle(session) {
            return Pause::Wait;
        }
        self.counters.deadlocks += 1;
        let mut cycle = vec![session];
        let mut current = session;
        while let Some(next) = self.blocker(current).filter(|next| *next != session) {
            cycle.push(next);
            current = next;
        }
        Pause::Deadlock(cycle)
    }

    /// Who waits for a row that a member of the cycle waits for, and is none itself.
    pub fn in_line_with(&self, cycle: &[SessionId]) -> Vec<SessionId> {
        let wanted: Vec<Target> =
            cycle.iter().filter_map(|session| self.session(*session).waiting).collect();
        let others = self.open_sessions().into_iter().filter(|session| !cycle.contains(session));
        let waits_too = |session: &SessionId| {
            self.session(*session).waiting.is_some_and(|target| wanted.contains(&target))
        };
        others.filter(waits_too).collect()
    }

    /// True if following waiters to their blockers leads back to the session.
    fn closes_cycle(&self, session: SessionId) -> bool {
        let mut current = session;
        for _ in 0..self.sessions.len() {
            match self.blocker(current) {
                None => return false,
                Some(next) if next == session => return true,
                Some(next) => current = next,
            }
        }
        false
    }

    /// Locks the candidates one by one, waiting for each that is held.
    pub(super) fn lock_candidates(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        table: TableName,
    ) -> Progress<()> {
        while let Some(slot) = cursor.candidates.get(cursor.at) {
            let acquired = self.acquire(session, table.row(*slot))?;
            cursor.at += 1;
            self.pause_after(acquired, cursor.at < cursor.candidates.len())?;
        }
        Ok(())
    }

    /// A new row lock is a scheduling point while the statement wants more rows.
    pub(super) fn pause_after(&self, acquired: Acquired, wants_more: bool) -> Progress<()> {
        if self.granular && wants_more && acquired == Acquired::Now {
            return Err(Pause::Yield);
        }
        Ok(())
    }

    /// The rule that a write touches only what its transaction has locked; a planted bug may break
    /// it, and then the write takes the lock itself, as Postgres would.
    pub(super) fn lock_for_write(
        &mut self,
        session: SessionId,
        target: Target,
    ) -> Progress<Acquired> {
        let owner = self.owner(target);
        if owner == session {
            return Ok(Acquired::Before);
        }
        if owner == 0 && self.is_covered(session, target) {
            self.cover(session, target);
            return Ok(Acquired::Before);
        }
        self.acquire(session, target)
    }

    /// Asserts that the session may write the row.
    pub(super) fn assert_writable(&self, session: SessionId, target: Target) {
        assert!(
            self.owner(target) == session
                || self.is_covered(session, target)
                || mutants::active().is_some()
                || self.mutant.is_some(),
            "a write of {} that its transaction has not locked",
            self.describe(target)
        );
    }

    /// An edge is covered by the lock of its group, an attempt by that of its execution, an event
    /// that has its place by that of the head of the stream; what stands beside a flow, by that of
    /// the flow.
    fn is_covered(&self, session: SessionId, target: Target) -> bool {
        let flow = match target.table {
            TableName::Edge => {
                let group = self.groups.find(&self.edges.row(target.slot).key.downstream);
                return group.is_some_and(|group| self.groups.row(group).owner == session);
            }
            TableName::Attempt => {
                let of = self.executions.find(&self.attempts.row(target.slot).key.execution);
                return of.is_some_and(|of| self.executions.row(of).owner == session);
            }
            TableName::Event => {
                let row = self.events.row(target.slot).committed.as_ref();
                let placed = row.is_some_and(|event| event.position.is_some());
                return placed && self.heads.has_owned(session);
            }
            TableName::Submission => {
                self.submissions.row(target.slot).any_version().map(|row| row.flow)
            }
            TableName::Request => Some(self.requests.row(target.slot).key.flow),
            TableName::Backlog => Some(self.backlog.row(target.slot).key),
            TableName::SiblingRequest => {
                let row = self.sibling_requests.row(target.slot);
                let partition = row.key.partition;
                row.any_version().map(|request| FlowKey { partition, id: request.flow })
            }
            _ => None,
        };
        let flow = flow.and_then(|flow| self.flows.find(&flow));
        flow.is_some_and(|flow| self.flows.row(flow).owner == session)
    }

    /// Records a lock that comes after one that stands later in the one order.
    pub(super) fn check_order(&mut self, session: SessionId, target: Target) {
        let Some(highest) = self.session(session).highest else { return };
        if target.table.rank().is_none() || !self.precedes(target, highest) {
            return;
        }
        if self.order_violation.is_none() {
            self.order_violation = Some(format!(
                "session {session} of actor {} locks {} while it holds {}",
                self.session(session).actor,
                self.describe(target),
                self.describe(highest)
            ));
        }
    }

    /// True if the one lock order puts `first` before `second`.
    fn precedes(&self, first: Target, second: Target) -> bool {
        if first.table != second.table {
            return first.table.rank() < second.table.rank();
        }
        if first.table == TableName::Event {
            // Events are locked by their numbers, not by their keys.
            let number = |slot| self.events.row(slot).any_version().map(|row| row.event.id);
            return number(first.slot) < number(second.slot);
        }
        on_table!([&] self, first.table, table => {
            table.row(first.slot).key < table.row(second.slot).key
        })
    }

    fn describe(&self, target: Target) -> String {
        let name = target.table.name();
        on_table!([&] self, target.table, table => {
            format!("{name} {:?}", table.row(target.slot).key)
        })
    }

    /// Fixes the candidates of a statement with explicit keys: those visible to it, in key order.
    pub(super) fn choose_by_key<V: Stored>(
        &self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[V::Key],
    ) {
        let table = V::table(self);
        for key in keys {
            let found = table.find(key).filter(|slot| table.visible(*slot, session).is_some());
            cursor.candidates.extend(found);
        }
        if !keys.is_sorted() {
            cursor.candidates.sort_unstable_by(|a, b| table.row(*a).key.cmp(&table.row(*b).key));
        }
    }
}
