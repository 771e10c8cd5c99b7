//! The end of a transaction: its rows become the committed ones and are reported, or are forgotten;
//! its locks are released. The only place where a row is freed.

use sluicegate::storage::{EventPosition, Execution};

use crate::history::{Change, Commit};
use crate::mirror::{Closing, Damaged};

use super::Database;
use super::mutants::mutated;
use super::rows::{Backlog, Member, Outboxed, TableName, Target, on_table};
use super::session::SessionId;
use super::table::{Replaced, Slot, Table};

impl Database {
    /// Commits, and reports every row that was written, as the rows were first acquired; false if
    /// there was none. The session is over.
    pub fn commit(&mut self, session: SessionId, commit: &mut Commit) -> bool {
        clear(commit);
        let state = self.session_mut(session);
        assert!(state.waiting.is_none(), "a commit while a statement waits");
        commit.actor = state.actor;
        commit.clock = state.clock;
        commit.flow_changes.extend(state.flow_changes.iter().map(|change| change.1));
        commit.closed_at_clock.extend_from_slice(&state.closed_at_clock);
        commit.closed_at_claim.extend_from_slice(&state.closed_at_claim);
        commit.skipped_at_look.extend_from_slice(&state.skipped_at_look);
        commit.reopened.extend_from_slice(&state.reopened);
        let new = std::mem::take(&mut state.flow_changes);
        let taken = std::mem::take(&mut state.taken_changes);
        let owned = std::mem::take(&mut state.owned);
        self.show_clock();
        commit.clock_highest = self.clock_highest.get();
        self.flow_changes.retain(|change| !taken.contains(&change.0));
        self.flow_changes.extend_from_slice(&new);
        let mut wrote = !new.is_empty() || !taken.is_empty();
        for target in &owned {
            wrote |= self.settle(*target, commit);
        }
        let state = self.session_mut(session);
        (state.owned, state.flow_changes, state.taken_changes) = (owned, new, taken);
        self.close_session(session);
        self.tell_of_reopened(commit);
        wrote
    }

    /// Lets every open transaction know which flows have just been opened again.
    fn tell_of_reopened(&mut self, commit: &Commit) {
        for closing in commit.flows.iter().filter_map(Closing::ended) {
            for session in self.open_sessions() {
                let session = self.session_mut(session);
                if session.clock.is_some() {
                    session.reopened.push(closing.closer.flow);
                }
            }
        }
    }

    /// Rolls back. The session is over.
    pub fn abort(&mut self, session: SessionId) {
        let owned = std::mem::take(&mut self.session_mut(session).owned);
        for target in &owned {
            on_table!([&mut] self, target.table, table => table.forget(target.slot));
        }
        self.session_mut(session).owned = owned;
        self.close_session(session);
    }

    /// Rolls every open transaction back.
    pub fn abort_all(&mut self) {
        for session in self.open_sessions() {
            self.abort(session);
        }
    }

    /// The planted bug that acknowledges commits which are in memory only.
    pub fn commits_in_memory(&self) -> bool {
        mutated!(S30)
    }

    /// Commits one row and frees it; true if it was written.
    fn settle(&mut self, target: Target, commit: &mut Commit) -> bool {
        let slot = target.slot;
        match target.table {
            TableName::Execution => self.settle_execution(slot, commit),
            TableName::Group => self.settle_group(slot, commit),
            TableName::Edge => change(&mut self.edges, slot, &mut commit.edges),
            TableName::Flow => change(&mut self.flows, slot, &mut commit.flows),
            TableName::Summary => change(&mut self.summaries, slot, &mut commit.summaries),
            TableName::Attempt => {
                let Some(Replaced { before }) = self.attempts.settle(slot) else { return false };
                let after = self.attempts.row(slot).committed;
                commit.attempts.extend(after);
                let gone = before.filter(|_| after.is_none());
                commit.attempts_pruned.extend(gone.map(|row| row.key));
                true
            }
            TableName::Event => self.settle_event(slot, commit),
            TableName::Submission => {
                let Some(Replaced { before }) = self.submissions.settle(slot) else { return false };
                let after = self.submissions.row(slot).committed.clone();
                let gone = before.filter(|_| after.is_none());
                commit.submissions.extend(after);
                commit.submissions_pruned.extend(gone.map(|row| row.key));
                true
            }
            TableName::SiblingRequest => {
                change(&mut self.sibling_requests, slot, &mut commit.sibling_requests)
            }
            TableName::Request => change(&mut self.requests, slot, &mut commit.requests),
            TableName::Backlog => {
                let Some(Replaced { before }) = self.backlog.settle(slot) else { return false };
                let after = self.backlog.row(slot).committed;
                let key = |row: Backlog| row.0;
                commit
                    .cancel_backlog
                    .push(Change { before: before.map(key), after: after.map(key) });
                true
            }
            TableName::StreamHead => {
                let Some(Replaced { before }) = self.heads.settle(slot) else { return false };
                let after = self.heads.row(slot).committed.map(|head| head.horizon);
                commit.horizon = after.filter(|_| after != before.map(|head| head.horizon));
                true
            }
            TableName::Subscription => self.subscriptions.settle(slot).is_some(),
        }
    }

    fn settle_group(&mut self, slot: Slot, commit: &mut Commit) -> bool {
        let written = change(&mut self.groups, slot, &mut commit.groups);
        if let Some(group) = self.groups.row(slot).committed.filter(|_| written) {
            self.mended(Damaged::GroupUnreadable(group.downstream));
        }
        written
    }

    fn settle_event(&mut self, slot: Slot, commit: &mut Commit) -> bool {
        let Some(Replaced { before }) = self.events.settle(slot) else { return false };
        let Some(after) = self.events.row(slot).committed.as_ref() else {
            let Some(Outboxed { event, position, .. }) = before else { return true };
            commit.events_pruned.push(event.event.key());
            self.sets.unboxed(slot, position);
            return true;
        };
        let event = after.event.event;
        if before.is_none() {
            commit.events.push((after.event.id, event));
        }
        if let Some(position) = after.position {
            commit.positions.push(EventPosition { key: event.key(), position });
        }
        self.sets.outboxed(slot, after.position);
        true
    }

    fn settle_execution(&mut self, slot: Slot, commit: &mut Commit) -> bool {
        let Some(Replaced { before }) = self.executions.settle(slot) else { return false };
        let after = self.executions.row(slot).committed.as_ref();
        self.sets.moved(slot, before.as_ref(), after);
        let execution = |member: &Member| -> Execution { member.execution };
        let (before, after) = (before.as_ref().map(execution), after.map(execution));
        if let Some(row) = after {
            self.mended(Damaged::ExecutionUnreadable(row.id));
        }
        commit.executions.push(Change { before, after });
        true
    }
}

/// Commits a row and reports it with what it replaced.
fn change<K: Ord + Clone, V: Clone>(
    table: &mut Table<K, V>,
    slot: Slot,
    changes: &mut Vec<Change<V>>,
) -> bool {
    let Some(Replaced { before }) = table.settle(slot) else { return false };
    changes.push(Change { before, after: table.row(slot).committed.clone() });
    true
}

fn clear(commit: &mut Commit) {
    commit.flows.clear();
    commit.executions.clear();
    commit.groups.clear();
    commit.edges.clear();
    commit.submissions.clear();
    commit.submissions_pruned.clear();
    commit.attempts.clear();
    commit.attempts_pruned.clear();
    commit.events.clear();
    commit.events_pruned.clear();
    commit.horizon = None;
    commit.positions.clear();
    commit.sibling_requests.clear();
    commit.requests.clear();
    commit.cancel_backlog.clear();
    commit.summaries.clear();
    commit.flow_changes.clear();
    commit.closed_at_clock.clear();
    commit.closed_at_claim.clear();
    commit.skipped_at_look.clear();
    commit.reopened.clear();
}
