//! Retention: flows that are over, and what is taken away with them.

use super::attempts::attempt;
use super::rows::{
    FLOW, NOW, OTHER, SUCCEEDED, Seed, edge, edge_key, event, flow, id, ids, lease_event, member,
};
use super::scene::Scene;
use super::submissions::{key, submission};
use super::summaries::{numbered, summary};
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::identity::FlowKey;
use crate::state::State;
use crate::storage::{
    EndedFlow, EndedScan, EventKey, EventPosition, Flow, Inserted, LeaseChange, NewEvent, Position,
    Request, RequestKey, Scope, Snapshot, StreamId, Summary, Transaction, UnnumberedQuery,
    all_readable,
};
use crate::summary::FlowStatus;
use crate::time::Timestamp;

table! { "retention";
    flows_that_are_over_come_in_the_order_in_which_they_ended:
        "Flows that are over, in the order in which they ended.";
    flows_that_are_over_had_ended_by_then: "Those whose summaries say that they had ended by then.";
    flows_that_are_over_come_in_pages: "Exclusive cursor; at most so many.";
    flows_that_are_over_are_of_their_scope: "Which flows; applied before the limit.";
    a_summary_without_a_flow_is_not_over: "One without a flow is left out.";
    events_are_counted_with_a_place_and_without:
        "How many events these executions have, with a position or without.";
    history_is_taken_away_with_its_execution: "Takes away the history of locked executions.";
    edges_are_taken_away_with_their_group: "Takes away the edges into locked groups.";
    groups_and_executions_are_taken_away: "Takes away locked groups, and locked executions.";
    what_stands_beside_a_flow_is_taken_away:
        "Takes away the records of every call on a locked flow, its key, its summary and itself.";
    events_are_taken_away_by_their_keys: "Takes away events that have a position.";
    an_event_without_a_place_stays: "An event without a position stays.";
    what_is_taken_away_comes_back_with_a_rollback: "Everything up to commit, or nothing.";
    a_key_that_is_being_taken_away_is_waited_for:
        "Waits while another transaction holds the key in flight.";
    a_lock_that_waited_for_what_is_gone_leaves_it_out:
        "Returns each as it stands once its lock is held.";
}

fn everything() -> EndedScan {
    EndedScan { scope: Scope::default(), ended_by: NOW, after: None, limit: 999 }
}

fn over(flow: FlowKey, ended_at: i64) -> Summary {
    Summary { ended_at: Some(Timestamp(ended_at)), ..summary(flow, 1, FlowStatus::Completed) }
}

/// Flows with summaries.
async fn add<S: Subject>(scene: &Scene<'_, S>, rows: &[(Flow, Summary)]) -> Verdict {
    scene
        .commit(async |one| {
            for (flow, summary) in rows {
                one.insert_flow(flow).await?;
                one.insert_summary(summary).await?;
            }
            Ok(())
        })
        .await
}

async fn scan<S: Subject>(
    scene: &Scene<'_, S>,
    scan: &EndedScan,
) -> Result<Vec<(i64, u128)>, super::Breach> {
    let found = scene.reader().await?.scan_ended_flows(scan).await?;
    let shown = |one: EndedFlow| (one.ended_at.0, one.flow.id.0.as_u128());
    Ok(found.into_iter().map(shown).collect())
}

/// Flows 1 to 4 of partition 7 and flow 5 of partition 3, of which flow 4 is not over.
async fn some<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    let ended = [(7, 1, 30), (7, 2, 10), (7, 3, 20), (3, 5, 20)];
    let mut rows: Vec<(Flow, Summary)> = Vec::new();
    for (partition, number, at) in ended {
        let key = numbered(partition, number);
        rows.push((flow(key), over(key, at)));
    }
    let open = numbered(7, 4);
    rows.push((flow(open), summary(open, 1, FlowStatus::Running)));
    add(scene, &rows).await
}

async fn flows_that_are_over_come_in_the_order_in_which_they_ended<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    some(&scene).await?;
    let found = scan(&scene, &everything()).await?;
    ensure_same!(found, [(10, 2), (20, 5), (20, 3), (30, 1)], "flows that are over");
    Ok(())
}

async fn flows_that_are_over_had_ended_by_then<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    some(&scene).await?;
    for (by, count) in [(9, 0), (10, 1), (19, 1), (20, 3), (30, 4)] {
        let found = scan(&scene, &EndedScan { ended_by: Timestamp(by), ..everything() }).await?;
        ensure_same!(found.len(), count, "flows that had ended by then");
    }
    Ok(())
}

async fn flows_that_are_over_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    some(&scene).await?;
    let mut page = EndedScan { limit: 1, ..everything() };
    for expected in [(10, 2), (20, 5), (20, 3), (30, 1)] {
        let found = scene.reader().await?.scan_ended_flows(&page).await?;
        let shown = |one: &EndedFlow| (one.ended_at.0, one.flow.id.0.as_u128());
        ensure_same!(found.iter().map(shown).collect::<Vec<_>>(), [expected], "a page of one");
        page.after = found.last().copied();
    }
    ensure_same!(scan(&scene, &page).await?, [], "behind the last page");
    let none = scan(&scene, &EndedScan { limit: 0, ..everything() }).await?;
    ensure_same!(none, [], "a page of none");
    Ok(())
}

async fn flows_that_are_over_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let keys = [numbered(7, 1), numbered(7, 2), numbered(7, 3), numbered(9, 4)];
    let foreign = Flow { namespace: "other".into(), ..flow(keys[0]) };
    let untagged = Flow { instance_tag: None, ..flow(keys[1]) };
    let flows = [foreign, untagged, flow(keys[2]), flow(keys[3])];
    let rows: Vec<_> = flows.into_iter().map(|flow| (flow.clone(), over(flow.key, 5))).collect();
    add(&scene, &rows).await?;
    let scope = Scope {
        partitions: 7..8,
        namespace: Some("tenant".into()),
        instance_tag: Some("region=north".into()),
    };
    let found = scan(&scene, &EndedScan { scope: scope.clone(), limit: 1, ..everything() }).await?;
    ensure_same!(found, [(5, 3)], "flows of the whole scope");
    let scope = Scope { partitions: 8..10, ..Scope::default() };
    let found = scan(&scene, &EndedScan { scope, ..everything() }).await?;
    ensure_same!(found, [(5, 4)], "flows of the partitions");
    Ok(())
}

async fn a_summary_without_a_flow_is_not_over<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.commit(async |one| one.insert_summary(&over(FLOW, 5)).await).await?;
    ensure_same!(scan(&scene, &everything()).await?, [], "flows that are over");
    Ok(())
}

/// Executions 1 and 2 lead into 3, all have ended; events of 1 in two incarnations and of 2.
async fn ended<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    let members = (1..=3).map(|number| member(number, SUCCEEDED));
    scene.seed(&Seed::members(members).edges([edge(1, 3), edge(2, 3)])).await?;
    let again = NewEvent { incarnation: 1, ..event(1) };
    scene.commit(async |one| one.insert_events(&[event(1), event(2), again]).await).await
}

async fn events_are_counted_with_a_place_and_without<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene).await?;
    place(&scene, 1).await?;
    for (numbers, count) in [(&[1][..], 2), (&[2], 1), (&[3, 4], 0), (&[3, 2, 1], 3), (&[], 0)] {
        let ids = ids(numbers);
        let counted = scene.commit(async |one| one.count_events(&ids).await).await?;
        ensure_same!(counted, count, "events of these executions");
    }
    Ok(())
}

/// Gives so many events their places.
async fn place<S: Subject>(scene: &Scene<'_, S>, limit: u32) -> Verdict {
    scene
        .commit(async |one| {
            one.lock_stream_head(&StreamId::EVENTS).await?;
            let query = UnnumberedQuery { partitions: 0..u16::MAX, limit };
            let events = one.lock_unnumbered_events(&query).await?;
            let rows: Vec<EventPosition> = events
                .iter()
                .zip(1..)
                .map(|(event, place)| EventPosition { key: event.key, position: Position(place) })
                .collect();
            one.write_positions(&rows).await.map(drop)
        })
        .await
}

async fn history_is_taken_away_with_its_execution<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene).await?;
    let rows = [attempt(1, 1), attempt(1, 2), attempt(2, 1)];
    scene.commit(async |one| one.insert_attempts(&rows).await).await?;
    let taken = scene
        .commit(async |one| {
            one.lock_executions(&ids(&[1, 3])).await?;
            one.delete_attempts(&ids(&[3, 1])).await
        })
        .await?;
    ensure_same!(taken, 2, "attempts taken away");
    for (row, left) in rows.iter().zip([None, None, Some(rows[2])]) {
        let read = scene.commit(async |one| one.read_attempt(&row.key).await).await?;
        ensure_same!(read, left, "an attempt afterwards");
    }
    Ok(())
}

async fn edges_are_taken_away_with_their_group<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = (1..=4).map(|number| member(number, State::Blocked));
    let edges = [edge(1, 3), edge(2, 3), edge(3, 4)];
    scene.seed(&Seed::members(members).edges(edges)).await?;
    let taken = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3])).await?;
            Ok((one.delete_edges(&ids(&[3])).await?, one.delete_edges(&ids(&[3])).await?))
        })
        .await?;
    ensure_same!(taken, (2, 0), "edges taken away, and again");
    let left = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    let left: Vec<_> = left.into_iter().map(|edge| edge.key).collect();
    ensure_same!(left, [edge_key(3, 4)], "the edges that are left");
    Ok(())
}

async fn groups_and_executions_are_taken_away<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene).await?;
    let taken = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3])).await?;
            one.lock_executions(&ids(&[1, 3])).await?;
            let edges = one.delete_edges(&ids(&[1, 3])).await?;
            let groups = one.delete_groups(&ids(&[1, 3])).await?;
            Ok((edges, groups, one.delete_executions(&ids(&[3, 1])).await?))
        })
        .await?;
    ensure_same!(taken, (2, 1, 2), "edges, groups and executions taken away");
    let mut reader = scene.reader().await?;
    let left = all_readable(reader.describe_executions(&FLOW).await?)?;
    let left: Vec<_> = left.into_iter().map(|view| view.execution.id).collect();
    ensure_same!(left, [id(2)], "the executions that are left");
    ensure_same!(reader.describe_groups(&FLOW).await?, [], "the groups that are left");
    Ok(())
}

async fn what_stands_beside_a_flow_is_taken_away<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let request = |flow: FlowKey, number: u16| Request {
        key: RequestKey { flow, request: super::rows::request(number) },
        content_hash: [4; 32],
        reply: std::sync::Arc::from([7].as_slice()),
    };
    let other = crate::storage::Submission { flow: OTHER, ..submission(key("tenant", "b"), 2) };
    let keys = [submission(key("tenant", "a"), 1), other];
    add(&scene, &[FLOW, OTHER].map(|one| (flow(one), over(one, 5)))).await?;
    scene
        .commit(async |one| {
            for row in &keys {
                one.insert_submission(row).await?;
            }
            for row in [request(FLOW, 1), request(FLOW, 2), request(OTHER, 1)] {
                one.insert_request(&row).await?;
            }
            Ok(())
        })
        .await?;
    let taken = scene
        .commit(async |one| {
            one.lock_flow(&FLOW).await?;
            one.lock_summaries(&[FLOW]).await?;
            let requests = one.delete_requests(&FLOW).await?;
            let submission = one.delete_submission(&FLOW).await?;
            let summary = one.delete_summary(&FLOW).await?;
            Ok((requests, submission, summary, one.delete_flow(&FLOW).await?))
        })
        .await?;
    ensure_same!(taken, (2, 1, 1, 1), "calls, keys, summaries and flows taken away");
    for (at, there) in [(FLOW, false), (OTHER, true)] {
        let found = scene
            .commit(async |one| {
                let request = one.read_request(&request(at, 1).key).await?.is_some();
                let submitted = &keys[usize::from(at == OTHER)];
                let submission = one.read_submission(&submitted.key).await?.is_some();
                let summary = !one.lock_summaries(&[at]).await?.is_empty();
                Ok([request, submission, summary, one.read_flow(&at).await?.is_some()])
            })
            .await?;
        ensure_same!(found, [there; 4], "a call, the key, the summary and the flow afterwards");
    }
    Ok(())
}

async fn events_are_taken_away_by_their_keys<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene).await?;
    let released = [1, 2].map(|attempt| lease_event(2, attempt, LeaseChange::Released));
    scene.commit(async |one| one.insert_events(&released).await).await?;
    place(&scene, 99).await?;
    let key =
        |number: u16, incarnation| EventKey { execution: id(number), incarnation, lease: None };
    let taken = scene
        .commit(async |one| {
            one.lock_stream_head(&StreamId::EVENTS).await?;
            let keys = [key(2, 0), key(1, 0), key(1, 9), key(3, 0), released[1].key()];
            one.delete_events(&keys).await
        })
        .await?;
    ensure_same!(taken, 3, "events taken away");
    let left = scene.commit(async |one| one.count_events(&ids(&[1, 2])).await).await?;
    ensure_same!(left, 2, "events that are left");
    Ok(())
}

async fn an_event_without_a_place_stays<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene).await?;
    place(&scene, 1).await?;
    let unplaced = UnnumberedQuery { partitions: 0..u16::MAX, limit: 99 };
    let unplaced = scene.commit(async |one| one.lock_unnumbered_events(&unplaced).await).await?;
    let taken = scene
        .commit(async |one| {
            one.lock_stream_head(&StreamId::EVENTS).await?;
            let keys: Vec<EventKey> = unplaced.iter().map(|event| event.key).collect();
            one.delete_events(&keys).await
        })
        .await?;
    ensure_same!(taken, 0, "events without a place that were taken away");
    let left = scene.commit(async |one| one.count_events(&ids(&[1, 2])).await).await?;
    ensure_same!(left, 3, "events that are left");
    Ok(())
}

async fn what_is_taken_away_comes_back_with_a_rollback<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ended(&scene).await?;
    let before = all_readable(scene.reader().await?.describe_executions(&FLOW).await?)?;
    let mut transaction = scene.begin().await?;
    transaction.lock_flow(&FLOW).await?;
    transaction.lock_groups(&ids(&[3])).await?;
    transaction.lock_executions(&ids(&[1, 2, 3])).await?;
    transaction.delete_edges(&ids(&[3])).await?;
    transaction.delete_groups(&ids(&[3])).await?;
    transaction.delete_executions(&ids(&[1, 2, 3])).await?;
    transaction.delete_flow(&FLOW).await?;
    let own = transaction.read_standings(&FLOW).await?;
    ensure_same!(own, [], "executions as the transaction sees them");
    transaction.rollback().await;
    let mut reader = scene.reader().await?;
    let after = all_readable(reader.describe_executions(&FLOW).await?)?;
    ensure_same!(after, before, "executions afterwards");
    ensure_same!(reader.describe_edges(&FLOW).await?.len(), 2, "edges afterwards");
    ensure_same!(reader.describe_flow(&FLOW).await?, Some(flow(FLOW)), "the flow afterwards");
    Ok(())
}

async fn a_key_that_is_being_taken_away_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = submission(key("tenant", "a"), 1);
    for commits in [false, true] {
        scene
            .commit(async |one| {
                one.insert_flow(&flow(FLOW)).await?;
                one.insert_submission(&row).await
            })
            .await?;
        let mut holder = scene.begin().await?;
        holder.lock_flow(&FLOW).await?;
        holder.delete_submission(&FLOW).await?;
        holder.delete_flow(&FLOW).await?;
        let insert = scene.second(async |one| {
            let key = one.insert_submission(&row).await?;
            Ok((key, one.insert_flow(&flow(FLOW)).await?))
        });
        let mut waiter = insert.await?;
        scene.waits(&mut waiter, &mut holder).await?;
        let expected = match commits {
            true => holder.commit().await.map(|()| Inserted::New)?,
            false => {
                holder.rollback().await;
                Inserted::Exists
            }
        };
        let (transaction, inserted) = waiter.await?;
        ensure_same!(inserted, (expected, expected), "the key and the flow after the wait");
        transaction.commit().await?;
    }
    Ok(())
}

async fn a_lock_that_waited_for_what_is_gone_leaves_it_out<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    ended(&scene).await?;
    let mut holder = scene.begin().await?;
    holder.lock_flow(&FLOW).await?;
    holder.lock_groups(&ids(&[3])).await?;
    holder.lock_executions(&ids(&[3])).await?;
    holder.delete_edges(&ids(&[3])).await?;
    holder.delete_groups(&ids(&[3])).await?;
    holder.delete_executions(&ids(&[3])).await?;
    holder.delete_flow(&FLOW).await?;
    let mut flows = scene.second(async |one| one.lock_flow(&FLOW).await).await?;
    scene.waits(&mut flows, &mut holder).await?;
    let mut groups = scene.second(async |one| one.lock_groups(&ids(&[3])).await).await?;
    scene.waits(&mut groups, &mut holder).await?;
    let mut rows = scene.second(async |one| one.lock_executions(&ids(&[2, 3])).await).await?;
    scene.waits(&mut rows, &mut holder).await?;
    holder.commit().await?;
    let (transaction, found) = flows.await?;
    ensure_same!(found, None, "the flow after the wait");
    transaction.commit().await?;
    let (transaction, found) = groups.await?;
    ensure_same!(found, [], "the group after the wait");
    transaction.commit().await?;
    let (transaction, found) = rows.await?;
    ensure_same!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [id(2)], "the executions");
    transaction.commit().await?;
    Ok(())
}
