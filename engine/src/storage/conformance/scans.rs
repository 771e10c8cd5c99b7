//! The scans of the reconcilers: which rows they find, page by page, within their scope.

use std::time::Duration;

use super::rows::{
    FAILED, NOW, SUCCEEDED, Seed, claim, group, id, id_in, ids, in_partition, member, ready_but,
    to_state,
};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure_same, table};
use crate::identity::ExecutionId;
use crate::policy::{Decision, JoinPolicy};
use crate::retry::RetryPolicy;
use crate::state::State;
use crate::storage::{
    ClaimQuery, ExecutionWrite, Group, NewExecution, OverdueScan, Page, ResultChange, Scope,
    Snapshot, UpstreamScan,
};
use crate::time::Timestamp;

table! { "scans";
    upstreams_are_terminal_and_not_propagated: "Terminal executions that are not propagated.";
    upstreams_had_ended_by_then: "With `finished_by` only those that had ended by then.";
    upstreams_come_in_pages: "A keyset page: exclusive cursor, id order, at most so many rows.";
    upstreams_are_of_their_scope: "What a scan looks at; applied in the query, before its limit.";
    stuck_groups_are_decided_and_blocked: "Decided groups whose downstream is still blocked.";
    stuck_groups_come_in_pages: "A keyset page: exclusive cursor, id order, at most so many rows.";
    stuck_groups_are_of_their_scope:
        "What a scan looks at; applied in the query, before its limit.";
    a_lease_is_overdue_once_it_is_over:
        "Executions whose lease is over; what is over at `now` is over.";
    an_attempt_is_overdue_once_its_time_is_up: "Executions whose attempt is over.";
    a_deadline_is_overdue_in_every_state_but_the_terminal_ones:
        "Executions whose deadline is over; what is terminal is not overdue.";
    what_is_overdue_twice_comes_once: "In id order, each once.";
    overdue_instants_do_not_wrap_around: "Executions whose lease, attempt or deadline is over.";
    overdue_executions_come_in_pages:
        "A keyset page: exclusive cursor, id order, at most so many rows.";
    overdue_executions_are_of_their_scope:
        "What a scan looks at; applied in the query, before its limit.";
}

pub(super) type Found = Result<Vec<ExecutionId>, Breach>;

fn everything() -> Page {
    Page { scope: Scope::default(), after: None, limit: 999 }
}

async fn upstreams<S: Subject>(scene: &Scene<'_, S>, page: &Page) -> Found {
    let scan = UpstreamScan { page: page.clone(), finished_by: None };
    Ok(scene.reader().await?.scan_upstreams(&scan).await?)
}

async fn stuck<S: Subject>(scene: &Scene<'_, S>, page: &Page) -> Found {
    Ok(scene.reader().await?.scan_stuck_groups(page).await?)
}

async fn overdue_at<S: Subject>(scene: &Scene<'_, S>, page: &Page, now: Timestamp) -> Found {
    let scan = OverdueScan { page: page.clone(), now };
    Ok(scene.reader().await?.scan_overdue(&scan).await?)
}

async fn overdue<S: Subject>(scene: &Scene<'_, S>, page: &Page) -> Found {
    overdue_at(scene, page, NOW).await
}

/// Where pages are checked: executions 1 to 6 at home and 3 in two other partitions.
pub(super) fn spread(make: impl Fn(u16) -> NewExecution) -> Vec<NewExecution> {
    let home = [4, 1, 6, 2, 5, 3].map(&make);
    let far = [(3, 3), (200, 3)].map(|(partition, number)| in_partition(partition, make(number)));
    home.into_iter().chain(far).collect()
}

/// Checks a scan over everything that [`spread`] made.
pub(super) async fn comes_in_pages<S: Subject>(
    scene: &Scene<'_, S>,
    scan: impl AsyncFn(&Scene<'_, S>, &Page) -> Found,
) -> Verdict {
    let mut all = vec![id_in(3, 3)];
    all.extend(ids(&[1, 2, 3, 4, 5, 6]));
    all.push(id_in(200, 3));
    ensure_same!(scan(scene, &everything()).await?, all, "one page of everything");
    for limit in 0..=8 {
        let page = scan(scene, &Page { limit, ..everything() }).await?;
        ensure_same!(page, all[..limit as usize], "the first {limit}");
    }
    for (at, after) in all.iter().enumerate() {
        let page = Page { after: Some(*after), limit: 2, ..everything() };
        let expected = &all[at + 1..(at + 3).min(all.len())];
        ensure_same!(scan(scene, &page).await?, expected, "two after {after}");
    }
    for (after, left) in [(id_in(7, 0), 7), (id_in(7, 99), 1), (id_in(8, 0), 1), (id_in(201, 0), 0)]
    {
        let page = Page { after: Some(after), ..everything() };
        ensure_same!(scan(scene, &page).await?, all[8 - left..], "everything after {after}");
    }
    Ok(())
}

/// Nine executions, all alike but for their labels and partitions.
pub(super) fn labelled(make: impl Fn(u16) -> NewExecution) -> Vec<NewExecution> {
    let with = |number, partition, namespace: &str, tag: Option<&str>| {
        let mut row = in_partition(partition, make(number));
        row.definition.namespace = namespace.into();
        row.definition.instance_tag = tag.map(Into::into);
        row
    };
    vec![
        with(1, 0, "left", None),
        with(2, 7, "left", Some("a=b")),
        with(3, 7, "right", Some("a=b")),
        with(4, 7, "right", Some("a=B")),
        with(5, 7, "", Some("")),
        with(6, 8, "left", Some("a=b")),
        with(7, 255, "left", None),
    ]
}

/// Checks a scan over everything that [`labelled`] made.
pub(super) async fn is_of_its_scope<S: Subject>(
    scene: &Scene<'_, S>,
    scan: impl AsyncFn(&Scene<'_, S>, &Page) -> Found,
) -> Verdict {
    let whole = 0..u16::MAX;
    let scoped = |partitions, namespace: Option<&str>, tag: Option<&str>, limit| Page {
        scope: Scope {
            partitions,
            namespace: namespace.map(Into::into),
            instance_tag: tag.map(Into::into),
        },
        after: None,
        limit,
    };
    let checks = [
        (scoped(7..8, None, None, 9), vec![id(2), id(3), id(4), id(5)]),
        (scoped(0..7, None, None, 9), vec![id_in(0, 1)]),
        (scoped(8..256, None, None, 9), vec![id_in(8, 6), id_in(255, 7)]),
        (scoped(7..7, None, None, 9), vec![]),
        (scoped(whole.clone(), Some("right"), None, 9), ids(&[3, 4])),
        (scoped(whole.clone(), Some(""), None, 9), ids(&[5])),
        (scoped(whole.clone(), Some("middle"), None, 9), vec![]),
        (scoped(whole.clone(), None, Some("a=b"), 9), vec![id(2), id(3), id_in(8, 6)]),
        (scoped(whole.clone(), None, Some(""), 9), ids(&[5])),
        (scoped(whole.clone(), Some("left"), Some("a=b"), 9), vec![id(2), id_in(8, 6)]),
        (scoped(7..9, Some("left"), Some("a=b"), 1), vec![id(2)]),
        (scoped(8..9, Some("left"), Some("a=b"), 1), vec![id_in(8, 6)]),
        (scoped(whole, Some("right"), Some("a=B"), 1), ids(&[4])),
    ];
    for (page, expected) in checks {
        ensure_same!(scan(scene, &page).await?, expected, "the rows of {:?}", page.scope);
    }
    Ok(())
}

async fn upstreams_are_terminal_and_not_propagated<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let states = State::ALL.into_iter().filter(|state| *state != State::Active);
    let rows: Vec<_> = (1..).zip(states).map(|(number, state)| member(number, state)).collect();
    let expected: Vec<_> = rows
        .iter()
        .filter(|row| row.execution.state.is_terminal())
        .map(|row| row.execution.id)
        .collect();
    let mut done = member(99, SUCCEEDED);
    done.execution.propagated = true;
    scene.seed(&Seed::members(rows.into_iter().chain([done]))).await?;
    ensure_same!(upstreams(&scene, &everything()).await?, expected, "upstreams");
    let row = scene.execution(4).await?;
    let after = crate::storage::Execution { propagated: true, ..row };
    let write = ExecutionWrite { guard: row.guard(), after, result: ResultChange::Keep };
    scene.write(&write).await?;
    ensure_same!(upstreams(&scene, &everything()).await?, expected[1..], "those that are left");
    Ok(())
}

async fn upstreams_had_ended_by_then<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let ended = |number, at| {
        let mut row = member(number, SUCCEEDED);
        row.execution.finished_at = Some(Timestamp(at));
        row
    };
    let rows = [ended(1, 10), ended(2, 9), ended(3, 11), ended(4, i64::MIN), ended(5, i64::MAX)];
    scene.seed(&Seed::members(rows)).await?;
    let by = [
        (Some(10), ids(&[1, 2, 4])),
        (Some(8), ids(&[4])),
        (Some(i64::MIN), ids(&[4])),
        (Some(i64::MAX), ids(&[1, 2, 3, 4, 5])),
        (None, ids(&[1, 2, 3, 4, 5])),
    ];
    for (by, expected) in by {
        let scan = UpstreamScan { page: everything(), finished_by: by.map(Timestamp) };
        let found = scene.reader().await?.scan_upstreams(&scan).await?;
        ensure_same!(found, expected, "those that had ended by {by:?}");
    }
    let page = Page { limit: 1, after: Some(id(2)), ..everything() };
    let scan = UpstreamScan { page, finished_by: Some(Timestamp(10)) };
    let found = scene.reader().await?.scan_upstreams(&scan).await?;
    ensure_same!(found, ids(&[4]), "one that had ended by 10, behind one that had not");
    Ok(())
}

async fn upstreams_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(spread(|number| member(number, SUCCEEDED)))).await?;
    comes_in_pages(&scene, upstreams).await
}

async fn upstreams_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(labelled(|number| member(number, FAILED)))).await?;
    is_of_its_scope(&scene, upstreams).await
}

/// Each of these with a group that is decided.
fn decided(rows: Vec<NewExecution>) -> Seed {
    let groups: Vec<Group> = rows
        .iter()
        .map(|row| Group {
            downstream: row.execution.id,
            satisfied: 1,
            decision: Decision::Satisfied,
            ..group(0, JoinPolicy::AllOf, 1)
        })
        .collect();
    Seed::members(rows).groups(groups)
}

async fn stuck_groups_are_decided_and_blocked<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [
        member(1, State::Blocked),
        member(2, State::Blocked),
        member(3, State::Blocked),
        member(4, State::Ready),
        member(5, SUCCEEDED),
        member(6, State::Blocked),
    ];
    let with = |number, satisfied, unsatisfied, decision| Group {
        satisfied,
        unsatisfied,
        decision,
        ..group(number, JoinPolicy::AllOf, 1)
    };
    let groups = [
        with(1, 1, 0, Decision::Satisfied),
        with(2, 0, 0, Decision::Undecided),
        with(3, 0, 1, Decision::Impossible),
        with(4, 1, 0, Decision::Satisfied),
        with(5, 1, 0, Decision::Satisfied),
    ];
    scene.seed(&Seed::members(members).groups(groups)).await?;
    ensure_same!(stuck(&scene, &everything()).await?, ids(&[1, 3]), "stuck groups");
    Ok(())
}

async fn stuck_groups_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&decided(spread(|number| member(number, State::Blocked)))).await?;
    comes_in_pages(&scene, stuck).await
}

async fn stuck_groups_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&decided(labelled(|number| member(number, State::Blocked)))).await?;
    is_of_its_scope(&scene, stuck).await
}

async fn a_lease_is_overdue_once_it_is_over<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(3)).await?;
    scene.claim(&ClaimQuery { lease: Duration::from_micros(10), ..claim(2) }).await?;
    let at = |us| Timestamp(NOW.0 + us);
    ensure_same!(overdue_at(&scene, &everything(), at(9)).await?, [], "before the leases end");
    let found = overdue_at(&scene, &everything(), at(10)).await?;
    ensure_same!(found, ids(&[1, 2]), "at the end of the leases");
    let row = scene.execution(1).await?;
    scene.write(&to_state(&row, State::Ready)).await?;
    let found = overdue_at(&scene, &everything(), at(99)).await?;
    ensure_same!(found, ids(&[2]), "after one of the leases went");
    Ok(())
}

async fn an_attempt_is_overdue_once_its_time_is_up<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let limited = |number, attempt_timeout_ms| {
        ready_but(number, |row| {
            row.execution.retry = RetryPolicy { attempt_timeout_ms, ..RetryPolicy::default() };
        })
    };
    let rows =
        [limited(1, Some(2)), limited(2, Some(0)), limited(3, None), limited(4, Some(9_999))];
    scene.seed(&Seed::members(rows)).await?;
    scene.claim(&ClaimQuery { lease: Duration::from_secs(1), ..claim(9) }).await?;
    let at = |us| Timestamp(NOW.0 + us);
    for (us, expected) in [
        (-1, vec![]),
        (0, ids(&[2])),
        (1_999, ids(&[2])),
        (2_000, ids(&[1, 2])),
        (999_999, ids(&[1, 2])),
        (1_000_000, ids(&[1, 2, 3, 4])),
    ] {
        let found = overdue_at(&scene, &everything(), at(us)).await?;
        ensure_same!(found, expected, "overdue {us} us after the grant");
    }
    Ok(())
}

fn due(number: u16, state: State, deadline_us: i64) -> NewExecution {
    let mut row = member(number, state);
    row.execution.deadline = Some(Timestamp(deadline_us));
    row
}

async fn a_deadline_is_overdue_in_every_state_but_the_terminal_ones<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let rows = [
        due(1, State::Blocked, NOW.0),
        due(2, State::Ready, NOW.0),
        due(3, State::Suspended, NOW.0),
        due(4, SUCCEEDED, NOW.0),
        due(5, State::Terminal(crate::state::Outcome::Skipped), NOW.0),
        due(6, State::Blocked, NOW.0 + 1),
        ready_but(7, |row| {
            row.execution.deadline = Some(NOW);
            row.definition.lane = "other".into();
        }),
        member(8, State::Ready),
    ];
    scene.seed(&Seed::members(rows)).await?;
    scene.claim(&ClaimQuery { lanes: vec!["other".into()], ..claim(1) }).await?;
    ensure_same!(overdue(&scene, &everything()).await?, ids(&[1, 2, 3, 7]), "at the deadline");
    let before = Timestamp(NOW.0 - 1);
    ensure_same!(overdue_at(&scene, &everything(), before).await?, [], "before the deadline");
    Ok(())
}

async fn what_is_overdue_twice_comes_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members((1..=3).map(|number| due(number, State::Ready, NOW.0)))).await?;
    scene.claim(&ClaimQuery { lease: Duration::ZERO, ..claim(2) }).await?;
    ensure_same!(overdue(&scene, &everything()).await?, ids(&[1, 2, 3]), "overdue executions");
    let page = Page { limit: 2, ..everything() };
    ensure_same!(overdue(&scene, &page).await?, ids(&[1, 2]), "the first two");
    Ok(())
}

async fn overdue_instants_do_not_wrap_around<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [
        ready_but(1, |row| {
            row.execution.retry.attempt_timeout_ms = Some(u32::MAX);
            row.execution.not_before = Timestamp(i64::MIN);
        }),
        due(2, State::Blocked, i64::MIN),
        due(3, State::Blocked, i64::MAX),
    ];
    scene.seed(&Seed::members(rows)).await?;
    scene.claim(&ClaimQuery { now: Timestamp(i64::MAX - 1), ..claim(9) }).await?;
    let found = overdue_at(&scene, &everything(), Timestamp(i64::MAX - 1)).await?;
    ensure_same!(found, ids(&[2]), "a microsecond before the end of time");
    let found = overdue_at(&scene, &everything(), Timestamp(i64::MAX)).await?;
    ensure_same!(found, ids(&[1, 2, 3]), "at the end of time");
    let found = overdue_at(&scene, &everything(), Timestamp(i64::MIN)).await?;
    ensure_same!(found, ids(&[2]), "at the beginning of time");
    Ok(())
}

async fn overdue_executions_come_in_pages<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let state = |number| if number % 2 == 0 { State::Blocked } else { State::Ready };
    scene.seed(&Seed::members(spread(|number| due(number, state(number), NOW.0)))).await?;
    scene.claim(&ClaimQuery { lease: Duration::ZERO, ..claim(2) }).await?;
    comes_in_pages(&scene, overdue).await
}

async fn overdue_executions_are_of_their_scope<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members(labelled(|number| due(number, State::Ready, NOW.0)))).await?;
    scene.claim(&ClaimQuery { lease: Duration::ZERO, ..claim(3) }).await?;
    is_of_its_scope(&scene, overdue).await
}
