//! How far executions have come: stored under a guard, kept by updates, cleared with the result.

use std::sync::Arc;

use super::rows::{SUCCEEDED, Seed, claim, id, to_state};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure_same, table};
use crate::state::State;
use crate::storage::{
    Execution, ExecutionView, ExecutionWrite, ProgressMark, ProgressWrite, ResultChange, Snapshot,
    Transaction, all_readable,
};

table! { "progress";
    progress_reads_back: "Stores how far a locked execution has come, and nothing else of it.";
    progress_shows_wherever_the_row_is_read:
        "How far it has said that it has come is part of an execution, whichever verb shows it.";
    values_at_the_edges_of_progress_read_back: "Numbers and bytes of any size.";
    progress_takes_the_place_of_what_stood_before:
        "Which of two reports is the later one is not decided here.";
    what_is_not_active_makes_no_progress:
        "One that is not active, or not at that epoch, stays as it is.";
    progress_at_another_epoch_changes_nothing:
        "One that is not active, or not at that epoch, stays as it is.";
    progress_of_what_is_not_there_changes_nothing: "Returns how many rows it changed.";
    progress_stays_until_the_result_is_cleared:
        "Progress stays as it is, and goes where the result is cleared.";
    an_update_does_not_look_at_the_progress_in_it:
        "The flow, the retry policy and the progress in the new row are not looked at.";
}

fn mark(attempt: u32, sequence: u64) -> ProgressMark {
    ProgressMark { attempt, sequence }
}

fn says(row: &Execution, progress: ProgressMark, value: &[u8]) -> ProgressWrite {
    ProgressWrite { key: row.id, epoch: row.epoch, progress, value: Arc::from(value) }
}

/// Locks the execution of a report, stores it and commits.
async fn store<S: Subject>(scene: &Scene<'_, S>, write: &ProgressWrite) -> Result<u64, Breach> {
    scene
        .commit(async |one| {
            one.lock_executions(&[write.key]).await?;
            one.write_progress(write).await
        })
        .await
}

/// An active execution, the first, and a ready one.
async fn active<S: Subject>(scene: &Scene<'_, S>) -> Result<Execution, Breach> {
    scene.seed(&Seed::ready_to(2)).await?;
    scene.claim(&claim(1)).await?;
    let row = scene.execution(1).await?;
    ensure_same!(row.state, State::Active, "state of what was claimed");
    Ok(row)
}

async fn progress_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let before = active(&scene).await?;
    let view = scene.view(1).await?;
    ensure_same!((before.progress, &view.progress), (None, &None), "progress before any");
    ensure_same!(store(&scene, &says(&before, mark(1, 7), b"half")).await?, 1, "changed rows");
    let execution = Execution { progress: Some(mark(1, 7)), ..before };
    let expected = ExecutionView { execution, progress: Some(Arc::from(*b"half")), ..view };
    ensure_same!(scene.view(1).await?, expected, "the execution");
    ensure_same!(scene.view(2).await?.progress, None, "progress of another one");
    Ok(())
}

async fn progress_shows_wherever_the_row_is_read<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let before = active(&scene).await?;
    let expected = Some(mark(1, 7));
    let write = says(&before, mark(1, 7), b"half");
    let mut transaction = scene.begin().await?;
    transaction.lock_executions(&[write.key]).await?;
    transaction.write_progress(&write).await?;
    let taken = transaction.take_executions(&[write.key]).await?;
    ensure_same!(taken[0].progress, expected, "progress of a taken execution");
    let request = before.lease.expect("it is active").request;
    let granted = transaction.read_grants(&request).await?;
    ensure_same!(granted[0].execution.progress, expected, "progress of a grant");
    transaction.commit().await?;
    let mut reader = scene.reader().await?;
    let described = all_readable(reader.describe_executions(&before.flow_key()).await?)?;
    let first = described.iter().find(|view| view.execution.id == before.id);
    let value = first.and_then(|view| view.progress.as_deref());
    ensure_same!(value, Some(b"half".as_slice()), "progress of an execution of a flow");
    ensure_same!(
        scene.write(&to_state(&scene.execution(1).await?, State::Ready)).await?,
        1,
        "rows"
    );
    let again = scene.claim(&claim(1)).await?;
    ensure_same!(again[0].execution.progress, expected, "progress of the next grant");
    Ok(())
}

async fn values_at_the_edges_of_progress_read_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = active(&scene).await?;
    let large = vec![0xAB; 64 << 10];
    let values: [(ProgressMark, &[u8]); 5] = [
        (mark(1, 0), b""),
        (mark(1, 1 << 63), b"\0\xFF"),
        (mark(u32::MAX, u64::MAX), b"null"),
        (mark(2, (1 << 63) - 1), &large),
        (mark(1, 1), b"{}"),
    ];
    for (progress, value) in values {
        ensure_same!(store(&scene, &says(&row, progress, value)).await?, 1, "{progress:?}");
        let view = scene.view(1).await?;
        ensure_same!(view.execution.progress, Some(progress), "the mark");
        ensure_same!(view.progress.as_deref(), Some(value), "the value of {progress:?}");
    }
    Ok(())
}

async fn progress_takes_the_place_of_what_stood_before<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = active(&scene).await?;
    for (progress, value) in
        [(mark(2, 9), b"later"), (mark(1, 3), b"early"), (mark(1, 3), b"twice")]
    {
        ensure_same!(store(&scene, &says(&row, progress, value)).await?, 1, "{progress:?}");
        let view = scene.view(1).await?;
        ensure_same!(view.progress.as_deref(), Some(value.as_slice()), "the value");
        ensure_same!(view.execution.progress, Some(progress), "the mark");
    }
    Ok(())
}

/// Checks that such a report changes nothing.
async fn is_refused<S: Subject>(scene: &Scene<'_, S>, write: &ProgressWrite) -> Verdict {
    let before = scene.view(1).await?;
    ensure_same!(store(scene, write).await?, 0, "rows changed by {write:?}");
    ensure_same!(scene.view(1).await?, before, "the row after {write:?}");
    Ok(())
}

async fn what_is_not_active_makes_no_progress<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    for state in State::ALL.into_iter().filter(|state| *state != State::Active) {
        let row = scene.execution(1).await?;
        ensure_same!(scene.write(&to_state(&row, state)).await?, 1, "rows that became {state:?}");
        let row = scene.execution(1).await?;
        is_refused(&scene, &says(&row, mark(1, 1), b"no")).await?;
    }
    Ok(())
}

async fn progress_at_another_epoch_changes_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = active(&scene).await?;
    for epoch in [row.epoch - 1, row.epoch + 1, 1 << 32, 1 << 63, u64::MAX] {
        let write = ProgressWrite { epoch, ..says(&row, mark(1, 1), b"no") };
        is_refused(&scene, &write).await?;
    }
    Ok(())
}

async fn progress_of_what_is_not_there_changes_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = active(&scene).await?;
    let write = ProgressWrite { key: id(9), ..says(&row, mark(1, 1), b"no") };
    is_refused(&scene, &write).await
}

async fn progress_stays_until_the_result_is_cleared<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = active(&scene).await?;
    store(&scene, &says(&row, mark(1, 1), b"half")).await?;
    let kept = (Some(mark(1, 1)), Some(Arc::from(*b"half")));
    let steps = [
        (State::Suspended, ResultChange::Keep, kept.clone()),
        (SUCCEEDED, ResultChange::Set(Arc::from(*b"")), kept.clone()),
        (SUCCEEDED, ResultChange::Keep, kept),
        (State::Ready, ResultChange::Clear, (None, None)),
    ];
    for (state, result, expected) in steps {
        let before = scene.execution(1).await?;
        let write = ExecutionWrite { result: result.clone(), ..to_state(&before, state) };
        ensure_same!(scene.write(&write).await?, 1, "rows written with {result:?}");
        let view = scene.view(1).await?;
        let seen = (view.execution.progress, view.progress);
        ensure_same!(seen, expected, "progress after {result:?}");
    }
    Ok(())
}

async fn an_update_does_not_look_at_the_progress_in_it<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = active(&scene).await?;
    let mut write = to_state(&row, State::Suspended);
    write.after.progress = Some(mark(1, 1));
    ensure_same!(scene.write(&write).await?, 1, "written rows");
    ensure_same!(scene.execution(1).await?.progress, None, "the mark that nobody stored");
    Ok(())
}
