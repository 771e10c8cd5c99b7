//! Two transactions at once: who waits, for whom, and what is seen after the wait.

use super::drive::{alongside, both};
use super::rows::{
    FAILED, SUCCEEDED, Seed, claim, event, granted, group, id, ids, member, request, to_state,
};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure, ensure_same, table};
use crate::policy::{Decision, JoinPolicy};
use crate::state::State;
use crate::storage::{Contention, Execution, Group, Storage, StorageError, Transaction};

table! { "concurrency";
    a_lock_waits_and_returns_the_newest_version:
        "Returns each as it stands once its lock is held.";
    a_lock_after_a_rollback_returns_the_old_version:
        "Returns each as it stands once its lock is held.";
    a_group_lock_waits_and_returns_the_newest_version:
        "Locks groups; returns each as it stands once its lock is held.";
    rows_added_while_a_lock_waits_are_left_out:
        "Missing ones are left out; which are missing is fixed when it begins.";
    a_guard_fails_after_a_wait: "A row whose guard does not hold stays as it is.";
    a_dropped_transaction_frees_its_locks:
        "Dropping a transaction: the storage rolls it back in its own time.";
    a_begin_that_is_dropped_opened_nothing:
        "A future dropped before it is ready has opened nothing.";
    a_waiter_that_is_dropped_leaves_nothing:
        "Dropping a transaction: the storage rolls it back in its own time.";
    locks_are_taken_one_by_one_in_id_order: "Locks executions one by one in id order.";
    rows_that_nobody_holds_are_locked_at_once: "Waits row by row.";
    a_lock_is_exclusive_among_groups_too: "Locks groups one by one in id order.";
    a_take_passes_over_held_rows: "Locks those of the executions that nobody else has locked.";
    a_take_locks_what_it_returns: "Locks those of the executions that nobody else has locked.";
    a_claim_passes_over_held_rows: "Grants what may be claimed, passing over locked rows.";
    two_claims_share_what_there_is: "Grants what may be claimed, passing over locked rows.";
    a_grant_in_flight_is_nobody_elses: "Passing over locked rows.";
    a_cycle_of_waiters_is_broken: "Restart the whole transaction: deadlock.";
    an_event_in_flight_is_waited_for: "Insert: waits on a unique key in flight.";
}

/// Checks what a lock that waited for an update returns.
async fn lock_after_an_update<S: Subject>(scene: &Scene<'_, S>, commits: bool) -> Verdict {
    scene.seed(&Seed::ready_to(3)).await?;
    let mut holder = scene.begin().await?;
    let before = holder.lock_executions(&ids(&[2])).await?[0];
    let write = to_state(&before, State::Suspended);
    holder.write_executions(std::slice::from_ref(&write)).await?;
    let keys = ids(&[3, 2, 1]);
    let mut waiter = scene.second(async |one| one.lock_executions(&keys).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    match commits {
        true => holder.commit().await?,
        false => holder.rollback().await,
    }
    let (transaction, locked) = waiter.await?;
    let newest = if commits { write.after } else { before };
    let expected = [member(1, State::Ready).execution, newest, member(3, State::Ready).execution];
    ensure_same!(locked, expected, "rows locked after the wait");
    transaction.commit().await?;
    Ok(())
}

async fn a_lock_waits_and_returns_the_newest_version<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    lock_after_an_update(&scene, true).await
}

async fn a_lock_after_a_rollback_returns_the_old_version<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    lock_after_an_update(&scene, false).await
}

/// Two blocked executions with a group each.
fn two_groups() -> Seed {
    let members = [member(1, State::Blocked), member(2, State::Blocked)];
    Seed::members(members).groups([1, 2].map(|number| group(number, JoinPolicy::AllOf, 2)))
}

async fn a_group_lock_waits_and_returns_the_newest_version<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    scene.seed(&two_groups()).await?;
    let mut holder = scene.begin().await?;
    let before = holder.lock_groups(&ids(&[1])).await?[0];
    let after = Group { unsatisfied: 1, decision: Decision::Impossible, ..before };
    holder.write_groups(&[after]).await?;
    let keys = ids(&[2, 1]);
    let mut waiter = scene.second(async |one| one.lock_groups(&keys).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (transaction, locked) = waiter.await?;
    ensure_same!(locked, [after, group(2, JoinPolicy::AllOf, 2)], "groups locked after the wait");
    transaction.commit().await?;
    Ok(())
}

async fn rows_added_while_a_lock_waits_are_left_out<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[1])).await?;
    holder.insert_executions(&[member(2, State::Ready)]).await?;
    let keys = ids(&[1, 2]);
    let mut waiter = scene.second(async |one| one.lock_executions(&keys).await).await?;
    let certain = scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (mut transaction, locked) = waiter.await?;
    let locked: Vec<_> = locked.iter().map(|row| row.id).collect();
    // One that waits to begin, or may not have begun, sees what was added.
    let begun = scene.has_row_locks() && certain == super::scene::Wait::Seen;
    let expected = if begun { vec![1] } else { vec![1, 2] };
    let concluded = begun || !scene.has_row_locks();
    ensure!(
        !concluded || locked == ids(&expected),
        "a lock that waited returned {locked:?} instead of {expected:?}"
    );
    let again = transaction.lock_executions(&keys).await?;
    ensure_same!(again.len(), 2, "rows that the next statement locks");
    transaction.commit().await?;
    Ok(())
}

async fn a_guard_fails_after_a_wait<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let before = scene.execution(1).await?;
    let (first, second) = (to_state(&before, SUCCEEDED), to_state(&before, FAILED));
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[1])).await?;
    holder.write_executions(std::slice::from_ref(&first)).await?;
    let mut waiter = scene
        .second(async |one| {
            one.lock_executions(&[before.id]).await?;
            one.write_executions(std::slice::from_ref(&second)).await
        })
        .await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (transaction, written) = waiter.await?;
    ensure_same!(written, [], "rows written by a guard that another transaction made false");
    transaction.commit().await?;
    ensure_same!(scene.execution(1).await?, first.after, "the row");
    Ok(())
}

async fn a_dropped_transaction_frees_its_locks<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let before = scene.execution(1).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[1])).await?;
    holder.write_executions(&[to_state(&before, SUCCEEDED)]).await?;
    let mut waiter = scene.second(async |one| one.lock_executions(&[before.id]).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    drop(holder);
    let (transaction, locked) = waiter.await?;
    ensure_same!(locked, [before], "the row after its holder was dropped");
    transaction.commit().await?;
    Ok(())
}

/// Round trips after which something that goes on beside a transaction is dropped.
const PULSES_BEFORE_A_DROP: usize = 20;

async fn a_begin_that_is_dropped_opened_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(1)).await?;
    let mut holder = scene.begin().await?;
    for pulses in 0..PULSES_BEFORE_A_DROP {
        let mut second = Box::pin(scene.storage.begin());
        let mut output = None;
        for _ in 0..pulses {
            alongside(&mut second, &mut output, holder.clock()).await?;
        }
        drop(second);
        drop(output);
    }
    holder.commit().await?;
    let locked = scene.commit(async |one| one.lock_executions(&ids(&[1])).await).await?;
    ensure_same!(locked.len(), 1, "rows locked after many dropped beginnings");
    Ok(())
}

async fn a_waiter_that_is_dropped_leaves_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let before = scene.execution(1).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[2])).await?;
    let write = to_state(&before, SUCCEEDED);
    let mut waiter = scene
        .second(async |one| {
            one.lock_executions(&ids(&[1])).await?;
            one.write_executions(std::slice::from_ref(&write)).await?;
            one.lock_executions(&ids(&[2])).await
        })
        .await?;
    scene.waits(&mut waiter, &mut holder).await?;
    drop(waiter);
    holder.commit().await?;
    let locked = scene.commit(async |one| one.lock_executions(&ids(&[1, 2])).await).await?;
    let expected = [before, member(2, State::Ready).execution];
    ensure_same!(locked, expected, "rows that a waiter had written and wanted");
    Ok(())
}

/// Which of these nobody holds.
async fn free<S: Subject>(
    scene: &Scene<'_, S>,
    numbers: &[u16],
) -> Result<Vec<crate::identity::ExecutionId>, Breach> {
    let mut transaction = scene.begin().await?;
    let taken = transaction.take_executions(&ids(numbers)).await?;
    transaction.rollback().await;
    Ok(taken.iter().map(|row: &Execution| row.id).collect())
}

/// Looks that are taken until a waiter has got its first lock.
const LOOKS_MAX: usize = 100_000;

async fn locks_are_taken_one_by_one_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    scene.seed(&Seed::ready_to(3)).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[2])).await?;
    let keys = ids(&[3, 1, 2]);
    let mut waiter = scene.second(async |one| one.lock_executions(&keys).await).await?;
    let mut looked = false;
    for _ in 0..LOOKS_MAX {
        scene.waits(&mut waiter, &mut holder).await?;
        if !free(&scene, &[1]).await?.contains(&id(1)) {
            looked = true;
            break;
        }
    }
    ensure!(looked, "a lock of 3, 1 and 2 that waits for 2 has not locked 1");
    let left = free(&scene, &[3]).await?;
    ensure_same!(left, ids(&[3]), "what comes behind the row that it waits for");
    holder.rollback().await;
    let (transaction, locked) = waiter.await?;
    ensure_same!(locked.len(), 3, "rows locked after the wait");
    ensure_same!(free(&scene, &[1, 2, 3]).await?, [], "what nobody holds then");
    transaction.commit().await?;
    ensure_same!(free(&scene, &[1, 2, 3]).await?, ids(&[1, 2, 3]), "what nobody holds at last");
    Ok(())
}

async fn rows_that_nobody_holds_are_locked_at_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    scene.seed(&Seed::ready_to(3)).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[2])).await?;
    let keys = ids(&[1, 3]);
    let other = scene.second(async |one| one.lock_executions(&keys).await).await?;
    let (transaction, locked) = scene.passes(other, &mut holder).await?;
    ensure_same!(locked.len(), 2, "rows locked beside another transaction");
    transaction.commit().await?;
    holder.commit().await?;
    Ok(())
}

async fn a_lock_is_exclusive_among_groups_too<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&two_groups()).await?;
    let mut holder = scene.begin().await?;
    holder.lock_groups(&ids(&[1])).await?;
    if scene.has_row_locks() {
        let keys = ids(&[2]);
        let other = scene.second(async |one| one.lock_groups(&keys).await).await?;
        let (transaction, locked) = scene.passes(other, &mut holder).await?;
        ensure_same!(locked.len(), 1, "another group");
        transaction.commit().await?;
        // The lock of a group is not that of its downstream.
        let other = scene.second(async |one| one.lock_executions(&ids(&[1])).await).await?;
        let (transaction, locked) = scene.passes(other, &mut holder).await?;
        ensure_same!(locked.len(), 1, "the downstream of a group that is locked");
        transaction.commit().await?;
    }
    let keys = ids(&[1]);
    let mut waiter = scene.second(async |one| one.lock_groups(&keys).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (transaction, locked) = waiter.await?;
    ensure_same!(locked.len(), 1, "the group after the wait");
    transaction.commit().await?;
    Ok(())
}

async fn a_take_passes_over_held_rows<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(3)).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[2])).await?;
    let keys = ids(&[3, 2, 1]);
    if !scene.has_row_locks() {
        let mut waiter = scene.second(async |one| one.take_executions(&keys).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        holder.commit().await?;
        let (transaction, taken) = waiter.await?;
        ensure_same!(taken.len(), 3, "rows taken once nobody holds any");
        return Ok(transaction.commit().await?);
    }
    let other = scene.second(async |one| one.take_executions(&keys).await).await?;
    let (transaction, taken) = scene.passes(other, &mut holder).await?;
    let taken: Vec<_> = taken.iter().map(|row| row.id).collect();
    ensure_same!(taken, ids(&[1, 3]), "rows taken around one that is held");
    transaction.commit().await?;
    holder.commit().await?;
    Ok(())
}

async fn a_take_locks_what_it_returns<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let mut holder = scene.begin().await?;
    let taken = holder.take_executions(&ids(&[1])).await?;
    let write = to_state(&taken[0], SUCCEEDED);
    holder.write_executions(std::slice::from_ref(&write)).await?;
    let keys = ids(&[1]);
    let mut waiter = scene.second(async |one| one.lock_executions(&keys).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (transaction, locked) = waiter.await?;
    ensure_same!(locked, [write.after], "the row after the wait");
    transaction.commit().await?;
    Ok(())
}

async fn a_claim_passes_over_held_rows<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(4)).await?;
    let mut holder = scene.begin().await?;
    holder.lock_executions(&ids(&[1, 3])).await?;
    let query = claim(2);
    if !scene.has_row_locks() {
        let mut waiter = scene.second(async |one| one.claim_executions(&query).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        holder.commit().await?;
        let (transaction, grants) = waiter.await?;
        ensure_same!(granted(&grants), ids(&[1, 2]), "rows granted once nobody holds any");
        return Ok(transaction.commit().await?);
    }
    let other = scene.second(async |one| one.claim_executions(&query).await).await?;
    let (transaction, grants) = scene.passes(other, &mut holder).await?;
    ensure_same!(granted(&grants), ids(&[2, 4]), "rows granted around those that are held");
    transaction.commit().await?;
    holder.commit().await?;
    Ok(())
}

async fn two_claims_share_what_there_is<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(5)).await?;
    let mut first = scene.begin().await?;
    let grants = first.claim_executions(&claim(2)).await?;
    ensure_same!(granted(&grants), ids(&[1, 2]), "the first claim");
    let query = crate::storage::ClaimQuery { request: request(98), ..claim(2) };
    let mut second = scene.second(async |one| one.claim_executions(&query).await).await?;
    let (transaction, others) = if scene.has_row_locks() {
        let others = scene.passes(second, &mut first).await?;
        first.commit().await?;
        others
    } else {
        scene.waits(&mut second, &mut first).await?;
        first.commit().await?;
        second.await?
    };
    ensure_same!(granted(&others), ids(&[3, 4]), "the second claim");
    transaction.commit().await?;
    Ok(())
}

async fn a_grant_in_flight_is_nobody_elses<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    scene.seed(&Seed::ready_to(2)).await?;
    let mut first = scene.begin().await?;
    first.claim_executions(&claim(2)).await?;
    let query = claim(2);
    let second = scene.second(async |one| one.claim_executions(&query).await).await?;
    let (transaction, grants) = scene.passes(second, &mut first).await?;
    ensure_same!(grants, [], "a second claim of the same rows");
    transaction.commit().await?;
    let reads = scene.second(async |one| one.read_grants(&query.request).await).await?;
    let (transaction, grants) = scene.passes(reads, &mut first).await?;
    ensure_same!(grants, [], "grants that are not committed, read by another transaction");
    transaction.commit().await?;
    first.rollback().await;
    ensure_same!(granted(&scene.claim(&claim(2)).await?), ids(&[1, 2]), "a claim afterwards");
    Ok(())
}

async fn a_cycle_of_waiters_is_broken<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    scene.seed(&Seed::ready_to(2)).await?;
    let (mut first, mut second) = (scene.begin().await?, scene.begin().await?);
    first.lock_executions(&ids(&[1])).await?;
    second.lock_executions(&ids(&[2])).await?;
    let (two, one) = (ids(&[2]), ids(&[1]));
    let mut left = Box::pin(async {
        let locked = first.lock_executions(&two).await;
        (first, locked)
    });
    let right = async {
        let locked = second.lock_executions(&one).await;
        // The one that lost has to be over before the other one gets its row.
        match locked {
            Ok(locked) => (Some(second), Ok(locked)),
            Err(error) => {
                second.rollback().await;
                (None, Err(error))
            }
        }
    };
    let ((first, left), (second, right)) = both(&mut left, right).await;
    let deadlock = Err(StorageError::Contention(Contention::Deadlock));
    let losers = usize::from(left == deadlock) + usize::from(right == deadlock);
    ensure_same!(losers, 1, "transactions that lost, of {left:?} and {right:?}");
    let winners = usize::from(left.is_ok()) + usize::from(right.is_ok());
    ensure_same!(winners, 1, "transactions that went on, of {left:?} and {right:?}");
    match (left, second) {
        (Ok(_), _) => first.commit().await?,
        (Err(_), Some(second)) => {
            first.rollback().await;
            second.commit().await?;
        }
        (Err(_), None) => return Err(Breach::new("both transactions lost")),
    }
    ensure_same!(free(&scene, &[1, 2]).await?, ids(&[1, 2]), "what nobody holds afterwards");
    Ok(())
}

async fn an_event_in_flight_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::members([member(1, SUCCEEDED)])).await?;
    let mut holder = scene.begin().await?;
    holder.insert_events(&[event(1)]).await?;
    let rows = [event(1)];
    let mut waiter = scene.second(async |one| Ok(one.insert_events(&rows).await)).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.commit().await?;
    let (transaction, refused) = waiter.await?;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    Ok(())
}
