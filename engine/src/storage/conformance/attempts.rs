//! Attempt history: one row an ended attempt.

use super::rows::{SUCCEEDED, Seed, claim, id, to_state};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure, ensure_same, table};
use crate::state::Outcome;
use crate::storage::{Attempt, AttemptEnd, AttemptKey, Reported, StorageError, Transaction};
use crate::time::Timestamp;

table! { "attempts";
    an_attempt_reads_back: "The history row of an attempt, if it has ended.";
    every_end_and_report_reads_back: "Records ended attempts.";
    values_at_the_edges_of_an_attempt_read_back: "Records ended attempts.";
    an_attempt_is_one_of_its_incarnation: "One attempt of one incarnation.";
    a_number_that_is_recorded_is_corrupt: "A number that the incarnation has recorded is corrupt.";
    an_attempt_of_no_execution_is_corrupt: "An attempt of no execution is corrupt.";
    attempts_are_recorded_before_and_after_their_lease_goes:
        "Each with the worker that still stands in its execution.";
}

pub(super) fn attempt(number: u16, attempt: u32) -> Attempt {
    Attempt {
        key: AttemptKey { execution: id(number), incarnation: 0, attempt },
        epoch: 3,
        nonce: 4,
        end: AttemptEnd::Completed,
        reported: Reported::Finished(Outcome::Succeeded),
        payload_hash: 5,
        granted_at: Timestamp(6),
        ended_at: Timestamp(7),
    }
}

/// Records these and reads each of them, in its transaction and in another one.
async fn read_back<S: Subject>(scene: &Scene<'_, S>, rows: &[Attempt]) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let mut transaction = scene.begin().await?;
    transaction.insert_attempts(rows).await?;
    for row in rows {
        let read = transaction.read_attempt(&row.key).await?;
        ensure_same!(read, Some(*row), "an attempt in its own transaction");
    }
    transaction.commit().await?;
    for row in rows {
        let read = scene.commit(async |one| one.read_attempt(&row.key).await).await?;
        ensure_same!(read, Some(*row), "an attempt");
    }
    Ok(())
}

async fn an_attempt_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    read_back(&scene, &[attempt(2, 1), attempt(1, 1)]).await?;
    for key in [
        AttemptKey { attempt: 2, ..attempt(1, 1).key },
        AttemptKey { incarnation: 1, ..attempt(1, 1).key },
        AttemptKey { execution: id(3), ..attempt(1, 1).key },
    ] {
        let none = scene.commit(async |one| one.read_attempt(&key).await).await?;
        ensure_same!(none, None, "an attempt that has not ended");
    }
    Ok(())
}

async fn every_end_and_report_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let ends = [
        AttemptEnd::Completed,
        AttemptEnd::FailedRetryable,
        AttemptEnd::FailedFatal,
        AttemptEnd::Released,
        AttemptEnd::Expired,
        AttemptEnd::Revoked,
        AttemptEnd::Snoozed,
        AttemptEnd::Suspended,
        AttemptEnd::Skipped,
    ];
    let reports = Outcome::ALL
        .map(Reported::Finished)
        .into_iter()
        .chain([0, -1, i64::MIN, i64::MAX].map(|delay_us| Reported::Requeued { delay_us }))
        .chain([0, 1, u64::MAX].map(|epoch| Reported::Suspended { epoch }));
    let mut rows: Vec<Attempt> =
        (1..).zip(ends).map(|(at, end)| Attempt { end, ..attempt(1, at) }).collect();
    rows.extend((100..).zip(reports).map(|(at, reported)| Attempt { reported, ..attempt(1, at) }));
    read_back(&scene, &rows).await
}

async fn values_at_the_edges_of_an_attempt_read_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [
        Attempt {
            key: AttemptKey { execution: id(1), incarnation: u32::MAX, attempt: u32::MAX },
            epoch: u64::MAX,
            nonce: u64::MAX,
            payload_hash: u64::MAX,
            granted_at: Timestamp(i64::MIN),
            ended_at: Timestamp(i64::MAX),
            ..attempt(1, 1)
        },
        Attempt {
            epoch: 1 << 63,
            nonce: 0,
            payload_hash: (1 << 63) - 1,
            granted_at: Timestamp(-1),
            ended_at: Timestamp(0),
            ..attempt(1, 0)
        },
    ];
    read_back(&scene, &rows).await
}

async fn an_attempt_is_one_of_its_incarnation<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [0, 1, 2].map(|incarnation| {
        let mut row = attempt(1, 1);
        row.key.incarnation = incarnation;
        row.epoch = u64::from(incarnation);
        row
    });
    read_back(&scene, &rows).await
}

async fn a_number_that_is_recorded_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let first = attempt(1, 1);
    scene.commit(async |one| one.insert_attempts(&[first]).await).await?;
    let mut transaction = scene.begin().await?;
    let second = Attempt { end: AttemptEnd::Expired, ..first };
    let refused = transaction.insert_attempts(&[attempt(2, 1), second]).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    let read = scene.commit(async |one| one.read_attempt(&first.key).await).await?;
    ensure_same!(read, Some(first), "the attempt that was first");
    Ok(())
}

async fn an_attempt_of_no_execution_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let mut transaction = scene.begin().await?;
    let refused = transaction.insert_attempts(&[attempt(1, 1), attempt(9, 1)]).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    let left = scene.commit(async |one| one.read_attempt(&attempt(1, 1).key).await).await?;
    ensure_same!(left, None, "an attempt beside one of no execution");
    Ok(())
}

async fn attempts_are_recorded_before_and_after_their_lease_goes<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let grants = scene.claim(&claim(1)).await?;
    scene.commit(async |one| one.insert_attempts(&[attempt(1, 1)]).await).await?;
    let worker = scene.view(1).await?.worker;
    ensure_same!(worker.as_deref(), Some("worker"), "the worker after its attempt was recorded");
    scene.write(&to_state(&grants[0].execution, SUCCEEDED)).await?;
    scene.commit(async |one| one.insert_attempts(&[attempt(1, 2)]).await).await?;
    let read = scene.commit(async |one| one.read_attempt(&attempt(1, 2).key).await).await?;
    ensure_same!(read, Some(attempt(1, 2)), "an attempt recorded without a lease");
    Ok(())
}
