//! The contract of a transaction as a whole: atomicity, visibility, errors and its clock.

use super::rows::{FLOW, OTHER, SUCCEEDED, Seed, edge, flow, id, ids, member, to_state};
use super::scene::Scene;
use super::{Breach, Case, Subject, Verdict, ensure, ensure_same, table};
use crate::state::State;
use crate::storage::{
    CommitError, Consistency, InputQuery, Snapshot, Storage, StorageError, Transaction,
    all_readable,
};

table! { "transactions";
    a_commit_keeps_everything:
        "Commit ends the transaction and keeps its effects.";
    an_empty_transaction_commits:
        "Commit ends the transaction and keeps its effects.";
    a_rollback_leaves_nothing:
        "Rollback ends the transaction and drops its effects.";
    a_dropped_transaction_leaves_nothing:
        "Dropping a transaction: the storage rolls it back in its own time.";
    others_see_nothing_before_the_commit:
        "Each verb sees what had committed when it began.";
    a_transaction_sees_what_committed_after_it_began:
        "Each verb sees what had committed when it began, and its own transaction's writes.";
    a_transaction_sees_its_own_writes:
        "Each verb sees its own transaction's writes.";
    another_handle_is_the_same_database:
        "Handles are cheap to clone and share one pool.";
    an_error_ends_the_transaction:
        "After any error the transaction is over: whatever it is asked answers `Unavailable`.";
    an_error_leaves_nothing:
        "After any error the transaction is over; nothing of it remains.";
    an_error_frees_the_locks:
        "After any error the transaction is over, its locks are free.";
    a_rollback_after_an_error_is_quiet:
        "After any error the transaction is over; a rollback has nothing left to do.";
    empty_lists_change_nothing:
        "An empty list changes nothing and answers nothing.";
    the_clock_goes_on_within_a_transaction:
        "The storage's clock, now: not when the transaction began.";
    readers_show_the_same_clock:
        "The storage's clock, now; a reader shows the same one.";
}

/// Adds flow [`FLOW`] and a ready execution.
async fn write_all<T: Transaction>(transaction: &mut T) -> crate::storage::Result<()> {
    transaction.insert_flow(&flow(FLOW)).await?;
    transaction.insert_executions(&[member(1, State::Ready), member(2, State::Blocked)]).await?;
    let seed = Seed::default().edges([edge(1, 2)]);
    transaction.insert_groups(&seed.groups).await?;
    transaction.insert_edges(&seed.edges).await
}

async fn nothing_is_there<S: Subject>(scene: &Scene<'_, S>) -> Verdict {
    let mut reader = scene.reader().await?;
    ensure_same!(reader.describe_flow(&FLOW).await?, None, "the flow");
    ensure_same!(reader.describe_executions(&FLOW).await?, [], "the executions of the flow");
    ensure_same!(reader.describe_execution(&id(1)).await?, None, "an execution");
    ensure_same!(reader.describe_groups(&FLOW).await?, [], "the groups of the flow");
    ensure_same!(reader.describe_edges(&FLOW).await?, [], "the edges of the flow");
    Ok(())
}

async fn a_commit_keeps_everything<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.commit(async |transaction| write_all(transaction).await).await?;
    let mut reader = scene.reader().await?;
    ensure_same!(reader.describe_flow(&FLOW).await?, Some(flow(FLOW)), "the flow");
    ensure_same!(reader.describe_executions(&FLOW).await?.len(), 2, "the executions");
    ensure_same!(reader.describe_groups(&FLOW).await?.len(), 1, "the groups");
    ensure_same!(reader.describe_edges(&FLOW).await?.len(), 1, "the edges");
    Ok(())
}

async fn an_empty_transaction_commits<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.begin().await?.commit().await?;
    scene.begin().await?.rollback().await;
    scene.commit(async |transaction| transaction.read_flow(&FLOW).await).await?;
    nothing_is_there(&scene).await
}

async fn a_rollback_leaves_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    write_all(&mut transaction).await?;
    transaction.rollback().await;
    nothing_is_there(&scene).await?;
    scene.commit(async |transaction| write_all(transaction).await).await?;
    let row = scene.execution(1).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_executions(&[row.id]).await?;
    let write = to_state(&row, SUCCEEDED);
    transaction.write_executions(std::slice::from_ref(&write)).await?;
    transaction.rollback().await;
    ensure_same!(scene.execution(1).await?, row, "a row that a rolled back transaction updated");
    Ok(())
}

async fn a_dropped_transaction_leaves_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    write_all(&mut transaction).await?;
    drop(transaction);
    // The same keys wait for the end of the one that was dropped.
    let inserted =
        scene.commit(async |transaction| transaction.insert_flow(&flow(FLOW)).await).await?;
    ensure_same!(inserted, crate::storage::Inserted::New, "the flow after the drop");
    let left = all_readable(scene.reader().await?.describe_executions(&FLOW).await?)?;
    ensure_same!(left, [], "the executions after the drop");
    Ok(())
}

async fn others_see_nothing_before_the_commit<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut writer = scene.begin().await?;
    write_all(&mut writer).await?;
    let seen = scene.read_beside(&mut writer, async |reader| reader.describe_flow(&FLOW).await);
    ensure!(!matches!(seen.await?, Some(Some(_))), "a reader saw a flow before its commit");
    if scene.has_row_locks() {
        let mut other = scene.begin().await?;
        ensure_same!(other.read_flow(&FLOW).await?, None, "the flow, seen by another transaction");
        let locked = other.lock_executions(&ids(&[1, 2])).await?;
        ensure_same!(locked, [], "executions that another transaction has not committed");
        other.rollback().await;
    }
    writer.commit().await?;
    let seen = scene.reader().await?.describe_flow(&FLOW).await?;
    ensure_same!(seen, Some(flow(FLOW)), "the flow after its commit");
    Ok(())
}

async fn a_transaction_sees_what_committed_after_it_began<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    let mut early = scene.begin().await?;
    ensure_same!(early.read_flow(&FLOW).await?, None, "the flow before it is there");
    if scene.has_row_locks() {
        scene.commit(async |transaction| write_all(transaction).await).await?;
    } else {
        // Nobody else commits while it is open.
        early.rollback().await;
        early = scene.begin().await?;
        write_all(&mut early).await?;
    }
    ensure_same!(early.read_flow(&FLOW).await?, Some(flow(FLOW)), "the flow once it is there");
    let left = early.with_pending_edges(&ids(&[1])).await?;
    ensure_same!(left, ids(&[1]), "the upstreams with pending edges");
    early.commit().await?;
    Ok(())
}

async fn a_transaction_sees_its_own_writes<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    write_all(&mut transaction).await?;
    ensure_same!(transaction.read_flow(&FLOW).await?, Some(flow(FLOW)), "its own flow");
    let locked = transaction.lock_executions(&ids(&[1, 2])).await?;
    let expected = [member(1, State::Ready).execution, member(2, State::Blocked).execution];
    ensure_same!(locked, expected, "its own executions");
    ensure_same!(transaction.lock_groups(&ids(&[2])).await?.len(), 1, "its own groups");
    let write = to_state(&locked[0], SUCCEEDED);
    transaction.write_executions(std::slice::from_ref(&write)).await?;
    let pending = transaction.pending_edges(&ids(&[2])).await?;
    let states: Vec<State> = pending.iter().map(|edge| edge.upstream_state).collect();
    ensure_same!(states, [SUCCEEDED], "the state of an upstream that it has just updated");
    let locked = transaction.lock_executions(&ids(&[1])).await?;
    ensure_same!(locked, [write.after], "the execution that it has just updated");
    transaction.commit().await?;
    Ok(())
}

async fn another_handle_is_the_same_database<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let other = scene.storage.clone();
    scene.commit(async |transaction| write_all(transaction).await).await?;
    let mut reader = other.snapshot(Consistency::Statement).await?;
    let seen = reader.describe_flow(&FLOW).await?;
    ensure_same!(seen, Some(flow(FLOW)), "the flow through another handle");
    Ok(())
}

/// A transaction in which a verb has just met a key that exists.
async fn broken<S: Subject>(scene: &Scene<'_, S>) -> Result<super::scene::Tx<S>, Breach> {
    scene.seed(&Seed::ready_to(2)).await?;
    let mut transaction = scene.begin().await?;
    transaction.insert_flow(&flow(OTHER)).await?;
    transaction.lock_executions(&ids(&[1])).await?;
    let refused = transaction.insert_executions(&[member(2, State::Ready)]).await;
    ensure!(
        matches!(refused, Err(StorageError::Corrupt(_))),
        "an id that exists is not corrupt: {refused:?}"
    );
    Ok(transaction)
}

async fn an_error_ends_the_transaction<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = broken(&scene).await?;
    let read = transaction.read_flow(&FLOW).await;
    ensure!(
        matches!(read, Err(StorageError::Unavailable(_))),
        "a verb after an error answered {read:?}"
    );
    let clock = transaction.clock().await;
    ensure!(
        matches!(clock, Err(StorageError::Unavailable(_))),
        "the clock after an error answered {clock:?}"
    );
    let committed = transaction.commit().await;
    ensure!(
        matches!(committed, Err(CommitError::Storage(StorageError::Unavailable(_)))),
        "a commit after an error answered {committed:?}"
    );
    Ok(())
}

async fn an_error_leaves_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let transaction = broken(&scene).await?;
    ensure!(transaction.commit().await.is_err(), "a commit after an error succeeded");
    let left = scene.reader().await?.describe_flow(&OTHER).await?;
    ensure_same!(left, None, "what the transaction wrote before its error");
    Ok(())
}

async fn an_error_frees_the_locks<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let transaction = broken(&scene).await?;
    // Still alive, but over.
    let taken = scene.commit(async |second| second.lock_executions(&ids(&[1])).await).await?;
    ensure_same!(taken.len(), 1, "the rows locked after the error");
    drop(transaction);
    Ok(())
}

async fn a_rollback_after_an_error_is_quiet<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    broken(&scene).await?.rollback().await;
    scene.commit(async |transaction| transaction.insert_flow(&flow(OTHER)).await).await?;
    ensure!(
        scene.reader().await?.describe_flow(&OTHER).await?.is_some(),
        "the storage is not usable after a rollback of what was over"
    );
    Ok(())
}

async fn empty_lists_change_nothing<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    transaction.insert_executions(&[]).await?;
    transaction.insert_groups(&[]).await?;
    transaction.insert_edges(&[]).await?;
    transaction.insert_flow_changes(&[]).await?;
    transaction.insert_attempts(&[]).await?;
    transaction.insert_events(&[]).await?;
    transaction.insert_sibling_requests(&[]).await?;
    ensure_same!(transaction.lock_executions(&[]).await?, [], "locked executions");
    ensure_same!(transaction.take_executions(&[]).await?, [], "taken executions");
    ensure_same!(transaction.lock_groups(&[]).await?, [], "locked groups");
    ensure_same!(transaction.read_groups(&[]).await?, [], "groups");
    ensure_same!(transaction.pending_edges(&[]).await?, [], "pending edges");
    ensure_same!(transaction.write_executions(&[]).await?, [], "written executions");
    ensure_same!(transaction.resolve_edges(&[]).await?, [], "resolved edges");
    ensure_same!(transaction.write_groups(&[]).await?, 0, "written groups");
    ensure_same!(transaction.with_pending_edges(&[]).await?, [], "upstreams");
    ensure_same!(transaction.read_closings(&[]).await?, [], "closings");
    ensure_same!(transaction.reset_edges(&[]).await?, 0, "reset edges");
    ensure_same!(transaction.read_edges(&[]).await?, [], "edges");
    ensure_same!(transaction.read_ancestry(&[]).await?, [], "edges above");
    let nobody = InputQuery { executions: Vec::new(), after: None, limit: 1, bytes_max: 1 };
    ensure_same!(transaction.read_inputs(&nobody).await?, [], "inputs");
    ensure_same!(transaction.write_positions(&[]).await?, 0, "written positions");
    transaction.commit().await?;
    nothing_is_there(&scene).await
}

async fn the_clock_goes_on_within_a_transaction<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut transaction = scene.begin().await?;
    let first = transaction.clock().await?;
    // A reader begins after the transaction did, and shows the clock of its own statement.
    let between = scene.read_beside(&mut transaction, async |reader| reader.read_clock().await);
    let between = between.await?.unwrap_or(first);
    let second = transaction.clock().await?;
    ensure!(
        first <= between && between <= second,
        "three readings one after the other: {first:?}, {between:?}, {second:?}"
    );
    transaction.rollback().await;
    Ok(())
}

async fn readers_show_the_same_clock<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let before = scene.commit(async |transaction| transaction.clock().await).await?;
    let mut reader = scene.storage.snapshot(Consistency::Snapshot).await?;
    let first = reader.read_clock().await?;
    let between = match scene.reads_beside() {
        true => scene.commit(async |transaction| transaction.clock().await).await?,
        false => first,
    };
    let second = reader.read_clock().await?;
    let after = scene.commit(async |transaction| transaction.clock().await).await?;
    let readings = [before, first, between, second, after];
    ensure!(readings.is_sorted(), "five readings one after the other: {readings:?}");
    Ok(())
}
