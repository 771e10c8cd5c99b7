//! The verbs of retention, on SQLite, one function each. Never decides anything.

use rusqlite::{named_params, params};

use super::columns::query;
use super::pool::Session;
use super::sql;
use super::transaction::{by_id_with, change};
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::codes;
use crate::storage::decode;
use crate::storage::rows::in_order;
use crate::storage::{EndedFlow, EndedScan, EventKey, Result};

pub(super) fn scan_ended_flows(session: Session<'_>, scan: &EndedScan) -> Result<Vec<EndedFlow>> {
    let after = scan.after.unwrap_or(EndedFlow::FIRST);
    let parameters = named_params! {
        ":ended_by": scan.ended_by.0,
        ":after_ended_at": after.ended_at.0,
        ":after_partition": after.flow.partition.0,
        ":after_id": after.flow.id.0.as_bytes(),
        ":partition_from": scan.scope.partitions.start,
        ":partition_to": scan.scope.partitions.end,
        ":namespace": scan.scope.namespace.as_deref(),
        ":instance_tag": scan.scope.instance_tag.as_deref(),
        ":limit": scan.limit,
    };
    let mut statement = session.prepare(sql!(scan_ended_flows))?;
    query(&mut statement, parameters)
}

pub(super) fn count_events(session: Session<'_>, executions: &[ExecutionId]) -> Result<u64> {
    let sql = sql!(count_events);
    let counted =
        by_id_with(session, sql, "event", executions, |row| decode::total(row, "events"))?;
    Ok(counted.into_iter().sum())
}

pub(super) fn delete_attempts(session: Session<'_>, executions: &[ExecutionId]) -> Result<u64> {
    delete_by_id(session, sql!(delete_attempts), executions)
}

pub(super) fn delete_edges(session: Session<'_>, groups: &[ExecutionId]) -> Result<u64> {
    delete_by_id(session, sql!(delete_edges), groups)
}

pub(super) fn delete_groups(session: Session<'_>, groups: &[ExecutionId]) -> Result<u64> {
    delete_by_id(session, sql!(delete_groups), groups)
}

pub(super) fn delete_executions(session: Session<'_>, executions: &[ExecutionId]) -> Result<u64> {
    delete_by_id(session, sql!(delete_executions), executions)
}

pub(super) fn delete_requests(session: Session<'_>, flow: &FlowKey) -> Result<u64> {
    delete_by_flow(session, sql!(delete_requests), flow)
}

pub(super) fn delete_submission(session: Session<'_>, flow: &FlowKey) -> Result<u64> {
    delete_by_flow(session, sql!(delete_submission), flow)
}

pub(super) fn delete_summary(session: Session<'_>, flow: &FlowKey) -> Result<u64> {
    delete_by_flow(session, sql!(delete_summary), flow)
}

pub(super) fn delete_flow(session: Session<'_>, flow: &FlowKey) -> Result<u64> {
    delete_by_flow(session, sql!(delete_flow), flow)
}

pub(super) fn delete_events(session: Session<'_>, keys: &[EventKey]) -> Result<u64> {
    let mut deleted = 0;
    for EventKey { execution, incarnation, lease } in in_order(keys, |key| *key) {
        let lease = codes::lease_event(*lease);
        let parameters = params![
            execution.partition.0,
            execution.uuid.as_bytes(),
            incarnation,
            lease.attempt,
            lease.change,
            lease.expires_at,
        ];
        deleted += change(session, sql!(delete_events), parameters)? as u64;
    }
    Ok(deleted)
}

fn delete_by_id(session: Session<'_>, sql: &'static str, ids: &[ExecutionId]) -> Result<u64> {
    let mut deleted = 0;
    for id in in_order(ids, |id| *id) {
        deleted += change(session, sql, params![id.partition.0, id.uuid.as_bytes()])? as u64;
    }
    Ok(deleted)
}

fn delete_by_flow(session: Session<'_>, sql: &'static str, flow: &FlowKey) -> Result<u64> {
    Ok(change(session, sql, params![flow.partition.0, flow.id.0.as_bytes()])? as u64)
}
