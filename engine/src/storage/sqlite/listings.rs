//! The verbs of lists on SQLite, one function each. Never writes.

use rusqlite::{ToSql, named_params, params};

use super::columns::{query, query_with};
use super::pool::Session;
use super::sql;
use super::transaction::json;
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::decode::{self, FromColumns};
use crate::storage::{
    Decoded, Edge, EdgeKey, EdgeListing, ExecutionListing, FlowListing, FlowPage, FlowView,
    ListedExecution, Result, Summary, codes,
};

/// A list of codes; none at all asks for every one.
fn codes_of<T: Copy>(wanted: &[T], code: impl Fn(T) -> u8) -> Option<String> {
    let codes: Vec<u8> = wanted.iter().map(|one| code(*one)).collect();
    (!codes.is_empty()).then(|| json(&codes))
}

fn flows<T>(
    session: Session<'_>,
    sql: &'static str,
    page: &FlowPage,
    more: &[(&str, &dyn ToSql)],
    table: &'static str,
    read: impl Fn(&mut super::columns::Columns<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let scope = &page.scope;
    // Before every key: no partition is negative.
    let after_partition = page.after.map_or(-1, |after| i64::from(after.partition.0));
    let after_id = page.after.map_or([0; 16], |after| after.id.0.into_bytes());
    let (namespace, instance_tag) = (scope.namespace.as_deref(), scope.instance_tag.as_deref());
    let mut parameters = named_params! {
        ":partition_from": scope.partitions.start,
        ":partition_to": scope.partitions.end,
        ":after_partition": after_partition,
        ":after_id": after_id,
        ":namespace": namespace,
        ":instance_tag": instance_tag,
        ":limit": page.limit,
    }
    .to_vec();
    parameters.extend_from_slice(more);
    let mut statement = session.prepare(sql)?;
    query_with(&mut statement, &*parameters, table, read)
}

pub(super) fn scan_flow_changes(session: Session<'_>, page: &FlowPage) -> Result<Vec<FlowKey>> {
    let sql = sql!(scan_flow_changes);
    flows(session, sql, page, &[], "flow_change", |row| decode::flow_key(row))
}

pub(super) fn describe_summary(session: Session<'_>, key: &FlowKey) -> Result<Option<Summary>> {
    let mut statement = session.prepare(sql!(describe_summary))?;
    let rows = query(&mut statement, params![key.partition.0, key.id.0.as_bytes()])?;
    Ok(rows.into_iter().next())
}

pub(super) fn list_flows(
    session: Session<'_>,
    listing: &FlowListing,
) -> Result<Vec<Decoded<FlowView, FlowKey>>> {
    let statuses = codes_of(&listing.statuses, codes::flow_status);
    let more: [(&str, &dyn ToSql); 1] = [(":statuses", &statuses)];
    let table = FlowView::TABLE;
    flows(session, sql!(list_flows), &listing.page, &more, table, |row| {
        FromColumns::from_columns(row)
    })
}

pub(super) fn list_executions(
    session: Session<'_>,
    listing: &ExecutionListing,
) -> Result<Vec<Decoded<ListedExecution>>> {
    let scope = &listing.page.scope;
    let ((after_partition, after), (last_partition, last)) = listing.between();
    let flow = listing.flow.map(|flow| flow.id.0.into_bytes());
    let mut statement = session.prepare(sql!(list_executions))?;
    let parameters = named_params! {
        ":partition_from": scope.partitions.start,
        ":partition_to": scope.partitions.end,
        ":after_partition": after_partition,
        ":after_id": after.as_bytes(),
        ":last_partition": last_partition,
        ":last_id": last.as_bytes(),
        ":flow": flow,
        ":namespace": scope.namespace.as_deref(),
        ":instance_tag": scope.instance_tag.as_deref(),
        ":states": codes_of(&listing.states, crate::state::State::code),
        ":limit": listing.page.limit,
    };
    query(&mut statement, parameters)
}

/// The identifier of a cursor among edges of one partition.
fn after(listing: &EdgeListing) -> Option<[u8; 16]> {
    listing.after.map(|after| after.uuid.into_bytes())
}

pub(super) fn list_in_edges(
    session: Session<'_>,
    listing: &EdgeListing,
) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
    let ExecutionId { partition, uuid } = listing.execution;
    let mut statement = session.prepare(sql!(list_in_edges))?;
    let parameters = params![partition.0, uuid.as_bytes(), after(listing), listing.limit];
    query(&mut statement, parameters)
}

pub(super) fn list_out_edges(
    session: Session<'_>,
    listing: &EdgeListing,
) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
    let ExecutionId { partition, uuid } = listing.execution;
    let (first, last) = listing.execution.sibling_range().into_inner();
    let mut statement = session.prepare(sql!(list_out_edges))?;
    let parameters = params![
        partition.0,
        uuid.as_bytes(),
        first.as_bytes(),
        last.as_bytes(),
        after(listing),
        listing.limit,
    ];
    query(&mut statement, parameters)
}

pub(super) fn describe_edge(session: Session<'_>, key: &EdgeKey) -> Result<Option<Edge>> {
    let (downstream, upstream) = (key.downstream, key.upstream);
    if downstream.partition != upstream.partition {
        return Ok(None);
    }
    let mut statement = session.prepare(sql!(describe_edge))?;
    let parameters =
        params![downstream.partition.0, downstream.uuid.as_bytes(), upstream.uuid.as_bytes()];
    let rows = query(&mut statement, parameters)?;
    Ok(rows.into_iter().next())
}
