//! The verbs of a transaction that changes a flow as a whole, on Postgres. Never decides anything.

use uuid::Uuid;

use super::columns::Columns;
use super::link::Link;
use super::parameters::Parameters;
use super::transaction::{inserted, of_executions, small, sorted};
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::decode;
use crate::storage::rows::in_order;
use crate::storage::{
    FedGroup, Flow, Group, Inserted, Member, MemberQuery, Request, RequestKey, Result,
    SiblingRequest, Verb, codes,
};

pub(super) async fn lock_flow(link: &mut Link, key: &FlowKey) -> Result<Option<Flow>> {
    link.read_one(Verb::LockFlow, Parameters::new().flow(*key)).await
}

pub(super) async fn write_flow(link: &mut Link, row: &Flow) -> Result<u64> {
    let parameters = Parameters::new()
        .flow(row.key)
        .value(row.closing.map(|policy| i16::from(codes::close_policy(policy))))
        .value(row.closed_by.map(|request| request.0))
        .value(codes::bits(row.revision))
        .value(row.tags.text());
    link.execute(Verb::WriteFlow, parameters).await
}

pub(super) async fn insert_request(link: &mut Link, row: &Request) -> Result<Inserted> {
    let parameters = of_request(row.key).value(row.content_hash.as_slice()).value(&*row.reply);
    link.execute(Verb::InsertRequest, parameters).await.map(inserted)
}

pub(super) async fn read_request(link: &mut Link, key: &RequestKey) -> Result<Option<Request>> {
    link.read_one(Verb::ReadRequest, of_request(*key)).await
}

pub(super) async fn write_request(link: &mut Link, row: &Request) -> Result<u64> {
    link.execute(Verb::WriteRequest, of_request(row.key).value(&*row.reply)).await
}

pub(super) async fn insert_cancel_backlog(link: &mut Link, flows: &[FlowKey]) -> Result<()> {
    let flows = keys(flows);
    link.execute(Verb::InsertCancelBacklog, Parameters::new().flows(&flows)).await.map(drop)
}

pub(super) async fn delete_cancel_backlog(
    link: &mut Link,
    flows: &[FlowKey],
) -> Result<Vec<FlowKey>> {
    let flows = keys(flows);
    let deleted = link.read(Verb::DeleteCancelBacklog, Parameters::new().flows(&flows)).await?;
    Ok(sorted(deleted))
}

pub(super) async fn read_members(link: &mut Link, query: &MemberQuery) -> Result<Vec<Member>> {
    let (first, last) = query.flow.execution_range().into_inner();
    // Before every id: none is nil.
    let after = query.after.map_or(Uuid::nil(), |after| after.uuid);
    let parameters = Parameters::new()
        .flow(query.flow)
        .value(first)
        .value(last)
        .value(after)
        .value(i64::from(query.limit));
    link.read(Verb::ReadMembers, parameters).await
}

pub(super) async fn read_fed_groups(
    link: &mut Link,
    upstreams: &[ExecutionId],
) -> Result<Vec<FedGroup>> {
    link.read(Verb::ReadFedGroups, of_executions(upstreams)).await
}

pub(super) async fn delete_sibling_requests(
    link: &mut Link,
    rows: &[SiblingRequest],
) -> Result<Vec<ExecutionId>> {
    let rows = in_order(rows, |row| row.group);
    let parameters = Parameters::new().executions(rows.iter().map(|row| &row.group));
    let id = |row: &mut Columns<'_>| decode::execution_id(row, "downstream");
    let verb = Verb::DeleteSiblingRequests;
    Ok(sorted(link.read_with(verb, parameters, "sibling_request", id).await?))
}

pub(super) async fn write_joins(link: &mut Link, rows: &[Group]) -> Result<u64> {
    let rows = in_order(rows, |row| row.downstream);
    let joins = || rows.iter().map(|row| codes::join(row.policy));
    let parameters = Parameters::new()
        .executions(rows.iter().map(|row| &row.downstream))
        .column(joins().map(|join| small(join.kind)))
        .column(joins().map(|join| join.k.map(i64::from)))
        .column(joins().map(|join| join.on_satisfied.map(small)))
        .column(rows.iter().map(|row| i64::from(row.edges)));
    link.execute(Verb::WriteJoins, parameters).await
}

fn of_request(key: RequestKey) -> Parameters {
    Parameters::new().flow(key.flow).value(key.request.0)
}

pub(super) fn keys(flows: &[FlowKey]) -> Vec<FlowKey> {
    in_order(flows, |flow| *flow).into_iter().copied().collect()
}
