//! The real backend on a simulated disk, each verb behind the driver's gate: the lane `sqlite`, and
//! what stands behind the server of some universes of the lane `network`. Notes what a transaction
//! touches and reads it back before the commit, so that the judge sees what the file holds. Never
//! decides anything.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::task::{Context, Poll, Waker};

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::mutants::{self, Mutant};
use sluicegate::storage::sqlite::SqliteStorage;
use sluicegate::storage::{
    Attempt, ChangeId, CommitError, Consistency, Edge, EdgeFlip, EdgeKey, EventKey, Execution,
    ExecutionWrite, Flow, Grant, Group, Inserted, NewEvent, NewExecution, ProgressWrite, Request,
    RequestKey, Result, SiblingRequest, Snapshot, Storage, StorageError, StreamHead, Submission,
    Subscription, Summary, Transaction, Verb,
};
use sluicegate::time::Timestamp;
use sluicegate::with_verbs;

use crate::database::{Cursor, SessionId, Step};
use crate::disk::{Disk, disk, hushed};
use crate::driver::statement::Statement;
use crate::driver::world::{Permit, World, world};
use crate::history::{ActorId, Commit};

mod gone;
mod machine;
mod read_back;
mod recorded;
mod stored;

use gone::Gone;
use read_back::read_back;
use stored::settle;

pub(crate) use machine::{DATABASE, SqliteLane};
pub(crate) use recorded::{Recorded, differs, on_copy, opens_and_dies};
pub(crate) use stored::Doubts;

type Backend = <SqliteStorage as Storage>::Transaction;
type Reader = <SqliteStorage as Storage>::Snapshot;

/// The answer of a backend that works inline: its futures are ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("an inline backend waits for nothing"),
    }
}

impl World {
    /// Whoever has begun is the only writer until it ends: none of its statements, which nothing
    /// has struck, finds the file busy.
    fn found_busy(&mut self, busy: bool) {
        if !busy {
            return;
        }
        let words = "a statement of an open transaction found the file busy";
        let verdict = self.judge.commit(&Commit::default(), Some(words));
        self.violation = self.violation.take().or_else(|| verdict.err());
    }
}

/// The SQLite storage as one actor, or one connection of a server, sees it.
#[derive(Clone, Copy)]
pub(crate) struct GatedStorage {
    actor: ActorId,
}

impl GatedStorage {
    /// What its process has open, or opens now.
    fn opened(self) -> Result<SqliteStorage> {
        let lane = SqliteLane::of_thread().map_err(|why| StorageError::Unavailable(why.into()))?;
        lane.opened(self.actor)
    }
}

/// A transaction behind the gate.
pub(crate) struct GatedTransaction {
    actor: ActorId,
    session: SessionId,
    inner: Option<Backend>,
    touched: Touched,
}

/// A reader behind the gate.
pub(crate) struct GatedSnapshot {
    actor: ActorId,
    storage: SqliteStorage,
    inner: Reader,
}

impl Storage for GatedStorage {
    type Transaction = GatedTransaction;
    type Snapshot = GatedSnapshot;

    async fn begin(&self) -> Result<GatedTransaction> {
        let (this, actor) = (*self, self.actor);
        let run = move |world: &mut World, _: &mut Cursor, _: &Permit| {
            // A file has one writer; the busy handler of the others waits for it.
            let shares = mutants::active() == Some(Mutant::P49);
            if world.writer.is_some() && !shares {
                return Step::Wait;
            }
            let opened = this.opened().and_then(|inner| Ok((now(inner.begin())?, inner)));
            Step::Done(opened.map(|(mut opened, inner)| {
                settle(world, &inner, &mut opened);
                world.writer = Some(actor);
                world.sessions = world.sessions.wrapping_add(1);
                world.slots[usize::from(actor)].session = Some(world.sessions);
                (world.sessions, opened)
            }))
        };
        let (session, inner) = Statement::new(actor, None, Verb::Begin, run).await?;
        let touched = Touched::default();
        Ok(GatedTransaction { actor, session, inner: Some(inner), touched })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<GatedSnapshot> {
        let storage = self.opened()?;
        let inner = now(storage.snapshot(consistency))?;
        Ok(GatedSnapshot { actor: self.actor, storage, inner })
    }
}

impl Drop for GatedTransaction {
    fn drop(&mut self) {
        // The connection rolls back before the next writer may begin.
        drop(self.inner.take());
        world(|world| {
            let slot = &mut world.slots[usize::from(self.actor)];
            if slot.session == Some(self.session) && !slot.dead {
                slot.session = None;
                world.abort(self.session, self.actor);
            }
        });
    }
}

/// What a transaction wrote, by key; the rows are read back before it commits.
#[derive(Default)]
struct Touched {
    clock: Option<Timestamp>,
    executions: BTreeSet<ExecutionId>,
    groups: BTreeSet<ExecutionId>,
    /// What became of edges that are not new: by whom they were resolved, if at all.
    flips: BTreeMap<EdgeKey, Option<EdgeFlip>>,
    flows: Vec<Flow>,
    edges: Vec<Edge>,
    submissions: Vec<Submission>,
    attempts: Vec<Attempt>,
    events: Vec<NewEvent>,
    siblings: BTreeMap<ExecutionId, Option<SiblingRequest>>,
    requests: BTreeMap<RequestKey, Request>,
    backlog: BTreeMap<FlowKey, Option<FlowKey>>,
    changes: Vec<FlowKey>,
    summaries: BTreeSet<FlowKey>,
    /// What retention took away.
    gone: Gone,
    /// It moved the head of a stream or the cursor of a consumer.
    feed: bool,
}

macro_rules! gate {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        /// Takes note of an answered verb; a verb that writes nothing leaves nothing.
        trait Note {
            $(fn $tm(&mut self $(, $ta: &$tty)?, reply: &$tr) { let _ = ($($ta,)? reply); })*
        }

        impl Transaction for GatedTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let (actor, session) = (self.actor, self.session);
                let inner = &mut self.inner;
                let touched = &mut self.touched;
                let run = |world: &mut World, _: &mut Cursor, _: &Permit| {
                    let backend = inner.as_mut().expect("an open transaction has its connection");
                    let reply = now(backend.$tm($($ta)?));
                    world.found_busy(matches!(reply, Err(StorageError::Contention(_))));
                    if let Ok(reply) = &reply {
                        Note::$tm(touched $(, $ta)?, reply);
                    }
                    Step::Done(reply)
                };
                let reply = Statement::new(actor, Some(session), Verb::$tv, run).await;
                if reply.is_err() {
                    drop(self.inner.take());
                }
                reply
            })*

            async fn commit(mut self) -> Result<(), CommitError> {
                let (actor, session) = (self.actor, self.session);
                let inner = &mut self.inner;
                let touched = std::mem::take(&mut self.touched);
                let run = |world: &mut World, _: &mut Cursor, permit: &Permit| {
                    world.slots[usize::from(actor)].session = None;
                    let backend = inner.take().expect("an open transaction has its connection");
                    Step::Done(Ok(commit(world, actor, session, backend, &touched, permit)))
                };
                let answer = Statement::new(actor, Some(session), Verb::Commit, run).await;
                drop(self.inner.take());
                answer?
            }

            async fn rollback(mut self) {
                let (actor, session) = (self.actor, self.session);
                if world(|world| world.slots[usize::from(actor)].session != Some(session)) {
                    return;
                }
                let inner = &mut self.inner;
                let run = |world: &mut World, _: &mut Cursor, _: &Permit| {
                    world.slots[usize::from(actor)].session = None;
                    if let Some(backend) = inner.take() {
                        now(backend.rollback());
                    }
                    world.abort(session, actor);
                    Step::Done(Ok(()))
                };
                // A rollback that nobody answers has rolled back all the same.
                let _ = Statement::new(actor, Some(session), Verb::Rollback, run).await;
            }
        }

        impl Snapshot for GatedSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let (storage, inner) = (&self.storage, &mut self.inner);
                let run = |world: &mut World, _: &mut Cursor, _: &Permit| {
                    settle_before_read(world, storage);
                    Step::Done(now(inner.$sm($($sa)?)))
                };
                Statement::new(self.actor, None, Verb::$sv, run).await
            })*
        }
    };
}
with_verbs!(gate);

impl Note for Touched {
    fn clock(&mut self, reply: &Timestamp) {
        self.clock = Some(*reply);
    }
    fn insert_submission(&mut self, row: &Submission, reply: &Inserted) {
        if *reply == Inserted::New {
            self.submissions.push(row.clone());
        }
    }
    fn insert_flow(&mut self, row: &Flow, reply: &Inserted) {
        if *reply == Inserted::New {
            self.flows.push(row.clone());
        }
    }
    fn insert_executions(&mut self, rows: &[NewExecution], (): &()) {
        self.executions.extend(rows.iter().map(|row| row.execution.id));
    }
    fn insert_groups(&mut self, rows: &[Group], (): &()) {
        self.groups.extend(rows.iter().map(|row| row.downstream));
    }
    fn insert_edges(&mut self, rows: &[Edge], (): &()) {
        self.edges.extend(rows.iter().cloned());
    }
    fn insert_flow_changes(&mut self, flows: &[FlowKey], (): &()) {
        self.changes.extend(flows);
    }
    fn claim_executions(&mut self, _: &sluicegate::storage::ClaimQuery, reply: &Vec<Grant>) {
        self.executions.extend(reply.iter().map(|grant| grant.execution.id));
    }
    fn write_executions(&mut self, _: &[ExecutionWrite], reply: &Vec<ExecutionId>) {
        self.executions.extend(reply);
    }
    fn mend_executions(&mut self, rows: &[Execution], _: &u64) {
        self.executions.extend(rows.iter().map(|row| row.id));
    }
    fn write_progress(&mut self, row: &ProgressWrite, _: &u64) {
        self.executions.insert(row.key);
    }
    fn insert_attempts(&mut self, rows: &[Attempt], (): &()) {
        self.attempts.extend(rows);
    }
    fn insert_events(&mut self, rows: &[NewEvent], (): &()) {
        let from = self.events.len();
        self.events.extend(rows);
        self.events[from..].sort_by_key(NewEvent::order);
    }
    fn resolve_edges(&mut self, rows: &[EdgeFlip], reply: &Vec<EdgeKey>) {
        let flipped = rows.iter().filter(|row| reply.binary_search(&row.key).is_ok());
        self.flips.extend(flipped.map(|row| (row.key, Some(*row))));
    }
    fn reset_edges(&mut self, keys: &[EdgeKey], _: &u64) {
        self.flips.extend(keys.iter().map(|key| (*key, None)));
    }
    fn write_groups(&mut self, rows: &[Group], _: &u64) {
        self.groups.extend(rows.iter().map(|row| row.downstream));
    }
    fn write_joins(&mut self, rows: &[Group], _: &u64) {
        self.groups.extend(rows.iter().map(|row| row.downstream));
    }
    fn insert_sibling_requests(&mut self, rows: &[SiblingRequest], (): &()) {
        self.siblings.extend(rows.iter().map(|row| (row.group, Some(*row))));
    }
    fn delete_sibling_requests(&mut self, _: &[SiblingRequest], reply: &Vec<ExecutionId>) {
        self.siblings.extend(reply.iter().map(|group| (*group, None)));
    }
    fn write_flow(&mut self, row: &Flow, _: &u64) {
        self.flows.push(row.clone());
    }
    fn insert_request(&mut self, row: &Request, reply: &Inserted) {
        if *reply == Inserted::New {
            self.requests.insert(row.key, row.clone());
        }
    }
    fn write_request(&mut self, row: &Request, _: &u64) {
        self.requests.insert(row.key, row.clone());
    }
    fn insert_cancel_backlog(&mut self, flows: &[FlowKey], (): &()) {
        self.backlog.extend(flows.iter().map(|flow| (*flow, Some(*flow))));
    }
    fn delete_cancel_backlog(&mut self, _: &[FlowKey], reply: &Vec<FlowKey>) {
        self.backlog.extend(reply.iter().map(|flow| (*flow, None)));
    }
    fn insert_summary(&mut self, row: &Summary, (): &()) {
        self.summaries.insert(row.flow);
    }
    fn delete_flow_changes(&mut self, flow: &FlowKey, _: &Vec<ChangeId>) {
        // Its summary is locked, and read back with what the transaction wrote.
        self.summaries.insert(*flow);
    }
    fn write_summary(&mut self, row: &Summary, _: &u64) {
        self.summaries.insert(row.flow);
    }
    fn delete_attempts(&mut self, ids: &[ExecutionId], _: &u64) {
        self.gone.attempts_of.extend(ids);
    }
    fn delete_edges(&mut self, groups: &[ExecutionId], _: &u64) {
        self.gone.edges_into.extend(groups);
    }
    fn delete_groups(&mut self, ids: &[ExecutionId], _: &u64) {
        self.gone.groups.extend(ids);
    }
    fn delete_executions(&mut self, ids: &[ExecutionId], _: &u64) {
        self.gone.executions.extend(ids);
    }
    fn delete_requests(&mut self, flow: &FlowKey, _: &u64) {
        self.gone.requests_of.push(*flow);
    }
    fn delete_submission(&mut self, flow: &FlowKey, _: &u64) {
        self.gone.submission_of.push(*flow);
    }
    fn delete_summary(&mut self, flow: &FlowKey, _: &u64) {
        self.gone.summaries.push(*flow);
    }
    fn delete_flow(&mut self, flow: &FlowKey, _: &u64) {
        self.gone.flows.push(*flow);
    }
    fn delete_events(&mut self, keys: &[EventKey], _: &u64) {
        self.gone.events.extend(keys);
    }
    fn write_stream_head(&mut self, row: &StreamHead, reply: &u64) {
        self.feed |= *reply > 0;
        self.gone.horizon = Some(row.horizon).filter(|_| *reply > 0);
    }
    fn insert_subscription(&mut self, _: &Subscription, reply: &Inserted) {
        self.feed |= *reply == Inserted::New;
    }
    fn write_subscription(&mut self, _: &Subscription, reply: &u64) {
        self.feed |= *reply > 0;
    }
}

/// What a reader may see is known before it reads. A writer at work has seen to that as it began.
fn settle_before_read(world: &mut World, storage: &SqliteStorage) {
    if world.writer.is_some() || !world.doubts.are_open() {
        return;
    }
    hushed(|| {
        if let Ok(mut transaction) = now(storage.begin()) {
            settle(world, storage, &mut transaction);
            now(transaction.rollback());
        }
    });
}

/// Reads back what was touched, commits, and hands it to the judge.
fn commit(
    world: &mut World,
    actor: ActorId,
    session: SessionId,
    mut backend: Backend,
    touched: &Touched,
    permit: &Permit,
) -> Result<(), CommitError> {
    if *permit == Permit::CommitLost {
        now(backend.rollback());
        world.abort(session, actor);
        return Err(CommitError::Unknown);
    }
    let read = hushed(|| read_back(world, &mut backend, touched));
    let committed = match read {
        Ok(()) => {
            disk(Disk::begin_commit);
            let committed = now(backend.commit());
            disk(|disk| disk.end_commit(committed.is_ok()));
            committed
        }
        Err(error) => Err(error.into()),
    };
    world.abort(session, actor);
    if committed == Err(CommitError::Unknown) && touched.wrote() {
        let commit = std::mem::take(&mut world.commit);
        world.doubts.add(world.on_behalf(actor), commit);
    }
    committed?;
    if touched.wrote() {
        world.doubts.overtaken();
        world.committed(actor);
    }
    if let Some(witness) = &mut world.witness {
        witness.push(world.judge.mirror().clone());
    }
    match permit {
        Permit::CommitApplied => Err(CommitError::Unknown),
        _ => Ok(()),
    }
}

impl Touched {
    fn wrote(&self) -> bool {
        !(self.executions.is_empty()
            && self.groups.is_empty()
            && self.flips.is_empty()
            && self.flows.is_empty()
            && self.edges.is_empty()
            && self.submissions.is_empty()
            && self.attempts.is_empty()
            && self.events.is_empty()
            && self.siblings.is_empty()
            && self.requests.is_empty()
            && self.backlog.is_empty()
            && self.summaries.is_empty()
            && self.changes.is_empty()
            && self.gone.is_empty()
            && !self.feed)
    }
}
