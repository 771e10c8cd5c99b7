//! The verbs of a transaction on SQLite, one function each. Never decides anything.
//!
//! Set-based verbs run their one statement once a row, in key order: inside a process there is no
//! round trip to save. Parameters are bound in the order in which the SQL first names them.

use std::sync::Arc;

use rusqlite::{ToSql, params};

use super::columns::{Columns, query, query_with};
use super::feed::{
    insert_subscription, lock_stream_head, lock_subscription, lock_unnumbered_events,
    write_positions, write_stream_head, write_subscription,
};
use super::flows::{
    delete_cancel_backlog, delete_sibling_requests, insert_cancel_backlog, insert_request,
    lock_flow, read_fed_groups, read_members, read_request, write_flow, write_joins, write_request,
};
use super::growth::{count_edges, read_ancestry, read_edges};
use super::inputs::read_inputs;
use super::lent::Lent;
use super::offload::{self, Effort, Rows};
use super::pool::{Held, Role, Session, Shared};
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
use super::{error, sql};
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::state::ClosePolicy;
use crate::storage::decode::{self, FromColumns};
use crate::storage::rows::in_order;
use crate::storage::{
    Attempt, AttemptKey, ClaimQuery, CommitError, Edge, EdgeFlip, EdgeKey, Execution,
    ExecutionWrite, Flow, Grant, Group, Guarded, Inserted, NewEvent, NewExecution, PendingEdge,
    ProgressWrite, Result, ResultChange, SiblingRequest, StorageError, Submission, SubmissionKey,
    Transaction, Verb, codes,
};
use crate::time::Timestamp;
use crate::with_verbs;

/// A transaction on SQLite, the only writer of its database.
pub struct SqliteTransaction {
    held: Option<Held>,
    shared: Arc<Shared>,
}

impl SqliteTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>) -> Result<Self> {
        let shared = Arc::clone(shared);
        let mut held = Some(shared.acquire(Role::Writer).await?);
        let offload = shared.options.offload;
        let tried: Result<()> =
            offload::run(offload, Effort::Brief, &mut held, &(), |held, ()| held.try_begin_write())
                .await;
        if let Err(StorageError::Contention(_)) = tried
            && !shared.options.busy_timeout.is_zero()
        {
            // A writer of another process is at work: wait for it where waiting hurts nobody.
            let wait = |held: &mut Held, (): &()| held.begin_write();
            offload::run(offload, Effort::Long, &mut held, &(), wait).await?;
        } else {
            tried?;
        }
        Ok(Self { held, shared })
    }

    async fn verb<A, T>(
        &mut self,
        which: Verb,
        verb: fn(Session<'_>, &A) -> Result<T>,
        arguments: &A,
    ) -> Result<T>
    where
        A: Rows + ToOwned + Sync + ?Sized + 'static,
        A::Owned: Send + 'static,
        T: Send + 'static,
    {
        let offload = self.shared.options.offload;
        let effort = Effort::of(which, arguments.rows());
        let run = move |held: &mut Held, arguments: &A| held.verb(verb, arguments);
        let result = offload::run(offload, effort, &mut self.held, arguments, run).await;
        if result.is_err() {
            self.held = None;
        }
        result
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
        impl Transaction for SqliteTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                self.verb(Verb::$tv, $tm, argument!($($ta)?)).await
            })*

            async fn commit(mut self) -> Result<(), CommitError> {
                let offload = self.shared.options.offload;
                let commit = |held: &mut Held, (): &()| held.commit();
                offload::run(offload, Effort::Long, &mut self.held, &(), commit).await
            }

            async fn rollback(mut self) {
                let offload = self.shared.options.offload;
                let rolled_back: Result<()> =
                    offload::run(offload, Effort::Brief, &mut self.held, &(), |held, ()| {
                        held.roll_back();
                        Ok(())
                    })
                    .await;
                // An error says that the transaction was over already, or is rolled back elsewhere.
                drop(rolled_back);
            }
        }

        impl Transaction for Lent {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                self.verb($tm, argument!($($ta)?)).await
            })*

            /// The caller's to do.
            async fn commit(self) -> Result<(), CommitError> {
                Ok(())
            }

            /// The caller's to do.
            async fn rollback(self) {}
        }
    };
}
with_verbs!(transaction);

/// Runs a statement that changes rows once for each parameter list; returns how many it changed.
pub(super) fn change(
    session: Session<'_>,
    sql: &'static str,
    parameters: &[&dyn ToSql],
) -> Result<usize> {
    session.prepare(sql)?.execute(parameters).map_err(|e| error::of_verb(&e))
}

/// Runs a query once for each execution, in id order.
pub(super) fn by_id<T: FromColumns>(
    session: Session<'_>,
    sql: &'static str,
    ids: &[ExecutionId],
) -> Result<Vec<T>> {
    by_id_with(session, sql, T::TABLE, ids, |row| T::from_columns(row))
}

pub(super) fn by_id_with<T>(
    session: Session<'_>,
    sql: &'static str,
    table: &'static str,
    ids: &[ExecutionId],
    read: impl Fn(&mut Columns<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = session.prepare(sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in in_order(ids, |id| *id) {
        let parameters = params![id.partition.0, id.uuid.as_bytes()];
        found.extend(query_with(&mut statement, parameters, table, &read)?);
    }
    Ok(found)
}

fn missing(what: &str, id: ExecutionId) -> StorageError {
    StorageError::Corrupt(format!("execution {id} has {what} and no row").into())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::unnecessary_wraps,
    reason = "every verb has this form"
)]
fn clock(session: Session<'_>, (): &()) -> Result<Timestamp> {
    Ok(session.now())
}

fn insert_submission(session: Session<'_>, row: &Submission) -> Result<Inserted> {
    let parameters = params![
        &*row.key.namespace,
        &*row.key.key,
        row.flow.partition.0,
        row.flow.id.0.as_bytes(),
        row.content_hash,
        row.request.0.as_bytes(),
    ];
    change(session, sql!(insert_submission), parameters).map(inserted)
}

pub(super) fn inserted(rows: usize) -> Inserted {
    assert!(rows <= 1, "an insert of one row changed {rows}");
    if rows == 1 { Inserted::New } else { Inserted::Exists }
}

fn read_submission(session: Session<'_>, key: &SubmissionKey) -> Result<Option<Submission>> {
    let mut statement = session.prepare(sql!(read_submission))?;
    let parameters = params![&*key.namespace, &*key.key];
    let rows =
        query_with(&mut statement, parameters, "submission", |row| decode::submission(row, key))?;
    Ok(rows.into_iter().next())
}

fn insert_flow(session: Session<'_>, row: &Flow) -> Result<Inserted> {
    let parameters = params![
        row.key.partition.0,
        row.key.id.0.as_bytes(),
        &*row.namespace,
        row.instance_tag.as_deref(),
        row.closing.map(codes::close_policy),
        row.closed_by.map(|request| request.0.into_bytes()),
        codes::bits(row.revision),
        row.tags.text(),
        row.content_hash,
        row.request.0.as_bytes(),
        row.created_at.0,
    ];
    change(session, sql!(insert_flow), parameters).map(inserted)
}

fn read_flow(session: Session<'_>, key: &FlowKey) -> Result<Option<Flow>> {
    flow(session, sql!(read_flow), key)
}

pub(super) fn flow(session: Session<'_>, sql: &'static str, key: &FlowKey) -> Result<Option<Flow>> {
    let mut statement = session.prepare(sql)?;
    let parameters = params![key.partition.0, key.id.0.as_bytes()];
    let rows = query(&mut statement, parameters)?;
    Ok(rows.into_iter().next())
}

fn insert_executions(session: Session<'_>, rows: &[NewExecution]) -> Result<()> {
    for row in in_order(rows, |row| row.execution.id) {
        let (execution, definition) = (&row.execution, &row.definition);
        assert!(execution.lease.is_none(), "an execution is inserted without a lease");
        let backoff = codes::backoff(execution.retry.backoff);
        let parameters = params![
            execution.id.partition.0,
            execution.id.uuid.as_bytes(),
            execution.flow.0.as_bytes(),
            execution.state.code(),
            execution.cause.map(codes::cause),
            execution.incarnation,
            execution.propagated,
            execution.has_in,
            execution.has_inputs,
            execution.has_out,
            execution.not_before.0,
            execution.deadline.map(|at| at.0),
            execution.attempt,
            execution.charged,
            execution.give_backs,
            codes::bits(execution.epoch),
            execution.finished_at.map(|at| at.0),
            execution.retry.max_attempts,
            backoff.kind,
            backoff.delay_ms,
            backoff.factor,
            backoff.cap_ms,
            execution.retry.attempt_timeout_ms,
            &*definition.name,
            &*definition.kind,
            &*definition.lane,
            definition.priority,
            &*definition.namespace,
            definition.instance_tag.as_deref(),
            &*definition.payload,
        ];
        change(session, sql!(insert_executions), parameters)?;
    }
    Ok(())
}

fn insert_groups(session: Session<'_>, rows: &[Group]) -> Result<()> {
    for row in in_order(rows, |row| row.downstream) {
        let join = codes::join(row.policy);
        let parameters = params![
            row.downstream.partition.0,
            row.downstream.uuid.as_bytes(),
            row.flow.0.as_bytes(),
            join.kind,
            join.k,
            join.on_satisfied,
            row.edges,
            row.satisfied,
            row.unsatisfied,
            codes::decision(row.decision),
        ];
        change(session, sql!(insert_groups), parameters)?;
    }
    Ok(())
}

fn insert_edges(session: Session<'_>, rows: &[Edge]) -> Result<()> {
    for row in in_order(rows, |row| row.key) {
        assert_one_partition(row.key);
        let parameters = params![
            row.key.downstream.partition.0,
            row.key.downstream.uuid.as_bytes(),
            row.key.upstream.uuid.as_bytes(),
            row.accepts.bits(),
            codes::resolution(row.resolution),
            row.upstream_incarnation,
            row.input.map(codes::outcome),
            row.passes_as.as_deref(),
        ];
        change(session, sql!(insert_edges), parameters)?;
    }
    Ok(())
}

pub(super) fn assert_one_partition(key: EdgeKey) {
    let (downstream, upstream) = (key.downstream, key.upstream);
    assert_eq!(downstream.partition, upstream.partition, "an edge leaves its flow: {key:?}");
}

fn insert_flow_changes(session: Session<'_>, flows: &[FlowKey]) -> Result<()> {
    for flow in in_order(flows, |flow| *flow) {
        let parameters = params![flow.partition.0, flow.id.0.as_bytes()];
        change(session, sql!(insert_flow_changes), parameters)?;
    }
    Ok(())
}

fn read_grants(session: Session<'_>, request: &RequestId) -> Result<Vec<Grant>> {
    let mut statement = session.prepare(sql!(read_grants))?;
    let parameters = params![request.0.as_bytes()];
    query(&mut statement, parameters)
}

fn claim_executions(session: Session<'_>, claim: &ClaimQuery) -> Result<Vec<Grant>> {
    assert!(!claim.lanes.is_empty(), "a claim names its lanes");
    let mut statement = session.prepare(sql!(claim_executions))?;
    let except = || {
        let hex = |id: &ExecutionId| id.uuid.simple().to_string();
        json(&claim.except.iter().map(hex).collect::<Vec<String>>())
    };
    let parameters = params![
        claim.charge,
        codes::bits(claim.nonce),
        claim.request.0.as_bytes(),
        claim.now.0,
        (claim.now + claim.lease).0,
        &*claim.worker,
        &*claim.instance,
        json(&claim.lanes),
        claim.partitions.start,
        claim.partitions.end,
        claim.namespace.as_deref(),
        (!claim.kinds.is_empty()).then(|| json(&claim.kinds)),
        (!claim.except.is_empty()).then(except),
        claim.limit,
    ];
    let mut grants: Vec<Grant> = query(&mut statement, parameters)?;
    grants.sort_by_key(Grant::claim_key);
    Ok(grants)
}

/// A list for `json_each`.
pub(super) fn json(list: &[impl serde::Serialize]) -> String {
    serde_json::to_string(list).expect("a list of texts has a JSON form")
}

fn lock_executions(session: Session<'_>, keys: &[ExecutionId]) -> Result<Vec<Execution>> {
    by_id(session, sql!(lock_executions), keys)
}

fn take_executions(session: Session<'_>, keys: &[ExecutionId]) -> Result<Vec<Execution>> {
    by_id(session, sql!(take_executions), keys)
}

fn write_executions(session: Session<'_>, rows: &[ExecutionWrite]) -> Result<Vec<ExecutionId>> {
    let mut written = Vec::with_capacity(rows.len());
    for row in in_order(rows, |row| row.after.id) {
        let changed = write_execution(session, row)?;
        assert!(changed <= 1, "a write by primary key changed {changed} rows");
        if changed == 1 {
            written.push(row.after.id);
        }
    }
    Ok(written)
}

fn write_execution(session: Session<'_>, row: &ExecutionWrite) -> Result<usize> {
    let after = &row.after;
    let result = match &row.result {
        ResultChange::Keep | ResultChange::Clear => None,
        ResultChange::Set(bytes) => Some(&**bytes),
    };
    let parameters = params![
        after.state.code(),
        after.cause.map(codes::cause),
        after.incarnation,
        after.propagated,
        after.has_in,
        after.has_inputs,
        after.has_out,
        after.not_before.0,
        after.deadline.map(|at| at.0),
        after.attempt,
        after.charged,
        after.give_backs,
        after.resumed.map(|resumed| codes::bits(resumed.epoch)),
        after.resumed.and_then(|resumed| resumed.outcome).map(codes::outcome),
        codes::bits(after.epoch),
        after.lease.map(|lease| codes::bits(lease.nonce)),
        after.lease.map(|lease| lease.request.0.into_bytes()),
        after.lease.map(|lease| lease.granted_at.0),
        after.lease.map(|lease| lease.expires_at.0),
        after.finished_at.map(|at| at.0),
        row.result == ResultChange::Keep,
        result,
        after.id.partition.0,
        after.id.uuid.as_bytes(),
        row.guard.state.code(),
        codes::bits(row.guard.epoch),
    ];
    change(session, sql!(write_executions), parameters)
}

fn write_progress(session: Session<'_>, row: &ProgressWrite) -> Result<u64> {
    let parameters = params![
        row.progress.attempt,
        codes::bits(row.progress.sequence),
        &*row.value,
        row.key.partition.0,
        row.key.uuid.as_bytes(),
        codes::bits(row.epoch),
    ];
    Ok(u64::from(change(session, sql!(write_progress), parameters)? == 1))
}

fn insert_attempts(session: Session<'_>, rows: &[Attempt]) -> Result<()> {
    for row in in_order(rows, |row| row.key) {
        let reported = codes::reported(row.reported);
        let parameters = params![
            row.key.incarnation,
            row.key.attempt,
            codes::bits(row.epoch),
            codes::bits(row.nonce),
            codes::attempt_end(row.end),
            reported.kind,
            reported.value,
            codes::bits(row.payload_hash),
            row.granted_at.0,
            row.ended_at.0,
            row.key.execution.partition.0,
            row.key.execution.uuid.as_bytes(),
        ];
        if change(session, sql!(insert_attempts), parameters)? == 0 {
            return Err(missing("an attempt", row.key.execution));
        }
    }
    Ok(())
}

fn read_attempt(session: Session<'_>, key: &AttemptKey) -> Result<Option<Attempt>> {
    let mut statement = session.prepare(sql!(read_attempt))?;
    let (execution, incarnation, attempt) = (key.execution, key.incarnation, key.attempt);
    let parameters =
        params![execution.partition.0, execution.uuid.as_bytes(), incarnation, attempt];
    let rows = query(&mut statement, parameters)?;
    Ok(rows.into_iter().next())
}

fn insert_events(session: Session<'_>, rows: &[NewEvent]) -> Result<()> {
    for row in in_order(rows, NewEvent::order) {
        let lease = codes::lease_event(row.lease());
        let parameters = params![
            row.flow.0.as_bytes(),
            row.incarnation,
            lease.attempt,
            lease.change,
            lease.expires_at,
            row.outcome().map(codes::outcome),
            row.occurred_at.0,
            row.execution.partition.0,
            row.execution.uuid.as_bytes(),
        ];
        if change(session, sql!(insert_events), parameters)? == 0 {
            return Err(missing("an event", row.execution));
        }
    }
    Ok(())
}

fn lock_groups(session: Session<'_>, keys: &[ExecutionId]) -> Result<Vec<Group>> {
    by_id(session, sql!(lock_groups), keys)
}

fn read_groups(session: Session<'_>, keys: &[ExecutionId]) -> Result<Vec<Group>> {
    by_id(session, sql!(read_groups), keys)
}

fn pending_edges(session: Session<'_>, groups: &[ExecutionId]) -> Result<Vec<PendingEdge>> {
    by_id(session, sql!(pending_edges), groups)
}

fn resolve_edges(session: Session<'_>, rows: &[EdgeFlip]) -> Result<Vec<EdgeKey>> {
    let mut flipped = Vec::with_capacity(rows.len());
    for row in in_order(rows, |row| row.key) {
        assert_one_partition(row.key);
        let parameters = params![
            codes::resolution(row.resolution),
            row.upstream_incarnation,
            row.input.map(codes::outcome),
            row.key.downstream.partition.0,
            row.key.downstream.uuid.as_bytes(),
            row.key.upstream.uuid.as_bytes(),
            row.guarded == Guarded::Yes,
        ];
        if change(session, sql!(resolve_edges), parameters)? == 1 {
            flipped.push(row.key);
        }
    }
    Ok(flipped)
}

fn write_groups(session: Session<'_>, rows: &[Group]) -> Result<u64> {
    let mut changed = 0;
    for row in in_order(rows, |row| row.downstream) {
        let parameters = params![
            row.satisfied,
            row.unsatisfied,
            codes::decision(row.decision),
            row.downstream.partition.0,
            row.downstream.uuid.as_bytes(),
        ];
        changed += u64::from(change(session, sql!(write_groups), parameters)? == 1);
    }
    Ok(changed)
}

fn with_pending_edges(session: Session<'_>, upstreams: &[ExecutionId]) -> Result<Vec<ExecutionId>> {
    let sql = sql!(with_pending_edges);
    by_id_with(session, sql, "edge", upstreams, |row| decode::execution_id(row, "upstream"))
}

fn insert_sibling_requests(session: Session<'_>, rows: &[SiblingRequest]) -> Result<()> {
    for row in in_order(rows, |row| row.group) {
        let group = row.group;
        let parameters = params![group.partition.0, group.uuid.as_bytes(), row.flow.0.as_bytes()];
        change(session, sql!(insert_sibling_requests), parameters)?;
    }
    Ok(())
}

fn read_closings(session: Session<'_>, flows: &[FlowKey]) -> Result<Vec<(FlowKey, ClosePolicy)>> {
    let mut statement = session.prepare(sql!(read_closings))?;
    let mut closed = Vec::new();
    for flow in in_order(flows, |flow| *flow) {
        let parameters = params![flow.partition.0, flow.id.0.as_bytes()];
        closed.append(&mut query(&mut statement, parameters)?);
    }
    Ok(closed)
}
