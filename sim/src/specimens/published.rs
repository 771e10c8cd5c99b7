//! The published cascade: an upstream is marked dispatched in a transaction of its own, then its
//! edges are advanced one by one, and the first error abandons the rest. Its reconciler looks for
//! unmarked upstreams only. Judged without I21, which is a rule of ours.

use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::identity::ExecutionId;
use sluicegate::policy::Decision;
use sluicegate::reconcile::Report;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{
    Consistency, EdgeFlip, EventKind, Execution, ExecutionWrite, Guarded, NewEvent, Page,
    PlanQuery, Resolution, Result, ResultChange, Scope, Snapshot, Storage, Transaction,
    UpstreamScan,
};
use sluicegate::transact::{Body, RetryBudget, Run, Verdict, transact};

use crate::actors::Stage;
use crate::driver::world::SimEnvironment;

/// Three tries, 5 and 10 ms apart.
const BUDGET: RetryBudget = RetryBudget {
    runs_max: 3,
    wait_base: Duration::from_millis(5),
    wait_cap: Duration::from_millis(10),
};
/// How long an unmarked upstream is left to the dispatchers.
const STALE: Duration = Duration::from_secs(1);
/// Rows of one scan.
const SCAN_ROWS: u32 = 1_000;

/// One pass of its dispatcher: every unmarked upstream.
pub(crate) async fn dispatch_pass<S: Storage>(stage: &Stage<S>) -> Result<Report, EngineError> {
    pass(stage, false).await
}

/// One tick of its reconciler: every upstream that is unmarked for long enough.
pub(crate) async fn reconciler_tick<S: Storage>(stage: &Stage<S>) -> Result<Report, EngineError> {
    pass(stage, true).await
}

async fn pass<S: Storage>(stage: &Stage<S>, stale_only: bool) -> Result<Report, EngineError> {
    let page = Page { scope: Scope::default(), after: None, limit: SCAN_ROWS };
    let mut reader = stage.storage.snapshot(Consistency::Statement).await?;
    let finished_by = match stale_only {
        true => Some(reader.read_clock().await? - STALE),
        false => None,
    };
    let found = reader.scan_upstreams(&UpstreamScan { page, finished_by }).await?;
    let mut report = Report { scanned: found.len() as u64, ..Report::default() };
    for upstream in found {
        match dispatch(stage, upstream).await {
            Ok(advanced) => report.reconciled += advanced,
            Err(_) => report.errors += 1,
        }
    }
    Ok(report)
}

async fn dispatch<S: Storage>(stage: &Stage<S>, upstream: ExecutionId) -> Result<u64, EngineError> {
    let environment = SimEnvironment { actor: stage.actor };
    if !transact(&stage.storage, &environment, &BUDGET, &Mark { upstream }).await? {
        return Ok(0);
    }
    let query = PlanQuery { upstreams: vec![upstream], limit: SCAN_ROWS };
    let downstreams = {
        let mut reader = stage.storage.snapshot(Consistency::Statement).await?;
        reader.plan_groups(&query).await?
    };
    for downstream in downstreams {
        let hop = OneEdge { upstream, downstream };
        transact(&stage.storage, &environment, &BUDGET, &hop).await?;
    }
    Ok(1)
}

/// Marks an upstream dispatched, once.
struct Mark {
    upstream: ExecutionId,
}

impl Body for Mark {
    type Out = bool;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<bool>> {
        let rows = transaction.lock_executions(&[self.upstream]).await?;
        let Some(row) = rows.first().filter(|row| row.state.is_terminal() && !row.propagated)
        else {
            return Ok(Verdict::Rollback(false));
        };
        let after = Execution { propagated: true, ..*row };
        let write = ExecutionWrite { guard: row.guard(), after, result: ResultChange::Keep };
        transaction.write_executions(&[write]).await?;
        Ok(Verdict::Commit(true))
    }
}

/// Advances one edge of one upstream.
struct OneEdge {
    upstream: ExecutionId,
    downstream: ExecutionId,
}

impl Body for OneEdge {
    type Out = ();

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<()>> {
        let groups = transaction.lock_groups(&[self.downstream]).await?;
        let Some(mut group) = groups.first().copied() else { return Ok(Verdict::Rollback(())) };
        let pending = transaction.pending_edges(&[self.downstream]).await?;
        let edge = pending.iter().find(|edge| edge.key.upstream == self.upstream);
        let Some((edge, outcome)) =
            edge.and_then(|edge| Some((edge, edge.upstream_state.outcome()?)))
        else {
            return Ok(Verdict::Rollback(()));
        };
        let resolution = match edge.accepts.contains(outcome) {
            true => Resolution::Satisfied,
            false => Resolution::Unsatisfied,
        };
        match resolution {
            Resolution::Satisfied => group.satisfied += 1,
            _ => group.unsatisfied += 1,
        }
        let undecided = group.decision == Decision::Undecided;
        if undecided {
            group.decision = group.policy.decide(group.edges, group.satisfied, group.unsatisfied);
        }
        let rows = transaction.lock_executions(&[self.downstream]).await?;
        transaction
            .resolve_edges(&[EdgeFlip {
                key: edge.key,
                resolution,
                upstream_incarnation: edge.upstream_incarnation,
                input: (undecided && resolution == Resolution::Satisfied).then_some(outcome),
                guarded: Guarded::Yes,
            }])
            .await?;
        transaction.write_groups(&[group]).await?;
        if undecided && group.decision != Decision::Undecided {
            release(transaction, &rows, group.decision).await?;
        }
        Ok(Verdict::Commit(()))
    }
}

async fn release<T: Transaction>(
    transaction: &mut T,
    rows: &[Execution],
    decision: Decision,
) -> Result<()> {
    let Some(row) = rows.first().filter(|row| row.state == State::Blocked) else { return Ok(()) };
    let now = transaction.clock().await?;
    let after = match decision {
        Decision::Satisfied => Execution { state: State::Ready, ..*row },
        _ => Execution {
            state: State::Terminal(Outcome::Skipped),
            cause: Some(Cause::Unsatisfiable),
            epoch: row.epoch + 1,
            finished_at: Some(now),
            propagated: !row.has_out,
            ..*row
        },
    };
    let write = ExecutionWrite { guard: row.guard(), after, result: ResultChange::Keep };
    transaction.write_executions(&[write]).await?;
    if let Some(outcome) = after.state.outcome() {
        let event = NewEvent {
            execution: row.id,
            flow: row.flow,
            incarnation: row.incarnation,
            kind: EventKind::Completed { outcome },
            occurred_at: now,
        };
        transaction.insert_events(&[event]).await?;
    }
    Ok(())
}
