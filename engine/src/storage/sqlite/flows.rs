//! The verbs of a transaction that changes a flow as a whole, on SQLite. Never decides anything.

use rusqlite::params;

use super::columns::query;
use super::pool::Session;
use super::sql;
use super::transaction::{by_id, change, flow, inserted};
use crate::identity::{ExecutionId, FlowKey};
use crate::storage::rows::in_order;
use crate::storage::{
    FedGroup, Flow, Group, Inserted, Member, MemberQuery, Request, RequestKey, Result,
    SiblingRequest, codes,
};

pub(super) fn lock_flow(session: Session<'_>, key: &FlowKey) -> Result<Option<Flow>> {
    flow(session, sql!(lock_flow), key)
}

pub(super) fn write_flow(session: Session<'_>, row: &Flow) -> Result<u64> {
    let closed_by = row.closed_by.map(|request| request.0.into_bytes());
    let parameters = params![
        row.closing.map(codes::close_policy),
        closed_by,
        codes::bits(row.revision),
        row.tags.text(),
        row.key.partition.0,
        row.key.id.0.as_bytes(),
    ];
    Ok(u64::from(change(session, sql!(write_flow), parameters)? == 1))
}

pub(super) fn insert_request(session: Session<'_>, row: &Request) -> Result<Inserted> {
    let RequestKey { flow, request } = row.key;
    let parameters = params![
        flow.partition.0,
        flow.id.0.as_bytes(),
        request.0.as_bytes(),
        row.content_hash,
        &*row.reply,
    ];
    change(session, sql!(insert_request), parameters).map(inserted)
}

pub(super) fn read_request(session: Session<'_>, key: &RequestKey) -> Result<Option<Request>> {
    let mut statement = session.prepare(sql!(read_request))?;
    let RequestKey { flow, request } = key;
    let parameters = params![flow.partition.0, flow.id.0.as_bytes(), request.0.as_bytes()];
    Ok(query(&mut statement, parameters)?.into_iter().next())
}

pub(super) fn write_request(session: Session<'_>, row: &Request) -> Result<u64> {
    let RequestKey { flow, request } = row.key;
    let parameters =
        params![&*row.reply, flow.partition.0, flow.id.0.as_bytes(), request.0.as_bytes()];
    Ok(u64::from(change(session, sql!(write_request), parameters)? == 1))
}

pub(super) fn insert_cancel_backlog(session: Session<'_>, flows: &[FlowKey]) -> Result<()> {
    for flow in in_order(flows, |flow| *flow) {
        let parameters = params![flow.partition.0, flow.id.0.as_bytes()];
        change(session, sql!(insert_cancel_backlog), parameters)?;
    }
    Ok(())
}

pub(super) fn delete_cancel_backlog(
    session: Session<'_>,
    flows: &[FlowKey],
) -> Result<Vec<FlowKey>> {
    let mut deleted = Vec::with_capacity(flows.len());
    for flow in in_order(flows, |flow| *flow) {
        let parameters = params![flow.partition.0, flow.id.0.as_bytes()];
        if change(session, sql!(delete_cancel_backlog), parameters)? == 1 {
            deleted.push(*flow);
        }
    }
    Ok(deleted)
}

pub(super) fn write_joins(session: Session<'_>, rows: &[Group]) -> Result<u64> {
    let mut found = 0;
    for row in in_order(rows, |row| row.downstream) {
        let join = codes::join(row.policy);
        let parameters = params![
            join.kind,
            join.k,
            join.on_satisfied,
            row.edges,
            row.downstream.partition.0,
            row.downstream.uuid.as_bytes(),
        ];
        found += u64::from(change(session, sql!(write_joins), parameters)? == 1);
    }
    Ok(found)
}

pub(super) fn read_members(session: Session<'_>, of: &MemberQuery) -> Result<Vec<Member>> {
    let (first, last) = of.flow.execution_range().into_inner();
    // Before every id: none is nil.
    let after = of.after.map_or([0; 16], |after| after.uuid.into_bytes());
    let parameters = params![
        of.flow.partition.0,
        of.flow.id.0.as_bytes(),
        first.as_bytes(),
        last.as_bytes(),
        after,
        of.limit,
    ];
    let mut statement = session.prepare(sql!(read_members))?;
    query(&mut statement, parameters)
}

pub(super) fn read_fed_groups(
    session: Session<'_>,
    upstreams: &[ExecutionId],
) -> Result<Vec<FedGroup>> {
    let mut groups: Vec<FedGroup> = by_id(session, sql!(read_fed_groups), upstreams)?;
    groups.sort_unstable_by_key(|group| group.edge);
    Ok(groups)
}

pub(super) fn delete_sibling_requests(
    session: Session<'_>,
    rows: &[SiblingRequest],
) -> Result<Vec<ExecutionId>> {
    let mut deleted = Vec::with_capacity(rows.len());
    for row in in_order(rows, |row| row.group) {
        let parameters = params![row.group.partition.0, row.group.uuid.as_bytes()];
        if change(session, sql!(delete_sibling_requests), parameters)? == 1 {
            deleted.push(row.group);
        }
    }
    Ok(deleted)
}
