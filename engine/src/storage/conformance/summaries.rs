//! Summaries: added, locked and stored; the change rows behind them, and what is counted of a flow.

use super::rows::{FAILED, FLOW, OTHER, SUCCEEDED, Seed, edge_for, flow, id, member, ready_but};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure, ensure_same, table};
use crate::identity::{FlowId, FlowKey, Partition};
use crate::policy::AcceptSet;
use crate::state::{Cause, Outcome, State};
use crate::storage::{ChangeId, CountQuery, Group, Snapshot, StorageError, Summary, Transaction};
use crate::summary::{Counted, FlowStatus, StateCounts};
use crate::time::Timestamp;

table! { "summaries";
    a_summary_reads_back: "Adds the summary of a flow.";
    a_flow_that_has_a_summary_is_corrupt: "A flow that has one is corrupt.";
    a_summary_in_flight_is_waited_for: "Insert: waits on a unique key in flight.";
    locked_summaries_come_in_key_order:
        "In the order of their flows, whatever the order of the keys; missing ones are left out.";
    a_summary_lock_waits_and_returns_the_newest_version:
        "Locks summaries; returns each as it stands once its lock is held.";
    a_locked_summary_is_stored: "Stores a locked summary; returns how many it found.";
    change_rows_are_taken_once: "Takes away the change rows of a flow and returns their numbers.";
    change_rows_in_flight_are_left:
        "Those that had committed when it began, and the transaction's own.";
    change_rows_come_back_with_a_rollback: "Everything up to commit, or nothing.";
    alike_executions_are_counted_together:
        "Alike ones counted together, in the order of their states and causes.";
    delayed_executions_are_told_apart_on_demand: "Delayed ones last.";
    a_count_sees_its_own_transaction: "Each verb sees its own transaction's writes.";
    the_first_unhandled_failure_is_found:
        "The first failed or expired execution, by id, that has no out-edge which accepts how it \
         ended.";
}

/// A summary that says nothing true.
pub(super) fn summary(flow: FlowKey, number: u64, status: FlowStatus) -> Summary {
    Summary {
        flow,
        counts: StateCounts(std::array::from_fn(|at| number + at as u64)),
        status,
        ended_at: status.is_terminal().then_some(Timestamp(number.cast_signed())),
        last_change: ChangeId(number),
    }
}

pub(super) fn numbered(partition: u16, number: u128) -> FlowKey {
    FlowKey { partition: Partition(partition), id: FlowId(uuid::Uuid::from_u128(number)) }
}

async fn add<S: Subject>(scene: &Scene<'_, S>, rows: &[Summary]) -> Verdict {
    scene
        .commit(async |one| {
            for row in rows {
                one.insert_summary(row).await?;
            }
            Ok(())
        })
        .await
}

async fn a_summary_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    for (number, status) in (0..).zip(FlowStatus::ALL) {
        let row = summary(numbered(255, u128::from(number)), number, status);
        add(&scene, &[row]).await?;
        let seen = scene.reader().await?.describe_summary(&row.flow).await?;
        ensure_same!(seen, Some(row), "a summary in a reader");
        let locked = scene.commit(async |one| one.lock_summaries(&[row.flow]).await).await?;
        ensure_same!(locked, [row], "a locked summary");
    }
    let widest = Summary {
        counts: StateCounts([u64::MAX >> 1; 9]),
        ended_at: Some(Timestamp(i64::MIN)),
        last_change: ChangeId(u64::MAX >> 1),
        ..summary(FLOW, 0, FlowStatus::Failed)
    };
    add(&scene, &[widest]).await?;
    let seen = scene.reader().await?.describe_summary(&FLOW).await?;
    ensure_same!(seen, Some(widest), "a summary at the edges of its range");
    let none = scene.reader().await?.describe_summary(&OTHER).await?;
    ensure_same!(none, None, "a summary that is not there");
    Ok(())
}

async fn a_flow_that_has_a_summary_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let (first, second) =
        (summary(FLOW, 1, FlowStatus::Open), summary(FLOW, 2, FlowStatus::Running));
    add(&scene, &[first]).await?;
    let mut transaction = scene.begin().await?;
    let refused = transaction.insert_summary(&second).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    let seen = scene.reader().await?.describe_summary(&FLOW).await?;
    ensure_same!(seen, Some(first), "the summary");
    Ok(())
}

async fn a_summary_in_flight_is_waited_for<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let rows = [summary(FLOW, 1, FlowStatus::Open), summary(FLOW, 2, FlowStatus::Running)];
    let mut holder = scene.begin().await?;
    holder.insert_summary(&rows[0]).await?;
    let mut waiter = scene.second(async |one| one.insert_summary(&rows[1]).await).await?;
    scene.waits(&mut waiter, &mut holder).await?;
    holder.rollback().await;
    let (transaction, ()) = waiter.await?;
    transaction.commit().await?;
    let seen = scene.reader().await?.describe_summary(&FLOW).await?;
    ensure_same!(seen, Some(rows[1]), "the summary");
    Ok(())
}

async fn locked_summaries_come_in_key_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let keys = [numbered(7, 3), numbered(3, 9), numbered(7, 1)];
    let rows = keys.map(|key| summary(key, 4, FlowStatus::Open));
    add(&scene, &rows).await?;
    let asked = [keys[0], numbered(7, 2), keys[2], keys[1]];
    let locked = scene.commit(async |one| one.lock_summaries(&asked).await).await?;
    ensure_same!(locked, [rows[1], rows[2], rows[0]], "locked summaries");
    Ok(())
}

async fn a_summary_lock_waits_and_returns_the_newest_version<S: Subject>(
    scene: Scene<'_, S>,
) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    let mut stands = summary(FLOW, 1, FlowStatus::Open);
    add(&scene, &[stands]).await?;
    for commits in [true, false] {
        let mut holder = scene.begin().await?;
        holder.lock_summaries(&[FLOW]).await?;
        let written = summary(FLOW, 5, FlowStatus::Completed);
        holder.write_summary(&written).await?;
        let mut waiter = scene.second(async |one| one.lock_summaries(&[FLOW]).await).await?;
        scene.waits(&mut waiter, &mut holder).await?;
        match commits {
            true => holder.commit().await?,
            false => holder.rollback().await,
        }
        stands = if commits { written } else { stands };
        let (transaction, locked) = waiter.await?;
        ensure_same!(locked, [stands], "a summary locked after the wait");
        transaction.commit().await?;
    }
    Ok(())
}

async fn a_locked_summary_is_stored<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let next = summary(OTHER, 2, FlowStatus::Blocked);
    add(&scene, &[summary(FLOW, 1, FlowStatus::Completed), next]).await?;
    let written = summary(FLOW, 8, FlowStatus::Running);
    let stored = scene
        .commit(async |one| {
            one.lock_summaries(&[FLOW]).await?;
            let missing = summary(numbered(7, 5), 1, FlowStatus::Open);
            Ok((one.write_summary(&written).await?, one.write_summary(&missing).await?))
        })
        .await?;
    ensure_same!(stored, (1, 0), "summaries found, of one that is there and one that is not");
    let mut reader = scene.reader().await?;
    ensure_same!(reader.describe_summary(&FLOW).await?, Some(written), "the summary");
    ensure_same!(reader.describe_summary(&OTHER).await?, Some(next), "its neighbour");
    Ok(())
}

async fn take<S: Subject>(scene: &Scene<'_, S>, flow: FlowKey) -> Result<usize, super::Breach> {
    let taken = scene
        .commit(async |one| {
            one.lock_summaries(&[flow]).await?;
            one.delete_flow_changes(&flow).await
        })
        .await?;
    ensure!(taken.is_sorted(), "the numbers come as {taken:?}");
    Ok(taken.len())
}

async fn change_rows_are_taken_once<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    add(&scene, &[FLOW, OTHER].map(|flow| summary(flow, 0, FlowStatus::Open))).await?;
    for flows in [&[FLOW, OTHER][..], &[FLOW], &[OTHER]] {
        scene.commit(async |one| one.insert_flow_changes(flows).await).await?;
    }
    let own = scene
        .commit(async |one| {
            one.lock_summaries(&[FLOW]).await?;
            one.insert_flow_changes(&[FLOW]).await?;
            one.delete_flow_changes(&FLOW).await
        })
        .await?;
    ensure!(own.len() == 3 && own.is_sorted(), "three change rows, one of its own: {own:?}");
    ensure_same!(take(&scene, FLOW).await?, 0, "change rows that were taken before");
    ensure_same!(take(&scene, OTHER).await?, 2, "change rows of its neighbour");
    Ok(())
}

async fn change_rows_in_flight_are_left<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    if !scene.has_row_locks() {
        return scene.one_writer_at_a_time().await;
    }
    add(&scene, &[summary(FLOW, 0, FlowStatus::Open)]).await?;
    let mut early = scene.begin().await?;
    early.insert_flow_changes(&[FLOW]).await?;
    scene.commit(async |one| one.insert_flow_changes(&[FLOW]).await).await?;
    let other = scene.second(async |one| {
        one.lock_summaries(&[FLOW]).await?;
        one.delete_flow_changes(&FLOW).await
    });
    let (transaction, taken) = scene.passes(other.await?, &mut early).await?;
    transaction.commit().await?;
    early.commit().await?;
    let left = scene
        .commit(async |one| {
            one.lock_summaries(&[FLOW]).await?;
            one.delete_flow_changes(&FLOW).await
        })
        .await?;
    ensure_same!((taken.len(), left.len()), (1, 1), "change rows taken first and then");
    ensure!(left < taken, "the one that committed later has the lower number: {left:?} {taken:?}");
    Ok(())
}

async fn change_rows_come_back_with_a_rollback<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    add(&scene, &[summary(FLOW, 0, FlowStatus::Open)]).await?;
    scene.commit(async |one| one.insert_flow_changes(&[FLOW]).await).await?;
    let mut transaction = scene.begin().await?;
    transaction.lock_summaries(&[FLOW]).await?;
    ensure_same!(transaction.delete_flow_changes(&FLOW).await?.len(), 1, "change rows");
    transaction.rollback().await;
    ensure_same!(take(&scene, FLOW).await?, 1, "change rows after the rollback");
    Ok(())
}

fn ended(number: u16, outcome: Outcome, cause: Cause, at: i64) -> crate::storage::NewExecution {
    let mut row = member(number, State::Terminal(outcome));
    (row.execution.cause, row.execution.finished_at) = (Some(cause), Some(Timestamp(at)));
    row
}

async fn counted<S: Subject>(
    scene: &Scene<'_, S>,
    now: Option<i64>,
) -> Result<Vec<Counted>, super::Breach> {
    let query = CountQuery { flow: FLOW, now: now.map(Timestamp) };
    scene.commit(async |one| one.count_executions(&query).await).await
}

fn alike(state: State, executions: u64) -> Counted {
    Counted { state, cause: None, delayed: false, executions, finished_at: None }
}

async fn alike_executions_are_counted_together<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    ensure_same!(counted(&scene, None).await?, [], "a flow without executions");
    let mut next = member(20, State::Ready);
    next.execution.flow = OTHER.id;
    let far = super::rows::in_partition(9, member(1, State::Ready));
    let rows = [
        ended(9, Outcome::Cancelled, Cause::Sibling, 7),
        ended(8, Outcome::Cancelled, Cause::Operator, 5),
        ended(7, Outcome::Cancelled, Cause::Operator, 6),
        ended(6, Outcome::Succeeded, Cause::Handler, -3),
        member(5, State::Suspended),
        member(4, State::Ready),
        member(3, State::Blocked),
        member(2, State::Blocked),
        next,
        far,
    ];
    scene.seed(&Seed::members(rows)).await?;
    let over = |outcome, cause, executions, at| Counted {
        cause: Some(cause),
        finished_at: Some(Timestamp(at)),
        ..alike(State::Terminal(outcome), executions)
    };
    let expected = [
        alike(State::Blocked, 2),
        alike(State::Ready, 1),
        alike(State::Suspended, 1),
        over(Outcome::Succeeded, Cause::Handler, 1, -3),
        over(Outcome::Cancelled, Cause::Operator, 2, 6),
        over(Outcome::Cancelled, Cause::Sibling, 1, 7),
    ];
    ensure_same!(counted(&scene, None).await?, expected, "the executions of the flow");
    Ok(())
}

async fn delayed_executions_are_told_apart_on_demand<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let at = |number, at| ready_but(number, |row| row.execution.not_before = Timestamp(at));
    let mut blocked = member(4, State::Blocked);
    blocked.execution.not_before = Timestamp(50);
    scene.seed(&Seed::members([at(1, 10), at(2, 11), at(3, 12), blocked])).await?;
    let delayed = |executions| Counted { delayed: true, ..alike(State::Ready, executions) };
    let expected = [alike(State::Blocked, 1), alike(State::Ready, 1), delayed(2)];
    ensure_same!(counted(&scene, Some(10)).await?, expected, "at ten");
    let expected = [alike(State::Blocked, 1), alike(State::Ready, 3)];
    ensure_same!(counted(&scene, Some(12)).await?, expected, "at twelve");
    ensure_same!(counted(&scene, None).await?, expected, "at no time");
    Ok(())
}

async fn a_count_sees_its_own_transaction<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&Seed::ready_to(2)).await?;
    let seen = scene
        .commit(async |one| {
            one.insert_executions(&[member(3, State::Ready)]).await?;
            one.count_executions(&CountQuery { flow: FLOW, now: None }).await
        })
        .await?;
    ensure_same!(seen, [alike(State::Ready, 3)], "executions, one of its own");
    Ok(())
}

async fn the_first_unhandled_failure_is_found<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let expired = State::Terminal(Outcome::Expired);
    let members = [
        member(1, FAILED),
        member(2, expired),
        member(3, SUCCEEDED),
        member(4, FAILED),
        member(5, State::Blocked),
        member(6, State::Blocked),
        member(7, FAILED),
    ];
    let edges = [
        edge_for(1, 5, AcceptSet::ON_SUCCESS),
        edge_for(1, 6, AcceptSet::ON_FAILURE),
        edge_for(2, 5, AcceptSet::ON_FAILURE),
        edge_for(3, 5, AcceptSet::ON_SKIP),
        edge_for(4, 5, AcceptSet::ON_SUCCESS),
        edge_for(4, 6, AcceptSet::ON_SKIP),
    ];
    scene.seed(&Seed::members(members).edges(edges)).await?;
    let found = scene.commit(async |one| one.unhandled_failure(&FLOW).await).await?;
    ensure_same!(found, Some(id(4)), "the first failure that no edge accepts");
    let none = scene.commit(async |one| one.unhandled_failure(&OTHER).await).await?;
    ensure_same!(none, None, "a failure of a flow that is not there");
    let handled = Seed {
        flows: vec![flow(OTHER)],
        members: [member(11, FAILED), member(12, State::Blocked)]
            .map(|mut row| {
                row.execution.flow = OTHER.id;
                row
            })
            .into(),
        ..Seed::default()
    };
    let mut handled = handled.edges([edge_for(11, 12, AcceptSet::ON_DONE)]);
    handled.groups = handled.groups.iter().map(|row| Group { flow: OTHER.id, ..*row }).collect();
    scene.seed(&handled).await?;
    let none = scene.commit(async |one| one.unhandled_failure(&OTHER).await).await?;
    ensure_same!(none, None, "a failure that is handled");
    Ok(())
}
