//! Events: labelled, numbered, one a key: of an incarnation one completion event.

use super::rows::{SUCCEEDED, Seed, event, id_in, ids, in_partition, lease_event, member};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure, ensure_same, table};
use crate::state::{Outcome, State};
use crate::storage::{
    Event, EventId, EventKind, LeaseChange, LeaseEvent, NewEvent, Snapshot, StorageError,
    Transaction,
};
use crate::time::Timestamp;

table! { "events";
    an_event_carries_the_labels_of_its_execution:
        "Adds events with the labels of their executions.";
    every_outcome_and_instant_reads_back: "An event by its number.";
    every_change_of_a_lease_reads_back: "An event by its number.";
    events_are_numbered_in_key_order:
        "Each gets a number above every earlier one, in the order of execution, incarnation and \
         kind.";
    later_events_have_higher_numbers: "Each gets a number above every earlier one.";
    a_rollback_leaves_no_event: "Everything up to `commit`, or nothing.";
    a_second_event_of_an_incarnation_is_corrupt:
        "A second event of a key, so a second end of an incarnation, is corrupt.";
    a_second_event_of_a_change_is_corrupt: "A second event of a key is corrupt.";
    an_event_of_no_execution_is_corrupt: "An event of no execution is corrupt.";
    an_unknown_number_is_no_event: "An event by its number, if it was committed.";
}

const CHANGES: [LeaseChange; 5] = [
    LeaseChange::Acquired,
    LeaseChange::Renewed,
    LeaseChange::Released,
    LeaseChange::Expired,
    LeaseChange::Revoked,
];

/// Numbers that a fresh database may have given out.
const NUMBERS_MAX: u64 = 100;

/// The committed events, by number.
async fn events<S: Subject>(scene: &Scene<'_, S>) -> Result<Vec<Event>, Breach> {
    let mut reader = scene.reader().await?;
    let mut found = Vec::new();
    for number in 0..NUMBERS_MAX {
        let event = reader.read_event(&EventId(number)).await?;
        if let Some(event) = event {
            ensure_same!(event.id, EventId(number), "the number of the event read by {number}");
            found.push(event);
        }
    }
    Ok(found)
}

async fn add<S: Subject>(scene: &Scene<'_, S>, rows: &[NewEvent]) -> Result<(), Breach> {
    scene.commit(async |one| one.insert_events(rows).await).await
}

async fn an_event_carries_the_labels_of_its_execution<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut other = member(2, SUCCEEDED);
    other.definition.namespace = "Mandant Süd".into();
    other.definition.instance_tag = None;
    scene.seed(&Seed::members([member(1, SUCCEEDED), other])).await?;
    add(&scene, &[event(1), event(2)]).await?;
    let found = events(&scene).await?;
    let rows: Vec<NewEvent> = found.iter().map(|event| event.event).collect();
    ensure_same!(rows, [event(1), event(2)], "events");
    let labels: Vec<_> = found.iter().map(|e| (&*e.namespace, e.instance_tag.as_deref())).collect();
    let expected = [("tenant", Some("region=north")), ("Mandant Süd", None)];
    ensure_same!(labels, expected, "labels");
    Ok(())
}

async fn every_outcome_and_instant_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, SUCCEEDED)])).await?;
    let instants = [i64::MIN, -1, 0, 1, i64::MAX];
    let incarnations = [0, 1, 2, u32::MAX - 1, u32::MAX];
    let rows: Vec<NewEvent> = (0..5)
        .map(|at| NewEvent {
            kind: EventKind::Completed { outcome: Outcome::ALL[at] },
            occurred_at: Timestamp(instants[at]),
            incarnation: incarnations[at],
            ..event(1)
        })
        .collect();
    add(&scene, &rows).await?;
    let found: Vec<NewEvent> = events(&scene).await?.iter().map(|event| event.event).collect();
    ensure_same!(found, rows, "events");
    Ok(())
}

async fn every_change_of_a_lease_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, SUCCEEDED)])).await?;
    let instants = [i64::MIN, -1, 0, 1, i64::MAX];
    let attempts = [1, 2, 3, u32::MAX - 1, u32::MAX];
    let rows: Vec<NewEvent> = (0..5)
        .map(|at| {
            let (attempt, change) = (attempts[at], CHANGES[at]);
            let lease = LeaseEvent { attempt, change, expires_at: Timestamp(instants[at]) };
            NewEvent { kind: EventKind::Lease(lease), ..event(1) }
        })
        .collect();
    add(&scene, &rows).await?;
    let found: Vec<NewEvent> = events(&scene).await?.iter().map(|event| event.event).collect();
    ensure_same!(found, rows, "events");
    Ok(())
}

async fn events_are_numbered_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let far = in_partition(3, member(9, SUCCEEDED));
    let members = (1..=30).map(|number| member(number, SUCCEEDED)).chain([far]);
    scene.seed(&Seed::members(members)).await?;
    let again = NewEvent { incarnation: 1, ..event(5) };
    let far = NewEvent { execution: id_in(3, 9), ..event(9) };
    let revoked = lease_event(7, 2, LeaseChange::Revoked);
    let rows = (1..=30).rev().map(event).chain([again, far, revoked]);
    let mut rows: Vec<NewEvent> = rows.collect();
    add(&scene, &rows).await?;
    // A lease ends before its execution does.
    rows.sort_by_key(NewEvent::order);
    let found: Vec<NewEvent> = events(&scene).await?.iter().map(|event| event.event).collect();
    ensure_same!(found, rows, "events by their numbers");
    Ok(())
}

async fn later_events_have_higher_numbers<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members((1..=4).map(|number| member(number, SUCCEEDED)))).await?;
    scene
        .commit(async |one| {
            one.insert_events(&[event(4)]).await?;
            one.insert_events(&[event(2)]).await
        })
        .await?;
    add(&scene, &[event(3)]).await?;
    add(&scene, &[event(1)]).await?;
    let found: Vec<_> = events(&scene).await?.iter().map(|event| event.event.execution).collect();
    ensure_same!(found, ids(&[4, 2, 3, 1]), "executions by the numbers of their events");
    Ok(())
}

async fn a_rollback_leaves_no_event<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members((1..=3).map(|number| member(number, SUCCEEDED)))).await?;
    add(&scene, &[event(1)]).await?;
    let mut transaction = scene.begin().await?;
    transaction.insert_events(&[event(2)]).await?;
    transaction.rollback().await;
    ensure_same!(events(&scene).await?.len(), 1, "events after a rollback");
    add(&scene, &[event(3)]).await?;
    let found: Vec<_> = events(&scene).await?.iter().map(|event| event.event.execution).collect();
    ensure_same!(found, ids(&[1, 3]), "executions by the numbers of their events");
    Ok(())
}

async fn a_second_event_of_an_incarnation_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members((1..=2).map(|number| member(number, SUCCEEDED)))).await?;
    add(&scene, &[event(1)]).await?;
    let mut transaction = scene.begin().await?;
    let kind = EventKind::Completed { outcome: Outcome::Failed };
    let second = NewEvent { kind, ..event(1) };
    let refused = transaction.insert_events(&[second, event(2)]).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    let found: Vec<NewEvent> = events(&scene).await?.iter().map(|event| event.event).collect();
    ensure_same!(found, [event(1)], "events");
    Ok(())
}

async fn a_second_event_of_a_change_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, SUCCEEDED)])).await?;
    let released = lease_event(1, 1, LeaseChange::Released);
    let later = lease_event(1, 2, LeaseChange::Released);
    let first = [released, later, lease_event(1, 1, LeaseChange::Acquired), event(1)];
    add(&scene, &first).await?;
    let mut transaction = scene.begin().await?;
    let again = NewEvent { occurred_at: Timestamp(7), ..later };
    let refused = transaction.insert_events(&[again]).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    ensure_same!(events(&scene).await?.len(), 4, "events");
    Ok(())
}

async fn an_event_of_no_execution_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, State::Ready)])).await?;
    let mut transaction = scene.begin().await?;
    let refused = transaction.insert_events(&[event(1), event(2)]).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    ensure_same!(events(&scene).await?, [], "events");
    Ok(())
}

async fn an_unknown_number_is_no_event<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, SUCCEEDED)])).await?;
    add(&scene, &[event(1)]).await?;
    let mut reader = scene.reader().await?;
    for number in [NUMBERS_MAX, (1 << 63) - 1, 1 << 63, u64::MAX] {
        let none = reader.read_event(&EventId(number)).await?;
        ensure_same!(none, None, "event {number}");
    }
    let mut transaction = scene.begin().await?;
    let second = NewEvent { incarnation: 1, ..event(1) };
    transaction.insert_events(&[second]).await?;
    if scene.reads_beside() {
        let seen = scene.read_beside(&mut transaction, async |reader| {
            let mut seen = 0;
            for number in 0..NUMBERS_MAX {
                seen += usize::from(reader.read_event(&EventId(number)).await?.is_some());
            }
            Ok(seen)
        });
        ensure_same!(seen.await?, Some(1), "events while the second is not committed");
    }
    transaction.commit().await?;
    ensure_same!(events(&scene).await?.len(), 2, "events");
    Ok(())
}
