//! Lists for readers: which rows they show, page by page, within their scope.

use super::rows::{FLOW, OTHER, SUCCEEDED, Seed, edge, edge_key, flow, id, id_in, ids, member};
use super::scans::{Found, comes_in_pages, is_of_its_scope, labelled, spread};
use super::scene::Scene;
use super::summaries::summary;
use super::{Breach, Case, Subject, Verdict, ensure_same, table};
use crate::identity::{FlowId, FlowKey, Partition};
use crate::state::State;
use crate::storage::{
    EdgeKey, EdgeListing, ExecutionListing, Flow, FlowListing, FlowPage, Group, ListedExecution,
    Page, Scope, Snapshot, Transaction, all_readable,
};
use crate::summary::FlowStatus;

table! { "listings";
    flows_with_change_rows_come_once: "Flows that have change rows, in key order, each once.";
    flows_with_change_rows_come_in_pages:
        "A keyset page: exclusive cursor, key order, at most so many rows.";
    flows_with_change_rows_are_of_their_scope:
        "What a scan looks at; applied in the query, before its limit.";
    flows_come_with_their_summaries:
        "Flows with their summaries, in key order; one without a summary is left out.";
    listed_flows_come_in_pages:
        "A keyset page: exclusive cursor, key order, at most so many rows.";
    listed_flows_are_of_their_scope:
        "What a list looks at; applied in the query, before its limit.";
    listed_flows_have_a_status_asked_for: "Only those whose summary has one of these.";
    listed_executions_come_in_pages:
        "A keyset page: exclusive cursor, id order, at most so many rows.";
    listed_executions_are_of_their_scope:
        "What a list looks at; applied in the query, before its limit.";
    listed_executions_are_in_a_state_asked_for: "Only those in one of these states.";
    listed_executions_are_of_the_flow_asked_for: "Only those of this flow.";
    a_listed_execution_shows_its_worker: "An execution in a list.";
    edges_into_an_execution_come_in_pages:
        "The inbound edges of an execution, in the order of their upstreams.";
    edges_out_of_an_execution_come_in_pages:
        "The outbound edges of an execution, in the order of their downstreams.";
    an_edge_is_found_by_its_ends: "An edge, if there is one.";
}

fn key(partition: u16, number: u128) -> FlowKey {
    FlowKey { partition: Partition(partition), id: FlowId(uuid::Uuid::from_u128(number)) }
}

fn everything() -> FlowPage {
    FlowPage { scope: Scope::default(), after: None, limit: 999 }
}

/// Adds flows with a summary and two change rows each.
async fn add<S: Subject>(scene: &Scene<'_, S>, flows: &[Flow]) -> Verdict {
    scene
        .commit(async |one| {
            for row in flows {
                one.insert_flow(row).await?;
                one.insert_summary(&summary(row.key, 1, FlowStatus::Open)).await?;
                one.insert_flow_changes(&[row.key]).await?;
            }
            let keys: Vec<FlowKey> = flows.iter().map(|row| row.key).collect();
            one.insert_flow_changes(&keys).await
        })
        .await
}

type Keys = Result<Vec<FlowKey>, Breach>;

async fn changed<S: Subject>(scene: &Scene<'_, S>, page: &FlowPage) -> Keys {
    Ok(scene.reader().await?.scan_flow_changes(page).await?)
}

async fn listed<S: Subject>(scene: &Scene<'_, S>, page: &FlowPage) -> Keys {
    let listing = FlowListing { page: page.clone(), statuses: Vec::new() };
    let views = all_readable(scene.reader().await?.list_flows(&listing).await?)?;
    Ok(views.into_iter().map(|view| view.flow.key).collect())
}

async fn flows_come_in_pages<S: Subject>(
    scene: &Scene<'_, S>,
    list: impl AsyncFn(&Scene<'_, S>, &FlowPage) -> Keys,
) -> Verdict {
    let all = [key(3, 9), key(7, 1), key(7, 2), key(7, 5), key(200, 1)];
    let rows = [all[3], all[0], all[4], all[1], all[2]].map(flow);
    add(scene, &rows).await?;
    for limit in 0..=6 {
        let page = list(scene, &FlowPage { limit, ..everything() }).await?;
        ensure_same!(page, all[..all.len().min(limit as usize)], "the first {limit}");
    }
    for (at, after) in all.iter().enumerate() {
        let page = FlowPage { after: Some(*after), limit: 2, ..everything() };
        let expected = &all[at + 1..(at + 3).min(all.len())];
        ensure_same!(list(scene, &page).await?, expected, "two after {after:?}");
    }
    for (after, left) in [(key(7, 0), 4), (key(7, 3), 2), (key(8, 0), 1), (key(201, 0), 0)] {
        let page = FlowPage { after: Some(after), ..everything() };
        ensure_same!(list(scene, &page).await?, all[5 - left..], "everything after {after:?}");
    }
    Ok(())
}

async fn flows_are_of_their_scope<S: Subject>(
    scene: &Scene<'_, S>,
    list: impl AsyncFn(&Scene<'_, S>, &FlowPage) -> Keys,
) -> Verdict {
    let with = |key, namespace: &str, tag: Option<&str>| Flow {
        namespace: namespace.into(),
        instance_tag: tag.map(Into::into),
        ..flow(key)
    };
    let rows = [
        with(key(0, 1), "left", None),
        with(key(7, 2), "left", Some("a=b")),
        with(key(7, 3), "right", Some("c=b")),
        with(key(7, 4), "right", Some("a=B")),
        with(key(255, 5), "", Some("a=b")),
    ];
    add(scene, &rows).await?;
    let whole = 0..u16::MAX;
    let scoped = |partitions, namespace: Option<&str>, tag: Option<&str>, limit| FlowPage {
        scope: Scope {
            partitions,
            namespace: namespace.map(Into::into),
            instance_tag: tag.map(Into::into),
        },
        after: None,
        limit,
    };
    let checks = [
        (scoped(7..8, None, None, 9), vec![key(7, 2), key(7, 3), key(7, 4)]),
        (scoped(0..7, None, None, 9), vec![key(0, 1)]),
        (scoped(7..7, None, None, 9), vec![]),
        (scoped(whole.clone(), Some("right"), None, 9), vec![key(7, 3), key(7, 4)]),
        (scoped(whole.clone(), Some(""), None, 9), vec![key(255, 5)]),
        (scoped(whole.clone(), None, Some("a=b"), 9), vec![key(7, 2), key(255, 5)]),
        (scoped(whole.clone(), None, Some("c=b"), 1), vec![key(7, 3)]),
        (scoped(whole.clone(), Some("left"), Some("c=b"), 9), vec![]),
        (scoped(8..256, None, Some("a=b"), 1), vec![key(255, 5)]),
        (scoped(whole, Some("right"), Some("a=B"), 1), vec![key(7, 4)]),
    ];
    for (page, expected) in checks {
        ensure_same!(list(scene, &page).await?, expected, "the flows of {:?}", page.scope);
    }
    Ok(())
}

async fn flows_with_change_rows_come_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ensure_same!(changed(&scene, &everything()).await?, [], "flows of an empty database");
    add(&scene, &[flow(OTHER), flow(FLOW)]).await?;
    ensure_same!(changed(&scene, &everything()).await?, [FLOW, OTHER], "flows");
    scene
        .commit(async |one| {
            one.lock_summaries(&[FLOW]).await?;
            one.delete_flow_changes(&FLOW).await
        })
        .await?;
    ensure_same!(changed(&scene, &everything()).await?, [OTHER], "the flow that is left");
    Ok(())
}

async fn flows_with_change_rows_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    flows_come_in_pages(&scene, changed).await
}

async fn flows_with_change_rows_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    flows_are_of_their_scope(&scene, changed).await
}

async fn flows_come_with_their_summaries<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [key(7, 4), key(7, 6)].map(|key| Flow { revision: 5, ..flow(key) });
    let summaries =
        [summary(key(7, 4), 3, FlowStatus::Failed), summary(key(7, 6), 2, FlowStatus::Blocked)];
    scene
        .commit(async |one| {
            one.insert_flow(&flow(key(7, 5))).await?;
            for (row, summary) in rows.iter().zip(&summaries) {
                one.insert_flow(row).await?;
                one.insert_summary(summary).await?;
            }
            Ok(())
        })
        .await?;
    let listing = FlowListing { page: everything(), statuses: Vec::new() };
    let views = all_readable(scene.reader().await?.list_flows(&listing).await?)?;
    let seen: Vec<_> = views.into_iter().map(|view| (view.flow, view.summary)).collect();
    let expected: Vec<_> = rows.into_iter().zip(summaries).collect();
    ensure_same!(seen, expected, "flows with their summaries");
    Ok(())
}

async fn listed_flows_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    flows_come_in_pages(&scene, listed).await
}

async fn listed_flows_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    flows_are_of_their_scope(&scene, listed).await
}

async fn listed_flows_have_a_status_asked_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let keys: Vec<FlowKey> = (1..=6).map(|number| key(7, number)).collect();
    scene
        .commit(async |one| {
            for (key, status) in keys.iter().zip(FlowStatus::ALL) {
                one.insert_flow(&flow(*key)).await?;
                one.insert_summary(&summary(*key, 1, status)).await?;
            }
            Ok(())
        })
        .await?;
    let of = |statuses: &[FlowStatus], limit| {
        let page = FlowPage { limit, ..everything() };
        FlowListing { page, statuses: statuses.to_vec() }
    };
    let checks = [
        (of(&[FlowStatus::Running], 9), vec![keys[2]]),
        (of(&[FlowStatus::Failed, FlowStatus::Open], 9), vec![keys[0], keys[5]]),
        (of(&[FlowStatus::Completed, FlowStatus::Cancelled], 1), vec![keys[3]]),
        (of(&FlowStatus::ALL, 9), keys.clone()),
    ];
    for (listing, expected) in checks {
        let views = all_readable(scene.reader().await?.list_flows(&listing).await?)?;
        let seen: Vec<FlowKey> = views.into_iter().map(|view| view.flow.key).collect();
        ensure_same!(seen, expected, "flows that are {:?}", listing.statuses);
    }
    Ok(())
}

async fn executions<S: Subject>(scene: &Scene<'_, S>, page: &Page) -> Found {
    list(scene, page, None, &[]).await
}

async fn list<S: Subject>(
    scene: &Scene<'_, S>,
    page: &Page,
    flow: Option<FlowKey>,
    states: &[State],
) -> Found {
    let listing = ExecutionListing { page: page.clone(), flow, states: states.to_vec() };
    let rows = all_readable(scene.reader().await?.list_executions(&listing).await?)?;
    Ok(rows.into_iter().map(|row| row.execution.id).collect())
}

fn all() -> Page {
    Page { scope: Scope::default(), after: None, limit: 999 }
}

async fn listed_executions_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(spread(|number| member(number, State::Ready)))).await?;
    comes_in_pages(&scene, executions).await
}

async fn listed_executions_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(labelled(|number| member(number, SUCCEEDED)))).await?;
    is_of_its_scope(&scene, executions).await
}

async fn listed_executions_are_in_a_state_asked_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let states = State::ALL.into_iter().filter(|state| *state != State::Active);
    let rows = (1..).zip(states.clone()).map(|(number, state)| member(number, state));
    scene.seed(&Seed::members(rows)).await?;
    for (number, state) in (1..).zip(states) {
        ensure_same!(list(&scene, &all(), None, &[state]).await?, ids(&[number]), "{state:?}");
    }
    let two = [SUCCEEDED, State::Blocked];
    ensure_same!(list(&scene, &all(), None, &two).await?, ids(&[1, 4]), "two states");
    let first = Page { limit: 1, ..all() };
    let last = [State::ALL[8]];
    ensure_same!(list(&scene, &first, None, &last).await?, ids(&[8]), "the limit comes last");
    let none = list(&scene, &all(), None, &[State::Active]).await?;
    ensure_same!(none, [], "a state that nothing is in");
    Ok(())
}

async fn listed_executions_are_of_the_flow_asked_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let of = |number, flow: FlowKey| {
        let mut row = member(number, State::Ready);
        row.execution.flow = flow.id;
        row
    };
    let far = super::rows::in_partition(3, of(1, FLOW));
    let rows = [of(1, FLOW), of(2, OTHER), of(3, FLOW), of(4, OTHER), of(5, FLOW), far];
    scene.seed(&Seed::members(rows)).await?;
    let seen = list(&scene, &all(), Some(FLOW), &[]).await?;
    ensure_same!(seen, ids(&[1, 3, 5]), "executions of the flow");
    let page = Page { after: Some(id(1)), limit: 1, ..all() };
    ensure_same!(list(&scene, &page, Some(FLOW), &[]).await?, ids(&[3]), "the next one");
    let page = Page { after: Some(id_in(3, 1)), ..all() };
    ensure_same!(list(&scene, &page, Some(OTHER), &[]).await?, ids(&[2, 4]), "its neighbour");
    let page = Page { after: Some(id_in(8, 0)), ..all() };
    ensure_same!(list(&scene, &page, Some(FLOW), &[]).await?, [], "nothing after it");
    let page = Page { scope: Scope { partitions: 0..7, ..Scope::default() }, ..all() };
    ensure_same!(list(&scene, &page, Some(FLOW), &[]).await?, [], "nothing out of its scope");
    Ok(())
}

async fn a_listed_execution_shows_its_worker<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    scene.claim(&super::rows::claim(1)).await?;
    let listing = ExecutionListing { page: all(), flow: Some(FLOW), states: Vec::new() };
    let seen = all_readable(scene.reader().await?.list_executions(&listing).await?)?;
    let mut expected = Vec::new();
    for number in [1, 2] {
        let view = scene.view(number).await?;
        let definition = view.definition;
        expected.push(ListedExecution {
            execution: view.execution,
            name: definition.name,
            kind: definition.kind,
            lane: definition.lane,
            priority: definition.priority,
            namespace: definition.namespace,
            instance_tag: definition.instance_tag,
            worker: view.worker,
        });
    }
    ensure_same!(seen, expected, "listed executions");
    Ok(())
}

/// Groups 5 and 6 fed by 1 to 4, and a pair of their own for the neighbour.
fn joins() -> Seed {
    let members = (1..=9).map(|number| {
        let mut row = member(number, State::Blocked);
        row.execution.flow = if number > 7 { OTHER.id } else { FLOW.id };
        row
    });
    let edges =
        [edge(4, 5), edge(1, 5), edge(3, 5), edge(2, 5), edge(1, 6), edge(1, 7), edge(8, 9)];
    let mut seed = Seed::members(members).edges(edges);
    for group in &mut seed.groups {
        let flow = if group.downstream == id(9) { OTHER.id } else { FLOW.id };
        *group = Group { flow, ..*group };
    }
    seed
}

fn at(number: u16, after: Option<u16>, limit: u32) -> EdgeListing {
    EdgeListing { execution: id(number), after: after.map(id), limit }
}

async fn edges_into_an_execution_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let checks = [
        (at(5, None, 9), vec![edge(1, 5), edge(2, 5), edge(3, 5), edge(4, 5)]),
        (at(5, Some(2), 9), vec![edge(3, 5), edge(4, 5)]),
        (at(5, Some(1), 1), vec![edge(2, 5)]),
        (at(5, None, 0), vec![]),
        (at(1, None, 9), vec![]),
        (at(9, None, 9), vec![edge(8, 9)]),
        (at(99, None, 9), vec![]),
    ];
    for (listing, expected) in checks {
        let seen = all_readable(scene.reader().await?.list_in_edges(&listing).await?)?;
        ensure_same!(seen, expected, "edges of {listing:?}");
    }
    Ok(())
}

async fn edges_out_of_an_execution_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let checks = [
        (at(1, None, 9), vec![edge(1, 5), edge(1, 6), edge(1, 7)]),
        (at(1, Some(5), 9), vec![edge(1, 6), edge(1, 7)]),
        (at(1, None, 2), vec![edge(1, 5), edge(1, 6)]),
        (at(1, None, 0), vec![]),
        (at(5, None, 9), vec![]),
        (at(8, None, 9), vec![edge(8, 9)]),
        (at(99, None, 9), vec![]),
    ];
    for (listing, expected) in checks {
        let seen = all_readable(scene.reader().await?.list_out_edges(&listing).await?)?;
        ensure_same!(seen, expected, "edges of {listing:?}");
    }
    Ok(())
}

async fn an_edge_is_found_by_its_ends<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&joins()).await?;
    let mut reader = scene.reader().await?;
    let seen = reader.describe_edge(&edge_key(3, 5)).await?;
    ensure_same!(seen, Some(edge(3, 5)), "an edge");
    let elsewhere = EdgeKey { downstream: id_in(8, 5), upstream: id_in(8, 3) };
    let across = EdgeKey { downstream: id(5), upstream: id_in(8, 3) };
    for key in [edge_key(5, 3), edge_key(3, 6), elsewhere, across] {
        ensure_same!(reader.describe_edge(&key).await?, None, "an edge that is not there");
    }
    Ok(())
}
