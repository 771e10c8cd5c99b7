//! What became worth a look, for each kind of actor. Never wakes anybody.

use sluicegate::state::State;
use sluicegate::storage::Flow;

use crate::actors::Role;
use crate::history::{Change, Commit};

/// Counts what became worth a look, for each kind of actor: only commits that wrote wake an idle
/// one, and of these only those that may have left it something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct News {
    /// Those that left something to claim.
    ready: u64,
    /// Those that left something to propagate.
    ended: u64,
    /// Those that asked for a cancel, or decided what may have kept one waiting.
    asked: u64,
    /// Those that left something to project.
    changed: u64,
    /// Those that left events.
    events: u64,
    /// Those that gave events their places.
    placed: u64,
    /// Those that suspended an execution.
    suspended: u64,
}

impl News {
    /// What an actor of that role watches.
    pub(crate) fn watched_by(self, role: Role) -> u64 {
        match role {
            // These act when they like.
            Role::Client | Role::Operator | Role::Extender => 0,
            Role::Worker => self.ready,
            Role::Dispatcher => self.ended,
            Role::Projector => self.changed,
            // What a reaper acts on comes with time, not with a commit.
            Role::Reconciler => self.ended + self.asked,
            Role::Sequencer => self.events,
            Role::Subscriber => self.placed,
            Role::Resumer => self.suspended,
        }
    }

    pub(crate) fn of_commit(&mut self, commit: &Commit, asked_before: bool) {
        let rows = || commit.executions.iter().filter_map(|change| change.after.as_ref());
        self.changed += u64::from(!commit.flow_changes.is_empty());
        // What is ready in a flow that was closed is claimed once the flow is open again.
        let opens = |flow: &Change<Flow>| {
            let closing =
                |row: &Option<Flow>| row.as_ref().is_some_and(|row| row.closing.is_some());
            closing(&flow.before) && !closing(&flow.after)
        };
        let open = commit.flows.iter().any(opens);
        self.ready += u64::from(open || rows().any(|row| row.state == State::Ready));
        self.suspended += u64::from(rows().any(|row| row.state == State::Suspended));
        self.ended += u64::from(rows().any(|row| row.state.is_terminal() && !row.propagated));
        let asks = commit.sibling_requests.iter().any(|change| change.after.is_some())
            || commit.cancel_backlog.iter().any(|change| change.after.is_some());
        let moves_on = asked_before && (!commit.groups.is_empty() || !commit.executions.is_empty());
        self.asked += u64::from(asks || moves_on);
        self.events += u64::from(!commit.events.is_empty());
        self.placed += u64::from(!commit.positions.is_empty());
    }

    pub(crate) fn of_everything(&mut self) {
        self.ready += 1;
        self.suspended += 1;
        self.changed += 1;
        self.ended += 1;
        self.asked += 1;
    }

    /// Everyone has to look again: another database has taken the place of this one.
    pub(crate) fn of_recovery(&mut self) {
        self.of_everything();
        self.events += 1;
        self.placed += 1;
    }
}
