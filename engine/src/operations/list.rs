//! Lists for people, page by page: flows, executions, and the edges at one end of an execution.
//! Never changes anything.

use crate::mutants::mutated;
use std::sync::Arc;

use serde::Serialize;

use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowId, FlowKey};
use crate::reconcile::summary::shown;
use crate::state::{Cause, ClosePolicy, PublicState, State};
use crate::storage::{
    Decoded, Edge, EdgeKey, EdgeListing, ExecutionListing, FlowListing, FlowPage, FlowView,
    ListedExecution, Page, Scope, Snapshot, Unreadable, all_readable, parted,
};
use crate::summary::{FlowStatus, FlowSummary};
use crate::time::Timestamp;

/// Rows of one page at most, whatever its caller asks for.
pub const PAGE_ROWS_MAX: u32 = 1_000;

/// A page of a list. A row that cannot be read keeps no other from being shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Listed<T, C> {
    /// Its rows, in key order.
    pub rows: Vec<T>,
    /// Those among them that cannot be read, in key order: an operator has to mend them.
    pub unreadable: Vec<Unreadable<C>>,
    /// Where the next page starts, if there is one: asked for with this cursor, it begins with the
    /// first row behind the last of this page.
    pub next_cursor: Option<C>,
}

/// Which flows a list shows; all of it is in the query, before its limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowFilter {
    /// Partitions, namespace and instance tag.
    pub scope: Scope,
    /// Only those whose summary has one of these; empty means every status. A summary may lag
    /// behind its flow.
    pub statuses: Vec<FlowStatus>,
}

/// Which executions a list shows; all of it is in the query, before its limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExecutionFilter {
    /// Partitions, namespace and instance tag.
    pub scope: Scope,
    /// Only those of this flow.
    pub flow: Option<FlowId>,
    /// Only those in one of these states; empty means every state.
    pub states: Vec<State>,
}

/// Which edges of an execution a list shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Those that it waits for, in the order of their upstreams.
    Incoming,
    /// Those that wait for it, in the order of their downstreams.
    Outgoing,
}

/// A flow in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FlowEntry {
    /// Its partition and id, which is what a cursor holds.
    pub key: FlowKey,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// Deployment label, `key=value`.
    pub instance_tag: Option<Arc<str>>,
    /// How it was closed, if it was.
    pub closing: Option<ClosePolicy>,
    /// When it was submitted, on the storage's clock.
    pub created_at: Timestamp,
    /// In numbers, as of the projector's last look.
    pub summary: FlowSummary,
}

/// An execution in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExecutionEntry {
    /// Its id.
    pub id: ExecutionId,
    /// Its flow.
    pub flow: FlowId,
    /// Its name.
    pub name: Arc<str>,
    /// The handler that it needs.
    pub kind: Arc<str>,
    /// The queue that it is claimed from.
    pub lane: Arc<str>,
    /// The published word for its state.
    pub state: PublicState,
    /// Why it ended, once it has.
    pub cause: Option<Cause>,
    /// Its incarnation.
    pub incarnation: u32,
    /// Its last granted attempt.
    pub attempt: u32,
    /// Its epoch, by which a suspended one is resumed.
    pub epoch: u64,
    /// The worker that holds its lease.
    pub worker: Option<Arc<str>>,
    /// When it ended, once it has, on the storage's clock.
    pub finished_at: Option<Timestamp>,
}

/// The rows of a page, of which one more was read than asked for.
fn page<R, T, C: Copy>(
    mut found: Vec<Decoded<R, C>>,
    limit: u32,
    cursor: impl FnOnce(&R) -> C,
    show: impl Fn(R) -> T,
) -> Listed<T, C> {
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let last = found.last().filter(|_| more);
    let next_cursor = last.map(|row| row.as_ref().map_or_else(|row| row.key, cursor));
    let (read, unreadable) = parted(found);
    Listed { rows: read.into_iter().map(show).collect(), unreadable, next_cursor }
}

/// Lists flows. A limit of zero gives an empty page.
pub(crate) async fn flows<R: Snapshot>(
    reader: &mut R,
    filter: &FlowFilter,
    cursor: Option<FlowKey>,
    limit: u32,
) -> Result<Listed<FlowEntry, FlowKey>, EngineError> {
    let limit = limit.min(PAGE_ROWS_MAX);
    let page = FlowPage { scope: filter.scope.clone(), after: cursor, limit: limit + 1 };
    let listing = FlowListing { page, statuses: filter.statuses.clone() };
    let found = reader.list_flows(&listing).await?;
    Ok(self::page(found, limit, |view: &FlowView| view.flow.key, flow))
}

fn flow(FlowView { flow, summary }: FlowView) -> FlowEntry {
    FlowEntry {
        key: flow.key,
        namespace: flow.namespace,
        instance_tag: flow.instance_tag,
        closing: flow.closing,
        created_at: flow.created_at,
        summary: shown(&summary),
    }
}

/// Lists executions, all of one instant. A limit of zero gives an empty page.
pub(crate) async fn executions<R: Snapshot>(
    reader: &mut R,
    filter: &ExecutionFilter,
    flow: Option<FlowKey>,
    cursor: Option<ExecutionId>,
    limit: u32,
) -> Result<Listed<ExecutionEntry, ExecutionId>, EngineError> {
    if let Some(key) = flow {
        reader.describe_flow(&key).await?.ok_or(EngineError::FlowNotFound(key.id))?;
    }
    let limit = limit.min(PAGE_ROWS_MAX);
    let page = Page { scope: filter.scope.clone(), after: cursor, limit: limit + 1 };
    let listing = ExecutionListing { page, flow, states: filter.states.clone() };
    let found = reader.list_executions(&listing).await?;
    if mutated!(S90) {
        all_readable(found.clone())?;
    }
    let now = reader.read_clock().await?;
    let id = |row: &ListedExecution| row.execution.id;
    Ok(self::page(found, limit, id, |row| execution(row, now)))
}

fn execution(row: ListedExecution, now: Timestamp) -> ExecutionEntry {
    let execution = row.execution;
    ExecutionEntry {
        id: execution.id,
        flow: execution.flow,
        name: row.name,
        kind: row.kind,
        lane: row.lane,
        state: execution.state.public(execution.not_before > now),
        cause: execution.cause,
        incarnation: execution.incarnation,
        attempt: execution.attempt,
        epoch: execution.epoch,
        worker: row.worker,
        finished_at: execution.finished_at,
    }
}

/// Lists the edges at one end of an execution. A limit of zero gives an empty page.
pub(crate) async fn edges<R: Snapshot>(
    reader: &mut R,
    execution: ExecutionId,
    direction: Direction,
    cursor: Option<ExecutionId>,
    limit: u32,
) -> Result<Listed<Edge, ExecutionId>, EngineError> {
    let there = reader.describe_execution(&execution).await?;
    there.ok_or(EngineError::ExecutionNotFound(execution))?;
    if let Some(cursor) = cursor
        && cursor.partition != execution.partition
    {
        return Err(EngineError::Invalid(format!("no edge leads from {cursor} to {execution}")));
    }
    let limit = limit.min(PAGE_ROWS_MAX);
    let listing = EdgeListing { execution, after: cursor, limit: limit + 1 };
    let found = match direction {
        Direction::Incoming => reader.list_in_edges(&listing).await?,
        Direction::Outgoing => reader.list_out_edges(&listing).await?,
    };
    let other = |key: EdgeKey| match direction {
        Direction::Incoming => key.upstream,
        Direction::Outgoing => key.downstream,
    };
    let by_other =
        |row: Unreadable<EdgeKey>| Unreadable { key: other(row.key), reason: row.reason };
    let found = found.into_iter().map(|edge| edge.map_err(by_other)).collect();
    Ok(page(found, limit, |edge: &Edge| other(edge.key), |edge| edge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_next_cursor_only_if_more_exist() {
        let check = |found: &[u32], limit, rows: &[u32], next_cursor: Option<u32>| {
            let found = found.iter().map(|row| Ok(*row)).collect();
            let seen = page(found, limit, |row| *row, |row| row);
            assert_eq!(seen, Listed { rows: rows.to_vec(), unreadable: Vec::new(), next_cursor });
        };
        check(&[1, 2, 3], 2, &[1, 2], Some(2));
        check(&[1, 2], 2, &[1, 2], None);
        check(&[], 2, &[], None);
        check(&[1], 0, &[], None);
    }

    #[test]
    fn what_cannot_be_read_counts_as_a_row_of_its_page() {
        let spoilt = |key: u32| Unreadable { key, reason: "spoilt".into() };
        let found = || vec![Err(spoilt(1)), Ok(2), Err(spoilt(3)), Ok(4)];
        let pages = [(4, vec![2, 4], vec![spoilt(1), spoilt(3)], None)]
            .into_iter()
            .chain([(3, vec![2], vec![spoilt(1), spoilt(3)], Some(3))])
            .chain([(1, vec![], vec![spoilt(1)], Some(1))]);
        for (limit, rows, unreadable, next_cursor) in pages {
            let seen = page(found(), limit, |row| *row, |row| row);
            assert_eq!(seen, Listed { rows, unreadable, next_cursor });
        }
    }
}
