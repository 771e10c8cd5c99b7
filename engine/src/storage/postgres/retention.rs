//! The verbs of retention, on Postgres, one function each. Never decides anything.

use super::columns::Columns;
use super::link::Link;
use super::parameters::Parameters;
use super::transaction::of_executions;
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::decode;
use crate::storage::rows::in_order;
use crate::storage::{EndedFlow, EndedScan, EventKey, Result, Verb};

pub(super) async fn scan_ended_flows(link: &mut Link, scan: &EndedScan) -> Result<Vec<EndedFlow>> {
    let after = scan.after.unwrap_or(EndedFlow::FIRST);
    let parameters = Parameters::new()
        .value(scan.ended_by.0)
        .value(after.ended_at.0)
        .flow(after.flow)
        .value(i32::from(scan.scope.partitions.start))
        .value(i32::from(scan.scope.partitions.end))
        .value(scan.scope.namespace.as_deref())
        .value(scan.scope.instance_tag.as_deref())
        .value(i64::from(scan.limit));
    link.read(Verb::ScanEndedFlows, parameters).await
}

pub(super) async fn count_events(link: &mut Link, executions: &[ExecutionId]) -> Result<u64> {
    let events = |row: &mut Columns<'_>| decode::total(row, "events");
    let parameters = of_executions(executions);
    let counted = link.read_with(Verb::CountEvents, parameters, "event", events).await?;
    Ok(counted.into_iter().sum())
}

pub(super) async fn delete_attempts(link: &mut Link, executions: &[ExecutionId]) -> Result<u64> {
    link.execute(Verb::DeleteAttempts, of_executions(executions)).await
}

pub(super) async fn delete_edges(link: &mut Link, groups: &[ExecutionId]) -> Result<u64> {
    link.execute(Verb::DeleteEdges, of_executions(groups)).await
}

pub(super) async fn delete_groups(link: &mut Link, groups: &[ExecutionId]) -> Result<u64> {
    link.execute(Verb::DeleteGroups, of_executions(groups)).await
}

pub(super) async fn delete_executions(link: &mut Link, executions: &[ExecutionId]) -> Result<u64> {
    link.execute(Verb::DeleteExecutions, of_executions(executions)).await
}

pub(super) async fn delete_requests(link: &mut Link, flow: &FlowKey) -> Result<u64> {
    link.execute(Verb::DeleteRequests, Parameters::new().flow(*flow)).await
}

pub(super) async fn delete_submission(link: &mut Link, flow: &FlowKey) -> Result<u64> {
    link.execute(Verb::DeleteSubmission, Parameters::new().flow(*flow)).await
}

pub(super) async fn delete_summary(link: &mut Link, flow: &FlowKey) -> Result<u64> {
    link.execute(Verb::DeleteSummary, Parameters::new().flow(*flow)).await
}

pub(super) async fn delete_flow(link: &mut Link, flow: &FlowKey) -> Result<u64> {
    link.execute(Verb::DeleteFlow, Parameters::new().flow(*flow)).await
}

pub(super) async fn delete_events(link: &mut Link, keys: &[EventKey]) -> Result<u64> {
    let keys = in_order(keys, |key| *key);
    let parameters = Parameters::new().events(keys.into_iter().copied());
    link.execute(Verb::DeleteEvents, parameters).await
}
