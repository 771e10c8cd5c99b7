//! Edge groups: added, locked one by one, read without a lock, counted and decided.

use super::rows::{FLOW, OTHER, Seed, group, id, id_in, ids, in_partition, member};
use super::scene::Scene;
use super::{Case, Subject, Verdict, ensure, ensure_same, table};
use crate::policy::{Decision, JoinPolicy, OnSatisfied};
use crate::state::State;
use crate::storage::{Group, Snapshot, StorageError, Transaction, all_readable};

table! { "groups";
    every_policy_and_decision_reads_back: "Adds edge groups.";
    a_downstream_that_has_a_group_is_corrupt: "A downstream that has one is corrupt.";
    locked_groups_come_in_id_order:
        "Locks groups in id order, whatever the order of the keys; missing ones are left out.";
    read_groups_come_in_id_order: "Groups as they stand, in id order; missing ones are left out.";
    groups_are_read_without_a_lock: "Groups as they stand, without a lock.";
    policies_and_numbers_of_edges_are_stored:
        "Stores policies and numbers of edges of locked groups, and nothing else of them; returns \
         how many it found.";
    counters_and_decisions_are_stored: "Stores counters and decisions of locked groups.";
    a_write_of_a_group_keeps_the_rest: "Counters and decisions, and nothing else of them.";
    a_missing_group_is_not_counted: "Returns how many it found.";
}

const CANCEL: OnSatisfied = OnSatisfied::CancelRemaining;
const RUN: OnSatisfied = OnSatisfied::LetRun;

fn policies() -> [JoinPolicy; 6] {
    [
        JoinPolicy::AllOf,
        JoinPolicy::AnyOf { on_satisfied: CANCEL },
        JoinPolicy::AnyOf { on_satisfied: RUN },
        JoinPolicy::Quorum { k: 1, on_satisfied: CANCEL },
        JoinPolicy::Quorum { k: 2, on_satisfied: RUN },
        JoinPolicy::Quorum { k: u32::MAX, on_satisfied: RUN },
    ]
}

/// Blocked executions 1 to 4 with a group each, and a fifth without.
fn four() -> Seed {
    let members = (1..=5).map(|number| member(number, State::Blocked));
    let far = in_partition(3, member(2, State::Blocked));
    let far_group = Group { downstream: id_in(3, 2), ..group(2, JoinPolicy::AllOf, 9) };
    let groups = (1..=4).map(|number| group(number, JoinPolicy::AllOf, u32::from(number)));
    Seed::members(members.chain([far])).groups(groups.chain([far_group]))
}

async fn every_policy_and_decision_reads_back<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    let mut groups: Vec<Group> =
        (1..).zip(policies()).map(|(number, policy)| group(number, policy, 3)).collect();
    for decision in [Decision::Satisfied, Decision::Impossible, Decision::Undecided] {
        let number = 10 + u16::try_from(groups.len()).unwrap_or(0);
        let counted = group(number, JoinPolicy::AllOf, u32::MAX);
        groups.push(Group { satisfied: u32::MAX - 1, unsatisfied: 1, decision, ..counted });
    }
    let members = groups.iter().map(|group| {
        let mut row = member(1, State::Blocked);
        row.execution.id = group.downstream;
        row
    });
    scene.seed(&Seed::members(members).groups(groups.clone())).await?;
    let seen = all_readable(scene.reader().await?.describe_groups(&FLOW).await?)?;
    ensure_same!(seen, groups, "groups in a reader");
    let keys: Vec<_> = groups.iter().map(|group| group.downstream).collect();
    let locked = scene.commit(async |one| one.lock_groups(&keys).await).await?;
    ensure_same!(locked, groups, "locked groups");
    let read = scene.commit(async |one| one.read_groups(&keys).await).await?;
    ensure_same!(read, groups, "groups read without a lock");
    Ok(())
}

async fn a_downstream_that_has_a_group_is_corrupt<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let mut transaction = scene.begin().await?;
    let rows = [group(5, JoinPolicy::AllOf, 1), group(4, JoinPolicy::AllOf, 1)];
    let refused = transaction.insert_groups(&rows).await;
    ensure!(matches!(refused, Err(StorageError::Corrupt(_))), "it answered {refused:?}");
    transaction.rollback().await;
    let read = scene.commit(async |one| one.read_groups(&ids(&[4, 5])).await).await?;
    ensure_same!(read, [group(4, JoinPolicy::AllOf, 4)], "the groups");
    Ok(())
}

async fn locked_groups_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let asked = [id(4), id(5), id(1), id_in(3, 2), id(9), id(3)];
    let locked = scene.commit(async |one| one.lock_groups(&asked).await).await?;
    let locked: Vec<_> = locked.iter().map(|group| group.downstream).collect();
    ensure_same!(locked, [id_in(3, 2), id(1), id(3), id(4)], "locked groups");
    Ok(())
}

async fn read_groups_come_in_id_order<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let asked = [id(4), id(5), id(1), id_in(3, 2), id(9), id(3)];
    let read = scene.commit(async |one| one.read_groups(&asked).await).await?;
    let read: Vec<_> = read.iter().map(|group| group.downstream).collect();
    ensure_same!(read, [id_in(3, 2), id(1), id(3), id(4)], "groups");
    Ok(())
}

async fn groups_are_read_without_a_lock<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let mut holder = scene.begin().await?;
    let before = holder.lock_groups(&ids(&[1, 2])).await?;
    let decided = Group { satisfied: 1, decision: Decision::Satisfied, ..before[0] };
    holder.write_groups(&[decided]).await?;
    ensure_same!(holder.read_groups(&ids(&[1])).await?, [decided], "its own write");
    if scene.has_row_locks() {
        let other = scene.second(async |one| one.read_groups(&ids(&[1, 2])).await).await?;
        let (transaction, read) = scene.passes(other, &mut holder).await?;
        ensure_same!(read, before, "groups that another transaction has locked and written");
        transaction.commit().await?;
        holder.read_groups(&ids(&[3])).await?;
        let free = scene.second(async |one| one.lock_groups(&ids(&[3])).await).await?;
        let (transaction, locked) = scene.passes(free, &mut holder).await?;
        ensure_same!(locked.len(), 1, "locked groups that another transaction has only read");
        transaction.commit().await?;
    }
    holder.commit().await?;
    let read = scene.commit(async |one| one.read_groups(&ids(&[1])).await).await?;
    ensure_same!(read, [decided], "the group after the commit");
    Ok(())
}

async fn policies_and_numbers_of_edges_are_stored<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let counted = Group { satisfied: 1, ..group(2, JoinPolicy::AllOf, 2) };
    scene
        .commit(async |one| {
            one.lock_groups(&ids(&[2])).await?;
            one.write_groups(&[counted]).await
        })
        .await?;
    for policy in policies() {
        let row = Group { policy, edges: 7, satisfied: 5, ..group(2, policy, 7) };
        let found = scene
            .commit(async |one| {
                one.lock_groups(&ids(&[2, 9])).await?;
                one.write_joins(&[group(9, policy, 1), row]).await
            })
            .await?;
        ensure_same!(found, 1, "groups that were found");
        let read = scene.commit(async |one| one.read_groups(&ids(&[2])).await).await?;
        ensure_same!(read, [Group { policy, edges: 7, ..counted }], "the group");
    }
    Ok(())
}

async fn counters_and_decisions_are_stored<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let counted = |number, satisfied, unsatisfied, decision| Group {
        satisfied,
        unsatisfied,
        decision,
        ..group(number, JoinPolicy::AllOf, u32::from(number))
    };
    let rows = [
        counted(4, 3, 1, Decision::Impossible),
        counted(1, 1, 0, Decision::Satisfied),
        counted(2, 0, 1, Decision::Undecided),
    ];
    let changed = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[1, 2, 4])).await?;
            one.write_groups(&rows).await
        })
        .await?;
    ensure_same!(changed, 3, "changed groups");
    let read = scene.commit(async |one| one.read_groups(&ids(&[1, 2, 3, 4])).await).await?;
    let expected = [rows[1], rows[2], group(3, JoinPolicy::AllOf, 3), rows[0]];
    ensure_same!(read, expected, "the groups");
    Ok(())
}

async fn a_write_of_a_group_keeps_the_rest<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let before = group(4, JoinPolicy::AllOf, 4);
    let row = Group {
        flow: OTHER.id,
        policy: JoinPolicy::AnyOf { on_satisfied: RUN },
        edges: 99,
        satisfied: 2,
        ..before
    };
    let changed = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[4])).await?;
            one.write_groups(&[row]).await
        })
        .await?;
    ensure_same!(changed, 1, "changed groups");
    let read = scene.commit(async |one| one.read_groups(&ids(&[4])).await).await?;
    ensure_same!(read, [Group { satisfied: 2, ..before }], "the group");
    Ok(())
}

async fn a_missing_group_is_not_counted<S: Subject>(scene: Scene<'_, S>) -> Verdict {
    scene.seed(&four()).await?;
    let rows = [group(5, JoinPolicy::AllOf, 1), group(4, JoinPolicy::AllOf, 4)];
    let changed = scene
        .commit(async |one| {
            one.lock_groups(&ids(&[4, 5])).await?;
            one.write_groups(&rows).await
        })
        .await?;
    ensure_same!(changed, 1, "changed groups of which one is missing");
    Ok(())
}
