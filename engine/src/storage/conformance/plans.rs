//! The walk that plans a hop: which groups it finds, how far it goes, where it stops.

use super::rows::{
    FAILED, FLOW, SUCCEEDED, Seed, edge, edge_for, flow, group, id, id_in, ids, in_partition,
    member, resolved,
};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure, ensure_same, table};
use crate::identity::ExecutionId;
use crate::policy::{AcceptSet, Decision, JoinPolicy, OnSatisfied};
use crate::state::{Outcome, State};
use crate::storage::{Group, NewExecution, PlanQuery, Snapshot};

table! { "plans";
    a_plan_holds_the_groups_of_pending_edges_in_id_order:
        "The groups that a hop from these upstreams may change, in id order, each once.";
    a_plan_of_no_upstreams_is_empty: "Those of the pending edges of these upstreams.";
    only_terminal_upstreams_are_walked: "Those of the pending edges of the terminal ones.";
    resolved_edges_are_not_walked: "Those of the pending edges.";
    a_plan_goes_on_through_what_will_be_skipped:
        "And on from every undecided `AllOf` group that such an edge makes impossible, as from \
         a skipped upstream.";
    a_plan_goes_on_for_every_refused_outcome: "That such an edge makes impossible.";
    a_plan_stops_where_an_edge_is_satisfied: "On from every group that an edge makes impossible.";
    a_plan_stops_at_a_skip_that_is_accepted: "As from a skipped upstream.";
    a_plan_stops_at_other_policies: "On from every undecided `AllOf` group.";
    a_plan_stops_at_decided_groups: "On from every undecided `AllOf` group.";
    a_plan_stops_at_what_is_not_blocked: "While its downstream is blocked.";
    one_refusing_edge_among_others_is_enough:
        "On from every group that such an edge makes impossible.";
    a_plan_stops_at_its_limit: "At most `limit`.";
    the_nearest_groups_come_first: "At most `limit`: those that fewer edges reach come first.";
    a_deep_plan_has_no_other_limit: "At most `limit`, and on from every group.";
    a_plan_keeps_to_its_partition: "Terminal executions of one partition.";
}

async fn plan<S: Subject>(
    scene: &Scene<'_, S>,
    upstreams: &[u16],
    limit: u32,
) -> Result<Vec<ExecutionId>, Breach> {
    let query = PlanQuery { upstreams: ids(upstreams), limit };
    Ok(scene.reader().await?.plan_groups(&query).await?)
}

fn blocked(numbers: impl IntoIterator<Item = u16>) -> impl Iterator<Item = NewExecution> {
    numbers.into_iter().map(|number| member(number, State::Blocked))
}

async fn a_plan_holds_the_groups_of_pending_edges_in_id_order<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let members = [member(1, SUCCEEDED), member(2, SUCCEEDED)].into_iter().chain(blocked(3..=6));
    let edges = [edge(1, 5), edge(1, 3), edge(2, 5), edge(2, 4), edge(3, 6)];
    scene.seed(&Seed::members(members).edges(edges)).await?;
    ensure_same!(plan(&scene, &[2, 1], 99).await?, ids(&[3, 4, 5]), "the plan of two upstreams");
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[3, 5]), "the plan of one of them");
    Ok(())
}

async fn a_plan_of_no_upstreams_is_empty<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [member(1, SUCCEEDED)].into_iter().chain(blocked([2]));
    scene.seed(&Seed::members(members).edges([edge(1, 2)])).await?;
    ensure_same!(plan(&scene, &[], 99).await?, [], "the plan of nobody");
    ensure_same!(plan(&scene, &[9], 99).await?, [], "the plan of what is not there");
    ensure_same!(plan(&scene, &[1], 0).await?, [], "a plan with limit 0");
    Ok(())
}

async fn only_terminal_upstreams_are_walked<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let states = State::ALL.into_iter().filter(|state| *state != State::Active);
    let upstreams: Vec<NewExecution> =
        (1..).zip(states).map(|(number, state)| member(number, state)).collect();
    let numbers: Vec<u16> = (1..).take(upstreams.len()).collect();
    let ended: Vec<u16> = numbers
        .iter()
        .zip(&upstreams)
        .filter(|(_, row)| row.execution.state.is_terminal())
        .map(|(number, _)| number + 100)
        .collect();
    let members = upstreams.into_iter().chain(blocked(numbers.iter().map(|number| number + 100)));
    let edges = numbers.iter().map(|number| edge_for(*number, number + 100, AcceptSet::ON_DONE));
    scene.seed(&Seed::members(members).edges(edges)).await?;
    ensure_same!(plan(&scene, &numbers, 99).await?, ids(&ended), "the plan of every state");
    Ok(())
}

async fn resolved_edges_are_not_walked<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [member(1, FAILED)].into_iter().chain(blocked(2..=4));
    let edges = [resolved(1, 2), edge(1, 3), resolved(3, 4)];
    scene.seed(&Seed::members(members).edges(edges)).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[3]), "the plan");
    Ok(())
}

/// 1 has ended; then 2, 3 and 4 in a row, with these edges and groups in between.
async fn chain<S: Subject>(
    scene: &Scene<'_, S>,
    ended: State,
    accepts: [AcceptSet; 3],
    second: Group,
) -> Verdict {
    let members = [member(1, ended)].into_iter().chain(blocked(2..=4));
    let edges = (1..).zip(accepts).map(|(number, accepts)| edge_for(number, number + 1, accepts));
    scene.seed(&Seed::members(members).groups([second]).edges(edges)).await
}

const SUCCESS: AcceptSet = AcceptSet::ON_SUCCESS;

async fn a_plan_goes_on_through_what_will_be_skipped<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    chain(&scene, FAILED, [SUCCESS; 3], group(2, JoinPolicy::AllOf, 1)).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2, 3, 4]), "the plan of a failure");
    Ok(())
}

async fn a_plan_goes_on_for_every_refused_outcome<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut seed = Seed::default();
    for (number, outcome) in (0..).zip(Outcome::ALL) {
        let first = 10 * (number + 1);
        seed.members.push(member(first, State::Terminal(outcome)));
        seed.members.extend(blocked(first + 1..first + 5));
        let others: Vec<Outcome> = Outcome::ALL.into_iter().filter(|o| *o != outcome).collect();
        seed = seed.edges([
            edge_for(first, first + 1, AcceptSet::of(&[outcome])),
            edge(first + 1, first + 2),
            edge_for(first, first + 3, AcceptSet::of(&others)),
            edge(first + 3, first + 4),
        ]);
    }
    seed.flows.push(flow(FLOW));
    scene.seed(&seed).await?;
    for number in 1..=5 {
        let first = 10 * number;
        let expected = ids(&[first + 1, first + 3, first + 4]);
        let outcome = Outcome::ALL[usize::from(number) - 1];
        ensure_same!(plan(&scene, &[first], 99).await?, expected, "the plan of {outcome:?}");
    }
    Ok(())
}

async fn a_plan_stops_where_an_edge_is_satisfied<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    chain(&scene, SUCCEEDED, [SUCCESS; 3], group(2, JoinPolicy::AllOf, 1)).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2]), "the plan of a success");
    Ok(())
}

async fn a_plan_stops_at_a_skip_that_is_accepted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let accepts = [SUCCESS, AcceptSet::NONE_FAILED, SUCCESS];
    chain(&scene, FAILED, accepts, group(2, JoinPolicy::AllOf, 1)).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2, 3]), "the plan of a failure");
    Ok(())
}

async fn a_plan_stops_at_other_policies<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let on_satisfied = OnSatisfied::CancelRemaining;
    let policies = [JoinPolicy::AnyOf { on_satisfied }, JoinPolicy::Quorum { k: 1, on_satisfied }];
    let mut seed = Seed::members([member(1, FAILED)].into_iter().chain(blocked(2..=5)));
    seed = seed.groups((2..).zip(policies).map(|(number, policy)| group(number, policy, 1)));
    scene.seed(&seed.edges([edge(1, 2), edge(1, 3), edge(2, 4), edge(3, 5)])).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2, 3]), "the plan of a failure");
    Ok(())
}

async fn a_plan_stops_at_decided_groups<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let decided =
        Group { unsatisfied: 1, decision: Decision::Impossible, ..group(2, JoinPolicy::AllOf, 2) };
    chain(&scene, FAILED, [SUCCESS; 3], decided).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2]), "the plan of a failure");
    Ok(())
}

async fn a_plan_stops_at_what_is_not_blocked<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let states = [State::Ready, State::Suspended, State::Terminal(Outcome::Cancelled)];
    let downstreams: Vec<_> = (2..).zip(states).map(|(n, state)| member(n, state)).collect();
    let members = [member(1, FAILED)].into_iter().chain(downstreams).chain(blocked(5..=7));
    let edges = [edge(1, 2), edge(1, 3), edge(1, 4), edge(2, 5), edge(3, 6), edge(4, 7)];
    scene.seed(&Seed::members(members).edges(edges)).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2, 3, 4]), "the plan of a failure");
    Ok(())
}

async fn one_refusing_edge_among_others_is_enough<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let ended = [member(1, SUCCEEDED), member(2, SUCCEEDED), member(3, FAILED)];
    let members = ended.into_iter().chain(blocked(4..=5));
    let edges = [edge(1, 4), edge(2, 4), edge(3, 4), edge(4, 5)];
    scene.seed(&Seed::members(members).edges(edges)).await?;
    ensure_same!(plan(&scene, &[1, 2], 99).await?, ids(&[4]), "the plan of two successes");
    for upstreams in [[1, 2, 3], [3, 2, 1], [1, 3, 2]] {
        let planned = plan(&scene, &upstreams, 99).await?;
        ensure_same!(planned, ids(&[4, 5]), "the plan of {upstreams:?}");
    }
    ensure_same!(plan(&scene, &[1, 2, 3], 2).await?, ids(&[4, 5]), "the plan at its limit");
    Ok(())
}

async fn a_plan_stops_at_its_limit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [member(1, SUCCEEDED)].into_iter().chain(blocked(2..=41));
    scene.seed(&Seed::members(members).edges((2..=41).map(|number| edge(1, number)))).await?;
    for limit in [1, 2, 7, 39, 40, 41] {
        let planned = plan(&scene, &[1], limit).await?;
        ensure_same!(planned.len(), limit.min(40) as usize, "groups of a plan of at most {limit}");
        ensure!(planned.is_sorted(), "the plan of at most {limit} is not in id order");
        let distinct = planned.windows(2).all(|pair| pair[0] != pair[1]);
        ensure!(distinct, "the plan of at most {limit} holds a group twice");
    }
    Ok(())
}

async fn the_nearest_groups_come_first<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    // Three levels of three, numbered so that the far ones have the lower ids.
    let members = [member(100, FAILED)].into_iter().chain(blocked(1..=9));
    let levels = [[7, 8, 9], [4, 5, 6], [1, 2, 3]];
    let mut edges: Vec<_> = levels[0].iter().map(|near| edge(100, *near)).collect();
    for pair in levels.windows(2) {
        for upstream in pair[0] {
            edges.extend(pair[1].iter().map(|downstream| edge(upstream, *downstream)));
        }
    }
    scene.seed(&Seed::members(members).edges(edges)).await?;
    ensure_same!(plan(&scene, &[100], 3).await?, ids(&levels[0]), "the three nearest");
    ensure_same!(plan(&scene, &[100], 6).await?, ids(&[4, 5, 6, 7, 8, 9]), "the six nearest");
    for (limit, whole) in [(2, 0), (4, 3), (5, 3), (7, 6), (8, 6)] {
        let planned = plan(&scene, &[100], limit).await?;
        let nearest: Vec<_> = levels.iter().flatten().take(whole).map(|near| id(*near)).collect();
        ensure_same!(planned.len(), limit as usize, "groups of a plan of at most {limit}");
        let holds = nearest.iter().all(|near| planned.contains(near));
        ensure!(holds, "the plan of at most {limit} leaves out a near group: {planned:?}");
    }
    Ok(())
}

async fn a_deep_plan_has_no_other_limit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    const DEPTH: u16 = 400;
    let members = [member(1, FAILED)].into_iter().chain(blocked(2..=DEPTH));
    scene.seed(&Seed::members(members).edges((2..=DEPTH).map(|n| edge(n - 1, n)))).await?;
    let planned = plan(&scene, &[1], 1_000).await?;
    ensure_same!(
        planned.len(),
        usize::from(DEPTH) - 1,
        "groups of a chain that all will be skipped"
    );
    let expected: Vec<ExecutionId> = (2..=257).map(id).collect();
    ensure_same!(plan(&scene, &[1], 256).await?, expected, "the first 256 groups of the chain");
    Ok(())
}

async fn a_plan_keeps_to_its_partition<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let near = [member(1, FAILED), member(2, State::Blocked)];
    let far = near.clone().map(|row| in_partition(3, row));
    let far_edge = crate::storage::Edge {
        key: crate::storage::EdgeKey { downstream: id_in(3, 2), upstream: id_in(3, 1) },
        ..edge(1, 2)
    };
    scene.seed(&Seed::members(near.into_iter().chain(far)).edges([edge(1, 2), far_edge])).await?;
    ensure_same!(plan(&scene, &[1], 99).await?, ids(&[2]), "the plan of the home partition");
    let query = PlanQuery { upstreams: vec![id_in(3, 1)], limit: 99 };
    let planned = scene.reader().await?.plan_groups(&query).await?;
    ensure_same!(planned, [id_in(3, 2)], "the plan of the other partition");
    Ok(())
}
