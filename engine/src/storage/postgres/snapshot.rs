//! The reads of a snapshot on Postgres, one function each. Never writes.

use std::sync::Arc;

use tokio::runtime::Handle;
use uuid::Uuid;

use super::columns::Columns;
use super::feed::{read_feed, read_subscription};
use super::link::Link;
use super::listings::{
    describe_edge, describe_summary, list_executions, list_flows, list_in_edges, list_out_edges,
    scan_flow_changes,
};
use super::parameters::Parameters;
use super::pool::{Begin, Shared};
use super::retention::scan_ended_flows;
use super::transaction::{argument, now};
use crate::identity::{ExecutionId, FlowKey, Partition};
use crate::storage::decode;
use crate::storage::{
    Consistency, Decoded, Edge, EdgeKey, Event, EventId, ExecutionView, Flow, FlowPage, Group,
    OverdueScan, Page, PlanQuery, Result, Scope, SiblingRequest, Snapshot, UpstreamScan, Verb,
};
use crate::time::Timestamp;
use crate::with_verbs;

/// A reader of Postgres; takes no lock and waits for none.
pub struct PostgresSnapshot {
    link: Option<Link>,
    consistency: Consistency,
}

impl PostgresSnapshot {
    pub(super) async fn open(shared: &Arc<Shared>, consistency: Consistency) -> Result<Self> {
        let held = match consistency {
            Consistency::Statement => shared.acquire().await?,
            Consistency::Snapshot => shared.begin(Begin::Read).await?,
        };
        Ok(Self { link: Some(Link::new(held)), consistency })
    }

    fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("only dropping takes the line away")
    }
}

impl Drop for PostgresSnapshot {
    /// Ends the transaction of a reader that saw one instant. Without a runtime to do so the
    /// connection is closed instead.
    fn drop(&mut self) {
        let held = self.link.take().and_then(Link::into_held);
        if let (Some(held), Consistency::Snapshot) = (held, self.consistency)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(held.roll_back());
        }
    }
}

macro_rules! snapshot {
    (
        transaction { $($transaction:tt)* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        impl Snapshot for PostgresSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                $sm(self.link(), argument!($($sa)?)).await
            })*
        }
    };
}
with_verbs!(snapshot);

async fn read_clock(link: &mut Link, (): &()) -> Result<Timestamp> {
    now(link, Verb::ReadClock).await
}

/// The parameters of a page, in the order of every scan.
fn of_page(page: &Page) -> Parameters {
    of_keyset(&page.scope, page.after.map(|after| (after.partition, after.uuid)), page.limit)
}

fn of_keyset(scope: &Scope, after: Option<(Partition, Uuid)>, limit: u32) -> Parameters {
    Parameters::new()
        .value(i32::from(scope.partitions.start))
        .value(i32::from(scope.partitions.end))
        // Before every key: no partition is negative.
        .value(after.map_or(-1, |after| i32::from(after.0.0)))
        .value(after.map(|after| after.1).unwrap_or_default())
        .value(scope.namespace.as_deref())
        .value(scope.instance_tag.as_deref())
        .value(i64::from(limit))
}

async fn scan(link: &mut Link, verb: Verb, parameters: Parameters) -> Result<Vec<ExecutionId>> {
    let id = |row: &mut Columns<'_>| decode::execution_id(row, "id");
    link.read_with(verb, parameters, "execution", id).await
}

async fn scan_upstreams(link: &mut Link, query: &UpstreamScan) -> Result<Vec<ExecutionId>> {
    let parameters = of_page(&query.page).value(query.finished_by.map(|at| at.0));
    scan(link, Verb::ScanUpstreams, parameters).await
}

async fn scan_stuck_groups(link: &mut Link, page: &Page) -> Result<Vec<ExecutionId>> {
    scan(link, Verb::ScanStuckGroups, of_page(page)).await
}

async fn scan_overdue(link: &mut Link, query: &OverdueScan) -> Result<Vec<ExecutionId>> {
    scan(link, Verb::ScanOverdue, of_page(&query.page).value(query.now.0)).await
}

async fn plan_groups(link: &mut Link, plan: &PlanQuery) -> Result<Vec<ExecutionId>> {
    let Some(partition) = plan.partition() else { return Ok(Vec::new()) };
    let parameters = Parameters::new()
        .value(i32::from(partition.0))
        .column(plan.upstreams.iter().map(|upstream| upstream.uuid))
        .value(i64::from(plan.limit));
    let id = |row: &mut Columns<'_>| decode::execution_in(row, partition, "downstream");
    let mut groups = link.read_with(Verb::PlanGroups, parameters, "edge", id).await?;
    groups.sort_unstable();
    Ok(groups)
}

async fn read_event(link: &mut Link, id: &EventId) -> Result<Option<Event>> {
    let Ok(number) = i64::try_from(id.0) else { return Ok(None) };
    link.read_one(Verb::ReadEvent, Parameters::new().value(number)).await
}

async fn describe_flow(link: &mut Link, key: &FlowKey) -> Result<Option<Flow>> {
    link.read_one(Verb::DescribeFlow, Parameters::new().flow(*key)).await
}

/// The parameters of what is read of a whole flow: its key, and where its executions are.
fn of_flow(key: FlowKey) -> Parameters {
    let (first, last) = key.execution_range().into_inner();
    Parameters::new().flow(key).value(first).value(last)
}

async fn describe_executions(
    link: &mut Link,
    key: &FlowKey,
) -> Result<Vec<Decoded<ExecutionView>>> {
    link.read(Verb::DescribeExecutions, of_flow(*key)).await
}

async fn describe_groups(link: &mut Link, key: &FlowKey) -> Result<Vec<Decoded<Group>>> {
    link.read(Verb::DescribeGroups, of_flow(*key)).await
}

async fn describe_edges(link: &mut Link, key: &FlowKey) -> Result<Vec<Decoded<Edge, EdgeKey>>> {
    link.read(Verb::DescribeEdges, of_flow(*key)).await
}

async fn describe_execution(link: &mut Link, id: &ExecutionId) -> Result<Option<ExecutionView>> {
    let parameters = Parameters::new().value(i32::from(id.partition.0)).value(id.uuid);
    link.read_one(Verb::DescribeExecution, parameters).await
}

async fn scan_cancel_backlog(link: &mut Link, page: &FlowPage) -> Result<Vec<FlowKey>> {
    let after = page.after.map(|after| (after.partition, after.id.0));
    link.read(Verb::ScanCancelBacklog, of_keyset(&page.scope, after, page.limit)).await
}

async fn scan_sibling_requests(link: &mut Link, page: &Page) -> Result<Vec<SiblingRequest>> {
    link.read(Verb::ScanSiblingRequests, of_page(page)).await
}
