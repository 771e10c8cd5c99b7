//! The reads of a snapshot on SQLite, one function each. Never writes.

use std::sync::Arc;

use rusqlite::{ToSql, named_params, params};
use uuid::Uuid;

use super::columns::{Columns, query, query_with};
use super::feed::{read_feed, read_subscription};
use super::listings::{
    describe_edge, describe_summary, list_executions, list_flows, list_in_edges, list_out_edges,
    scan_flow_changes,
};
use super::offload::{self, Effort, Rows};
use super::pool::{Held, Role, Session, Shared};
use super::retention::scan_ended_flows;
use super::sql;
use super::transaction::{argument, by_id, flow, json};
use crate::identity::{ExecutionId, FlowKey, Partition};
use crate::storage::decode::{self, FromColumns};
use crate::storage::{
    Consistency, Decoded, Edge, EdgeKey, Event, EventId, ExecutionView, Flow, FlowPage, Group,
    OverdueScan, Page, PlanQuery, Result, Scope, SiblingRequest, Snapshot, UpstreamScan, Verb,
};
use crate::time::Timestamp;
use crate::with_verbs;

/// A reader of SQLite; waits for no transaction, and no transaction waits for it.
pub struct SqliteSnapshot {
    held: Option<Held>,
    shared: Arc<Shared>,
    consistency: Consistency,
}

impl SqliteSnapshot {
    pub(super) async fn open(shared: &Arc<Shared>, consistency: Consistency) -> Result<Self> {
        let shared = Arc::clone(shared);
        let held = match consistency {
            Consistency::Statement => None,
            Consistency::Snapshot => Some(instant(&shared).await?),
        };
        Ok(Self { held, shared, consistency })
    }

    async fn verb<A, T>(
        &mut self,
        which: Verb,
        verb: fn(Session<'_>, &A) -> Result<T>,
        arguments: &A,
    ) -> Result<T>
    where
        A: Rows + ToOwned + Sync + ?Sized + 'static,
        A::Owned: Send + 'static,
        T: Send + 'static,
    {
        if self.consistency == Consistency::Statement {
            self.held = Some(self.shared.acquire(Role::Reader).await?);
        }
        let offload = self.shared.options.offload;
        let run = move |held: &mut Held, arguments: &A| held.verb(verb, arguments);
        let effort = Effort::of(which, arguments.rows());
        let result = offload::run(offload, effort, &mut self.held, arguments, run).await;
        if result.is_err() || self.consistency == Consistency::Statement {
            self.held = None;
        }
        result
    }
}

/// A connection whose reads all see this instant.
async fn instant(shared: &Arc<Shared>) -> Result<Held> {
    let offload = shared.options.offload;
    let mut held = Some(shared.acquire(Role::Reader).await?);
    if shared.options.is_memory() {
        return offload::run(offload, Effort::Long, &mut held, &(), |held, ()| held.copy()).await;
    }
    offload::run(offload, Effort::Brief, &mut held, &(), |held, ()| held.begin_read()).await?;
    Ok(held.expect("a connection comes back from work that ran"))
}

macro_rules! snapshot {
    (
        transaction { $($transaction:tt)* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        impl Snapshot for SqliteSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                self.verb(Verb::$sv, $sm, argument!($($sa)?)).await
            })*
        }
    };
}
with_verbs!(snapshot);

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::unnecessary_wraps,
    reason = "every verb has this form"
)]
fn read_clock(session: Session<'_>, (): &()) -> Result<Timestamp> {
    Ok(session.now())
}

/// Runs a scan: the parameters of its page and whatever else it names.
fn scan(
    session: Session<'_>,
    sql: &'static str,
    page: &Page,
    more: &[(&str, &dyn ToSql)],
) -> Result<Vec<ExecutionId>> {
    let keyset = Keyset::of_page(page);
    let mut parameters = keyset.parameters();
    parameters.extend_from_slice(more);
    let mut statement = session.prepare(sql)?;
    let id = |columns: &mut Columns<'_>| decode::execution_id(columns, "id");
    query_with(&mut statement, &*parameters, "execution", id)
}

/// The parameters that every page has.
struct Keyset<'a> {
    partition_from: u16,
    partition_to: u16,
    after_partition: i64,
    after_id: [u8; 16],
    namespace: Option<&'a str>,
    instance_tag: Option<&'a str>,
    limit: u32,
}

impl<'a> Keyset<'a> {
    fn of(scope: &'a Scope, after: Option<(Partition, Uuid)>, limit: u32) -> Self {
        Self {
            partition_from: scope.partitions.start,
            partition_to: scope.partitions.end,
            // Before every key: no partition is negative.
            after_partition: after.map_or(-1, |after| i64::from(after.0.0)),
            after_id: after.map_or([0; 16], |after| after.1.into_bytes()),
            namespace: scope.namespace.as_deref(),
            instance_tag: scope.instance_tag.as_deref(),
            limit,
        }
    }

    fn of_page(page: &'a Page) -> Self {
        let after = page.after.map(|after| (after.partition, after.uuid));
        Self::of(&page.scope, after, page.limit)
    }

    fn parameters(&self) -> Vec<(&'static str, &dyn ToSql)> {
        named_params! {
            ":partition_from": self.partition_from,
            ":partition_to": self.partition_to,
            ":after_partition": self.after_partition,
            ":after_id": self.after_id,
            ":namespace": self.namespace,
            ":instance_tag": self.instance_tag,
            ":limit": self.limit,
        }
        .to_vec()
    }
}

fn scan_upstreams(session: Session<'_>, scan: &UpstreamScan) -> Result<Vec<ExecutionId>> {
    let finished_by = scan.finished_by.map(|at| at.0);
    let more: [(&str, &dyn ToSql); 1] = [(":finished_by", &finished_by)];
    self::scan(session, sql!(scan_upstreams), &scan.page, &more)
}

fn scan_stuck_groups(session: Session<'_>, page: &Page) -> Result<Vec<ExecutionId>> {
    scan(session, sql!(scan_stuck_groups), page, &[])
}

fn scan_overdue(session: Session<'_>, scan: &OverdueScan) -> Result<Vec<ExecutionId>> {
    self::scan(session, sql!(scan_overdue), &scan.page, &[(":now", &scan.now.0)])
}

fn plan_groups(session: Session<'_>, plan: &PlanQuery) -> Result<Vec<ExecutionId>> {
    let Some(partition) = plan.partition() else { return Ok(Vec::new()) };
    let ids: Vec<String> =
        plan.upstreams.iter().map(|upstream| upstream.uuid.simple().to_string()).collect();
    let mut statement = session.prepare(sql!(plan_groups))?;
    let parameters = params![json(&ids), partition.0, plan.limit];
    query_with(&mut statement, parameters, "edge", |columns| {
        decode::execution_in(columns, partition, "downstream")
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "every verb has this form")]
fn read_event(session: Session<'_>, id: &EventId) -> Result<Option<Event>> {
    let Ok(number) = i64::try_from(id.0) else { return Ok(None) };
    let mut statement = session.prepare(sql!(read_event))?;
    let rows = query(&mut statement, params![number])?;
    Ok(rows.into_iter().next())
}

fn describe_flow(session: Session<'_>, key: &FlowKey) -> Result<Option<Flow>> {
    flow(session, sql!(describe_flow), key)
}

fn describe_executions(session: Session<'_>, key: &FlowKey) -> Result<Vec<Decoded<ExecutionView>>> {
    of_flow(session, sql!(describe_executions), key)
}

fn describe_groups(session: Session<'_>, key: &FlowKey) -> Result<Vec<Decoded<Group>>> {
    of_flow(session, sql!(describe_groups), key)
}

fn describe_edges(session: Session<'_>, key: &FlowKey) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
    of_flow(session, sql!(describe_edges), key)
}

fn of_flow<T: FromColumns>(
    session: Session<'_>,
    sql: &'static str,
    key: &FlowKey,
) -> Result<Vec<T>> {
    let (first, last) = key.execution_range().into_inner();
    let flow = key.id.0.as_bytes();
    let parameters = params![key.partition.0, flow, first.as_bytes(), last.as_bytes()];
    let mut statement = session.prepare(sql)?;
    query(&mut statement, parameters)
}

fn describe_execution(session: Session<'_>, id: &ExecutionId) -> Result<Option<ExecutionView>> {
    let ids = std::slice::from_ref(id);
    let rows = by_id(session, sql!(describe_execution), ids)?;
    Ok(rows.into_iter().next())
}

fn scan_cancel_backlog(session: Session<'_>, page: &FlowPage) -> Result<Vec<FlowKey>> {
    let after = page.after.map(|after| (after.partition, after.id.0));
    let keyset = Keyset::of(&page.scope, after, page.limit);
    let mut statement = session.prepare(sql!(scan_cancel_backlog))?;
    query(&mut statement, &*keyset.parameters())
}

fn scan_sibling_requests(session: Session<'_>, page: &Page) -> Result<Vec<SiblingRequest>> {
    let keyset = Keyset::of_page(page);
    let mut statement = session.prepare(sql!(scan_sibling_requests))?;
    query(&mut statement, &*keyset.parameters())
}
