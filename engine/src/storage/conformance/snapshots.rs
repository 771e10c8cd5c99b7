//! Readers: what they describe, and which instant they see.

use super::rows::{
    FLOW, NOW, OTHER, SUCCEEDED, Seed, claim, edge, flow, group, id, id_in, ids, in_partition,
    member, to_state,
};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::identity::FlowKey;
use crate::policy::{Decision, JoinPolicy};
use crate::state::State;
use crate::storage::{
    Consistency, Edge, EdgeKey, ExecutionWrite, Group, Inserted, ResultChange, Snapshot, Storage,
    Transaction, all_readable,
};

table! { "snapshots";
    what_is_not_there_is_described_as_nothing:
        "A flow, if there is one; an execution, if there is one.";
    executions_of_a_flow_come_in_id_order: "The executions of a flow, in id order.";
    groups_of_a_flow_come_in_id_order: "The groups of a flow, in id order.";
    edges_of_a_flow_come_in_key_order:
        "The edges of a flow, found through its groups, in key order.";
    an_execution_shows_its_worker_and_its_result: "An execution as a snapshot shows it.";
    a_reader_of_statements_sees_each_commit: "Each verb sees what had committed when it began.";
    a_reader_of_one_instant_sees_no_later_commit:
        "All verbs see the instant at which the reader was opened.";
    a_reader_of_one_instant_sees_what_had_committed:
        "All verbs see the instant at which the reader was opened.";
    a_reader_sees_no_uncommitted_row: "Opens a reader, which sees committed rows alone.";
    a_reader_waits_for_no_lock: "Takes no lock and never waits for one.";
    no_transaction_waits_for_a_reader: "No transaction ever waits for a reader.";
}

async fn what_is_not_there_is_described_as_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let mut reader = scene.reader().await?;
    let elsewhere = FlowKey { partition: crate::identity::Partition(8), ..FLOW };
    for key in [OTHER, elsewhere] {
        ensure_same!(reader.describe_flow(&key).await?, None, "a flow");
        ensure_same!(reader.describe_executions(&key).await?, [], "executions");
        ensure_same!(reader.describe_groups(&key).await?, [], "groups");
        ensure_same!(reader.describe_edges(&key).await?, [], "edges");
    }
    for id in [id(2), id_in(8, 1)] {
        ensure_same!(reader.describe_execution(&id).await?, None, "an execution");
    }
    Ok(())
}

/// A flow of five and, in the same partition and in another one, its neighbours.
fn neighbours() -> Seed {
    let of = |number, flow: FlowKey| {
        let mut row = member(number, State::Blocked);
        row.execution.flow = flow.id;
        row
    };
    let home = [9, 3, 5, 7, 1].map(|number| of(number, FLOW));
    let next = [2, 4].map(|number| of(number, OTHER));
    let far = [1, 3].map(|number| in_partition(8, of(number, FLOW)));
    let far_key = EdgeKey { downstream: id_in(8, 3), upstream: id_in(8, 1) };
    let edges = [
        edge(7, 9),
        edge(1, 9),
        edge(3, 9),
        edge(3, 5),
        edge(1, 5),
        edge(2, 4),
        Edge { key: far_key, ..edge(1, 3) },
    ];
    let mut seed = Seed::members(home.into_iter().chain(next).chain(far)).edges(edges);
    for group in seed.groups.iter_mut().filter(|group| group.downstream == id(4)) {
        group.flow = OTHER.id;
    }
    seed
}

async fn executions_of_a_flow_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&neighbours()).await?;
    let seen = all_readable(scene.reader().await?.describe_executions(&FLOW).await?)?;
    let seen: Vec<_> = seen.iter().map(|view| view.execution.id).collect();
    ensure_same!(seen, ids(&[1, 3, 5, 7, 9]), "executions of the flow");
    Ok(())
}

async fn groups_of_a_flow_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&neighbours()).await?;
    let seen = all_readable(scene.reader().await?.describe_groups(&FLOW).await?)?;
    let expected = [group(5, JoinPolicy::AllOf, 2), group(9, JoinPolicy::AllOf, 3)];
    ensure_same!(seen, expected, "groups of the flow");
    let seen = all_readable(scene.reader().await?.describe_groups(&OTHER).await?)?;
    let expected = Group { flow: OTHER.id, ..group(4, JoinPolicy::AllOf, 1) };
    ensure_same!(seen, [expected], "groups of its neighbour");
    Ok(())
}

async fn edges_of_a_flow_come_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&neighbours()).await?;
    let seen = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    let expected = [edge(1, 5), edge(3, 5), edge(1, 9), edge(3, 9), edge(7, 9)];
    ensure_same!(seen, expected, "edges of the flow");
    let seen = all_readable(scene.reader().await?.describe_edges(&OTHER).await?)?;
    ensure_same!(seen, [edge(2, 4)], "edges of its neighbour");
    Ok(())
}

async fn an_execution_shows_its_worker_and_its_result<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    scene.claim(&claim(1)).await?;
    let row = scene.execution(1).await?;
    let result = ResultChange::Set(std::sync::Arc::from(*b"half"));
    scene.write(&ExecutionWrite { guard: row.guard(), after: row, result }).await?;
    let one = scene.view(1).await?;
    let seen = (one.worker.as_deref(), one.result.as_deref());
    ensure_same!(seen, (Some("worker"), Some(&b"half"[..])), "worker and result");
    let all = all_readable(scene.reader().await?.describe_executions(&FLOW).await?)?;
    ensure_same!(all, [one, scene.view(2).await?], "the same rows by their flow");
    Ok(())
}

async fn a_reader_of_statements_sees_each_commit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut reader = scene.reader().await?;
    ensure_same!(reader.describe_flow(&FLOW).await?, None, "the flow before its commit");
    scene.seed(&Seed::ready_to(1)).await?;
    let seen = reader.describe_flow(&FLOW).await?;
    ensure_same!(seen, Some(flow(FLOW)), "the flow after its commit");
    let row = scene.execution(1).await?;
    scene.write(&to_state(&row, SUCCEEDED)).await?;
    let seen = reader.describe_execution(&id(1)).await?.map(|view| view.execution.state);
    ensure_same!(seen, Some(SUCCEEDED), "the state after its commit");
    Ok(())
}

async fn a_reader_of_one_instant_sees_no_later_commit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut reader = scene.storage.snapshot(Consistency::Snapshot).await?;
    scene.seed(&neighbours()).await?;
    let seen = reader.describe_flow(&FLOW).await?;
    ensure_same!(seen, None, "a flow that was committed before the first read");
    ensure_same!(reader.describe_executions(&FLOW).await?, [], "its executions");
    ensure_same!(reader.describe_groups(&FLOW).await?, [], "its groups");
    ensure_same!(reader.describe_edges(&FLOW).await?, [], "its edges");
    drop(reader);
    let mut reader = scene.storage.snapshot(Consistency::Snapshot).await?;
    let before = all_readable(reader.describe_executions(&FLOW).await?)?;
    for number in [1, 3] {
        let row = scene.execution(number).await?;
        scene.write(&to_state(&row, SUCCEEDED)).await?;
    }
    let seen = all_readable(reader.describe_executions(&FLOW).await?)?;
    ensure_same!(seen, before, "executions that were written between two reads");
    drop(reader);
    let after = all_readable(scene.reader().await?.describe_executions(&FLOW).await?)?;
    ensure_same!(after[0].execution.state, SUCCEEDED, "the state once the reader is closed");
    Ok(())
}

async fn a_reader_of_one_instant_sees_what_had_committed<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let seed = neighbours();
    scene.seed(&seed).await?;
    let mut reader = scene.storage.snapshot(Consistency::Snapshot).await?;
    ensure_same!(reader.describe_flow(&FLOW).await?, Some(flow(FLOW)), "the flow");
    ensure_same!(reader.describe_executions(&FLOW).await?.len(), 5, "its executions");
    ensure_same!(reader.describe_groups(&FLOW).await?.len(), 2, "its groups");
    ensure_same!(reader.describe_edges(&FLOW).await?.len(), 5, "its edges");
    ensure_same!(reader.describe_execution(&id(5)).await?.is_some(), true, "an execution");
    let page =
        crate::storage::Page { scope: crate::storage::Scope::default(), after: None, limit: 9 };
    ensure_same!(reader.scan_stuck_groups(&page).await?, [], "stuck groups");
    let scan = crate::storage::UpstreamScan { page: page.clone(), finished_by: None };
    ensure_same!(reader.scan_upstreams(&scan).await?, [], "upstreams");
    let scan = crate::storage::OverdueScan { page, now: NOW };
    ensure_same!(reader.scan_overdue(&scan).await?, [], "overdue executions");
    Ok(())
}

async fn a_reader_sees_no_uncommitted_row<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&neighbours()).await?;
    let mut writer = scene.begin().await?;
    let groups = writer.lock_groups(&ids(&[9])).await?;
    let locked = writer.lock_executions(&ids(&[1])).await?;
    writer.write_executions(&[to_state(&locked[0], SUCCEEDED)]).await?;
    let decided = Group { satisfied: 1, decision: Decision::Impossible, ..groups[0] };
    writer.write_groups(&[decided]).await?;
    let third = FlowKey { id: crate::identity::FlowId(uuid::Uuid::from_u128(3)), ..FLOW };
    let inserted = writer.insert_flow(&flow(third)).await?;
    ensure_same!(inserted, Inserted::New, "another flow");
    for consistency in [Consistency::Statement, Consistency::Snapshot] {
        if !scene.reads_beside() {
            continue;
        }
        let reading: super::scene::Beside<'_, _> = Box::pin(async {
            let mut reader = scene.storage.snapshot(consistency).await?;
            let view = reader.describe_execution(&id(1)).await?;
            let groups = all_readable(reader.describe_groups(&FLOW).await?)?;
            Ok((view.map(|view| view.execution), groups[1]))
        });
        let seen = scene.passes(reading, &mut writer).await?;
        ensure_same!(seen, (Some(locked[0]), groups[0]), "what a reader sees meanwhile");
    }
    writer.commit().await?;
    let seen = scene.execution(1).await?.state;
    ensure_same!(seen, SUCCEEDED, "the state after the commit");
    Ok(())
}

async fn a_reader_waits_for_no_lock<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&neighbours()).await?;
    let mut holder = scene.begin().await?;
    holder.lock_groups(&ids(&[5, 9])).await?;
    holder.lock_executions(&ids(&[1, 3, 5, 7, 9])).await?;
    let seen = scene.read_beside(&mut holder, async |reader| {
        let executions = reader.describe_executions(&FLOW).await?.len();
        Ok((executions, reader.describe_groups(&FLOW).await?.len()))
    });
    let expected = scene.reads_beside().then_some((5, 2));
    ensure_same!(seen.await?, expected, "what a reader sees of rows that are locked");
    holder.rollback().await;
    Ok(())
}

async fn no_transaction_waits_for_a_reader<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&neighbours()).await?;
    for consistency in [Consistency::Statement, Consistency::Snapshot] {
        let mut reader = scene.storage.snapshot(consistency).await?;
        reader.describe_executions(&FLOW).await?;
        let row = scene.execution(1).await?;
        let state = if row.state == State::Ready { SUCCEEDED } else { State::Ready };
        let written = scene.write(&to_state(&row, state)).await?;
        ensure_same!(written, 1, "rows written beside a reader of {consistency:?}");
        reader.describe_executions(&FLOW).await?;
    }
    Ok(())
}
