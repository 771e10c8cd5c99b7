//! The verbs of summaries on SQLite, one function each. Never decides anything.

use rusqlite::params;

use super::columns::{query, query_with};
use super::pool::Session;
use super::{error, sql};
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::rows::in_order;
use crate::storage::{ChangeId, CountQuery, Result, Summary, codes, decode};
use crate::summary::{Counted, StateCounts};

/// A counter as it is stored.
fn counter(executions: u64) -> i64 {
    i64::try_from(executions).expect("no database holds so many rows")
}

fn columns(StateCounts(counts): StateCounts) -> [i64; 9] {
    counts.map(counter)
}

fn store(session: Session<'_>, sql: &'static str, row: &Summary) -> Result<usize> {
    let [blocked, ready, active, suspended, succeeded, failed, cancelled, expired, skipped] =
        columns(row.counts);
    let mut statement = session.prepare(sql)?;
    let stored = statement.execute(rusqlite::named_params! {
        ":partition": row.flow.partition.0,
        ":flow": row.flow.id.0.as_bytes(),
        ":blocked": blocked,
        ":ready": ready,
        ":active": active,
        ":suspended": suspended,
        ":succeeded": succeeded,
        ":failed": failed,
        ":cancelled": cancelled,
        ":expired": expired,
        ":skipped": skipped,
        ":status": codes::flow_status(row.status),
        ":ended_at": row.ended_at.map(|at| at.0),
        ":last_change": counter(row.last_change.0),
    });
    stored.map_err(|e| error::of_verb(&e))
}

pub(super) fn insert_summary(session: Session<'_>, row: &Summary) -> Result<()> {
    store(session, sql!(insert_summary), row).map(drop)
}

pub(super) fn lock_summaries(session: Session<'_>, flows: &[FlowKey]) -> Result<Vec<Summary>> {
    let mut statement = session.prepare(sql!(lock_summaries))?;
    let mut locked = Vec::with_capacity(flows.len());
    for flow in in_order(flows, |flow| *flow) {
        let parameters = params![flow.partition.0, flow.id.0.as_bytes()];
        locked.append(&mut query(&mut statement, parameters)?);
    }
    Ok(locked)
}

pub(super) fn delete_flow_changes(session: Session<'_>, flow: &FlowKey) -> Result<Vec<ChangeId>> {
    let mut statement = session.prepare(sql!(delete_flow_changes))?;
    let parameters = params![flow.partition.0, flow.id.0.as_bytes()];
    let mut taken =
        query_with(&mut statement, parameters, "flow_change", |row| decode::change_id(row))?;
    taken.sort_unstable();
    Ok(taken)
}

pub(super) fn count_executions(session: Session<'_>, count: &CountQuery) -> Result<Vec<Counted>> {
    let (first, last) = count.flow.execution_range().into_inner();
    let mut statement = session.prepare(sql!(count_executions))?;
    let parameters = params![
        count.now.map(|now| now.0),
        count.flow.partition.0,
        count.flow.id.0.as_bytes(),
        first.as_bytes(),
        last.as_bytes(),
    ];
    query(&mut statement, parameters)
}

pub(super) fn unhandled_failure(
    session: Session<'_>,
    flow: &FlowKey,
) -> Result<Option<ExecutionId>> {
    let (first, last) = flow.execution_range().into_inner();
    let mut statement = session.prepare(sql!(unhandled_failure))?;
    let parameters =
        params![flow.partition.0, flow.id.0.as_bytes(), first.as_bytes(), last.as_bytes()];
    let found =
        query_with(&mut statement, parameters, "execution", |row| decode::execution_id(row, "id"))?;
    Ok(found.into_iter().next())
}

pub(super) fn write_summary(session: Session<'_>, row: &Summary) -> Result<u64> {
    Ok(u64::from(store(session, sql!(write_summary), row)? == 1))
}
