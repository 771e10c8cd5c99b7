//! What is read before a flow grows: the edges of its groups, what leads to an execution, counts.

use super::rows::{
    FLOW, OTHER, Seed, edge, edge_key, group, id, id_in, ids, in_partition, member, resolved,
};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::policy::JoinPolicy;
use crate::state::State;
use crate::storage::{Edge, EdgeKey, Transaction};

table! { "growth";
    the_edges_of_groups_come_in_key_order:
        "The edges of groups, resolved ones too, in key order.";
    edges_are_read_with_what_the_transaction_wrote: "Each verb sees its own transaction's writes.";
    every_path_that_leads_to_an_execution_is_found:
        "The edges on every path that leads to one of these executions, each once, in key order.";
    a_cycle_is_walked_once: "Of a cycle all of its edges.";
    the_edges_of_a_flow_are_counted: "How many edges the groups of a flow have.";
}

/// 1 -> 2 -> 4, 1 -> 3 -> 4 and 4 -> 5, the first of them resolved; 1 -> 3 in another partition.
fn diamond() -> Seed {
    let members = (1..=5).map(|number| member(number, State::Blocked));
    let far = [1, 3].map(|number| in_partition(3, member(number, State::Blocked)));
    let far_key = EdgeKey { downstream: id_in(3, 3), upstream: id_in(3, 1) };
    let edges = [
        edge(4, 5),
        resolved(1, 2),
        Edge { passes_as: Some("input".into()), ..edge(3, 4) },
        edge(1, 3),
        edge(2, 4),
        Edge { key: far_key, ..edge(1, 3) },
    ];
    Seed::members(members.chain(far)).edges(edges)
}

async fn the_edges_of_groups_come_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let seed = diamond();
    scene.seed(&seed).await?;
    let asked = [id(4), id(9), id_in(3, 3), id(2), id(1)];
    let read = scene.commit(async |one| one.read_edges(&asked).await).await?;
    let mut expected: Vec<Edge> =
        seed.edges.into_iter().filter(|edge| asked.contains(&edge.key.downstream)).collect();
    expected.sort_by_key(|edge| edge.key);
    ensure_same!(read, expected, "edges");
    Ok(())
}

async fn edges_are_read_with_what_the_transaction_wrote<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&diamond()).await?;
    let mut transaction = scene.begin().await?;
    transaction.insert_edges(&[edge(5, 6)]).await?;
    transaction.insert_groups(&[group(6, JoinPolicy::AllOf, 1)]).await?;
    ensure_same!(transaction.read_edges(&ids(&[6])).await?, [edge(5, 6)], "its own edge");
    let above = transaction.read_ancestry(&ids(&[6])).await?;
    ensure_same!(above.last(), Some(&edge_key(5, 6)), "the last edge above");
    ensure_same!(transaction.count_edges(&FLOW).await?, 6, "edges with its own");
    transaction.rollback().await;
    let read = scene.commit(async |one| one.read_edges(&ids(&[6])).await).await?;
    ensure_same!(read, [], "edges after a rollback");
    Ok(())
}

async fn every_path_that_leads_to_an_execution_is_found<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&diamond()).await?;
    let far_key = EdgeKey { downstream: id_in(3, 3), upstream: id_in(3, 1) };
    let asked = [id(4), id(3), id_in(3, 3), id(9)];
    let read = scene.commit(async |one| one.read_ancestry(&asked).await).await?;
    let expected = [far_key, edge_key(1, 2), edge_key(1, 3), edge_key(2, 4), edge_key(3, 4)];
    ensure_same!(read, expected, "edges above two executions");
    let read = scene.commit(async |one| one.read_ancestry(&ids(&[1])).await).await?;
    ensure_same!(read, [], "edges above a root");
    Ok(())
}

async fn a_cycle_is_walked_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = (1..=3).map(|number| member(number, State::Blocked));
    scene.seed(&Seed::members(members).edges([edge(1, 2), edge(2, 3), edge(3, 1)])).await?;
    let read = scene.commit(async |one| one.read_ancestry(&ids(&[2])).await).await?;
    ensure_same!(read, [edge_key(3, 1), edge_key(1, 2), edge_key(2, 3)], "edges of a cycle");
    Ok(())
}

async fn the_edges_of_a_flow_are_counted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&diamond()).await?;
    let counted = scene.commit(async |one| one.count_edges(&FLOW).await).await?;
    ensure_same!(counted, 5, "edges");
    let counted = scene.commit(async |one| one.count_edges(&OTHER).await).await?;
    ensure_same!(counted, 0, "edges of a flow that is not there");
    Ok(())
}
