//! Flow rows: written once, read back, waited for while in flight; how they were closed.

use super::rows::{FLOW, OTHER, Seed, flow};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::identity::{FlowId, FlowKey, Partition};
use crate::state::ClosePolicy;
use crate::storage::{Flow, Inserted, Snapshot, Tags, Transaction};
use crate::time::Timestamp;

table! { "flows";
    a_flow_reads_back: "A flow by its key, if there is one.";
    values_at_the_edges_of_a_flow_read_back: "A flow by its key, as it was added.";
    a_flow_that_exists_stays_as_it_is: "One that exists stays as it is.";
    a_flow_is_one_of_its_partition: "A flow by its key: partition and id.";
    a_flow_in_flight_exists_after_the_commit:
        "Waits while another transaction holds its id in flight: it exists once that has \
         committed.";
    a_flow_in_flight_is_new_after_the_rollback:
        "Waits while another transaction holds its id in flight: it is new once that has rolled \
         back.";
    only_closed_flows_are_returned_in_key_order:
        "How these flows were closed; only closed ones are returned, in key order.";
    a_flow_may_change_as_often_as_it_likes:
        "Tells the projector that executions of these flows moved; once more each time.";
}

fn numbered(partition: u16, number: u128) -> FlowKey {
    FlowKey { partition: Partition(partition), id: FlowId(uuid::Uuid::from_u128(number)) }
}

async fn a_flow_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = flow(FLOW);
    let inserted = scene.commit(async |one| one.insert_flow(&row).await).await?;
    ensure_same!(inserted, Inserted::New, "a flow that is new");
    let read = scene.commit(async |one| one.read_flow(&FLOW).await).await?;
    ensure_same!(read, Some(row.clone()), "a flow in a transaction");
    let described = scene.reader().await?.describe_flow(&FLOW).await?;
    ensure_same!(described, Some(row), "a flow in a reader");
    let none = scene.commit(async |one| one.read_flow(&OTHER).await).await?;
    ensure_same!(none, None, "a flow that is not there");
    Ok(())
}

async fn values_at_the_edges_of_a_flow_read_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let whole = |closing, created_at, revision| Flow {
        closing,
        created_at: Timestamp(created_at),
        revision,
        ..flow(FLOW)
    };
    let rows = [
        whole(None, i64::MIN, 0),
        whole(Some(ClosePolicy::FlowOnly), -1, 1),
        whole(Some(ClosePolicy::CancelPending), 0, u64::MAX >> 1),
        whole(Some(ClosePolicy::CancelAll), i64::MAX, 2),
        Flow { instance_tag: None, namespace: "".into(), ..flow(FLOW) },
        Flow { tags: Tags::default().with("a.b", ""), ..flow(FLOW) },
        Flow {
            instance_tag: Some("größe=\u{6771}\u{4EAC} 'a' \"b\" \\".into()),
            namespace: "\u{1F680}\u{0301}".into(),
            content_hash: std::array::from_fn(|at| u8::try_from(at * 8).unwrap_or(0)),
            ..flow(FLOW)
        },
    ];
    for (number, row) in rows.into_iter().enumerate() {
        let row = Flow { key: numbered(255, number as u128), ..row };
        scene.commit(async |one| one.insert_flow(&row).await).await?;
        let read = scene.commit(async |one| one.read_flow(&row.key).await).await?;
        ensure_same!(read.as_ref(), Some(&row), "a flow in a transaction");
        let described = scene.reader().await?.describe_flow(&row.key).await?;
        ensure_same!(described, Some(row), "a flow in a reader");
    }
    Ok(())
}

async fn a_flow_that_exists_stays_as_it_is<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let first = flow(FLOW);
    let second = Flow { namespace: "other".into(), revision: 8, ..first.clone() };
    let inserted = scene
        .commit(async |one| {
            one.insert_flow(&first).await?;
            one.insert_flow(&second).await
        })
        .await?;
    ensure_same!(inserted, Inserted::Exists, "a flow that its own transaction added");
    let inserted = scene.commit(async |one| one.insert_flow(&second).await).await?;
    ensure_same!(inserted, Inserted::Exists, "a flow that exists");
    let read = scene.commit(async |one| one.read_flow(&FLOW).await).await?;
    ensure_same!(read, Some(first), "the flow");
    Ok(())
}

async fn a_flow_is_one_of_its_partition<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [0, 1, 255]
        .map(|partition| Flow { revision: u64::from(partition), ..flow(numbered(partition, 1)) });
    for row in &rows {
        let inserted = scene.commit(async |one| one.insert_flow(row).await).await?;
        ensure_same!(inserted, Inserted::New, "the same id in another partition");
    }
    for row in rows {
        let read = scene.commit(async |one| one.read_flow(&row.key).await).await?;
        ensure_same!(read, Some(row), "the flow of a partition");
    }
    Ok(())
}

async fn a_flow_in_flight_exists_after_the_commit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let (first, second) = (flow(FLOW), Flow { revision: 9, ..flow(FLOW) });
    let mut holder = scene.begin().await?;
    holder.insert_flow(&first).await?;
    let mut waiter = scene.second(async |one| one.insert_flow(&second).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (mut transaction, inserted) = waiter.await?;
    ensure_same!(inserted, Inserted::Exists, "a flow whose holder has committed");
    ensure_same!(transaction.read_flow(&FLOW).await?, Some(first), "the flow");
    transaction.commit().await?;
    Ok(())
}

async fn a_flow_in_flight_is_new_after_the_rollback<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let (first, second) = (flow(FLOW), Flow { revision: 9, ..flow(FLOW) });
    let mut holder = scene.begin().await?;
    holder.insert_flow(&first).await?;
    let mut waiter = scene.second(async |one| one.insert_flow(&second).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.rollback().await;
    let (transaction, inserted) = waiter.await?;
    ensure_same!(inserted, Inserted::New, "a flow whose holder has rolled back");
    transaction.commit().await?;
    let read = scene.commit(async |one| one.read_flow(&FLOW).await).await?;
    ensure_same!(read, Some(second), "the flow");
    Ok(())
}

async fn only_closed_flows_are_returned_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let closed = [
        (numbered(9, 1), Some(ClosePolicy::CancelAll)),
        (numbered(3, 5), Some(ClosePolicy::FlowOnly)),
        (numbered(3, 4), None),
        (numbered(3, 2), Some(ClosePolicy::CancelPending)),
    ];
    for (key, closing) in closed {
        let row = Flow { closing, ..flow(key) };
        scene.commit(async |one| one.insert_flow(&row).await).await?;
    }
    let asked = [numbered(9, 1), numbered(3, 5), numbered(3, 4), numbered(3, 2), numbered(9, 2)];
    let read = scene.commit(async |one| one.read_closings(&asked).await).await?;
    let expected = [
        (numbered(3, 2), ClosePolicy::CancelPending),
        (numbered(3, 5), ClosePolicy::FlowOnly),
        (numbered(9, 1), ClosePolicy::CancelAll),
    ];
    ensure_same!(read, expected, "the closings");
    let read = scene.commit(async |one| one.read_closings(&asked[2..3]).await).await?;
    ensure_same!(read, [], "the closing of an open flow");
    Ok(())
}

async fn a_flow_may_change_as_often_as_it_likes<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    scene
        .commit(async |one| {
            one.insert_flow_changes(&[OTHER, FLOW]).await?;
            one.insert_flow_changes(&[FLOW]).await
        })
        .await?;
    let mut holder = scene.begin().await?;
    holder.insert_flow_changes(&[FLOW]).await?;
    if scene.has_row_locks() {
        let other = scene.second(async |one| one.insert_flow_changes(&[FLOW]).await).await?;
        let (transaction, ()) = scene.passes(other, &mut holder).await?;
        transaction.commit().await?;
    }
    holder.commit().await?;
    let seen = scene.reader().await?.describe_flow(&FLOW).await?;
    ensure_same!(seen, Some(flow(FLOW)), "a flow whose executions moved");
    Ok(())
}
