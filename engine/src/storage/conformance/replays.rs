//! What a replay reads and writes: how executions stand, and edges that wait again.

use super::rows::{
    FAILED, FLOW, OTHER, Seed, edge, edge_key, flip, id, id_in, ids, in_partition, member,
    resolved, to_state,
};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::replay::Standing;
use crate::state::{Cause, Outcome, State};
use crate::storage::{Edge, EdgeKey, Resolution, Snapshot, Transaction, all_readable};

table! { "replays";
    standings_come_in_id_order: "How the executions of a flow stand, in id order.";
    standings_show_what_the_transaction_wrote: "Each verb sees its own transaction's writes.";
    an_edge_that_is_reset_is_pending_again:
        "Makes edges of locked groups pending again, whatever they were, so that no incarnation \
         has resolved them; returns how many it found.";
    an_edge_that_is_reset_is_resolved_again: "Makes edges of locked groups pending again.";
}

async fn standings_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut lost = member(2, State::Terminal(Outcome::Cancelled));
    lost.execution.cause = Some(Cause::Sibling);
    lost.execution.incarnation = u32::MAX;
    let mut other = member(4, State::Ready);
    other.execution.flow = OTHER.id;
    let members = [member(3, State::Blocked), lost, member(1, FAILED), other];
    scene
        .seed(&Seed::members(members.into_iter().chain([in_partition(3, member(5, FAILED))])))
        .await?;
    let read = scene.commit(async |one| one.read_standings(&FLOW).await).await?;
    let standing =
        |number, state, cause, incarnation| Standing { id: id(number), state, cause, incarnation };
    let expected = [
        standing(1, FAILED, Some(Cause::Handler), 0),
        standing(2, State::Terminal(Outcome::Cancelled), Some(Cause::Sibling), u32::MAX),
        standing(3, State::Blocked, None, 0),
    ];
    ensure_same!(read, expected, "standings");
    Ok(())
}

async fn standings_show_what_the_transaction_wrote<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, State::Ready)])).await?;
    let mut transaction = scene.begin().await?;
    let locked = transaction.lock_executions(&ids(&[1])).await?;
    transaction.write_executions(&[to_state(&locked[0], FAILED)]).await?;
    let read = transaction.read_standings(&FLOW).await?;
    ensure_same!(read.first().map(|one| one.state), Some(FAILED), "state");
    transaction.rollback().await;
    Ok(())
}

/// 1 -> 3 and 2 -> 3 resolved, 1 -> 4 pending; 1 -> 3 in another partition, resolved.
fn joins() -> Seed {
    let members = (1..=4).map(|number| member(number, State::Blocked));
    let far = [1, 3].map(|number| in_partition(3, member(number, State::Blocked)));
    let far_key = EdgeKey { downstream: id_in(3, 3), upstream: id_in(3, 1) };
    let edges = [
        Edge { passes_as: Some("input".into()), ..resolved(1, 3) },
        Edge { resolution: Resolution::Unsatisfied, ..resolved(2, 3) },
        edge(1, 4),
        Edge { key: far_key, ..resolved(1, 3) },
    ];
    Seed::members(members.chain(far)).edges(edges)
}

async fn an_edge_that_is_reset_is_pending_again<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_groups(&ids(&[3, 4])).await?;
    let keys = [edge_key(2, 3), edge_key(1, 4), edge_key(1, 3), edge_key(9, 4)];
    ensure_same!(transaction.reset_edges(&keys).await?, 3, "edges found");
    transaction.commit().await?;
    let seen = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    let expected = [Edge { passes_as: Some("input".into()), ..edge(1, 3) }, edge(2, 3), edge(1, 4)];
    ensure_same!(seen, expected, "edges");
    let far = [id_in(3, 3)];
    let seen = scene.commit(async |one| one.read_edges(&far).await).await?;
    ensure_same!(seen[0].resolution, Resolution::Satisfied, "an edge of another partition");
    Ok(())
}

async fn an_edge_that_is_reset_is_resolved_again<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_groups(&ids(&[3])).await?;
    transaction.reset_edges(&[edge_key(1, 3), edge_key(2, 3)]).await?;
    let flips = [flip(1, 3, Resolution::Unsatisfied)];
    ensure_same!(transaction.resolve_edges(&flips).await?, [edge_key(1, 3)], "flipped");
    transaction.commit().await?;
    let seen = scene.commit(async |one| one.read_edges(&ids(&[3])).await).await?;
    let seen: Vec<_> = seen.iter().map(|one| (one.resolution, one.upstream_incarnation)).collect();
    let expected = [(Resolution::Unsatisfied, Some(4)), (Resolution::Pending, None)];
    ensure_same!(seen, expected, "edges");
    Ok(())
}
