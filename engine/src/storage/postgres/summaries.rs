//! The verbs of summaries on Postgres, one function each. Never decides anything.

use super::columns::Columns;
use super::link::Link;
use super::parameters::Parameters;
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::rows::in_order;
use crate::storage::{ChangeId, CountQuery, Result, Summary, Verb, codes, decode};
use crate::summary::Counted;

/// A counter as it is stored.
fn counter(executions: u64) -> i64 {
    i64::try_from(executions).expect("no database holds so many rows")
}

fn of_summary(row: &Summary) -> Parameters {
    let counts = row.counts.0.into_iter();
    let parameters = Parameters::new().flow(row.flow);
    let parameters = counts.fold(parameters, |all, count| all.value(counter(count)));
    parameters
        .value(i16::from(codes::flow_status(row.status)))
        .value(row.ended_at.map(|at| at.0))
        .value(counter(row.last_change.0))
}

/// The parameters of what is read of a whole flow: its key, and where its executions are.
fn of_flow(key: FlowKey) -> Parameters {
    let (first, last) = key.execution_range().into_inner();
    Parameters::new().flow(key).value(first).value(last)
}

pub(super) async fn insert_summary(link: &mut Link, row: &Summary) -> Result<()> {
    link.execute(Verb::InsertSummary, of_summary(row)).await.map(drop)
}

pub(super) async fn lock_summaries(link: &mut Link, flows: &[FlowKey]) -> Result<Vec<Summary>> {
    let flows: Vec<FlowKey> = in_order(flows, |flow| *flow).into_iter().copied().collect();
    link.read(Verb::LockSummaries, Parameters::new().flows(&flows)).await
}

pub(super) async fn delete_flow_changes(link: &mut Link, flow: &FlowKey) -> Result<Vec<ChangeId>> {
    let id = |row: &mut Columns<'_>| decode::change_id(row);
    let parameters = Parameters::new().flow(*flow);
    let mut taken = link.read_with(Verb::DeleteFlowChanges, parameters, "flow_change", id).await?;
    taken.sort_unstable();
    Ok(taken)
}

pub(super) async fn count_executions(link: &mut Link, count: &CountQuery) -> Result<Vec<Counted>> {
    let parameters = of_flow(count.flow).value(count.now.map(|now| now.0));
    link.read(Verb::CountExecutions, parameters).await
}

pub(super) async fn unhandled_failure(
    link: &mut Link,
    flow: &FlowKey,
) -> Result<Option<ExecutionId>> {
    let id = |row: &mut Columns<'_>| decode::execution_id(row, "id");
    let found = link.read_with(Verb::UnhandledFailure, of_flow(*flow), "execution", id).await?;
    Ok(found.into_iter().next())
}

pub(super) async fn write_summary(link: &mut Link, row: &Summary) -> Result<u64> {
    link.execute(Verb::WriteSummary, of_summary(row)).await
}
