//! The reads before a flow grows, on SQLite, one function each. Never writes.

use rusqlite::params;

use super::columns::{query, query_with};
use super::pool::Session;
use super::sql;
use super::transaction::{by_id, json};
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::rows::in_order;
use crate::storage::{Edge, EdgeKey, Result, decode};

pub(super) fn read_edges(session: Session<'_>, groups: &[ExecutionId]) -> Result<Vec<Edge>> {
    by_id(session, sql!(read_edges), groups)
}

pub(super) fn read_ancestry(
    session: Session<'_>,
    executions: &[ExecutionId],
) -> Result<Vec<EdgeKey>> {
    let mut statement = session.prepare(sql!(read_ancestry))?;
    let mut edges = Vec::new();
    let executions = in_order(executions, |id| *id);
    for alike in executions.chunk_by(|left, right| left.partition == right.partition) {
        let ids: Vec<String> = alike.iter().map(|id| id.uuid.simple().to_string()).collect();
        let parameters = params![json(&ids), alike[0].partition.0];
        edges.append(&mut query(&mut statement, parameters)?);
    }
    Ok(edges)
}

pub(super) fn count_edges(session: Session<'_>, flow: &FlowKey) -> Result<u64> {
    let (first, last) = flow.execution_range().into_inner();
    let mut statement = session.prepare(sql!(count_edges))?;
    let parameters =
        params![flow.partition.0, flow.id.0.as_bytes(), first.as_bytes(), last.as_bytes()];
    let counted =
        query_with(&mut statement, parameters, "edge_group", |row| decode::total(row, "edges"))?;
    Ok(counted.into_iter().sum())
}
