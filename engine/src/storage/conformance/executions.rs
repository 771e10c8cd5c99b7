//! Execution rows: added, locked one by one, taken, and updated under their guard.

use std::sync::Arc;

use super::rows::{
    FLOW, OTHER, SUCCEEDED, Seed, claim, edge, group, id, id_in, ids, in_partition, member,
    ready_but, to_state,
};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure, ensure_same, table};
use crate::retry::{Backoff, RetryPolicy};
use crate::state::{Cause, Outcome, State};
use crate::storage::{
    Execution, ExecutionGuard, ExecutionView, ExecutionWrite, NewExecution, ResultChange, Resumed,
    Snapshot, StorageError, Transaction, all_readable,
};
use crate::time::Timestamp;

table! { "executions";
    an_execution_reads_back: "Adds executions, all without a lease or progress.";
    every_state_and_cause_reads_back: "Adds executions.";
    values_at_the_edges_of_an_execution_read_back: "Adds executions.";
    payloads_of_any_size_read_back: "Input of the handler: empty, or up to 1 MiB.";
    an_id_that_exists_is_corrupt: "An id that exists is corrupt.";
    many_executions_are_added_at_once: "Bulk comes in chunks of 10 000 rows.";
    locked_executions_come_in_id_order:
        "Locks executions in id order, whatever the order of the keys; missing ones are left out.";
    taken_executions_come_in_id_order:
        "Locks those that nobody else has locked and returns them in id order; missing ones are \
         left out.";
    a_lock_may_be_taken_twice: "Locks last until the transaction ends.";
    written_executions_come_in_id_order: "Returns the ids whose guard held, in id order.";
    every_changing_field_is_stored: "Updates locked executions.";
    a_row_in_another_state_stays_as_it_is:
        "A row whose guard does not hold, state or epoch, stays as it is.";
    a_row_at_another_epoch_stays_as_it_is:
        "A row whose guard does not hold, state or epoch, stays as it is.";
    a_guard_holds_once: "Zero rows change where the guard does not hold.";
    epochs_of_every_size_are_guards: "The epoch that it was read with.";
    a_missing_row_is_not_written: "Returns the ids whose guard held.";
    an_update_keeps_the_flow_and_the_retry_policy:
        "`after` keeps the flow, and the retry policy: they are written once, by the insert.";
    an_update_keeps_the_definition: "Written once, by the insert, as is the definition.";
    a_result_is_set_kept_and_cleared: "What an update does to the stored result: keep, set, clear.";
    a_worker_stays_with_its_lease_and_goes_with_it:
        "A lease in the new row keeps its worker, none clears it.";
}

async fn views<S: Subject>(scene: &Scene<'_, S>) -> Result<Vec<ExecutionView>, Breach> {
    Ok(all_readable(scene.reader().await?.describe_executions(&FLOW).await?)?)
}

fn view_of(row: NewExecution) -> ExecutionView {
    let NewExecution { execution, definition } = row;
    ExecutionView { execution, definition, worker: None, result: None, progress: None }
}

/// Adds these and reads them through both kinds of verbs.
async fn read_back<S: Subject>(scene: &Scene<'_, S>, rows: Vec<NewExecution>) -> Verdict {
    scene.seed(&Seed::members(rows.clone())).await?;
    let ids: Vec<_> = rows.iter().map(|row| row.execution.id).collect();
    let locked = scene.commit(async |one| one.lock_executions(&ids).await).await?;
    let changing: Vec<Execution> = rows.iter().map(|row| row.execution).collect();
    ensure_same!(locked, changing, "executions in a transaction");
    let seen = views(scene).await?;
    let expected: Vec<ExecutionView> = rows.into_iter().map(view_of).collect();
    ensure_same!(seen, expected, "executions in a reader");
    for view in expected {
        let id = view.execution.id;
        let seen = scene.reader().await?.describe_execution(&id).await?;
        ensure_same!(seen, Some(view), "one execution in a reader");
    }
    Ok(())
}

async fn an_execution_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    read_back(&scene, vec![member(1, State::Ready), member(2, State::Blocked)]).await
}

async fn every_state_and_cause_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let states = State::ALL.into_iter().filter(|state| *state != State::Active);
    let mut rows: Vec<NewExecution> =
        (1..).zip(states).map(|(n, state)| member(n, state)).collect();
    for (number, cause) in (100..).zip(Cause::ALL) {
        let mut row = member(number, State::Terminal(Outcome::Cancelled));
        row.execution.cause = Some(cause);
        row.execution.propagated = number % 2 == 0;
        rows.push(row);
    }
    read_back(&scene, rows).await
}

async fn values_at_the_edges_of_an_execution_read_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let change = |number, change: &dyn Fn(&mut NewExecution)| {
        let mut row = member(number, State::Suspended);
        change(&mut row);
        row
    };
    let counters = |row: &mut NewExecution, value: u32| {
        row.execution.incarnation = value;
        row.execution.attempt = value;
        row.execution.charged = value;
        row.execution.give_backs = value;
    };
    let retry = |max_attempts, backoff, attempt_timeout_ms| RetryPolicy {
        max_attempts,
        backoff,
        attempt_timeout_ms,
    };
    let widest = Backoff::Exponential { initial_ms: u32::MAX, factor: u32::MAX, cap_ms: u32::MAX };
    let rows = vec![
        change(1, &|row| row.execution.epoch = u64::MAX),
        change(2, &|row| row.execution.epoch = 1 << 63),
        change(3, &|row| counters(row, u32::MAX)),
        change(4, &|row| row.execution.not_before = Timestamp(i64::MIN)),
        change(5, &|row| row.execution.not_before = Timestamp(i64::MAX)),
        change(6, &|row| row.execution.deadline = Some(Timestamp(i64::MIN))),
        change(7, &|row| row.execution.deadline = Some(Timestamp(i64::MAX))),
        change(8, &|row| row.definition.priority = i32::MIN),
        change(9, &|row| row.definition.priority = i32::MAX),
        change(10, &|row| {
            row.definition.priority = i32::MIN;
            row.execution.not_before = Timestamp(i64::MAX);
        }),
        change(11, &|row| {
            row.definition.priority = i32::MAX;
            row.execution.not_before = Timestamp(i64::MIN);
        }),
        change(12, &|row| row.execution.retry = retry(u32::MAX, widest, Some(u32::MAX))),
        change(13, &|row| row.execution.retry = retry(0, Backoff::Fixed { delay_ms: 0 }, Some(0))),
        change(14, &|row| row.execution.has_in = !row.execution.has_in),
        change(15, &|row| row.execution.has_out = !row.execution.has_out),
        change(16, &|row| {
            row.definition.name = "".into();
            row.definition.kind = "\u{6771}\u{4EAC} \u{1F680}".into();
            row.definition.lane = "'; -- \"lane\" \\ \n \t {}".into();
            row.definition.namespace = "Mandant Süd".into();
            row.definition.instance_tag = None;
        }),
    ];
    read_back(&scene, rows).await
}

async fn payloads_of_any_size_read_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let bytes = |length: usize| -> Arc<[u8]> {
        (0..length).map(|at| u8::try_from(at % 256).unwrap_or(0)).collect()
    };
    let with =
        |number, payload: Arc<[u8]>| ready_but(number, |row| row.definition.payload = payload);
    let rows = vec![with(1, bytes(0)), with(2, bytes(256)), with(3, bytes(1 << 20))];
    read_back(&scene, rows.clone()).await?;
    let grants = scene.claim(&claim(9)).await?;
    let payloads: Vec<usize> = grants.iter().map(|grant| grant.definition.payload.len()).collect();
    ensure_same!(payloads, [0, 256, 1 << 20], "sizes of the payloads of grants");
    ensure!(grants[2].definition.payload == rows[2].definition.payload, "a payload was changed");
    let row = scene.execution(3).await?;
    let result = bytes(1 << 20);
    let write =
        ExecutionWrite { result: ResultChange::Set(result.clone()), ..to_state(&row, SUCCEEDED) };
    scene.write(&write).await?;
    ensure!(scene.view(3).await?.result == Some(result), "a result of 1 MiB was changed");
    Ok(())
}

async fn an_id_that_exists_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let rows = [member(3, State::Ready), member(2, State::Blocked)];
    let mut transaction = scene.begin().await?;
    let refused = transaction.insert_executions(&rows).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    ensure_same!(views(&scene).await?.len(), 2, "executions of the flow");
    let mut transaction = scene.begin().await?;
    transaction.insert_executions(&rows[..1]).await?;
    let refused = transaction.insert_executions(&rows[..1]).await;
    ensure!(
        matches!(refused, Err(StorageError::Corrupt(_))),
        "an id of its own transaction answered {refused:?}"
    );
    transaction.rollback().await;
    Ok(())
}

async fn many_executions_are_added_at_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    const ROWS: u16 = 10_000;
    let state = |number: u16| if number == 1 { SUCCEEDED } else { State::Blocked };
    let members = (1..=ROWS).rev().map(|number| member(number, state(number)));
    let edges = (2..=ROWS).rev().map(|number| edge(1, number));
    let groups = (2..=ROWS).rev().map(|n| group(n, crate::policy::JoinPolicy::AllOf, 1));
    let mut seed = Seed::members(members).groups(groups);
    seed.edges = edges.collect();
    scene.seed(&seed).await?;
    let seen = views(&scene).await?;
    let ids: Vec<_> = seen.iter().map(|view| view.execution.id).collect();
    ensure_same!(ids.len(), usize::from(ROWS), "executions of the flow");
    ensure!(ids.is_sorted(), "10 000 executions are not in id order");
    let locked = scene.commit(async |one| one.lock_executions(&ids).await).await?;
    ensure_same!(locked.len(), usize::from(ROWS), "locked executions");
    let pending = scene.commit(async |one| one.pending_edges(&ids).await).await?;
    ensure_same!(pending.len(), usize::from(ROWS) - 1, "pending edges");
    let edges = all_readable(scene.reader().await?.describe_edges(&FLOW).await?)?;
    ensure_same!(edges.len(), usize::from(ROWS) - 1, "edges of the flow");
    Ok(())
}

async fn locked_executions_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let far = in_partition(3, member(2, State::Ready));
    let members = (1..=4).map(|number| member(number, State::Ready)).chain([far]);
    scene.seed(&Seed::members(members)).await?;
    let asked = [id(4), id(9), id(1), id_in(3, 2), id_in(3, 1), id(3)];
    let locked = scene.commit(async |one| one.lock_executions(&asked).await).await?;
    let locked: Vec<_> = locked.iter().map(|row| row.id).collect();
    ensure_same!(locked, [id_in(3, 2), id(1), id(3), id(4)], "locked executions");
    Ok(())
}

async fn taken_executions_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let far = in_partition(3, member(2, State::Ready));
    let members = (1..=4).map(|number| member(number, State::Ready)).chain([far]);
    scene.seed(&Seed::members(members)).await?;
    let asked = [id(4), id(9), id(1), id_in(3, 2), id_in(3, 1), id(3)];
    let taken = scene.commit(async |one| one.take_executions(&asked).await).await?;
    let expected = [
        in_partition(3, member(2, State::Ready)),
        member(1, State::Ready),
        member(3, State::Ready),
        member(4, State::Ready),
    ];
    ensure_same!(taken, expected.map(|row| row.execution), "taken executions");
    Ok(())
}

async fn a_lock_may_be_taken_twice<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_executions(&ids(&[1])).await?;
    let again = transaction.lock_executions(&ids(&[1, 2])).await?;
    ensure_same!(again.len(), 2, "rows of which it holds one");
    let taken = transaction.take_executions(&ids(&[1, 2])).await?;
    ensure_same!(taken.len(), 2, "rows that it holds itself are not somebody else's");
    transaction.commit().await?;
    Ok(())
}

/// Writes that end these executions, in the order given.
async fn ends<S: Subject>(
    scene: &Scene<'_, S>,
    numbers: &[u16],
) -> Result<Vec<ExecutionWrite>, Breach> {
    let mut writes = Vec::new();
    for number in numbers {
        writes.push(to_state(&scene.execution(*number).await?, SUCCEEDED));
    }
    Ok(writes)
}

async fn written_executions_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(4)).await?;
    let mut writes = ends(&scene, &[4, 1, 3, 2]).await?;
    writes[2].guard.epoch = 5;
    let written = scene
        .commit(async |one| {
            one.lock_executions(&ids(&[1, 2, 3, 4])).await?;
            one.write_executions(&writes).await
        })
        .await?;
    ensure_same!(written, ids(&[1, 2, 4]), "written executions");
    for number in 1..=4 {
        let expected = if number == 3 { State::Ready } else { SUCCEEDED };
        ensure_same!(scene.execution(number).await?.state, expected, "state of {number}");
    }
    Ok(())
}

async fn every_changing_field_is_stored<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let before = scene.execution(1).await?;
    let after = Execution {
        state: State::Terminal(Outcome::Expired),
        cause: Some(Cause::Deadline),
        incarnation: u32::MAX,
        propagated: true,
        has_in: !before.has_in,
        has_out: !before.has_out,
        not_before: Timestamp(i64::MIN),
        deadline: Some(Timestamp(-1)),
        attempt: u32::MAX,
        charged: u32::MAX - 1,
        give_backs: u32::MAX - 2,
        resumed: Some(Resumed { epoch: u64::MAX - 1, outcome: Some(Outcome::Cancelled) }),
        epoch: u64::MAX,
        finished_at: Some(Timestamp(i64::MAX)),
        ..before
    };
    let write = ExecutionWrite { guard: before.guard(), after, result: ResultChange::Keep };
    ensure_same!(scene.write(&write).await?, 1, "written rows");
    ensure_same!(scene.execution(1).await?, after, "the row");
    let resumed = Some(Resumed { epoch: 1, outcome: None });
    let back = Execution { epoch: 0, resumed, ..before };
    let write = ExecutionWrite { guard: after.guard(), after: back, result: ResultChange::Keep };
    ensure_same!(scene.write(&write).await?, 1, "written rows");
    ensure_same!(scene.execution(1).await?, back, "the row with everything taken back");
    Ok(())
}

/// Checks that an update with such a guard changes nothing.
async fn is_guarded<S: Subject>(
    scene: &Scene<'_, S>,
    guard: impl Fn(ExecutionGuard) -> ExecutionGuard,
) -> Verdict {
    let before = scene.view(1).await?;
    let mut write = ends(scene, &[1]).await?.remove(0);
    write.guard = guard(write.guard);
    write.result = ResultChange::Set(Arc::from(*b"no"));
    ensure_same!(scene.write(&write).await?, 0, "rows written under {:?}", write.guard);
    ensure_same!(scene.view(1).await?, before, "the row under {:?}", write.guard);
    Ok(())
}

async fn a_row_in_another_state_stays_as_it_is<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for state in State::ALL.into_iter().filter(|state| *state != State::Ready) {
        is_guarded(&scene, |guard| ExecutionGuard { state, ..guard }).await?;
    }
    Ok(())
}

async fn a_row_at_another_epoch_stays_as_it_is<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for epoch in [1, 2, 1 << 32, 1 << 63, u64::MAX] {
        is_guarded(&scene, |guard| ExecutionGuard { epoch, ..guard }).await?;
    }
    Ok(())
}

async fn a_guard_holds_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let write = ends(&scene, &[1]).await?.remove(0);
    let written = scene
        .commit(async |one| {
            one.lock_executions(&[write.after.id]).await?;
            let first = one.write_executions(std::slice::from_ref(&write)).await?;
            let second = one.write_executions(std::slice::from_ref(&write)).await?;
            Ok((first.len(), second.len()))
        })
        .await?;
    ensure_same!(written, (1, 0), "rows written by the same update twice");
    ensure_same!(scene.write(&write).await?, 0, "rows written by it in another transaction");
    Ok(())
}

async fn epochs_of_every_size_are_guards<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for epoch in [1, (1 << 63) - 1, 1 << 63, u64::MAX, 0] {
        let before = scene.execution(1).await?;
        let after = Execution { epoch, ..before };
        let write = ExecutionWrite { guard: before.guard(), after, result: ResultChange::Keep };
        ensure_same!(scene.write(&write).await?, 1, "rows moved on to epoch {epoch}");
        ensure_same!(scene.execution(1).await?.epoch, epoch, "the epoch");
    }
    Ok(())
}

async fn a_missing_row_is_not_written<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let known = ends(&scene, &[1]).await?.remove(0);
    let missing = ExecutionWrite { after: Execution { id: id(2), ..known.after }, ..known.clone() };
    let written = scene
        .commit(async |one| {
            one.lock_executions(&ids(&[1, 2])).await?;
            one.write_executions(&[missing, known]).await
        })
        .await?;
    ensure_same!(written, ids(&[1]), "written executions");
    ensure_same!(views(&scene).await?.len(), 1, "executions of the flow");
    Ok(())
}

async fn an_update_keeps_the_flow_and_the_retry_policy<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let before = scene.execution(1).await?;
    let mut write = to_state(&before, State::Suspended);
    let expected = write.after;
    write.after.flow = OTHER.id;
    write.after.retry = RetryPolicy {
        max_attempts: 99,
        backoff: Backoff::Fixed { delay_ms: 1 },
        attempt_timeout_ms: Some(1),
    };
    ensure_same!(scene.write(&write).await?, 1, "written rows");
    ensure_same!(scene.execution(1).await?, expected, "the row");
    Ok(())
}

async fn an_update_keeps_the_definition<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let write = ends(&scene, &[1]).await?.remove(0);
    scene.write(&write).await?;
    let expected = member(1, State::Ready).definition;
    ensure_same!(scene.view(1).await?.definition, expected, "the definition");
    Ok(())
}

async fn a_result_is_set_kept_and_cleared<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let set = |bytes: &[u8]| ResultChange::Set(Arc::from(bytes));
    let steps: [(ResultChange, Option<&[u8]>); 7] = [
        (ResultChange::Keep, None),
        (set(b"first"), Some(b"first")),
        (ResultChange::Keep, Some(b"first")),
        (set(b"second\0\xFF"), Some(b"second\0\xFF")),
        (set(b""), Some(b"")),
        (ResultChange::Keep, Some(b"")),
        (ResultChange::Clear, None),
    ];
    for (result, expected) in steps {
        let before = scene.execution(1).await?;
        let write =
            ExecutionWrite { result: result.clone(), ..to_state(&before, State::Suspended) };
        ensure_same!(scene.write(&write).await?, 1, "rows written with {result:?}");
        let seen = scene.view(1).await?.result;
        ensure_same!(seen.as_deref(), expected, "the result after {result:?}");
    }
    Ok(())
}

async fn a_worker_stays_with_its_lease_and_goes_with_it<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    ensure_same!(scene.view(1).await?.worker, None, "the worker of what nobody holds");
    scene.claim(&claim(1)).await?;
    let leased = scene.view(1).await?;
    ensure_same!(leased.worker.as_deref(), Some("worker"), "the worker after the claim");
    let before = leased.execution;
    let lease = before.lease.map(|lease| crate::storage::Lease {
        expires_at: Timestamp(i64::MAX),
        nonce: u64::MAX,
        ..lease
    });
    let after = Execution { lease, ..before };
    let renewal = ExecutionWrite { guard: before.guard(), after, result: ResultChange::Keep };
    ensure_same!(scene.write(&renewal).await?, 1, "renewed rows");
    let renewed = scene.view(1).await?;
    ensure_same!(renewed.worker.as_deref(), Some("worker"), "the worker after the renewal");
    ensure_same!(renewed.execution, after, "the row after the renewal");
    scene.write(&to_state(&after, State::Ready)).await?;
    let released = scene.view(1).await?;
    ensure_same!(released.worker, None, "the worker after its lease went");
    ensure_same!(released.execution.lease, None, "the lease after it went");
    Ok(())
}
