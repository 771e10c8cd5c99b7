//! The verbs of lists on Postgres, one function each. Never writes.

use super::columns::Columns;
use super::link::Link;
use super::parameters::Parameters;
use crate::identity::FlowKey;
use crate::state::State;
use crate::storage::{
    Decoded, Edge, EdgeKey, EdgeListing, ExecutionListing, FlowListing, FlowPage, FlowView,
    ListedExecution, Result, Summary, Verb, codes, decode,
};

/// A list of codes; none at all asks for every one.
fn codes_of<T: Copy>(wanted: &[T], code: impl Fn(T) -> u8) -> Option<Vec<i16>> {
    let codes: Vec<i16> = wanted.iter().map(|one| i16::from(code(*one))).collect();
    (!codes.is_empty()).then_some(codes)
}

fn of_page(page: &FlowPage) -> Parameters {
    let scope = &page.scope;
    // Before every key: no partition is negative.
    let after = page.after.map_or(-1, |after| i32::from(after.partition.0));
    Parameters::new()
        .value(i32::from(scope.partitions.start))
        .value(i32::from(scope.partitions.end))
        .value(after)
        .value(page.after.map(|after| after.id.0).unwrap_or_default())
        .value(scope.namespace.as_deref())
        .value(scope.instance_tag.as_deref())
        .value(i64::from(page.limit))
}

pub(super) async fn scan_flow_changes(link: &mut Link, page: &FlowPage) -> Result<Vec<FlowKey>> {
    let key = |row: &mut Columns<'_>| decode::flow_key(row);
    link.read_with(Verb::ScanFlowChanges, of_page(page), "flow_change", key).await
}

pub(super) async fn describe_summary(link: &mut Link, key: &FlowKey) -> Result<Option<Summary>> {
    link.read_one(Verb::DescribeSummary, Parameters::new().flow(*key)).await
}

pub(super) async fn list_flows(
    link: &mut Link,
    listing: &FlowListing,
) -> Result<Vec<Decoded<FlowView, FlowKey>>> {
    let statuses = codes_of(&listing.statuses, codes::flow_status);
    link.read(Verb::ListFlows, of_page(&listing.page).value(statuses)).await
}

pub(super) async fn list_executions(
    link: &mut Link,
    listing: &ExecutionListing,
) -> Result<Vec<Decoded<ListedExecution>>> {
    let scope = &listing.page.scope;
    let ((after_partition, after), (last_partition, last)) = listing.between();
    let parameters = Parameters::new()
        .value(i32::from(scope.partitions.start))
        .value(i32::from(scope.partitions.end))
        .value(after_partition)
        .value(after)
        .value(scope.namespace.as_deref())
        .value(scope.instance_tag.as_deref())
        .value(i64::from(listing.page.limit))
        .value(last_partition)
        .value(last)
        .value(listing.flow.map(|flow| flow.id.0))
        .value(codes_of(&listing.states, State::code));
    link.read(Verb::ListExecutions, parameters).await
}

pub(super) async fn list_in_edges(
    link: &mut Link,
    listing: &EdgeListing,
) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
    let parameters = Parameters::new()
        .value(i32::from(listing.execution.partition.0))
        .value(listing.execution.uuid)
        .value(listing.after.map(|after| after.uuid))
        .value(i64::from(listing.limit));
    link.read(Verb::ListInEdges, parameters).await
}

pub(super) async fn list_out_edges(
    link: &mut Link,
    listing: &EdgeListing,
) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
    let (first, last) = listing.execution.sibling_range().into_inner();
    let parameters = Parameters::new()
        .value(i32::from(listing.execution.partition.0))
        .value(listing.execution.uuid)
        .value(first)
        .value(last)
        .value(listing.after.map(|after| after.uuid))
        .value(i64::from(listing.limit));
    link.read(Verb::ListOutEdges, parameters).await
}

pub(super) async fn describe_edge(link: &mut Link, key: &EdgeKey) -> Result<Option<Edge>> {
    if key.downstream.partition != key.upstream.partition {
        return Ok(None);
    }
    let parameters = Parameters::new()
        .value(i32::from(key.downstream.partition.0))
        .value(key.downstream.uuid)
        .value(key.upstream.uuid);
    link.read_one(Verb::DescribeEdge, parameters).await
}
