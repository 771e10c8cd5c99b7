//! The verbs of kind Insert. A new row is its session's own until that commits; another insert of
//! its key waits for it.

use std::borrow::Cow;
use std::sync::Arc;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Attempt, ChangeId, Edge, Event, EventId, Flow, Group, Inserted, NewEvent, NewExecution, Result,
    SiblingRequest, StorageError, Submission, Summary,
};

use super::mutants::mutated;
use super::rows::{Member, Outboxed, Stored};
use super::session::{Cursor, NO_CANDIDATE, Progress, SessionId, Step};
use super::table::{NO_SLOT, Place, Slot, slot};
use super::{Database, ModelMutant};

impl Database {
    /// Claims an idempotency key; waits while another transaction holds it in flight.
    pub fn insert_submission(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Submission,
    ) -> Step<Result<Inserted>> {
        self.start(cursor);
        let inserted = self.insert_or_find(session, &row.key, |_| row.clone());
        self.end_insert(cursor, inserted.map(Ok))
    }

    /// Adds a flow; waits while another transaction holds its id in flight.
    pub fn insert_flow(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Flow,
    ) -> Step<Result<Inserted>> {
        self.start(cursor);
        let inserted = self.insert_or_find(session, &row.key, |_| row.clone());
        self.end_insert(cursor, inserted.map(Ok))
    }

    /// Adds executions.
    pub fn insert_executions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[NewExecution],
    ) -> Step<Result<()>> {
        self.start(cursor);
        let payloads = rows.iter().map(|row| row.definition.payload.len());
        if let Err(error) = self.fits(payloads) {
            return self.end_insert(cursor, Ok(Err(error)));
        }
        let member = |_: &mut Self, row: &NewExecution| Member {
            execution: row.execution,
            definition: Arc::new(row.definition.clone()),
            worker: None,
            result: None,
            progress: None,
        };
        let rows = in_order(rows, |row| row.execution.id);
        let inserted = self.insert_all(session, cursor, &rows, |row| row.execution.id, member);
        self.end_insert(cursor, inserted)
    }

    /// Refuses what a server would not read: Postgres ends a session whose message is too long.
    pub(super) fn fits(&self, rows: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        let alone = rows.len() <= 1;
        let bytes = rows.sum::<usize>() as u64;
        match self.statement_max_bytes {
            Some(most) if bytes > most && !alone => {
                Err(StorageError::TooLarge(format!("{bytes} bytes").into()))
            }
            _ => Ok(()),
        }
    }

    /// Adds edge groups.
    pub fn insert_groups(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[Group],
    ) -> Step<Result<()>> {
        self.start(cursor);
        let rows = in_order(rows, |row| row.downstream);
        let inserted = self.insert_all(session, cursor, &rows, |row| row.downstream, |_, row| *row);
        self.end_insert(cursor, inserted)
    }

    /// Adds edges.
    pub fn insert_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[Edge],
    ) -> Step<Result<()>> {
        self.start(cursor);
        let first = self.edges.slots();
        let rows = in_order(rows, |row| row.key);
        let inserted = self.insert_all(session, cursor, &rows, |row| row.key, |_, row| row.clone());
        self.index_edges(first);
        self.end_insert(cursor, inserted)
    }

    /// Tells the projector that executions of these flows moved.
    pub fn insert_flow_changes(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flows: &[FlowKey],
    ) -> Step<Result<()>> {
        self.start(cursor);
        for flow in in_order(flows, |flow| *flow).iter() {
            self.change_last += 1;
            let id = ChangeId(self.change_last);
            self.session_mut(session).flow_changes.push((id, *flow));
        }
        self.end_insert(cursor, Ok(Ok(())))
    }

    /// Records ended attempts; one whose execution the statement's snapshot does not show is an
    /// error once the others are there.
    pub fn insert_attempts(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[Attempt],
    ) -> Step<Result<()>> {
        let rows = in_order(rows, |row| row.key);
        if self.start(cursor) {
            self.choose_joined(session, cursor, rows.iter().map(|row| row.key.execution));
        }
        while let Some(row) = rows.get(cursor.at) {
            if self.joined(session, cursor, row.key.execution).is_some() {
                let inserted = match self.insert_or_find(session, &row.key, |_| *row) {
                    Ok(inserted) => inserted,
                    Err(pause) => return Err(pause).into(),
                };
                if inserted == Inserted::Exists {
                    return self.end_insert(cursor, Ok(Err(duplicate::<Attempt>(Some(row.key)))));
                }
            }
            cursor.at += 1;
        }
        let joined = all_joined::<Attempt>(cursor);
        self.end_insert(cursor, Ok(joined))
    }

    /// Adds events with the labels of their executions; one whose execution the
    /// statement's snapshot does not show is an error once the others are there. A row draws its
    /// number before its key is looked up, and keeps it through a wait.
    pub fn insert_events(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[NewEvent],
    ) -> Step<Result<()>> {
        let rows = in_order(rows, NewEvent::order);
        if self.start(cursor) {
            self.choose_joined(session, cursor, rows.iter().map(|row| row.execution));
        }
        while let Some(row) = rows.get(cursor.at) {
            if let Some(execution) = self.joined(session, cursor, row.execution) {
                let id = cursor.number.unwrap_or_else(|| self.draw_number(row));
                cursor.number = Some(id);
                let key = row.key();
                let event = |db: &mut Self| db.labelled(id, row, execution);
                let inserted = match self.insert_or_find(session, &key, event) {
                    Ok(inserted) => inserted,
                    Err(pause) => return Err(pause).into(),
                };
                if inserted == Inserted::Exists {
                    return self.end_insert(cursor, Ok(Err(duplicate::<Outboxed>(Some(key)))));
                }
                cursor.number = None;
            }
            cursor.at += 1;
        }
        let joined = all_joined::<Outboxed>(cursor);
        self.end_insert(cursor, Ok(joined))
    }

    /// Asks for sibling cancellation; a request that exists stays.
    pub fn insert_sibling_requests(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[SiblingRequest],
    ) -> Step<Result<()>> {
        self.start(cursor);
        let rows = in_order(rows, |row| row.group);
        while let Some(row) = rows.get(cursor.at) {
            if let Err(pause) = self.insert_or_find(session, &row.group, |_| *row) {
                return Err(pause).into();
            }
            cursor.at += 1;
        }
        self.end_insert(cursor, Ok(Ok(())))
    }

    /// Adds the summary of a flow.
    pub fn insert_summary(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Summary,
    ) -> Step<Result<()>> {
        self.start(cursor);
        let rows = std::slice::from_ref(row);
        let inserted = self.insert_all(session, cursor, rows, |row| row.flow, |_, row| *row);
        self.end_insert(cursor, inserted)
    }

    pub(super) fn end_insert<T>(
        &mut self,
        cursor: &mut Cursor,
        inserted: Progress<Result<T>>,
    ) -> Step<Result<T>> {
        if inserted.is_ok() {
            self.finish(cursor);
        }
        inserted.into()
    }

    /// Inserts a row unless its key is taken; waits while another session has it in flight.
    pub(super) fn insert_or_find<V: Stored>(
        &mut self,
        session: SessionId,
        key: &V::Key,
        make: impl FnOnce(&mut Self) -> V,
    ) -> Progress<Inserted> {
        let place = V::table(self).place(key, session);
        if let Place::InFlight(slot) = place {
            self.check_order(session, V::TABLE.row(slot));
            return Err(self.wait(session, V::TABLE.row(slot)));
        }
        self.session_mut(session).waiting = None;
        let (inserted, slot) = if let Place::Visible(slot) = place {
            (Inserted::Exists, slot)
        } else {
            let value = make(self);
            let slot = V::table_mut(self).insert(place, key.clone(), value, session);
            self.session_mut(session).owned.push(V::TABLE.row(slot));
            (Inserted::New, slot)
        };
        if V::TABLE.insert_may_wait() {
            self.check_order(session, V::TABLE.row(slot));
        }
        Ok(inserted)
    }

    /// Inserts rows whose keys must be new.
    fn insert_all<V: Stored, R>(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[R],
        key: impl Fn(&R) -> V::Key,
        mut make: impl FnMut(&mut Self, &R) -> V,
    ) -> Progress<Result<()>> {
        if cursor.at == 0 && V::table(self).suits_bulk(rows.iter().map(&key)) {
            let first = slot(V::table(self).slots());
            for row in rows {
                let value = make(self, row);
                V::table_mut(self).push(key(row), value, session);
            }
            let last = slot(V::table(self).slots());
            let owned = &mut self.session_mut(session).owned;
            owned.extend((first..last).map(|slot| V::TABLE.row(slot)));
            let unique = V::table_mut(self).index_from(first);
            return Ok(if unique { Ok(()) } else { Err(duplicate::<V>(None)) });
        }
        while let Some(row) = rows.get(cursor.at) {
            let key = key(row);
            if self.insert_or_find(session, &key, |db| make(db, row))? == Inserted::Exists {
                return Ok(Err(duplicate::<V>(Some(key))));
            }
            cursor.at += 1;
        }
        Ok(Ok(()))
    }

    /// Fixes which rows join an execution: those whose execution is visible now.
    fn choose_joined(
        &self,
        session: SessionId,
        cursor: &mut Cursor,
        executions: impl Iterator<Item = ExecutionId>,
    ) {
        let visible = |id| {
            let found = self.executions.find(&id);
            found.filter(|slot| self.executions.visible(*slot, session).is_some())
        };
        cursor.candidates.extend(executions.map(|id| visible(id).unwrap_or(NO_CANDIDATE)));
    }

    /// The execution that the row at the cursor joins.
    fn joined(&self, session: SessionId, cursor: &mut Cursor, id: ExecutionId) -> Option<Slot> {
        if self.mutant == Some(ModelMutant::M01) {
            let found = self.executions.find(&id);
            let visible = |slot: &Slot| self.executions.visible(*slot, session).is_some();
            cursor.candidates[cursor.at] = found.filter(visible).unwrap_or(NO_CANDIDATE);
        }
        Some(cursor.candidates[cursor.at]).filter(|slot| *slot != NO_CANDIDATE)
    }

    /// The next number of an event. It is never given out again, whatever becomes of the
    /// transaction.
    fn draw_number(&mut self, event: &NewEvent) -> EventId {
        self.event_last += 1;
        let id = EventId(self.event_last);
        self.event_keys.push((id, event.key()));
        id
    }

    /// An event with the labels of its execution, which are constant.
    fn labelled(&self, id: EventId, event: &NewEvent, execution: Slot) -> Outboxed {
        let member = self.executions.row(execution).any_version();
        let definition = &member.expect("the statement's snapshot shows it").definition;
        let namespace = match mutated!(P41) {
            true => "".into(),
            false => definition.namespace.clone(),
        };
        let instance_tag = definition.instance_tag.clone();
        Outboxed { event: Event { id, event: *event, namespace, instance_tag }, position: None }
    }

    /// Indexes the edges from that slot on by their upstreams.
    fn index_edges(&mut self, first: usize) {
        for number in first..self.edges.slots() {
            let edge = slot(number);
            let upstream = self.edges.row(edge).key.upstream;
            self.edge_upstreams.push(self.executions.find(&upstream).unwrap_or(NO_SLOT));
            self.edges_by_upstream.push((upstream, edge));
        }
        if first < self.edges.slots() {
            self.edges_by_upstream.sort();
        }
    }

    /// The slot of an edge's upstream; it may have come after the edge.
    pub(super) fn upstream_of(&self, edge: Slot) -> Option<Slot> {
        let known = self.edge_upstreams[edge as usize];
        if known != NO_SLOT {
            return Some(known);
        }
        self.executions.find(&self.edges.row(edge).key.upstream)
    }
}

/// The rows in the order of their keys, as every backend inserts them: whoever meets on several
/// keys meets on the lowest first.
pub(super) fn in_order<R: Clone, K: Ord>(rows: &[R], key: impl Fn(&R) -> K) -> Cow<'_, [R]> {
    if rows.is_sorted_by_key(&key) {
        return Cow::Borrowed(rows);
    }
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(key);
    Cow::Owned(sorted)
}

/// An error if a row joined no execution.
fn all_joined<V: Stored>(cursor: &Cursor) -> Result<()> {
    match cursor.candidates.contains(&NO_CANDIDATE) {
        false => Ok(()),
        true => {
            let reason = format!("a row of {} has no execution", V::TABLE.name());
            Err(StorageError::Corrupt(reason.into()))
        }
    }
}

fn duplicate<V: Stored>(key: Option<V::Key>) -> StorageError {
    let name = V::TABLE.name();
    StorageError::Corrupt(match key {
        Some(key) => Cow::Owned(format!("duplicate key in {name}: {key:?}")),
        None => Cow::Owned(format!("duplicate key in {name} within one statement")),
    })
}
