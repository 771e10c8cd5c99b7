use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};

use super::*;
use crate::bench::drive::{self, Dispatchers};

/// A drained flow of three roots and one sink, as the database shows it.
async fn fan_in() -> (BoxStorage, Shape, FlowKey, Seen) {
    let storage = SqliteStorage::open(SqliteOptions::memory()).unwrap();
    let storage = BoxStorage::new(storage);
    let engine = drive::handle(&storage);
    let shape = Shape::fan_in(3);
    let flow = drive::submit(&engine, &shape).await.unwrap();
    drive::complete_ready(&engine, 3).await.unwrap();
    drive::drain(&engine, Dispatchers::One, &drive::scope(flow)).await.unwrap();
    let events = read_events(&storage).await.unwrap();
    let seen = read(&storage, flow, &events).await.unwrap();
    (storage, shape, flow, seen)
}

/// Spoils what was seen; the checker must say so in these words.
async fn check(spoil: impl FnOnce(&mut Seen), words: &str) {
    let (_, shape, flow, mut seen) = fan_in().await;
    let expected = Expected::first(&shape, flow, 3, Outcome::Succeeded);
    assert_eq!(expected.differences(&seen), [""; 0]);
    spoil(&mut seen);
    let wrong = expected.differences(&seen).join("; ");
    assert!(wrong.contains(words), "`{wrong}` does not say `{words}`");
}

#[tokio::test]
async fn a_drained_flow_is_as_its_shape_calls_for() {
    let (storage, shape, flow, _) = fan_in().await;
    let expected = Expected::first(&shape, flow, 3, Outcome::Succeeded);
    assert_eq!(verify(&storage, &[expected]).await, Ok(()));
}

#[tokio::test]
async fn a_flow_that_has_not_drained_is_refused() {
    let storage = BoxStorage::new(SqliteStorage::open(SqliteOptions::memory()).unwrap());
    let engine = drive::handle(&storage);
    let shape = Shape::fan_in(3);
    let flow = drive::submit(&engine, &shape).await.unwrap();
    drive::complete_ready(&engine, 3).await.unwrap();
    let expected = Expected::first(&shape, flow, 3, Outcome::Succeeded);
    let why = verify(&storage, &[expected]).await.unwrap_err();
    assert!(why.contains("propagated = false"), "{why}");
}

#[tokio::test]
async fn a_stuck_downstream_is_seen() {
    let stuck = |seen: &mut Seen| {
        let sink = seen.executions.iter_mut().find(|view| view.execution.has_in).unwrap();
        sink.execution.state = State::Blocked;
    };
    check(stuck, "node 3 is blocked and not ready").await;
}

#[tokio::test]
async fn a_lost_execution_is_seen() {
    check(|seen| drop(seen.executions.pop()), "3 executions").await;
}

#[tokio::test]
async fn an_upstream_that_is_not_propagated_is_seen() {
    let left = |seen: &mut Seen| {
        let root = seen.executions.iter_mut().find(|view| view.execution.has_out).unwrap();
        root.execution.propagated = false;
    };
    check(left, "says propagated = false").await;
}

#[tokio::test]
async fn a_counter_that_lost_an_arrival_is_seen() {
    check(|seen| seen.groups[0].satisfied -= 1, "group Some(3)").await;
}

#[tokio::test]
async fn an_undecided_group_is_seen() {
    check(|seen| seen.groups[0].decision = Decision::Undecided, "group Some(3)").await;
}

#[tokio::test]
async fn a_pending_edge_is_seen() {
    let pending = |seen: &mut Seen| {
        seen.edges[1].resolution = Resolution::Pending;
        seen.edges[1].upstream_incarnation = None;
    };
    check(pending, "and not Satisfied").await;
}

#[tokio::test]
async fn a_lost_edge_is_seen() {
    check(|seen| drop(seen.edges.pop()), "2 edges").await;
}

#[tokio::test]
async fn a_lost_event_is_seen() {
    check(|seen| drop(seen.events.pop()), "has the events []").await;
}

#[tokio::test]
async fn a_second_event_is_seen() {
    let again = |seen: &mut Seen| seen.events.push(seen.events[0].clone());
    check(again, "has the events [Succeeded, Succeeded]").await;
}

#[tokio::test]
async fn a_second_attempt_is_seen() {
    check(|seen| seen.executions[0].execution.attempt = 2, "at attempt 2").await;
}
