//! The reads before a flow grows, on Postgres, one function each. Never writes.

use super::columns::Columns;
use super::link::Link;
use super::parameters::Parameters;
use super::transaction::of_executions;
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::{Edge, EdgeKey, Result, Verb, decode};

pub(super) async fn read_edges(link: &mut Link, groups: &[ExecutionId]) -> Result<Vec<Edge>> {
    link.read(Verb::ReadEdges, of_executions(groups)).await
}

pub(super) async fn read_ancestry(
    link: &mut Link,
    executions: &[ExecutionId],
) -> Result<Vec<EdgeKey>> {
    link.read(Verb::ReadAncestry, of_executions(executions)).await
}

pub(super) async fn count_edges(link: &mut Link, flow: &FlowKey) -> Result<u64> {
    let (first, last) = flow.execution_range().into_inner();
    let parameters = Parameters::new().flow(*flow).value(first).value(last);
    let edges = |row: &mut Columns<'_>| decode::total(row, "edges");
    let counted = link.read_with(Verb::CountEdges, parameters, "edge_group", edges).await?;
    Ok(counted.into_iter().sum())
}
