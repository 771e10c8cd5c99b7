//! Whoever looks at a flow while it runs: every read that people have, and a call to give up what
//! can be read, which is refused. Writes down only what nobody expects.

use sluicegate::EngineError;
use sluicegate::draw::GraphFormat;
use sluicegate::identity::FlowId;
use sluicegate::operations::list::{Direction, ExecutionFilter, FlowFilter};
use sluicegate::replay::ReplayScope;
use sluicegate::storage::EventId;

use super::desk::Desk;
use super::ledger::Entry;

/// How often one read is tried: what it says of a moment that has gone is nobody's loss.
const READS_MAX: u32 = 3;
/// The event of a dispatch is one of so many.
const EVENTS: u64 = 512;
/// Rows of a page.
const PAGE_ROWS: u32 = 5;

/// Reads everything that there is to read of a flow and of one of its executions.
pub(super) async fn visit(desk: &Desk, flow: FlowId, name: &str, tag: &str) {
    let engine = desk.engine();
    let id = desk.execution(flow, name);
    let of_flow = ExecutionFilter { flow: Some(flow), ..ExecutionFilter::default() };
    let all = FlowFilter::default();
    read(desk, flow, "describe_flow", || engine.describe_flow(flow)).await;
    read(desk, flow, "graph", || engine.graph(flow, GraphFormat::Dot)).await;
    read(desk, flow, "flow_summary", || engine.flow_summary(flow)).await;
    read(desk, flow, "count_flow", || engine.count_flow(flow)).await;
    read(desk, flow, "get_flow_tag", || engine.get_flow_tag(flow, tag)).await;
    read(desk, flow, "preview_replay", || engine.preview_replay(flow, ReplayScope::All)).await;
    read(desk, flow, "describe_execution", || engine.describe_execution(id)).await;
    read(desk, flow, "explain", || engine.explain(id)).await;
    read(desk, flow, "describe_edge", || engine.describe_edge(id, id)).await;
    read(desk, flow, "list_flows", || engine.list_flows(&all, None, PAGE_ROWS)).await;
    read(desk, flow, "list_executions", || engine.list_executions(&of_flow, None, PAGE_ROWS)).await;
    for direction in [Direction::Incoming, Direction::Outgoing] {
        read(desk, flow, "list_edges", || engine.list_edges(id, direction, None, PAGE_ROWS)).await;
    }
    // Whoever hears of an event by another way than the passes of dispatchers may have it served.
    let event = EventId(1 + id.uuid.as_u64_pair().1 % EVENTS);
    read(desk, flow, "dispatch", || engine.dispatch(event)).await;
    let request = engine.request_id();
    let give_up = async || match engine.give_up(id, "chaos", request).await {
        Err(EngineError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(EngineError::Invalid("what can be read was given up".into())),
    };
    read(desk, flow, "give_up", give_up).await;
}

/// Reads until there is an answer, and writes down an error that no fault explains.
async fn read<T, F: Future<Output = Result<T, EngineError>>>(
    desk: &Desk,
    flow: FlowId,
    call: &str,
    ask: impl Fn() -> F,
) {
    for _ in 0..READS_MAX {
        match ask().await {
            Err(error) if error.is_transient() => desk.pause(super::desk::REPEAT_AFTER).await,
            Ok(_) => return,
            Err(error) => {
                let unreadable = match error {
                    EngineError::Unreadable { execution, .. } => Some(execution),
                    _ => None,
                };
                let (flow, call, error) = (Some(flow), call.to_owned(), error.to_string());
                return desk.write(&Entry::Erred { flow, call, error, unreadable });
            }
        }
    }
}
