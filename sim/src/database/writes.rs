//! The verbs of kind Write. A row is written if its guard holds in the statement's snapshot and
//! again on the version that stands once its lock is held; with the lock held before, as the rules
//! demand, the two are one.

use sluicegate::identity::ExecutionId;
use sluicegate::state::State;
use sluicegate::storage::{
    Edge, EdgeFlip, EdgeKey, Execution, ExecutionGuard, ExecutionWrite, Group, Guarded,
    ProgressWrite, Resolution, Result, ResultChange,
};

use super::Database;
use super::rows::{Member, Stored};
use super::session::{Cursor, NO_CANDIDATE, Progress, SessionId, Step};
use super::table::{Dirty, Slot};

impl Database {
    /// Updates locked executions; returns the ids whose guard held, in id order.
    pub fn write_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[ExecutionWrite],
    ) -> Step<Result<Vec<ExecutionId>>> {
        let results = rows.iter().map(|row| match &row.result {
            ResultChange::Set(bytes) => bytes.len(),
            ResultChange::Keep | ResultChange::Clear => 0,
        });
        if let Err(error) = self.fits(results) {
            return Step::Done(Err(error));
        }
        if self.start(cursor) {
            for write in rows {
                let guard = |member: &Member| member.execution.guard() == write.guard;
                self.choose_write(session, cursor, &write.after.id, guard);
            }
        }
        self.write_candidates(session, cursor, |member: &Member, row| {
            written(member, &rows[row]).map(Dirty::Written)
        })
        .map(|()| Ok(self.written_keys::<Member>(cursor)))
        .into()
    }

    /// Stores how far a locked execution has come; returns how many rows it changed.
    pub fn write_progress(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &ProgressWrite,
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            let guard = |member: &Member| may_progress(member, row);
            self.choose_write(session, cursor, &row.key, guard);
        }
        self.write_candidates(session, cursor, |member: &Member, _| {
            progressed(member, row).map(Dirty::Written)
        })
        .map(|()| Ok(self.written_keys::<Member>(cursor).len() as u64))
        .into()
    }

    /// Resolves pending edges of locked groups; returns those that it flipped, in key order.
    pub fn resolve_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[EdgeFlip],
    ) -> Step<Result<Vec<EdgeKey>>> {
        if self.start(cursor) {
            for flip in rows {
                self.choose_write(session, cursor, &flip.key, |edge: &Edge| may_flip(edge, flip));
            }
        }
        self.write_candidates(session, cursor, |edge: &Edge, row| {
            flipped(edge, &rows[row]).map(Dirty::Written)
        })
        .map(|()| Ok(self.written_keys::<Edge>(cursor)))
        .into()
    }

    /// Stores counters and decisions of locked groups; returns how many it changed.
    pub fn write_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[Group],
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            for group in rows {
                self.choose_write(session, cursor, &group.downstream, |_: &Group| true);
            }
        }
        self.write_candidates(session, cursor, |group: &Group, row| {
            Some(Dirty::Written(counted(group, &rows[row])))
        })
        .map(|()| Ok(self.written_keys::<Group>(cursor).len() as u64))
        .into()
    }

    /// Adds one row of the argument to the candidates, as nothing if it is not visible or its guard
    /// does not hold.
    pub(super) fn choose_write<V: Stored>(
        &self,
        session: SessionId,
        cursor: &mut Cursor,
        key: &V::Key,
        guard: impl Fn(&V) -> bool,
    ) {
        let table = V::table(self);
        let visible = |slot: &Slot| table.visible(*slot, session);
        let found = table.find(key).filter(|slot| visible(slot).is_some());
        if let Some(slot) = found {
            self.assert_writable(session, V::TABLE.row(slot));
        }
        let wanted = found.filter(|slot| visible(slot).is_some_and(&guard));
        cursor.candidates.push(wanted.unwrap_or(NO_CANDIDATE));
    }

    /// Writes the candidates in the order of the argument. `after` re-checks the guard on the
    /// newest version; a candidate whose guard does not hold any more becomes nothing.
    pub(super) fn write_candidates<V: Stored>(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        after: impl Fn(&V, usize) -> Option<Dirty<V>>,
    ) -> Progress<()> {
        while let Some(slot) = cursor.candidates.get(cursor.at).copied() {
            let row = cursor.at;
            if slot == NO_CANDIDATE {
                cursor.at += 1;
                continue;
            }
            let acquired = self.lock_for_write(session, V::TABLE.row(slot))?;
            cursor.at += 1;
            let table = V::table_mut(self);
            match table.visible(slot, session).and_then(|newest| after(newest, row)) {
                Some(dirty) => table.row_mut(slot).dirty = Some(dirty),
                None => cursor.candidates[row] = NO_CANDIDATE,
            }
            self.pause_after(acquired, cursor.at < cursor.candidates.len())?;
        }
        Ok(())
    }

    /// The keys of the candidates that were written, in key order; ends the statement.
    pub(super) fn written_keys<V: Stored>(&mut self, cursor: &mut Cursor) -> Vec<V::Key> {
        let table = V::table(self);
        let written = cursor.candidates.iter().filter(|slot| **slot != NO_CANDIDATE);
        let mut keys: Vec<V::Key> = written.map(|slot| table.row(*slot).key.clone()).collect();
        if !keys.is_sorted() {
            keys.sort_unstable();
        }
        self.finish(cursor);
        keys
    }
}

fn written(member: &Member, write: &ExecutionWrite) -> Option<Member> {
    if member.execution.guard() != write.guard {
        return None;
    }
    let worker = write.after.lease.and_then(|_| member.worker.clone());
    let result = match &write.result {
        ResultChange::Keep => member.result.clone(),
        ResultChange::Set(bytes) => Some(bytes.clone()),
        ResultChange::Clear => None,
    };
    let cleared = write.result == ResultChange::Clear;
    let Execution { flow, retry, progress, .. } = member.execution;
    let mark = progress.filter(|_| !cleared);
    let execution = Execution { flow, retry, progress: mark, ..write.after };
    let progress = member.progress.clone().filter(|_| !cleared);
    Some(Member { execution, definition: member.definition.clone(), worker, result, progress })
}

fn may_progress(member: &Member, row: &ProgressWrite) -> bool {
    member.execution.guard() == ExecutionGuard { state: State::Active, epoch: row.epoch }
}

fn progressed(member: &Member, row: &ProgressWrite) -> Option<Member> {
    may_progress(member, row).then(|| Member {
        execution: Execution { progress: Some(row.progress), ..member.execution },
        progress: Some(row.value.clone()),
        ..member.clone()
    })
}

fn counted(group: &Group, row: &Group) -> Group {
    let Group { satisfied, unsatisfied, decision, .. } = *row;
    Group { satisfied, unsatisfied, decision, ..*group }
}

fn may_flip(edge: &Edge, flip: &EdgeFlip) -> bool {
    edge.resolution == Resolution::Pending || flip.guarded == Guarded::No
}

fn flipped(edge: &Edge, flip: &EdgeFlip) -> Option<Edge> {
    may_flip(edge, flip).then(|| Edge {
        resolution: flip.resolution,
        upstream_incarnation: Some(flip.upstream_incarnation),
        input: flip.input,
        ..edge.clone()
    })
}
