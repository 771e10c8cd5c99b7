//! The verbs of a transaction on Postgres, one function each. Never decides anything.
//!
//! Parameters are bound in the order in which the SQL numbers them; the rows of a call go over as
//! arrays, one a column, in key order.

use std::sync::Arc;

use super::columns::Columns;
use super::feed::{
    insert_subscription, lock_stream_head, lock_subscription, lock_unnumbered_events,
    write_positions, write_stream_head, write_subscription,
};
use super::flows::{
    delete_cancel_backlog, delete_sibling_requests, insert_cancel_backlog, insert_request, keys,
    lock_flow, read_fed_groups, read_members, read_request, write_flow, write_joins, write_request,
};
use super::growth::{count_edges, read_ancestry, read_edges};
use super::inputs::read_inputs;
use super::lent::Lent;
use super::link::Link;
use super::parameters::Parameters;
use super::pool::{Begin, Shared};
use super::remains::{hold_executions, hold_groups, mend_executions};
use super::replay::{read_standings, reset_edges};
use super::retention::{
    count_events, delete_attempts, delete_edges, delete_events, delete_executions, delete_flow,
    delete_groups, delete_requests, delete_submission, delete_summary,
};
use super::summaries::{
    count_executions, delete_flow_changes, insert_summary, lock_summaries, unhandled_failure,
    write_summary,
};
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::state::ClosePolicy;
use crate::storage::decode;
use crate::storage::rows::in_order;
use crate::storage::{
    Attempt, AttemptKey, ClaimQuery, CommitError, Edge, EdgeFlip, EdgeKey, Execution,
    ExecutionWrite, Flow, Grant, Group, Guarded, Inserted, Lease, NewEvent, NewExecution,
    PendingEdge, ProgressWrite, Result, ResultChange, SiblingRequest, StorageError, Submission,
    SubmissionKey, Transaction, Verb, codes,
};
use crate::time::Timestamp;
use crate::with_verbs;

/// A transaction on Postgres, on a connection of the pool or inside one of the caller's.
///
/// Dropping one of the pool closes its connection, upon which the server rolls back; a statement
/// that runs then runs to its end first. One inside the caller's ends with that.
pub struct PostgresTransaction {
    link: Link,
}

impl PostgresTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>) -> Result<Self> {
        Ok(Self { link: Link::new(shared.begin(Begin::Write).await?) })
    }

    pub(super) fn inside(lent: Lent) -> Self {
        Self { link: Link::over(lent) }
    }

    /// The server process that works for it, as `pg_stat_activity` numbers them.
    pub fn backend_pid(&self) -> i32 {
        self.link.pid()
    }
}

/// The argument of a verb; a verb without one takes the unit.
macro_rules! argument {
    () => {
        &()
    };
    ($argument:ident) => {
        $argument
    };
}
pub(super) use argument;

macro_rules! transaction {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $($snapshot:tt)* }
    ) => {
        impl Transaction for PostgresTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                $tm(&mut self.link, argument!($($ta)?)).await
            })*

            async fn commit(self) -> Result<(), CommitError> {
                self.link.commit().await
            }

            async fn rollback(self) {
                self.link.roll_back().await;
            }
        }
    };
}
with_verbs!(transaction);

/// A code of an enum, in the width of its column.
pub(super) fn small(code: i64) -> i16 {
    i16::try_from(code).expect("no enum has that many variants")
}

pub(super) fn inserted(rows: u64) -> Inserted {
    assert!(rows <= 1, "an insert of one row changed {rows}");
    if rows == 1 { Inserted::New } else { Inserted::Exists }
}

/// The ids in order, as two columns.
pub(super) fn of_executions(ids: &[ExecutionId]) -> Parameters {
    let ids = in_order(ids, |id| *id);
    Parameters::new().executions(ids.iter().copied())
}

fn missing(what: &str, table: &'static str) -> StorageError {
    StorageError::Corrupt(format!("an execution has {what} and no row in {table}").into())
}

pub(super) async fn now(link: &mut Link, verb: Verb) -> Result<Timestamp> {
    let now = |row: &mut Columns<'_>| decode::instant(row, "now");
    let rows = link.read_with(verb, Parameters::new(), "the clock", now).await?;
    match rows.first() {
        Some(now) => Ok(*now),
        None => link.refuse(StorageError::Corrupt("the clock shows no time".into())),
    }
}

async fn clock(link: &mut Link, (): &()) -> Result<Timestamp> {
    now(link, Verb::Clock).await
}

async fn insert_submission(link: &mut Link, row: &Submission) -> Result<Inserted> {
    let parameters = Parameters::new()
        .value(&*row.key.namespace)
        .value(&*row.key.key)
        .flow(row.flow)
        .value(row.content_hash.as_slice())
        .value(row.request.0);
    link.execute(Verb::InsertSubmission, parameters).await.map(inserted)
}

async fn read_submission(link: &mut Link, key: &SubmissionKey) -> Result<Option<Submission>> {
    let parameters = Parameters::new().value(&*key.namespace).value(&*key.key);
    let read = |row: &mut Columns<'_>| decode::submission(row, key);
    let rows = link.read_with(Verb::ReadSubmission, parameters, "submission", read).await?;
    Ok(rows.into_iter().next())
}

async fn insert_flow(link: &mut Link, row: &Flow) -> Result<Inserted> {
    let parameters = Parameters::new()
        .flow(row.key)
        .value(&*row.namespace)
        .value(row.instance_tag.as_deref())
        .value(row.closing.map(|policy| i16::from(codes::close_policy(policy))))
        .value(row.closed_by.map(|request| request.0))
        .value(codes::bits(row.revision))
        .value(row.tags.text())
        .value(row.content_hash.as_slice())
        .value(row.request.0)
        .value(row.created_at.0);
    link.execute(Verb::InsertFlow, parameters).await.map(inserted)
}

async fn read_flow(link: &mut Link, key: &FlowKey) -> Result<Option<Flow>> {
    link.read_one(Verb::ReadFlow, Parameters::new().flow(*key)).await
}

async fn insert_executions(link: &mut Link, rows: &[NewExecution]) -> Result<()> {
    let leased = rows.iter().any(|row| row.execution.lease.is_some());
    assert!(!leased, "an execution is inserted without a lease");
    let rows = in_order(rows, |row| row.execution.id);
    let changing = || rows.iter().map(|row| &row.execution);
    let constant = || rows.iter().map(|row| &row.definition);
    let backoff = || changing().map(|row| codes::backoff(row.retry.backoff));
    let parameters = Parameters::new()
        .executions(changing().map(|row| &row.id))
        .column(changing().map(|row| row.flow.0))
        .column(changing().map(|row| i16::from(row.state.code())))
        .column(changing().map(|row| row.cause.map(|cause| i16::from(codes::cause(cause)))))
        .column(changing().map(|row| i64::from(row.incarnation)))
        .column(changing().map(|row| row.propagated))
        .column(changing().map(|row| row.has_in))
        .column(changing().map(|row| row.has_inputs))
        .column(changing().map(|row| row.has_out))
        .column(changing().map(|row| row.not_before.0))
        .column(changing().map(|row| row.deadline.map(|at| at.0)))
        .column(changing().map(|row| i64::from(row.attempt)))
        .column(changing().map(|row| i64::from(row.charged)))
        .column(changing().map(|row| i64::from(row.give_backs)))
        .column(changing().map(|row| codes::bits(row.epoch)))
        .column(changing().map(|row| row.finished_at.map(|at| at.0)))
        .column(changing().map(|row| i64::from(row.retry.max_attempts)))
        .column(backoff().map(|backoff| small(backoff.kind)))
        .column(backoff().map(|backoff| i64::from(backoff.delay_ms)))
        .column(backoff().map(|backoff| backoff.factor.map(i64::from)))
        .column(backoff().map(|backoff| backoff.cap_ms.map(i64::from)))
        .column(changing().map(|row| row.retry.attempt_timeout_ms.map(i64::from)))
        .column(constant().map(|row| &*row.name))
        .column(constant().map(|row| &*row.kind))
        .column(constant().map(|row| &*row.lane))
        .column(constant().map(|row| row.priority))
        .column(constant().map(|row| &*row.namespace))
        .column(constant().map(|row| row.instance_tag.as_deref()))
        .column(constant().map(|row| &*row.payload));
    link.execute(Verb::InsertExecutions, parameters).await.map(drop)
}

async fn insert_groups(link: &mut Link, rows: &[Group]) -> Result<()> {
    let rows = in_order(rows, |row| row.downstream);
    let join = || rows.iter().map(|row| codes::join(row.policy));
    let parameters = Parameters::new()
        .executions(rows.iter().map(|row| &row.downstream))
        .column(rows.iter().map(|row| row.flow.0))
        .column(join().map(|join| small(join.kind)))
        .column(join().map(|join| join.k.map(i64::from)))
        .column(join().map(|join| join.on_satisfied.map(small)))
        .column(rows.iter().map(|row| i64::from(row.edges)))
        .column(rows.iter().map(|row| i64::from(row.satisfied)))
        .column(rows.iter().map(|row| i64::from(row.unsatisfied)))
        .column(rows.iter().map(|row| i16::from(codes::decision(row.decision))));
    link.execute(Verb::InsertGroups, parameters).await.map(drop)
}

/// The three columns of the keys of edges.
pub(super) fn of_edges<'a>(keys: impl Iterator<Item = &'a EdgeKey> + Clone) -> Parameters {
    let leaving = keys.clone().find(|key| key.downstream.partition != key.upstream.partition);
    assert_eq!(leaving, None, "an edge leaves its flow");
    Parameters::new()
        .executions(keys.clone().map(|key| &key.downstream))
        .column(keys.map(|key| key.upstream.uuid))
}

async fn insert_edges(link: &mut Link, rows: &[Edge]) -> Result<()> {
    let rows = in_order(rows, |row| row.key);
    let parameters = of_edges(rows.iter().map(|row| &row.key))
        .column(rows.iter().map(|row| i16::from(row.accepts.bits())))
        .column(rows.iter().map(|row| i16::from(codes::resolution(row.resolution))))
        .column(rows.iter().map(|row| row.upstream_incarnation.map(i64::from)))
        .column(rows.iter().map(|row| row.input.map(|outcome| i16::from(codes::outcome(outcome)))))
        .column(rows.iter().map(|row| row.passes_as.as_deref()));
    link.execute(Verb::InsertEdges, parameters).await.map(drop)
}

async fn insert_flow_changes(link: &mut Link, flows: &[FlowKey]) -> Result<()> {
    let flows = keys(flows);
    link.execute(Verb::InsertFlowChanges, Parameters::new().flows(&flows)).await.map(drop)
}

async fn read_grants(link: &mut Link, request: &RequestId) -> Result<Vec<Grant>> {
    link.read(Verb::ReadGrants, Parameters::new().value(request.0)).await
}

async fn claim_executions(link: &mut Link, query: &ClaimQuery) -> Result<Vec<Grant>> {
    assert!(!query.lanes.is_empty(), "a claim names its lanes");
    let kinds = || query.kinds.iter().map(|kind| &**kind).collect::<Vec<&str>>();
    let except = || query.except.iter().map(|id| id.uuid).collect::<Vec<uuid::Uuid>>();
    let parameters = Parameters::new()
        .value(i64::from(query.charge))
        .value(codes::bits(query.nonce))
        .value(query.request.0)
        .value(query.now.0)
        .value((query.now + query.lease).0)
        .value(&*query.worker)
        .value(&*query.instance)
        .value(i64::from(query.limit))
        .column(query.lanes.iter().map(|lane| &**lane))
        .value(i32::from(query.partitions.start))
        .value(i32::from(query.partitions.end))
        .value(query.namespace.as_deref())
        .value((!query.kinds.is_empty()).then(kinds))
        .value((!query.except.is_empty()).then(except));
    let mut grants: Vec<Grant> = link.read(Verb::ClaimExecutions, parameters).await?;
    grants.sort_by_key(Grant::claim_key);
    Ok(grants)
}

async fn lock_executions(link: &mut Link, keys: &[ExecutionId]) -> Result<Vec<Execution>> {
    link.read(Verb::LockExecutions, of_executions(keys)).await
}

async fn take_executions(link: &mut Link, keys: &[ExecutionId]) -> Result<Vec<Execution>> {
    link.read(Verb::TakeExecutions, of_executions(keys)).await
}

fn lease<T>(row: &Execution, field: impl Fn(&Lease) -> T) -> Option<T> {
    row.lease.as_ref().map(field)
}

pub(super) fn resumed_outcome(row: &Execution) -> Option<u8> {
    row.resumed?.outcome.map(codes::outcome)
}

async fn write_executions(link: &mut Link, rows: &[ExecutionWrite]) -> Result<Vec<ExecutionId>> {
    let rows = in_order(rows, |row| row.after.id);
    let after = || rows.iter().map(|row| &row.after);
    let parameters = Parameters::new()
        .executions(after().map(|row| &row.id))
        .column(rows.iter().map(|row| i16::from(row.guard.state.code())))
        .column(rows.iter().map(|row| codes::bits(row.guard.epoch)))
        .column(after().map(|row| i16::from(row.state.code())))
        .column(after().map(|row| row.cause.map(|cause| i16::from(codes::cause(cause)))))
        .column(after().map(|row| i64::from(row.incarnation)))
        .column(after().map(|row| row.propagated))
        .column(after().map(|row| row.has_in))
        .column(after().map(|row| row.has_inputs))
        .column(after().map(|row| row.has_out))
        .column(after().map(|row| row.not_before.0))
        .column(after().map(|row| row.deadline.map(|at| at.0)))
        .column(after().map(|row| i64::from(row.attempt)))
        .column(after().map(|row| i64::from(row.charged)))
        .column(after().map(|row| i64::from(row.give_backs)))
        .column(after().map(|row| row.resumed.map(|resumed| codes::bits(resumed.epoch))))
        .column(after().map(|row| resumed_outcome(row).map(i16::from)))
        .column(after().map(|row| codes::bits(row.epoch)))
        .column(after().map(|row| lease(row, |lease| codes::bits(lease.nonce))))
        .column(after().map(|row| lease(row, |lease| lease.request.0)))
        .column(after().map(|row| lease(row, |lease| lease.granted_at.0)))
        .column(after().map(|row| lease(row, |lease| lease.expires_at.0)))
        .column(after().map(|row| row.finished_at.map(|at| at.0)))
        .column(rows.iter().map(|row| row.result == ResultChange::Keep))
        .column(rows.iter().map(|row| match &row.result {
            ResultChange::Keep | ResultChange::Clear => None,
            ResultChange::Set(bytes) => Some(&**bytes),
        }));
    let id = |row: &mut Columns<'_>| decode::execution_id(row, "id");
    let written = link.read_with(Verb::WriteExecutions, parameters, "execution", id).await?;
    Ok(sorted(written))
}

async fn write_progress(link: &mut Link, row: &ProgressWrite) -> Result<u64> {
    let parameters = Parameters::new()
        .value(i32::from(row.key.partition.0))
        .value(row.key.uuid)
        .value(codes::bits(row.epoch))
        .value(i64::from(row.progress.attempt))
        .value(codes::bits(row.progress.sequence))
        .value(&*row.value);
    link.execute(Verb::WriteProgress, parameters).await
}

pub(super) fn sorted<T: Ord>(mut keys: Vec<T>) -> Vec<T> {
    keys.sort_unstable();
    keys
}

async fn insert_attempts(link: &mut Link, rows: &[Attempt]) -> Result<()> {
    let rows = in_order(rows, |row| row.key);
    let reported = || rows.iter().map(|row| codes::reported(row.reported));
    let parameters = Parameters::new()
        .executions(rows.iter().map(|row| &row.key.execution))
        .column(rows.iter().map(|row| i64::from(row.key.incarnation)))
        .column(rows.iter().map(|row| i64::from(row.key.attempt)))
        .column(rows.iter().map(|row| codes::bits(row.epoch)))
        .column(rows.iter().map(|row| codes::bits(row.nonce)))
        .column(rows.iter().map(|row| i16::from(codes::attempt_end(row.end))))
        .column(reported().map(|reported| small(reported.kind)))
        .column(reported().map(|reported| reported.value))
        .column(rows.iter().map(|row| codes::bits(row.payload_hash)))
        .column(rows.iter().map(|row| row.granted_at.0))
        .column(rows.iter().map(|row| row.ended_at.0));
    match link.execute(Verb::InsertAttempts, parameters).await? {
        count if count == rows.len() as u64 => Ok(()),
        _ => link.refuse(missing("an attempt", "execution")),
    }
}

async fn read_attempt(link: &mut Link, key: &AttemptKey) -> Result<Option<Attempt>> {
    let parameters = Parameters::new()
        .value(i32::from(key.execution.partition.0))
        .value(key.execution.uuid)
        .value(i64::from(key.incarnation))
        .value(i64::from(key.attempt));
    link.read_one(Verb::ReadAttempt, parameters).await
}

async fn insert_events(link: &mut Link, rows: &[NewEvent]) -> Result<()> {
    let rows = in_order(rows, NewEvent::order);
    let parameters = Parameters::new()
        .events(rows.iter().map(|row| row.key()))
        .column(rows.iter().map(|row| row.outcome().map(|one| i16::from(codes::outcome(one)))))
        .column(rows.iter().map(|row| row.flow.0))
        .column(rows.iter().map(|row| row.occurred_at.0));
    match link.execute(Verb::InsertEvents, parameters).await? {
        count if count == rows.len() as u64 => Ok(()),
        _ => link.refuse(missing("an event", "execution")),
    }
}

async fn lock_groups(link: &mut Link, keys: &[ExecutionId]) -> Result<Vec<Group>> {
    link.read(Verb::LockGroups, of_executions(keys)).await
}

async fn read_groups(link: &mut Link, keys: &[ExecutionId]) -> Result<Vec<Group>> {
    link.read(Verb::ReadGroups, of_executions(keys)).await
}

async fn pending_edges(link: &mut Link, groups: &[ExecutionId]) -> Result<Vec<PendingEdge>> {
    link.read(Verb::PendingEdges, of_executions(groups)).await
}

async fn resolve_edges(link: &mut Link, rows: &[EdgeFlip]) -> Result<Vec<EdgeKey>> {
    let rows = in_order(rows, |row| row.key);
    let parameters = of_edges(rows.iter().map(|row| &row.key))
        .column(rows.iter().map(|row| i16::from(codes::resolution(row.resolution))))
        .column(rows.iter().map(|row| i64::from(row.upstream_incarnation)))
        .column(rows.iter().map(|row| row.input.map(|outcome| i16::from(codes::outcome(outcome)))))
        .column(rows.iter().map(|row| row.guarded == Guarded::Yes));
    Ok(sorted(link.read(Verb::ResolveEdges, parameters).await?))
}

async fn write_groups(link: &mut Link, rows: &[Group]) -> Result<u64> {
    let rows = in_order(rows, |row| row.downstream);
    let parameters = Parameters::new()
        .executions(rows.iter().map(|row| &row.downstream))
        .column(rows.iter().map(|row| i64::from(row.satisfied)))
        .column(rows.iter().map(|row| i64::from(row.unsatisfied)))
        .column(rows.iter().map(|row| i16::from(codes::decision(row.decision))));
    link.execute(Verb::WriteGroups, parameters).await
}

async fn with_pending_edges(link: &mut Link, ids: &[ExecutionId]) -> Result<Vec<ExecutionId>> {
    let id = |row: &mut Columns<'_>| decode::execution_id(row, "upstream");
    link.read_with(Verb::WithPendingEdges, of_executions(ids), "edge", id).await
}

async fn insert_sibling_requests(link: &mut Link, rows: &[SiblingRequest]) -> Result<()> {
    let rows = in_order(rows, |row| row.group);
    let parameters = Parameters::new()
        .executions(rows.iter().map(|row| &row.group))
        .column(rows.iter().map(|row| row.flow.0));
    link.execute(Verb::InsertSiblingRequests, parameters).await.map(drop)
}

async fn read_closings(link: &mut Link, flows: &[FlowKey]) -> Result<Vec<(FlowKey, ClosePolicy)>> {
    link.read(Verb::ReadClosings, Parameters::new().flows(flows)).await
}
