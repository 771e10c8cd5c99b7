//! Idempotency keys: written once, read back, waited for while in flight.

use super::rows::{FLOW, OTHER, request};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure_same, table};
use crate::storage::{Inserted, Submission, SubmissionKey, Transaction};

table! { "submissions";
    a_submission_reads_back: "The submission of a key, if there is one.";
    a_key_that_exists_stays_as_it_is: "A submission that exists stays as it is.";
    a_key_exists_for_its_own_transaction_too: "Each verb sees its own transaction's writes.";
    a_key_is_one_of_its_namespace: "An idempotency key in its namespace.";
    a_key_in_flight_exists_after_the_commit:
        "Waits while another transaction holds the key in flight: it exists once that has \
         committed.";
    a_key_in_flight_is_new_after_the_rollback:
        "Waits while another transaction holds the key in flight: it is new once that has \
         rolled back.";
    keys_that_differ_do_not_wait_for_each_other: "An insert waits on a unique key in flight.";
}

pub(super) fn key(namespace: &str, key: &str) -> SubmissionKey {
    SubmissionKey { namespace: namespace.into(), key: key.into() }
}

pub(super) fn submission(key: SubmissionKey, by: u16) -> Submission {
    Submission { key, flow: FLOW, content_hash: [by.to_be_bytes()[1]; 32], request: request(by) }
}

async fn a_submission_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [
        submission(key("tenant", "order 1"), 1),
        submission(key("", ""), 2),
        submission(key("Mandant Süd", "Auftrag „7“ \u{1F680} 'x' \\ \"y\"\n"), 3),
    ];
    for row in &rows {
        let inserted = scene.commit(async |one| one.insert_submission(row).await).await?;
        ensure_same!(inserted, Inserted::New, "a key that is new");
    }
    for row in rows {
        let read = scene.commit(async |one| one.read_submission(&row.key).await).await?;
        ensure_same!(read, Some(row), "a submission");
    }
    let none = scene.commit(async |one| one.read_submission(&key("tenant", "order")).await);
    ensure_same!(none.await?, None, "the submission of a key that is not there");
    Ok(())
}

async fn a_key_that_exists_stays_as_it_is<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let first = submission(key("tenant", "key"), 1);
    let second = Submission { flow: OTHER, ..submission(first.key.clone(), 2) };
    scene.commit(async |one| one.insert_submission(&first).await).await?;
    let inserted = scene.commit(async |one| one.insert_submission(&second).await).await?;
    ensure_same!(inserted, Inserted::Exists, "a key that exists");
    let read = scene.commit(async |one| one.read_submission(&first.key).await).await?;
    ensure_same!(read, Some(first), "the submission");
    Ok(())
}

async fn a_key_exists_for_its_own_transaction_too<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let row = submission(key("tenant", "key"), 1);
    let seen = scene
        .commit(async |one| {
            let first = one.insert_submission(&row).await?;
            let second = one.insert_submission(&row).await?;
            Ok((first, second, one.read_submission(&row.key).await?))
        })
        .await?;
    let expected = (Inserted::New, Inserted::Exists, Some(row.clone()));
    ensure_same!(seen, expected, "the same key twice in one transaction");
    Ok(())
}

async fn a_key_is_one_of_its_namespace<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    for (by, namespace) in [(1, "left"), (2, "right"), (3, "Left")] {
        let row = submission(key(namespace, "key"), by);
        let inserted = scene.commit(async |one| one.insert_submission(&row).await).await?;
        ensure_same!(inserted, Inserted::New, "the same key in namespace {namespace}");
    }
    Ok(())
}

async fn a_key_in_flight_exists_after_the_commit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let (first, second) =
        (submission(key("tenant", "key"), 1), submission(key("tenant", "key"), 2));
    let mut holder = scene.begin().await?;
    holder.insert_submission(&first).await?;
    let mut waiter = scene.second(async |one| one.insert_submission(&second).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (mut transaction, inserted) = waiter.await?;
    ensure_same!(inserted, Inserted::Exists, "a key whose holder has committed");
    let read = transaction.read_submission(&first.key).await?;
    ensure_same!(read, Some(first), "the submission, seen by the one that waited");
    transaction.commit().await?;
    Ok(())
}

async fn a_key_in_flight_is_new_after_the_rollback<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let (first, second) =
        (submission(key("tenant", "key"), 1), submission(key("tenant", "key"), 2));
    let mut holder = scene.begin().await?;
    holder.insert_submission(&first).await?;
    let mut waiter = scene.second(async |one| one.insert_submission(&second).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.rollback().await;
    let (transaction, inserted) = waiter.await?;
    ensure_same!(inserted, Inserted::New, "a key whose holder has rolled back");
    transaction.commit().await?;
    let read = scene.commit(async |one| one.read_submission(&second.key).await).await?;
    ensure_same!(read, Some(second), "the submission");
    Ok(())
}

async fn keys_that_differ_do_not_wait_for_each_other<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    let (first, second) =
        (submission(key("tenant", "key 1"), 1), submission(key("tenant", "key 2"), 2));
    let mut holder = scene.begin().await?;
    holder.insert_submission(&first).await?;
    let other = scene.second(async |one| one.insert_submission(&second).await).await?;
    let (transaction, inserted) = scene.passes(other, &mut holder).await?;
    ensure_same!(inserted, Inserted::New, "another key");
    transaction.commit().await?;
    holder.commit().await?;
    Ok(())
}
