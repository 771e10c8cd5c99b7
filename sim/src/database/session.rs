//! Sessions: what an open transaction holds, and the progress of a statement that may pause.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{ChangeId, EventId};
use sluicegate::time::Timestamp;

use crate::history::ActorId;

use super::Database;
use super::rows::Target;
use super::table::{NO_SLOT, Slot};

/// Number of a session; zero is none.
pub type SessionId = u16;

/// No session: what it sees is committed.
pub(super) const NOBODY: SessionId = 0;

/// Progress of one statement; lives in the statement's future between its steps.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// The statement has taken its snapshot.
    pub started: bool,
    /// How many of the candidates, or of the rows to insert, are dealt with.
    pub at: usize,
    /// What the snapshot chose.
    pub candidates: Vec<u32>,
    /// How many candidates a Take got; they are moved to the front.
    pub got: usize,
    /// The number that was drawn for a row whose key is in flight.
    pub number: Option<EventId>,
}

/// How far one step of a statement came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<T> {
    /// The statement is over.
    Done(T),
    /// It took a row lock and wants more: a scheduling point.
    Yield,
    /// It waits for a lock that another session holds; call it again once that may have changed.
    Wait,
    /// It waits, and that closed this cycle of waiting sessions, itself first: one has to die.
    Deadlock(Vec<SessionId>),
}

/// Why a statement pauses.
#[derive(Debug)]
pub(super) enum Pause {
    Yield,
    Wait,
    Deadlock(Vec<SessionId>),
}

/// What a statement has, or why it pauses first.
pub(super) type Progress<T> = std::result::Result<T, Pause>;

impl<T> From<Progress<T>> for Step<T> {
    fn from(progress: Progress<T>) -> Self {
        match progress {
            Ok(value) => Step::Done(value),
            Err(Pause::Yield) => Step::Yield,
            Err(Pause::Wait) => Step::Wait,
            Err(Pause::Deadlock(cycle)) => Step::Deadlock(cycle),
        }
    }
}

/// An open transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) open: bool,
    pub(super) actor: ActorId,
    /// Its last reading of the storage's clock.
    pub(super) clock: Option<Timestamp>,
    /// Every row that it owns, as they were acquired.
    pub(super) owned: Vec<Target>,
    /// Where it wants a lock that it has not got.
    pub(super) waiting: Option<Target>,
    /// The last of its row locks in the one order; rows that it inserted do not count.
    pub(super) highest: Option<Target>,
    /// Flows that were cancelled when it first read the clock.
    pub(super) closed_at_clock: Vec<FlowKey>,
    /// Flows that were cancelled when its claim statement began.
    pub(super) closed_at_claim: Vec<FlowKey>,
    /// Executions that were skipped when it last read how those of a flow stand.
    pub(super) skipped_at_look: Vec<ExecutionId>,
    /// Flows that another transaction has opened again since it first read the clock.
    pub(super) reopened: Vec<FlowKey>,
    /// Flow changes that it inserted.
    pub(super) flow_changes: Vec<(ChangeId, FlowKey)>,
    /// Committed flow changes that it took away.
    pub(super) taken_changes: Vec<ChangeId>,
}

impl Session {
    fn clear(&mut self) {
        self.open = false;
        self.clock = None;
        self.owned.clear();
        self.waiting = None;
        self.highest = None;
        self.closed_at_clock.clear();
        self.closed_at_claim.clear();
        self.skipped_at_look.clear();
        self.reopened.clear();
        self.flow_changes.clear();
        self.taken_changes.clear();
    }
}

impl Database {
    /// Begins a transaction of that actor.
    pub fn open_session(&mut self, actor: ActorId) -> SessionId {
        let id = self.free_sessions.pop().unwrap_or_else(|| {
            if self.sessions.is_empty() {
                self.sessions.push(Session::default());
            }
            let id = SessionId::try_from(self.sessions.len()).expect("fewer sessions than numbers");
            self.sessions.push(Session::default());
            id
        });
        let session = &mut self.sessions[usize::from(id)];
        session.open = true;
        session.actor = actor;
        id
    }

    /// The sessions that have a transaction open.
    pub(super) fn open_sessions(&self) -> Vec<SessionId> {
        let numbered = self.sessions.iter().enumerate().filter(|(_, session)| session.open);
        let id = |at| SessionId::try_from(at).expect("fewer sessions than numbers");
        numbered.map(|(at, _)| id(at)).collect()
    }

    /// How many rows the session has locked or inserted.
    pub fn locks_held(&self, session: SessionId) -> usize {
        self.session(session).owned.len()
    }

    pub(super) fn session(&self, session: SessionId) -> &Session {
        let session = &self.sessions[usize::from(session)];
        assert!(session.open, "the session is over");
        session
    }

    pub(super) fn session_mut(&mut self, session: SessionId) -> &mut Session {
        let session = &mut self.sessions[usize::from(session)];
        assert!(session.open, "the session is over");
        session
    }

    /// Closes a session whose rows are free again.
    pub(super) fn close_session(&mut self, session: SessionId) {
        self.sessions[usize::from(session)].clear();
        self.free_sessions.push(session);
    }

    /// Closes every session; numbers are given out again as by a new database.
    pub(super) fn close_all_sessions(&mut self) {
        self.sessions.iter_mut().for_each(Session::clear);
        self.free_sessions.clear();
        let last = SessionId::try_from(self.sessions.len()).expect("fewer sessions than numbers");
        self.free_sessions.extend((1..last).rev());
    }

    /// Starts a statement on its first step; true exactly then.
    pub(super) fn start(&mut self, cursor: &mut Cursor) -> bool {
        if cursor.started {
            return false;
        }
        cursor.started = true;
        cursor.candidates = self.spare_lists.pop().unwrap_or_default();
        self.counters.statements += 1;
        true
    }

    /// Takes the memory of a finished statement back.
    pub(super) fn finish(&mut self, cursor: &mut Cursor) {
        let mut list = std::mem::take(&mut cursor.candidates);
        list.clear();
        self.spare_lists.push(list);
    }
}

/// A candidate that the snapshot ruled out.
pub(super) const NO_CANDIDATE: Slot = NO_SLOT;
