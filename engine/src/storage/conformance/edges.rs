//! Edges: added, found while pending, resolved once; requests for the cancellation of siblings.

use super::rows::{
    FAILED, FLOW, OTHER, SUCCEEDED, Seed, edge, edge_for, edge_key, flip, id, id_in, ids,
    in_partition, member, resolved, to_state,
};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure, ensure_same, table};
use crate::policy::AcceptSet;
use crate::state::State;
use crate::storage::{
    Edge, EdgeFlip, EdgeKey, PendingEdge, Resolution, SiblingRequest, Snapshot, StorageError,
    Transaction, all_readable,
};

table! { "edges";
    every_edge_reads_back: "Adds edges.";
    a_pair_of_ends_that_has_an_edge_is_corrupt: "A pair of ends that has one is corrupt.";
    pending_edges_come_with_their_upstreams_in_key_order:
        "The pending edges of groups with the present rows of their upstreams, in key order.";
    pending_edges_show_what_the_transaction_wrote: "Each verb sees its own transaction's writes.";
    an_edge_without_an_upstream_is_corrupt: "An edge without an upstream is corrupt.";
    an_edge_is_flipped_once:
        "Returns those that it flipped. An edge that is not pending any more stays as it is.";
    flipped_edges_come_in_key_order: "Returns those that it flipped, in key order.";
    a_missing_edge_is_not_flipped: "Returns those that it flipped.";
    values_at_the_edges_of_their_range_are_resolved: "Resolves pending edges.";
    upstreams_with_pending_edges_come_in_id_order_and_once:
        "Those of the executions that still have a pending out-edge, in id order, each once.";
    upstreams_lose_their_pending_edges_one_by_one:
        "Those of the executions that still have a pending out-edge.";
    a_sibling_request_that_exists_stays:
        "Asks for sibling cancellation; a request that exists stays.";
    a_sibling_request_in_flight_is_waited_for: "Insert: waits on a unique key in flight.";
}

async fn every_edge_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let downstream = member(100, State::Blocked);
    let members = (1..=36).map(|number| member(number, State::Ready)).chain([downstream]);
    let mut edges: Vec<Edge> = (1..32)
        .map(|bits| {
            let accepts = AcceptSet::from_bits(bits).unwrap_or_default();
            edge_for(u16::from(bits), 100, accepts)
        })
        .collect();
    edges.extend([
        resolved(32, 100),
        Edge { resolution: Resolution::Unsatisfied, ..resolved(33, 100) },
        Edge { upstream_incarnation: Some(u32::MAX), ..resolved(34, 100) },
        Edge { passes_as: Some("Größe \u{1F680} '\"\\".into()), ..edge(35, 100) },
        Edge { passes_as: Some("".into()), ..edge(36, 100) },
    ]);
    scene.seed(&Seed::members(members).edges(edges.clone())).await?;
    let seen = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    ensure_same!(seen, edges, "edges");
    let pending = scene.commit(async |one| one.pending_edges(&ids(&[100])).await).await?;
    let expected: Vec<_> = edges
        .iter()
        .filter(|edge| edge.resolution == Resolution::Pending)
        .map(|edge| (edge.key, edge.accepts))
        .collect();
    let pending: Vec<_> = pending.iter().map(|edge| (edge.key, edge.accepts)).collect();
    ensure_same!(pending, expected, "pending edges");
    Ok(())
}

/// Upstreams 1 and 2, joined by 3, 4 and, from another partition, by its own 3.
fn joins() -> Seed {
    let upstreams = [member(1, SUCCEEDED), member(2, State::Ready)];
    let downstreams = [member(3, State::Blocked), member(4, State::Blocked)];
    let far = [in_partition(3, member(1, FAILED)), in_partition(3, member(3, State::Blocked))];
    let far_key = EdgeKey { downstream: id_in(3, 3), upstream: id_in(3, 1) };
    let edges =
        [edge(2, 4), edge(1, 3), Edge { key: far_key, ..edge(1, 3) }, edge(1, 4), edge(2, 3)];
    Seed::members(upstreams.into_iter().chain(downstreams).chain(far)).edges(edges)
}

async fn a_pair_of_ends_that_has_an_edge_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let mut transaction = scene.begin().await?;
    let again = edge_for(1, 3, AcceptSet::ON_DONE);
    let refused = transaction.insert_edges(&[again]).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    let edges = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    ensure_same!(edges.first(), Some(&edge(1, 3)), "the edge that was first");
    Ok(())
}

async fn pending_edges_come_with_their_upstreams_in_key_order<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let mut seed = joins();
    seed.members[0].execution.incarnation = u32::MAX;
    for edge in seed.edges.iter_mut().filter(|edge| edge.key == edge_key(2, 4)) {
        *edge = resolved(2, 4);
    }
    scene.seed(&seed).await?;
    let asked = [id(4), id(9), id(3), id_in(3, 3)];
    let pending = scene.commit(async |one| one.pending_edges(&asked).await).await?;
    let expected = |key, upstream_state, upstream_incarnation| PendingEdge {
        key,
        accepts: AcceptSet::ON_SUCCESS,
        upstream_state,
        upstream_incarnation,
    };
    let far_key = EdgeKey { downstream: id_in(3, 3), upstream: id_in(3, 1) };
    let expected = [
        expected(far_key, FAILED, 0),
        expected(edge_key(1, 3), SUCCEEDED, u32::MAX),
        expected(edge_key(2, 3), State::Ready, 0),
        expected(edge_key(1, 4), SUCCEEDED, u32::MAX),
    ];
    ensure_same!(pending, expected, "pending edges");
    Ok(())
}

async fn pending_edges_show_what_the_transaction_wrote<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_groups(&ids(&[3])).await?;
    let locked = transaction.lock_executions(&ids(&[2])).await?;
    transaction.write_executions(&[to_state(&locked[0], FAILED)]).await?;
    transaction.resolve_edges(&[flip(1, 3, Resolution::Satisfied)]).await?;
    let pending = transaction.pending_edges(&ids(&[3])).await?;
    let seen: Vec<_> = pending.iter().map(|edge| (edge.key, edge.upstream_state)).collect();
    ensure_same!(seen, [(edge_key(2, 3), FAILED)], "pending edges");
    transaction.commit().await?;
    Ok(())
}

async fn an_edge_without_an_upstream_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins().edges([edge(77, 3)])).await?;
    let mut transaction = scene.begin().await?;
    let others = transaction.pending_edges(&ids(&[4])).await?;
    ensure_same!(others.len(), 2, "pending edges of another group");
    let refused = transaction.pending_edges(&ids(&[3, 4])).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    Ok(())
}

async fn an_edge_is_flipped_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let first = flip(1, 3, Resolution::Satisfied);
    let second = EdgeFlip { upstream_incarnation: 9, ..flip(1, 3, Resolution::Unsatisfied) };
    let flips = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3])).await?;
            Ok((one.resolve_edges(&[first]).await?, one.resolve_edges(&[second]).await?))
        })
        .await?;
    ensure_same!(flips, (vec![edge_key(1, 3)], vec![]), "edges flipped by two flips of one");
    let again = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3])).await?;
            one.resolve_edges(&[second, flip(2, 3, Resolution::Unsatisfied)]).await
        })
        .await?;
    ensure_same!(again, [edge_key(2, 3)], "edges flipped by another transaction");
    let edges = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    let stands = |upstream, resolution| Edge {
        resolution,
        upstream_incarnation: Some(4),
        ..edge(upstream, 3)
    };
    let expected = [
        stands(1, Resolution::Satisfied),
        stands(2, Resolution::Unsatisfied),
        edge(1, 4),
        edge(2, 4),
    ];
    ensure_same!(edges, expected, "the edges");
    Ok(())
}

async fn flipped_edges_come_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let flips = [(2, 4), (1, 3), (1, 4), (2, 3)].map(|(u, d)| flip(u, d, Resolution::Satisfied));
    let flipped = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3, 4])).await?;
            one.resolve_edges(&flips).await
        })
        .await?;
    let expected = [edge_key(1, 3), edge_key(2, 3), edge_key(1, 4), edge_key(2, 4)];
    ensure_same!(flipped, expected, "flipped edges");
    Ok(())
}

async fn a_missing_edge_is_not_flipped<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let flips = [flip(4, 3, Resolution::Satisfied), flip(2, 3, Resolution::Satisfied)];
    let flipped = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3])).await?;
            one.resolve_edges(&flips).await
        })
        .await?;
    ensure_same!(flipped, [edge_key(2, 3)], "flipped edges of which one is missing");
    Ok(())
}

async fn values_at_the_edges_of_their_range_are_resolved<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&joins()).await?;
    let widest = EdgeFlip { upstream_incarnation: u32::MAX, ..flip(1, 3, Resolution::Unsatisfied) };
    let narrowest = EdgeFlip { upstream_incarnation: 0, ..flip(2, 3, Resolution::Satisfied) };
    scene
        .commit(async |one| {
            one.lock_groups(&ids(&[3])).await?;
            one.resolve_edges(&[widest, narrowest]).await
        })
        .await?;
    let edges = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    let seen: Vec<_> =
        edges[..2].iter().map(|edge| (edge.resolution, edge.upstream_incarnation)).collect();
    let expected = [(Resolution::Unsatisfied, Some(u32::MAX)), (Resolution::Satisfied, Some(0))];
    ensure_same!(seen, expected, "resolved edges");
    Ok(())
}

async fn upstreams_with_pending_edges_come_in_id_order_and_once<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&joins()).await?;
    let asked = [id(2), id(3), id(1), id(9), id_in(3, 1)];
    let left = scene.commit(async |one| one.with_pending_edges(&asked).await).await?;
    ensure_same!(left, [id_in(3, 1), id(1), id(2)], "upstreams with pending edges");
    Ok(())
}

async fn upstreams_lose_their_pending_edges_one_by_one<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_groups(&ids(&[3, 4])).await?;
    transaction.resolve_edges(&[flip(1, 3, Resolution::Satisfied)]).await?;
    let left = transaction.with_pending_edges(&ids(&[1, 2])).await?;
    ensure_same!(left, ids(&[1, 2]), "upstreams after the first of two flips");
    transaction.resolve_edges(&[flip(1, 4, Resolution::Unsatisfied)]).await?;
    let left = transaction.with_pending_edges(&ids(&[1, 2])).await?;
    ensure_same!(left, ids(&[2]), "upstreams after the second of two flips");
    transaction.commit().await?;
    let left = scene.commit(async |one| one.with_pending_edges(&ids(&[1, 2])).await).await?;
    ensure_same!(left, ids(&[2]), "upstreams after the commit");
    Ok(())
}

fn sibling(number: u16) -> SiblingRequest {
    SiblingRequest { group: id(number), flow: FLOW.id }
}

async fn a_sibling_request_that_exists_stays<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    scene
        .commit(async |one| {
            one.insert_sibling_requests(&[sibling(4), sibling(3)]).await?;
            one.insert_sibling_requests(&[sibling(3)]).await
        })
        .await?;
    let other = SiblingRequest { flow: OTHER.id, ..sibling(3) };
    scene.commit(async |one| one.insert_sibling_requests(&[other, sibling(5)]).await).await
}

async fn a_sibling_request_in_flight_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    for commits in [true, false] {
        let number = if commits { 3 } else { 4 };
        let mut holder = scene.begin().await?;
        holder.insert_sibling_requests(&[sibling(number)]).await?;
        let rows = [sibling(number)];
        let mut waiter = scene.second(async |one| one.insert_sibling_requests(&rows).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        match commits {
            true => holder.commit().await?,
            false => holder.rollback().await,
        }
        let (transaction, ()) = waiter.await?;
        transaction.commit().await?;
    }
    Ok(())
}
