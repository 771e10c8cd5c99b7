//! What executions are passed by their upstreams: which edges pass something on, and what of it is
//! shown.

use super::rows::{
    FAILED, SUCCEEDED, Seed, edge, edge_key, flip, id, id_in, ids, in_partition, member, resolved,
};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure_same, table};
use crate::identity::ExecutionId;
use crate::state::{Outcome, State};
use crate::storage::{
    Edge, EdgeFlip, EdgeKey, ExecutionWrite, Input, InputQuery, Resolution, ResultChange, Snapshot,
    Transaction, all_readable,
};

table! { "inputs";
    inputs_come_in_key_order:
        "What executions are passed by their upstreams, in key order of the edges: the named ones \
         of their inbound edges that are inputs.";
    results_are_those_of_the_incarnation_that_is_meant:
        "A result is that of an upstream that succeeded, of the incarnation that resolved the \
         edge.";
    results_are_shown_up_to_a_limit: "With the results that `InputQuery::shown` leaves them.";
    inputs_come_in_pages: "Behind `after` and at most `limit` of each execution.";
    an_edge_keeps_what_it_passes_on: "Resolves pending edges of locked groups.";
    an_edge_that_is_reset_passes_nothing_on: "Makes edges of locked groups pending again.";
}

/// An edge that passes something on under the name of its upstream's number.
fn named(upstream: u16, downstream: u16) -> Edge {
    Edge {
        input: Some(Outcome::Succeeded),
        passes_as: Some(format!("{upstream}").into()),
        ..resolved(upstream, downstream)
    }
}

fn all(executions: Vec<ExecutionId>) -> InputQuery {
    InputQuery { executions, after: None, limit: u32::MAX, bytes_max: u64::MAX }
}

fn input(key: EdgeKey, name: u16, outcome: Outcome, result: Option<&[u8]>) -> Input {
    let bytes = result.map_or(0, |result| result.len() as u64);
    let name = format!("{name}").into();
    Input { key, name, outcome, bytes, result: result.map(Into::into) }
}

fn passed(upstream: u16, downstream: u16, result: &[u8]) -> Input {
    let key = edge_key(upstream, downstream);
    input(key, upstream, Outcome::Succeeded, Some(result))
}

/// Adds these rows, and a result to each execution that has ended.
async fn seed<S: Subject>(
    scene: &Scene<'_, S>,
    seed: &Seed,
    result: impl Fn(ExecutionId) -> Vec<u8>,
) -> Verdict {
    scene.seed(seed).await?;
    let ended = seed.members.iter().filter(|row| row.execution.state.is_terminal());
    let ids: Vec<ExecutionId> = ended.map(|row| row.execution.id).collect();
    let mut transaction = scene.begin().await?;
    let rows = transaction.lock_executions(&ids).await?;
    let write = |row: &crate::storage::Execution| ExecutionWrite {
        guard: row.guard(),
        after: *row,
        result: ResultChange::Set(result(row.id).into()),
    };
    let writes: Vec<ExecutionWrite> = rows.iter().map(write).collect();
    transaction.write_executions(&writes).await?;
    transaction.commit().await?;
    Ok(())
}

async fn read<S: Subject>(scene: &Scene<'_, S>, query: InputQuery) -> Result<Vec<Input>, Breach> {
    scene.commit(async |one| one.read_inputs(&query).await).await
}

async fn inputs_come_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [1, 2, 3].map(|number| member(number, SUCCEEDED));
    let waiting = [4, 5].map(|number| member(number, State::Blocked));
    let far = [in_partition(3, member(1, SUCCEEDED)), in_partition(3, member(4, State::Blocked))];
    let far_key = EdgeKey { downstream: id_in(3, 4), upstream: id_in(3, 1) };
    let edges = [
        named(2, 5),
        named(3, 4),
        named(1, 4),
        // Without a name; satisfied after the decision; not resolved; not satisfied.
        Edge { passes_as: None, ..named(2, 4) },
        Edge { input: None, ..named(1, 5) },
        Edge { passes_as: Some("3".into()), ..edge(3, 5) },
        Edge { resolution: Resolution::Unsatisfied, input: None, ..named(4, 5) },
        Edge { key: far_key, ..named(1, 4) },
    ];
    let rows = Seed::members(members.into_iter().chain(waiting).chain(far)).edges(edges);
    seed(&scene, &rows, |id| format!("of {id:?}").into_bytes()).await?;
    let result = |id: ExecutionId| format!("of {id:?}").into_bytes();
    let asked = vec![id(5), id_in(3, 4), id(9), id(4), id(1)];
    let expected = [
        input(far_key, 1, Outcome::Succeeded, Some(&result(id_in(3, 1)))),
        passed(1, 4, &result(id(1))),
        passed(3, 4, &result(id(3))),
        passed(2, 5, &result(id(2))),
    ];
    let mut expected = expected.to_vec();
    expected.sort_by_key(|input| input.key);
    ensure_same!(read(&scene, all(asked)).await?, expected, "inputs");
    ensure_same!(read(&scene, all(Vec::new())).await?, [], "inputs of nobody");
    Ok(())
}

async fn results_are_those_of_the_incarnation_that_is_meant<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let mut later = member(3, SUCCEEDED);
    later.execution.incarnation = 1;
    let members = [member(1, SUCCEEDED), member(2, FAILED), later, member(4, State::Blocked)];
    let failed = Edge { input: Some(Outcome::Failed), ..named(2, 4) };
    let rows = Seed::members(members).edges([named(1, 4), failed, named(3, 4)]);
    seed(&scene, &rows, |_| b"result".to_vec()).await?;
    let expected = [
        passed(1, 4, b"result"),
        input(edge_key(2, 4), 2, Outcome::Failed, None),
        input(edge_key(3, 4), 3, Outcome::Succeeded, None),
    ];
    ensure_same!(read(&scene, all(ids(&[4]))).await?, expected, "inputs");
    Ok(())
}

/// 1 to 4 are passed on to 9, with as many bytes as their number, and 2 to 8 as well.
async fn fan<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    let ended = (1..=4).map(|number| member(number, SUCCEEDED));
    let waiting = [8, 9].map(|number| member(number, State::Blocked));
    let edges = (1..=4).map(|number| named(number, 9)).chain([named(2, 8)]);
    let rows = Seed::members(ended.chain(waiting)).edges(edges);
    let long = |of: ExecutionId| (1..=4).find(|number| id(*number) == of).unwrap_or_default();
    seed(scene, &rows, |of| vec![7; long(of).into()]).await
}

async fn results_are_shown_up_to_a_limit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    fan(&scene).await?;
    let hidden = |input: Input| Input { result: None, ..input };
    let of_eight = passed(2, 8, &[7; 2]);
    let of_nine = |number: u16| passed(number, 9, &vec![7; number.into()]);
    for (bytes_max, shown) in [(0, 1), (1, 1), (2, 1), (3, 2), (5, 2), (6, 3), (9, 3), (10, 4)] {
        let query = InputQuery { bytes_max, ..all(ids(&[9, 8])) };
        let mut expected = vec![of_eight.clone()];
        expected.extend((1..=shown).map(of_nine));
        if shown < 4 && (1..=u64::from(shown)).sum::<u64>() <= bytes_max {
            expected.push(hidden(of_nine(shown + 1)));
        }
        ensure_same!(read(&scene, query).await?, expected, "inputs");
    }
    Ok(())
}

async fn inputs_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    fan(&scene).await?;
    let of_nine = |number: u16| passed(number, 9, &vec![7; number.into()]);
    let query = InputQuery { limit: 2, ..all(ids(&[9, 8])) };
    let expected = [passed(2, 8, &[7; 2]), of_nine(1), of_nine(2)];
    ensure_same!(read(&scene, query.clone()).await?, expected, "the first page of two");
    let query = InputQuery { after: Some(id(2)), ..query };
    ensure_same!(read(&scene, query.clone()).await?, [of_nine(3), of_nine(4)], "the second page");
    let query = InputQuery { limit: 1, ..query };
    ensure_same!(read(&scene, query.clone()).await?, [of_nine(3)], "a page of one");
    let query = InputQuery { limit: 0, ..query };
    ensure_same!(read(&scene, query).await?, [], "a page of none");
    Ok(())
}

async fn an_edge_keeps_what_it_passes_on<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [member(1, SUCCEEDED), member(2, FAILED), member(3, State::Blocked)];
    scene.seed(&Seed::members(members).edges([edge(1, 3), edge(2, 3)])).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_groups(&ids(&[3])).await?;
    let expired = EdgeFlip { input: Some(Outcome::Expired), ..flip(1, 3, Resolution::Satisfied) };
    let late = EdgeFlip { input: None, ..flip(2, 3, Resolution::Satisfied) };
    transaction.resolve_edges(&[late, expired]).await?;
    transaction.commit().await?;
    let seen = all_readable(scene.reader().await?.describe_edges(&super::rows::FLOW).await?)?;
    let seen: Vec<_> = seen.iter().map(|edge| edge.input).collect();
    ensure_same!(seen, [Some(Outcome::Expired), None], "what the edges pass on");
    Ok(())
}

async fn an_edge_that_is_reset_passes_nothing_on<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [member(1, SUCCEEDED), member(3, State::Blocked)];
    scene.seed(&Seed::members(members).edges([named(1, 3)])).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_groups(&ids(&[3])).await?;
    transaction.reset_edges(&[edge_key(1, 3)]).await?;
    let query = all(ids(&[3]));
    ensure_same!(transaction.read_inputs(&query).await?, [], "inputs");
    transaction.commit().await?;
    Ok(())
}
