//! The simulated Postgres: the verbs of the storage seam on rows in memory, at READ COMMITTED, one
//! step at a time. Pure and single-threaded; never decides who runs next, and never fails by
//! itself.
//!
//! Every row has two versions, the committed one and that of the session that owns its lock, which
//! carries READ COMMITTED exactly as long as each verb is of one of the six kinds. A statement that
//! has to wait says so and is called again with its [`Cursor`]; whoever calls first gets a freed
//! row, which leaves the order among waiters to the driver, as Postgres leaves it open. After an
//! error the driver calls [`Database::abort`].

mod commit;
mod committed;
mod damage;
mod feed;
mod flows;
mod growth;
mod inputs;
mod inserts;
mod listings;
mod locks;
mod mutants;
mod reads;
mod remains;
mod replay;
mod retention;
mod rows;
mod scans;
mod session;
mod sets;
pub mod storage;
mod summaries;
mod table;
mod takes;
mod writes;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeSet;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Attempt, AttemptKey, ChangeId, ConsumerName, Edge, EdgeKey, EventId, EventKey, Flow, Group,
    Request, RequestKey, SiblingRequest, StreamHead, StreamId, Submission, SubmissionKey,
    Subscription, Summary,
};
use sluicegate::time::Timestamp;

use crate::mirror::Damaged;

use rows::{Backlog, Member, Outboxed};
use session::Session;
use sets::Sets;
use table::{Slot, Table};

pub use mutants::ModelMutant;
pub use session::{Cursor, SessionId, Step};

/// What happened in transactions since the counters were last zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Statements of transactions.
    pub statements: u64,
    /// Waits that began, for a row lock or a unique key in flight.
    pub lock_waits: u64,
    /// Row locks taken; those of inserted rows are not counted.
    pub row_locks: u64,
    /// Waits that closed a cycle.
    pub deadlocks: u64,
}

/// A database in memory.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// A Lock or Take verb pauses after each new row lock while it wants more rows.
    pub granular: bool,
    /// What the payloads or the results of one statement may have in bytes; one row may have more.
    /// No bound where there is none.
    pub statement_max_bytes: Option<u64>,
    /// What the storage's clock shows; set by the driver.
    pub storage_now: Timestamp,
    /// A group whose lock nobody gets: every attempt fails as a lock timeout.
    pub stuck_group: Option<ExecutionId>,
    /// Counters; kept by [`Database::reset`].
    pub counters: Counters,
    /// A planted bug that is on; kept by [`Database::reset`].
    pub mutant: Option<ModelMutant>,
    unreadable: BTreeSet<Damaged>,
    clock_highest: Cell<Timestamp>,
    submissions: Table<SubmissionKey, Submission>,
    flows: Table<FlowKey, Flow>,
    groups: Table<ExecutionId, Group>,
    executions: Table<ExecutionId, Member>,
    edges: Table<EdgeKey, Edge>,
    attempts: Table<AttemptKey, Attempt>,
    events: Table<EventKey, Outboxed>,
    sibling_requests: Table<ExecutionId, SiblingRequest>,
    requests: Table<RequestKey, Request>,
    backlog: Table<FlowKey, Backlog>,
    heads: Table<StreamId, StreamHead>,
    subscriptions: Table<ConsumerName, Subscription>,
    summaries: Table<FlowKey, Summary>,
    /// Change rows by number, as their transactions committed.
    flow_changes: Vec<(ChangeId, FlowKey)>,
    change_last: u64,
    /// Slots of edges by upstream, sorted.
    edges_by_upstream: Vec<(ExecutionId, Slot)>,
    /// The slot of the upstream by the slot of the edge.
    edge_upstreams: Vec<Slot>,
    /// Keys of events by number; numbers of transactions that rolled back lead nowhere.
    event_keys: Vec<(EventId, EventKey)>,
    event_last: u64,
    sets: Sets,
    sessions: Vec<Session>,
    free_sessions: Vec<SessionId>,
    order_violation: Option<String>,
    /// Memory of candidate lists.
    spare_lists: Vec<Vec<Slot>>,
}

impl Database {
    /// An empty database.
    pub fn new() -> Self {
        let mut database = Self::default();
        database.make_stream();
        database
    }

    /// Empties it and closes every session, as a new one but for its memory, its counters and
    /// whether it is granular.
    pub fn reset(&mut self) {
        self.storage_now = Timestamp::default();
        self.stuck_group = None;
        self.unreadable.clear();
        self.clock_highest.take();
        self.submissions.clear();
        self.flows.clear();
        self.groups.clear();
        self.executions.clear();
        self.edges.clear();
        self.attempts.clear();
        self.events.clear();
        self.sibling_requests.clear();
        self.requests.clear();
        self.backlog.clear();
        self.summaries.clear();
        self.heads.clear();
        self.make_stream();
        self.subscriptions.clear();
        self.flow_changes.clear();
        self.change_last = 0;
        self.edges_by_upstream.clear();
        self.edge_upstreams.clear();
        self.event_keys.clear();
        self.event_last = 0;
        self.sets.clear();
        self.close_all_sessions();
        self.order_violation = None;
    }

    /// A copy of what is committed, for readers that see one instant; it has no sessions.
    #[must_use]
    pub fn frozen(&self) -> Self {
        Self {
            granular: self.granular,
            statement_max_bytes: self.statement_max_bytes,
            storage_now: self.storage_now,
            stuck_group: self.stuck_group,
            counters: Counters::default(),
            mutant: self.mutant,
            unreadable: self.unreadable.clone(),
            clock_highest: self.clock_highest.clone(),
            submissions: self.submissions.frozen(),
            flows: self.flows.frozen(),
            groups: self.groups.frozen(),
            executions: self.executions.frozen(),
            edges: self.edges.frozen(),
            attempts: self.attempts.frozen(),
            events: self.events.frozen(),
            sibling_requests: self.sibling_requests.frozen(),
            requests: self.requests.frozen(),
            backlog: self.backlog.frozen(),
            summaries: self.summaries.frozen(),
            heads: self.heads.frozen(),
            subscriptions: self.subscriptions.frozen(),
            flow_changes: self.flow_changes.clone(),
            change_last: self.change_last,
            edges_by_upstream: self.edges_by_upstream.clone(),
            edge_upstreams: self.edge_upstreams.clone(),
            event_keys: self.event_keys.clone(),
            event_last: self.event_last,
            sets: self.sets.clone(),
            sessions: Vec::new(),
            free_sessions: Vec::new(),
            order_violation: None,
            spare_lists: Vec::new(),
        }
    }

    /// What the storage's clock shows, remembering the highest.
    fn show_clock(&self) -> Timestamp {
        self.clock_highest.set(self.clock_highest.get().max(self.storage_now));
        self.storage_now
    }
}
