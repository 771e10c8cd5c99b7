//! Claims: what may be granted, in which order, and what a grant writes.

use std::sync::Arc;
use std::time::Duration;

use super::rows::{
    FLOW, NOW, SUCCEEDED, Seed, claim, flow, granted, id, id_in, ids, in_partition, member,
    ready_but, request, to_state,
};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure, ensure_same, table};
use crate::state::{ClosePolicy, State};
use crate::storage::{ClaimQuery, Flow, Grant, Lease, NewExecution, PRIORITY_STEP_US, Transaction};
use crate::time::Timestamp;

table! { "claims";
    a_grant_counts_charges_fences_and_leases:
        "A grant counts the attempt, charges it, raises the epoch and writes the lease and the \
         worker; it is the row as stored.";
    a_grant_is_charged_as_asked: "Attempts charged with each grant.";
    values_at_the_edges_of_their_range_are_leased:
        "Writes the lease; instants and numbers as they are.";
    only_ready_rows_are_granted: "Grants ready rows.";
    a_row_is_granted_once: "Grants ready rows.";
    a_row_waits_for_its_time: "Grants ready rows whose `not_before` has come.";
    grants_come_in_claim_order:
        "The claim order: priority ageing by one step a minute, then `not_before`, then id.";
    priorities_at_the_edges_of_their_range_are_ordered: "The claim order, with its saturation.";
    a_claim_stops_at_its_limit: "The best `limit` of all are granted.";
    a_claim_of_nothing_grants_nothing: "At most `limit` of them.";
    only_the_lanes_asked_for_are_granted: "Of the lanes asked for.";
    lanes_of_any_name_are_found: "Of the lanes asked for.";
    the_best_of_several_lanes_are_granted: "The best `limit` of all are granted.";
    only_the_kinds_asked_for_are_granted: "Of the kinds asked for; none means every kind.";
    what_a_claim_excepts_is_passed_over: "None of those that it excepts, before the limit.";
    only_the_namespace_asked_for_is_granted: "Of the namespace asked for.";
    only_the_partitions_asked_for_are_granted:
        "Of the partitions asked for, the last one excluded.";
    a_filter_comes_before_the_limit: "The filters are part of the walk, and the limit comes after.";
    a_closed_flow_starts_nothing: "Whose flow is open or closed with `FlowOnly`.";
    what_the_transaction_made_ready_is_granted: "Each verb sees its own transaction's writes.";
    a_claim_that_is_rolled_back_granted_nothing: "Everything up to `commit`, or nothing.";
    grants_are_found_by_their_request:
        "The live grants that carry a claim's request id, in id order.";
    a_lease_that_ended_is_no_grant: "A lease that ended is none.";
    a_transaction_finds_its_own_grants: "What the transaction itself granted or ended counts.";
    rows_not_granted_are_free_after_the_claim:
        "Rows locked and not granted stay as they are and are free again when the transaction \
         ends.";
}

/// The numbers that a committed claim was granted.
async fn claimed<S: Subject>(
    scene: &Scene<'_, S>,
    query: &ClaimQuery,
) -> Result<Vec<crate::identity::ExecutionId>, super::Breach> {
    Ok(granted(&scene.claim(query).await?))
}

/// Gives everything back, so that it can be claimed again.
async fn release_all<S: Subject>(scene: &Scene<'_, S>, rows: &[NewExecution]) -> Verdict {
    for row in rows {
        let id = row.execution.id;
        let locked = scene.commit(async |one| one.lock_executions(&[id]).await).await?;
        for active in locked.iter().filter(|row| row.state == State::Active) {
            scene.write(&to_state(active, State::Ready)).await?;
        }
    }
    Ok(())
}

async fn a_grant_counts_charges_fences_and_leases<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = ready_but(1, |row| {
        row.execution.attempt = 2;
        row.execution.charged = 1;
        row.execution.give_backs = 1;
        row.execution.epoch = 7;
    });
    let before = row.execution;
    scene.seed(&Seed::members([row.clone()])).await?;
    let query = claim(3);
    let grants = scene.claim(&query).await?;
    let expected = Grant { execution: before.granted(&query), definition: row.definition.clone() };
    ensure_same!(grants, [expected], "the grants");
    let view = scene.view(1).await?;
    ensure_same!(view.execution, grants[0].execution, "the row as stored");
    ensure_same!(view.definition, row.definition, "the definition as stored");
    ensure_same!(view.worker.as_deref(), Some("worker"), "the worker as stored");
    let execution = grants[0].execution;
    let numbers = (execution.attempt, execution.charged, execution.give_backs, execution.epoch);
    ensure_same!(numbers, (3, 2, 1, 8), "attempt, charged, give-backs and epoch");
    let expected = Lease {
        nonce: query.nonce,
        request: query.request,
        granted_at: NOW,
        expires_at: NOW + Duration::from_secs(30),
    };
    ensure_same!(execution.lease, Some(expected), "the lease");
    Ok(())
}

async fn a_grant_is_charged_as_asked<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let grants = scene.claim(&ClaimQuery { charge: 0, ..claim(1) }).await?;
    let counted: Vec<_> =
        grants.iter().map(|g| (g.execution.attempt, g.execution.charged)).collect();
    ensure_same!(counted, [(1, 0)], "attempt and charged of a grant that charges nothing");
    Ok(())
}

async fn values_at_the_edges_of_their_range_are_leased<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [
        ready_but(1, |row| row.execution.epoch = u64::MAX - 1),
        ready_but(2, |row| row.execution.epoch = (1 << 63) - 1),
        ready_but(3, |row| row.execution.not_before = Timestamp(i64::MIN)),
    ];
    scene.seed(&Seed::members(rows.clone())).await?;
    let query = ClaimQuery {
        nonce: u64::MAX,
        now: Timestamp(i64::MAX - 5),
        worker: "Würker \u{1F680} '\"\\".into(),
        instance: "".into(),
        ..claim(9)
    };
    let mut grants = scene.claim(&query).await?;
    grants.sort_by_key(|grant| grant.execution.id);
    let expected = rows.map(|row| row.execution.granted(&query));
    let executions: Vec<_> = grants.iter().map(|grant| grant.execution).collect();
    ensure_same!(executions, expected, "grants at the end of time");
    ensure_same!(scene.view(1).await?.worker, Some(query.worker.clone()), "the worker");
    let found = scene.commit(async |one| one.read_grants(&query.request).await).await?;
    ensure_same!(found, grants, "grants by their request");
    Ok(())
}

async fn only_ready_rows_are_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let states = State::ALL.into_iter().filter(|state| *state != State::Active);
    let rows: Vec<_> = (1..).zip(states).map(|(number, state)| member(number, state)).collect();
    let ready: Vec<_> = rows
        .iter()
        .filter(|row| row.execution.state == State::Ready)
        .map(|row| row.execution.id)
        .collect();
    scene.seed(&Seed::members(rows)).await?;
    ensure_same!(claimed(&scene, &claim(99)).await?, ready, "granted rows");
    Ok(())
}

async fn a_row_is_granted_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(3)).await?;
    ensure_same!(claimed(&scene, &claim(2)).await?, ids(&[1, 2]), "the first claim");
    ensure_same!(claimed(&scene, &claim(2)).await?, ids(&[3]), "the second claim");
    ensure_same!(claimed(&scene, &claim(2)).await?, [], "the third claim");
    Ok(())
}

async fn a_row_waits_for_its_time<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let due = |number, not_before_us| {
        ready_but(number, |row| row.execution.not_before = Timestamp(not_before_us))
    };
    let rows = [due(1, NOW.0 + 1), due(2, NOW.0), due(3, i64::MIN), due(4, i64::MAX)];
    scene.seed(&Seed::members(rows)).await?;
    ensure_same!(claimed(&scene, &claim(9)).await?, ids(&[3, 2]), "granted rows");
    let later = ClaimQuery { now: Timestamp(NOW.0 + 1), ..claim(9) };
    ensure_same!(claimed(&scene, &later).await?, ids(&[1]), "rows granted a microsecond later");
    Ok(())
}

async fn grants_come_in_claim_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = |number, priority, not_before_us| {
        ready_but(number, |row| {
            row.definition.priority = priority;
            row.execution.not_before = Timestamp(not_before_us);
        })
    };
    let step = PRIORITY_STEP_US;
    let rows = [
        row(1, 0, 1),
        row(2, 0, 0),
        row(3, 1, step),
        row(4, 9, 0),
        row(5, 0, 0),
        row(6, -1, 0),
        row(7, 1, 2 * step + 1),
        row(8, 1, step + 1),
        in_partition(3, row(9, 0, 0)),
    ];
    scene.seed(&Seed::members(rows.clone())).await?;
    let expected = [id(4), id_in(3, 9), id(2), id(5), id(3), id(1), id(8), id(6), id(7)];
    for limit in 1..=9 {
        let grants = claimed(&scene, &claim(limit)).await?;
        ensure_same!(grants, expected[..limit as usize], "the first {limit} in claim order");
        release_all(&scene, &rows).await?;
    }
    Ok(())
}

async fn priorities_at_the_edges_of_their_range_are_ordered<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let row = |number, priority, not_before_us| {
        ready_but(number, |row| {
            row.definition.priority = priority;
            row.execution.not_before = Timestamp(not_before_us);
        })
    };
    let rows = [
        row(1, i32::MIN, i64::MAX),
        row(2, i32::MAX, i64::MIN),
        row(3, i32::MAX, i64::MIN + 1),
        row(4, i32::MIN, i64::MAX - 1),
        row(5, i32::MIN, 0),
        row(6, i32::MAX, 0),
        row(7, 0, i64::MIN),
        row(8, 0, i64::MAX),
        row(9, 1, i64::MIN),
    ];
    let mut expected: Vec<Grant> = rows
        .iter()
        .map(|row| Grant { execution: row.execution, definition: row.definition.clone() })
        .collect();
    expected.sort_by_key(Grant::claim_key);
    scene.seed(&Seed::members(rows.clone())).await?;
    for limit in 1..=9 {
        let query = ClaimQuery { now: Timestamp(i64::MAX), ..claim(limit) };
        let grants = claimed(&scene, &query).await?;
        ensure_same!(grants, granted(&expected)[..limit as usize], "the first {limit}");
        release_all(&scene, &rows).await?;
    }
    Ok(())
}

async fn a_claim_stops_at_its_limit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(5)).await?;
    ensure_same!(claimed(&scene, &claim(3)).await?, ids(&[1, 2, 3]), "three of five");
    ensure_same!(claimed(&scene, &claim(u32::MAX)).await?, ids(&[4, 5]), "all that is left");
    Ok(())
}

async fn a_claim_of_nothing_grants_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    ensure_same!(claimed(&scene, &claim(0)).await?, [], "a claim with limit 0");
    let row = scene.execution(1).await?;
    ensure_same!(row, member(1, State::Ready).execution, "a row after a claim with limit 0");
    Ok(())
}

/// Ready executions 1 to 6: the odd ones in lane `left`, the even ones in lane `right`.
fn in_two_lanes() -> Vec<NewExecution> {
    let lane = |number| if number % 2 == 1 { "left" } else { "right" };
    (1..=6).map(|n| ready_but(n, |row| row.definition.lane = lane(n).into())).collect()
}

fn from_lanes(lanes: &[&str], limit: u32) -> ClaimQuery {
    ClaimQuery { lanes: lanes.iter().map(|lane| Arc::from(*lane)).collect(), ..claim(limit) }
}

async fn only_the_lanes_asked_for_are_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(in_two_lanes())).await?;
    let missing = from_lanes(&["lef", "left ", "LEFT"], 9);
    ensure_same!(claimed(&scene, &missing).await?, [], "lanes that are not there");
    let right = claimed(&scene, &from_lanes(&["right", "middle"], 9)).await?;
    ensure_same!(right, ids(&[2, 4, 6]), "the right lane");
    let left = claimed(&scene, &from_lanes(&["left"], 9)).await?;
    ensure_same!(left, ids(&[1, 3, 5]), "the left lane");
    Ok(())
}

async fn lanes_of_any_name_are_found<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let names = [
        "",
        " ",
        "'",
        "\"",
        "\\",
        "\\u0041",
        "a\nb\tc",
        "Straße",
        "\u{1F680}",
        "{\"a\":1}",
        "null",
    ];
    let rows = (1..).zip(names).map(|(number, name)| {
        ready_but(number, |row| {
            row.definition.lane = name.into();
            row.definition.kind = format!("kind of {name}").into();
        })
    });
    scene.seed(&Seed::members(rows)).await?;
    for (number, name) in (1..).zip(names) {
        let kinds = vec![Arc::from("other"), format!("kind of {name}").into()];
        let query = ClaimQuery { kinds, ..from_lanes(&[name], 9) };
        ensure_same!(claimed(&scene, &query).await?, ids(&[number]), "lane {name:?}");
    }
    Ok(())
}

async fn the_best_of_several_lanes_are_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut rows = in_two_lanes();
    rows[5].definition.priority = 1;
    scene.seed(&Seed::members(rows.clone())).await?;
    let expected = ids(&[6, 1, 2, 3, 4, 5]);
    for limit in 1..=6 {
        for lanes in [["left", "right"], ["right", "left"]] {
            let grants = claimed(&scene, &from_lanes(&lanes, limit)).await?;
            ensure_same!(grants, expected[..limit as usize], "the best {limit} of {lanes:?}");
            release_all(&scene, &rows).await?;
        }
    }
    Ok(())
}

async fn only_the_kinds_asked_for_are_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let kind = |number, kind: &str| ready_but(number, |row| row.definition.kind = kind.into());
    let rows = [kind(1, "build"), kind(2, "deploy"), kind(3, "test"), kind(4, "Build")];
    scene.seed(&Seed::members(rows)).await?;
    let of = |kinds: &[&str]| ClaimQuery {
        kinds: kinds.iter().map(|kind| Arc::from(*kind)).collect(),
        ..claim(9)
    };
    ensure_same!(claimed(&scene, &of(&["copy"])).await?, [], "a kind that is not there");
    ensure_same!(claimed(&scene, &of(&["test", "build"])).await?, ids(&[1, 3]), "two kinds");
    ensure_same!(claimed(&scene, &of(&[])).await?, ids(&[2, 4]), "every kind");
    Ok(())
}

async fn what_a_claim_excepts_is_passed_over<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members((1..=4).map(|number| ready_but(number, |_| {})))).await?;
    let except = vec![id(1), id(3)];
    let grants = claimed(&scene, &ClaimQuery { except, ..claim(1) }).await?;
    ensure_same!(grants, ids(&[2]), "the first of what is left");
    let except = vec![id(3), id(9)];
    let grants = claimed(&scene, &ClaimQuery { except, ..claim(9) }).await?;
    ensure_same!(grants, ids(&[1, 4]), "the rest without the one");
    Ok(())
}

async fn only_the_namespace_asked_for_is_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let of = |number, name: &str| ready_but(number, |row| row.definition.namespace = name.into());
    scene.seed(&Seed::members([of(1, "left"), of(2, "right"), of(3, ""), of(4, "Left")])).await?;
    let from = |name: &str| ClaimQuery { namespace: Some(name.into()), ..claim(9) };
    ensure_same!(claimed(&scene, &from("middle")).await?, [], "a namespace that is not there");
    ensure_same!(claimed(&scene, &from("left")).await?, ids(&[1]), "namespace left");
    ensure_same!(claimed(&scene, &from("")).await?, ids(&[3]), "the empty namespace");
    ensure_same!(claimed(&scene, &claim(9)).await?, ids(&[2, 4]), "any namespace");
    Ok(())
}

async fn only_the_partitions_asked_for_are_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [0, 1, 7, 255].map(|partition| in_partition(partition, member(1, State::Ready)));
    scene.seed(&Seed::members(rows)).await?;
    let from = |partitions| ClaimQuery { partitions, ..claim(9) };
    ensure_same!(claimed(&scene, &from(2..7)).await?, [], "partitions 2 to 6");
    ensure_same!(claimed(&scene, &from(7..7)).await?, [], "no partition");
    let two = claimed(&scene, &from(1..8)).await?;
    ensure_same!(two, [id_in(1, 1), id_in(7, 1)], "partitions 1 to 7");
    let rest = claimed(&scene, &from(0..u16::MAX)).await?;
    ensure_same!(rest, [id_in(0, 1), id_in(255, 1)], "every partition");
    Ok(())
}

async fn a_filter_comes_before_the_limit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = (1..=40).map(|number| {
        ready_but(number, |row| {
            if number == 40 {
                row.definition.namespace = "wanted".into();
                row.definition.kind = "wanted".into();
            }
        })
    });
    scene.seed(&Seed::members(rows)).await?;
    let query =
        ClaimQuery { namespace: Some("wanted".into()), kinds: vec!["wanted".into()], ..claim(1) };
    ensure_same!(claimed(&scene, &query).await?, ids(&[40]), "the one row behind 39 others");
    Ok(())
}

async fn a_closed_flow_starts_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let closings = [
        None,
        Some(ClosePolicy::FlowOnly),
        Some(ClosePolicy::CancelPending),
        Some(ClosePolicy::CancelAll),
    ];
    let mut seed = Seed::default();
    for (number, closing) in (1..).zip(closings) {
        let key = crate::identity::FlowKey {
            id: crate::identity::FlowId(uuid::Uuid::from_u128(u128::from(number))),
            ..FLOW
        };
        seed.flows.push(Flow { closing, ..flow(key) });
        seed.members.push(ready_but(number, |row| row.execution.flow = key.id));
    }
    scene.seed(&seed).await?;
    ensure_same!(claimed(&scene, &claim(9)).await?, ids(&[1, 2]), "rows of open and closed flows");
    Ok(())
}

async fn what_the_transaction_made_ready_is_granted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, State::Blocked), member(2, State::Ready)])).await?;
    let grants = scene
        .commit(async |one| {
            let locked = one.lock_executions(&ids(&[1])).await?;
            one.write_executions(&[to_state(&locked[0], State::Ready)]).await?;
            one.insert_executions(&[member(3, State::Ready)]).await?;
            one.claim_executions(&claim(9)).await
        })
        .await?;
    ensure_same!(granted(&grants), ids(&[1, 2, 3]), "granted rows");
    Ok(())
}

async fn a_claim_that_is_rolled_back_granted_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let mut transaction = scene.begin().await?;
    let first = transaction.claim_executions(&claim(9)).await?;
    ensure_same!(first.len(), 2, "grants before the rollback");
    transaction.rollback().await;
    let row = scene.execution(1).await?;
    ensure_same!(row, member(1, State::Ready).execution, "a row after the rollback");
    ensure_same!(scene.claim(&claim(9)).await?, first, "the same claim after the rollback");
    Ok(())
}

async fn grants_are_found_by_their_request<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = |number, priority| ready_but(number, |row| row.definition.priority = priority);
    let rows = [row(1, 0), row(2, 5), row(3, 0), in_partition(3, row(4, 0))];
    scene.seed(&Seed::members(rows)).await?;
    let (first, second) = (claim(3), ClaimQuery { request: request(98), ..claim(9) });
    let mut grants = scene.claim(&first).await?;
    ensure_same!(granted(&grants), [id(2), id_in(3, 4), id(1)], "grants in claim order");
    scene.claim(&second).await?;
    grants.sort_by_key(|grant| grant.execution.id);
    let found = scene.commit(async |one| one.read_grants(&first.request).await).await?;
    ensure_same!(found, grants, "the grants of the first request, in id order");
    let found = scene.commit(async |one| one.read_grants(&second.request).await).await?;
    ensure_same!(granted(&found), ids(&[3]), "the grants of the second request");
    let none = scene.commit(async |one| one.read_grants(&request(97)).await).await?;
    ensure_same!(none, [], "the grants of a request that was never made");
    Ok(())
}

async fn a_lease_that_ended_is_no_grant<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let grants = scene.claim(&claim(9)).await?;
    scene.write(&to_state(&grants[0].execution, SUCCEEDED)).await?;
    let found = scene.commit(async |one| one.read_grants(&claim(9).request).await).await?;
    ensure_same!(found, grants[1..], "the grants that live");
    Ok(())
}

async fn a_transaction_finds_its_own_grants<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(3)).await?;
    let mut transaction = scene.begin().await?;
    let grants = transaction.claim_executions(&claim(2)).await?;
    let found = transaction.read_grants(&claim(2).request).await?;
    ensure_same!(found, grants, "grants that are not committed");
    transaction.write_executions(&[to_state(&grants[0].execution, SUCCEEDED)]).await?;
    let found = transaction.read_grants(&claim(2).request).await?;
    ensure_same!(found, grants[1..], "grants of which it ended one");
    transaction.commit().await?;
    Ok(())
}

async fn rows_not_granted_are_free_after_the_claim<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(in_two_lanes())).await?;
    let mut holder = scene.begin().await?;
    let grants = holder.claim_executions(&from_lanes(&["right", "left"], 1)).await?;
    ensure_same!(granted(&grants), ids(&[1]), "the best of both lanes");
    if scene.has_row_locks() {
        let query = from_lanes(&["right", "left"], 9);
        let other = scene.second(async |one| one.claim_executions(&query).await).await?;
        let (transaction, others) = scene.passes(other, &mut holder).await?;
        let others = granted(&others);
        ensure!(
            !others.contains(&id(1)) && others.contains(&id(3)) && others.contains(&id(4)),
            "beside a claim of one in each lane another one got {others:?}"
        );
        transaction.rollback().await;
    }
    holder.commit().await?;
    let row = scene.execution(2).await?;
    ensure_same!(row, member(2, State::Ready).execution, "a row that was not granted");
    let rest = claimed(&scene, &from_lanes(&["right", "left"], 9)).await?;
    ensure_same!(rest, ids(&[2, 3, 4, 5, 6]), "the rest, once the claim has ended");
    Ok(())
}
