use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};

use super::*;

/// A flow of three roots and one sink, all of it completed; drained as far as that says.
async fn completed(dispatched: bool) -> (Shape, FlowKey, Seen, BTreeSet<ExecutionId>) {
    let storage = SqliteStorage::open(SqliteOptions::memory()).unwrap();
    let storage = BoxStorage::new(storage);
    let engine = drive::handle(&storage);
    let shape = Shape::fan_in(3);
    let flow = drive::submit(&engine, &shape).await.unwrap();
    drive::complete_ready(&engine, 3).await.unwrap();
    if dispatched {
        drive::drain(&engine, drive::Dispatchers::One, &drive::scope(flow)).await.unwrap();
        drive::complete_ready(&engine, 1).await.unwrap();
    }
    let events = verify::read_events(&storage).await.unwrap();
    let seen = verify::read(&storage, flow, &events).await.unwrap();
    let ended = seen.events.iter().map(|event| event.event.execution).collect();
    (shape, flow, seen, ended)
}

/// Spoils a drained flow: what is stuck and what is lost then.
async fn check(spoil: impl FnOnce(&mut Seen), stuck: usize, lost: usize) {
    let (shape, flow, mut seen, acknowledged) = completed(true).await;
    spoil(&mut seen);
    let left = left(&shape, flow, &seen, &acknowledged);
    assert_eq!((left.stuck, left.lost), (stuck, lost), "{:?}", left.words);
}

#[tokio::test]
async fn a_drained_flow_leaves_nothing() {
    check(|_| {}, 0, 0).await;
}

#[tokio::test]
async fn what_no_dispatcher_took_is_stuck_and_not_lost() {
    let (shape, flow, seen, acknowledged) = completed(false).await;
    let left = left(&shape, flow, &seen, &acknowledged);
    assert_eq!((left.stuck, left.lost), (4, 0), "{:?}", left.words);
}

#[tokio::test]
async fn an_acknowledged_completion_that_is_gone_is_lost() {
    let gone = |seen: &mut Seen| {
        let root = seen.executions.iter_mut().find(|view| !view.execution.has_in).unwrap();
        root.execution.state = State::Ready;
    };
    // Its event has no ending beside it either.
    check(gone, 1, 2).await;
}

#[tokio::test]
async fn a_pending_edge_of_a_propagated_upstream_is_lost() {
    check(|seen| seen.edges[0].resolution = Resolution::Pending, 0, 2).await;
}

#[tokio::test]
async fn a_counter_that_lost_an_arrival_is_lost() {
    check(|seen| seen.groups[0].satisfied -= 1, 0, 1).await;
}

#[tokio::test]
async fn a_lost_or_repeated_event_is_lost() {
    check(|seen| drop(seen.events.pop()), 0, 1).await;
    check(|seen| seen.events.push(seen.events[0].clone()), 0, 1).await;
}
