//! Rows that may be unreadable: locked as others are, and written anew.

use super::rows::{Seed, claim, edge, id, ids, member};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::retry::{Backoff, RetryPolicy};
use crate::state::{Cause, Outcome, State};
use crate::storage::{
    Execution, ExecutionView, Group, ProgressMark, ProgressWrite, Remains, Resumed, Transaction,
};
use crate::time::Timestamp;

table! { "remains";
    what_can_be_read_is_held_as_it_is_locked:
        "Locks executions as `lock_executions` does, and returns each with what of it can be read.";
    a_held_row_is_waited_for: "Locks groups as `lock_groups` does.";
    an_execution_is_written_anew_whatever_it_held:
        "Writes locked executions anew, whatever they held; progress stays with its mark.";
    values_at_the_edges_of_a_mended_row_read_back: "Writes locked executions anew.";
    what_names_an_execution_and_its_result_stay:
        "The flow, the definition and the result stay.";
    what_is_not_there_is_not_mended: "Returns how many it found.";
}

fn readable<T>(rows: Vec<T>) -> Vec<Remains<T>> {
    rows.into_iter().map(|row| Remains { row, unreadable: None }).collect()
}

async fn what_can_be_read_is_held_as_it_is_locked<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let members = [member(1, State::Ready), member(2, State::Ready), member(3, State::Blocked)];
    scene.seed(&Seed::members(members).edges([edge(1, 3), edge(2, 3)])).await?;
    scene.claim(&claim(1)).await?;
    let keys = ids(&[3, 1, 9, 2]);
    let locked = scene.commit(async |one| one.lock_executions(&keys).await).await?;
    let held = scene.commit(async |one| one.hold_executions(&keys).await).await?;
    ensure_same!(held, readable(locked), "held executions");
    let locked = scene.commit(async |one| one.lock_groups(&keys).await).await?;
    let held: Vec<Remains<Group>> = scene.commit(async |one| one.hold_groups(&keys).await).await?;
    ensure_same!(held, readable(locked), "held groups");
    Ok(())
}

async fn a_held_row_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    let members = [member(1, State::Ready), member(3, State::Blocked)];
    scene.seed(&Seed::members(members).edges([edge(1, 3)])).await?;
    let mut holder = scene.begin().await?;
    holder.hold_groups(&ids(&[3])).await?;
    holder.hold_executions(&ids(&[1])).await?;
    let mut second = scene.second(async |one| one.hold_groups(&ids(&[3])).await).await?;
    scene.waits(&mut second, &mut holder).await?;
    let mut third = scene.second(async |one| one.hold_executions(&ids(&[1])).await).await?;
    scene.waits(&mut third, &mut holder).await?;
    holder.rollback().await;
    let (second, groups) = second.await?;
    ensure_same!(groups.len(), 1, "held groups");
    second.rollback().await;
    let (third, executions) = third.await?;
    ensure_same!(executions.len(), 1, "held executions");
    third.rollback().await;
    Ok(())
}

fn given_up(before: &Execution) -> Execution {
    Execution {
        state: State::Terminal(Outcome::Failed),
        cause: Some(Cause::Unreadable),
        epoch: before.epoch + 1,
        lease: None,
        finished_at: Some(Timestamp(77)),
        retry: RetryPolicy::default(),
        ..*before
    }
}

/// Locks the execution of a row, writes the row and commits.
async fn mend<S: Subject>(scene: &Scene<'_, S>, row: Execution) -> Verdict {
    let found = scene
        .commit(async |one| {
            one.hold_executions(&[row.id]).await?;
            one.mend_executions(&[row]).await
        })
        .await?;
    ensure_same!(found, 1, "rows that were found");
    Ok(())
}

async fn an_execution_is_written_anew_whatever_it_held<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    scene.claim(&claim(1)).await?;
    let before = scene.execution(1).await?;
    let progress = ProgressMark { attempt: 1, sequence: 1 };
    let write =
        ProgressWrite { key: before.id, epoch: before.epoch, progress, value: (*b"half").into() };
    scene
        .commit(async |one| {
            one.lock_executions(&[write.key]).await?;
            one.write_progress(&write).await
        })
        .await?;
    let other = scene.execution(2).await?;
    let resumed = Some(Resumed { epoch: u64::MAX, outcome: Some(Outcome::Expired) });
    let kept = Execution { progress: Some(progress), resumed, ..given_up(&before) };
    mend(&scene, kept).await?;
    let view = scene.view(1).await?;
    ensure_same!(view.execution, kept, "the execution");
    let said = view.progress.as_deref();
    ensure_same!(
        (view.worker, said),
        (None, Some(&b"half"[..])),
        "who held it, and how far it was"
    );
    let forgotten = Execution { progress: None, resumed: None, ..kept };
    mend(&scene, forgotten).await?;
    let view = scene.view(1).await?;
    ensure_same!(view.execution, forgotten, "the execution");
    ensure_same!(view.progress, None, "how far it was, without its mark");
    ensure_same!(scene.execution(2).await?, other, "another execution");
    Ok(())
}

async fn values_at_the_edges_of_a_mended_row_read_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let before = scene.execution(1).await?;
    let fixed = RetryPolicy {
        max_attempts: u32::MAX,
        backoff: Backoff::Fixed { delay_ms: u32::MAX },
        attempt_timeout_ms: Some(u32::MAX),
    };
    let row = Execution {
        cause: Some(Cause::Sibling),
        state: State::Terminal(Outcome::Cancelled),
        incarnation: u32::MAX,
        propagated: true,
        has_in: true,
        has_inputs: true,
        has_out: true,
        not_before: Timestamp(i64::MIN),
        deadline: Some(Timestamp(i64::MAX)),
        attempt: u32::MAX,
        charged: u32::MAX - 1,
        give_backs: u32::MAX - 2,
        epoch: u64::MAX,
        retry: fixed,
        ..given_up(&before)
    };
    for row in [row, Execution { retry: RetryPolicy::default(), deadline: None, ..row }] {
        mend(&scene, row).await?;
        ensure_same!(scene.execution(1).await?, row, "the execution");
    }
    Ok(())
}

async fn what_names_an_execution_and_its_result_stay<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let before = scene.view(1).await?;
    let elsewhere = crate::identity::FlowId(uuid::Uuid::from_u128(5));
    mend(&scene, Execution { flow: elsewhere, ..given_up(&before.execution) }).await?;
    let expected = ExecutionView { execution: given_up(&before.execution), ..before };
    ensure_same!(scene.view(1).await?, expected, "the execution");
    Ok(())
}

async fn what_is_not_there_is_not_mended<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let before = scene.execution(1).await?;
    let rows = [given_up(&before), Execution { id: id(9), ..given_up(&before) }];
    let found = scene
        .commit(async |one| {
            one.hold_executions(&ids(&[1, 9])).await?;
            one.mend_executions(&rows).await
        })
        .await?;
    ensure_same!(found, 1, "rows that were found");
    Ok(())
}
