//! The verbs for rows that may be unreadable: locked all the same, and written anew.

use sluicegate::identity::ExecutionId;
use sluicegate::policy::{Decision, JoinPolicy};
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::storage::{Execution, Group, Remains, Result};

use super::Database;
use super::damage::HOLDS;
use super::rows::Member;
use super::session::{Cursor, SessionId, Step};
use super::table::Dirty;
use crate::mirror::Damaged;

impl Database {
    /// Locks groups one by one in id order, whether they can be read or not.
    pub fn hold_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[ExecutionId],
    ) -> Step<Result<Vec<Remains<Group>>>> {
        let locked = self.lock_groups(session, cursor, keys);
        self.remains(
            locked,
            |group| Damaged::GroupUnreadable(group.downstream),
            |group| Group {
                policy: JoinPolicy::AllOf,
                edges: 0,
                satisfied: 0,
                unsatisfied: 0,
                decision: Decision::Undecided,
                ..group
            },
        )
    }

    /// Locks executions one by one in id order, whether they can be read or not.
    pub fn hold_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[ExecutionId],
    ) -> Step<Result<Vec<Remains<Execution>>>> {
        let locked = self.lock_executions(session, cursor, keys);
        self.remains(
            locked,
            |row| Damaged::ExecutionUnreadable(row.id),
            |row| Execution {
                retry: RetryPolicy { backoff: Backoff::default(), ..row.retry },
                ..row
            },
        )
    }

    /// Writes locked executions anew; returns how many it found.
    pub fn mend_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[Execution],
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            for row in rows {
                self.choose_write(session, cursor, &row.id, |_: &Member| true);
            }
        }
        self.write_candidates(session, cursor, |member: &Member, row| {
            let flow = member.execution.flow;
            let mark = rows[row].progress.filter(|_| member.progress.is_some());
            let execution = Execution { flow, lease: None, progress: mark, ..rows[row] };
            let progress = member.progress.clone().filter(|_| mark.is_some());
            Some(Dirty::Written(Member { execution, worker: None, progress, ..member.clone() }))
        })
        .map(|()| Ok(self.written_keys::<Member>(cursor).len() as u64))
        .into()
    }

    /// What is locked, with what of it can be read.
    fn remains<T>(
        &self,
        locked: Step<Result<Vec<T>>>,
        name: impl Fn(&T) -> Damaged,
        left: impl Fn(T) -> T,
    ) -> Step<Result<Vec<Remains<T>>>> {
        let read = |row: T| match self.unreadable.contains(&name(&row)) {
            true => Remains { row: left(row), unreadable: Some(HOLDS.into()) },
            false => Remains { row, unreadable: None },
        };
        match locked {
            Step::Done(rows) => Step::Done(rows.map(|rows| rows.into_iter().map(read).collect())),
            Step::Yield => Step::Yield,
            Step::Wait => Step::Wait,
            Step::Deadlock(cycle) => Step::Deadlock(cycle),
        }
    }
}
