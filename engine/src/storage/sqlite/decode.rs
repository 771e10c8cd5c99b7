//! From columns to rows. A value that no engine writes is an error that names table, column and
//! value; nothing is ever defaulted, and nothing is decided here.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use uuid::Uuid;

use super::error;
use crate::identity::{ExecutionId, FlowId, FlowKey, Partition, RequestId};
use crate::policy::AcceptSet;
use crate::retry::RetryPolicy;
use crate::state::State;
use crate::storage::codes::{self, StoredBackoff, StoredJoin, StoredReport};
use crate::storage::{
    Attempt, AttemptKey, Definition, Edge, EdgeKey, Event, EventId, Execution, ExecutionView, Flow,
    Grant, Group, Lease, NewEvent, PendingEdge, Result, StorageError, Submission, SubmissionKey,
};
use crate::time::Timestamp;

/// Bytes of a value that an error shows.
const SHOWN_BYTES_MAX: usize = 32;

/// Reads the columns of a row from left to right.
pub(super) struct Columns<'a> {
    table: &'static str,
    row: &'a Row<'a>,
    next: usize,
}

/// Runs a query and decodes each row with `decode`.
pub(super) fn rows<T>(
    statement: &mut Statement<'_>,
    parameters: impl rusqlite::Params,
    table: &'static str,
    decode: impl Fn(&mut Columns<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut rows = statement.query(parameters).map_err(|e| error::of_verb(&e))?;
    let mut decoded = Vec::new();
    while let Some(row) = rows.next().map_err(|e| error::of_verb(&e))? {
        let mut columns = Columns { table, row, next: 0 };
        decoded.push(decode(&mut columns)?);
        debug_assert!(row.get_ref(columns.next).is_err(), "a column of {table} is left unread");
    }
    Ok(decoded)
}

fn shown(value: ValueRef<'_>) -> String {
    let hex = |bytes: &[u8]| {
        let start = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        format!("{start:02x?} of {} bytes", bytes.len())
    };
    match value {
        ValueRef::Null => "null".into(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if text.len() <= SHOWN_BYTES_MAX => format!("{text:?}"),
            _ => hex(bytes),
        },
        ValueRef::Blob(bytes) => hex(bytes),
    }
}

impl<'a> Columns<'a> {
    /// The next column through `read`, which answers `None` to a value that no engine writes.
    fn read<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(ValueRef<'a>) -> Option<T>,
    ) -> Result<T> {
        let index = self.next;
        self.next += 1;
        let value = self.row.get_ref(index).map_err(|e| error::of_verb(&e))?;
        debug_assert_eq!(self.row.as_ref().column_name(index), Ok(column), "{}", self.table);
        read(value).ok_or_else(|| {
            let value = shown(value);
            StorageError::Corrupt(format!("{}.{column} holds {value}", self.table).into())
        })
    }

    /// The next column, which may be null.
    fn optional<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(ValueRef<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        self.read(column, |value| match value {
            ValueRef::Null => Some(None),
            value => read(value).map(Some),
        })
    }

    /// Refuses columns that are readable one by one and mean nothing together.
    fn whole<T>(&self, columns: &'static str, value: Option<T>, stored: &str) -> Result<T> {
        value.ok_or_else(|| {
            let table = self.table;
            StorageError::Corrupt(format!("{table}.({columns}) hold {stored}").into())
        })
    }

    fn u32(&mut self, column: &'static str) -> Result<u32> {
        self.read(column, u32_of)
    }

    fn bits(&mut self, column: &'static str) -> Result<u64> {
        self.read(column, bits_of)
    }

    fn timestamp(&mut self, column: &'static str) -> Result<Timestamp> {
        self.read(column, timestamp_of)
    }

    fn boolean(&mut self, column: &'static str) -> Result<bool> {
        self.read(column, |value| match value {
            ValueRef::Integer(0) => Some(false),
            ValueRef::Integer(1) => Some(true),
            _ => None,
        })
    }

    fn text(&mut self, column: &'static str) -> Result<Arc<str>> {
        self.read(column, text_of)
    }

    fn partition(&mut self) -> Result<Partition> {
        self.read("partition", |value| integer(value)?.try_into().ok().map(Partition))
    }

    fn flow(&mut self, column: &'static str) -> Result<FlowId> {
        self.read(column, uuid_of).map(FlowId)
    }

    fn request(&mut self) -> Result<RequestId> {
        self.read("request", uuid_of).map(RequestId)
    }

    fn hash(&mut self) -> Result<[u8; 32]> {
        self.read("content_hash", |value| blob(value)?.try_into().ok())
    }

    fn state(&mut self) -> Result<State> {
        self.read("state", |value| State::from_code(integer(value)?))
    }

    fn accepts(&mut self) -> Result<AcceptSet> {
        self.read("accepts", |value| {
            let set = AcceptSet::from_bits(integer(value)?.try_into().ok()?)?;
            (!set.is_empty()).then_some(set)
        })
    }

    /// `partition` and an identifier column.
    pub(super) fn execution_id(&mut self, column: &'static str) -> Result<ExecutionId> {
        Ok(ExecutionId { partition: self.partition()?, uuid: self.read(column, uuid_of)? })
    }

    /// An identifier column of a row whose partition is known.
    pub(super) fn execution_in(
        &mut self,
        partition: Partition,
        column: &'static str,
    ) -> Result<ExecutionId> {
        Ok(ExecutionId { partition, uuid: self.read(column, uuid_of)? })
    }

    fn lease(&mut self, state: State) -> Result<Option<Lease>> {
        let nonce = self.optional("nonce", bits_of)?;
        let request = self.optional("request", uuid_of)?.map(RequestId);
        let granted_at = self.optional("granted_at", timestamp_of)?;
        let expires_at = self.optional("expires_at", timestamp_of)?;
        let lease = match (nonce, request, granted_at, expires_at) {
            (Some(nonce), Some(request), Some(granted_at), Some(expires_at)) => {
                Some(Some(Lease { nonce, request, granted_at, expires_at }))
            }
            (None, None, None, None) => Some(None),
            _ => None,
        };
        let lease = lease.filter(|lease| lease.is_some() == (state == State::Active));
        let columns = "state, nonce, request, granted_at, expires_at";
        self.whole(columns, lease, &format!("part of a lease in state {}", state.name()))
    }

    fn retry(&mut self) -> Result<RetryPolicy> {
        let max_attempts = self.u32("max_attempts")?;
        let backoff = StoredBackoff {
            kind: self.read("backoff", integer)?,
            delay_ms: self.u32("backoff_delay_ms")?,
            factor: self.optional("backoff_factor", u32_of)?,
            cap_ms: self.optional("backoff_cap_ms", u32_of)?,
        };
        let columns = "backoff, backoff_factor, backoff_cap_ms";
        let backoff = self.whole(columns, codes::backoff_of(backoff), &format!("{backoff:?}"))?;
        let attempt_timeout_ms = self.optional("attempt_timeout_ms", u32_of)?;
        Ok(RetryPolicy { max_attempts, backoff, attempt_timeout_ms })
    }

    fn definition(&mut self) -> Result<Definition> {
        Ok(Definition {
            name: self.text("name")?,
            kind: self.text("kind")?,
            lane: self.text("lane")?,
            priority: self.read("priority", |value| integer(value)?.try_into().ok())?,
            namespace: self.text("namespace")?,
            instance_tag: self.optional("instance_tag", text_of)?,
            payload: self.read("payload", bytes_of)?,
        })
    }

    fn edge_key(&mut self) -> Result<EdgeKey> {
        let downstream = self.execution_id("downstream")?;
        Ok(EdgeKey { downstream, upstream: self.execution_in(downstream.partition, "upstream")? })
    }
}

pub(super) fn submission(row: &mut Columns<'_>, key: &SubmissionKey) -> Result<Submission> {
    let flow = FlowKey { partition: row.partition()?, id: row.flow("flow")? };
    let (content_hash, request) = (row.hash()?, row.request()?);
    Ok(Submission { key: key.clone(), flow, content_hash, request })
}

pub(super) fn flow(row: &mut Columns<'_>) -> Result<Flow> {
    Ok(Flow {
        key: FlowKey { partition: row.partition()?, id: row.flow("id")? },
        namespace: row.text("namespace")?,
        instance_tag: row.optional("instance_tag", text_of)?,
        closing: row.optional("closing", |value| codes::close_policy_of(integer(value)?))?,
        revision: row.read("revision", |value| integer(value)?.try_into().ok())?,
        content_hash: row.hash()?,
        request: row.request()?,
        created_at: row.timestamp("created_at")?,
    })
}

pub(super) fn closing(row: &mut Columns<'_>) -> Result<(FlowKey, crate::state::ClosePolicy)> {
    let key = FlowKey { partition: row.partition()?, id: row.flow("id")? };
    let policy = row.read("closing", |value| codes::close_policy_of(integer(value)?))?;
    Ok((key, policy))
}

pub(super) fn execution(row: &mut Columns<'_>) -> Result<Execution> {
    let id = row.execution_id("id")?;
    let flow = row.flow("flow")?;
    let state = row.state()?;
    let cause = row.optional("cause", |value| codes::cause_of(integer(value)?))?;
    let incarnation = row.u32("incarnation")?;
    let propagated = row.boolean("propagated")?;
    let (has_in, has_out) = (row.boolean("has_in")?, row.boolean("has_out")?);
    let not_before = row.timestamp("not_before")?;
    let deadline = row.optional("deadline", timestamp_of)?;
    let (attempt, charged) = (row.u32("attempt")?, row.u32("charged")?);
    let (give_backs, epoch) = (row.u32("give_backs")?, row.bits("epoch")?);
    let lease = row.lease(state)?;
    let finished_at = row.optional("finished_at", timestamp_of)?;
    let retry = row.retry()?;
    Ok(Execution {
        id,
        flow,
        state,
        cause,
        incarnation,
        propagated,
        has_in,
        has_out,
        not_before,
        deadline,
        attempt,
        charged,
        give_backs,
        epoch,
        lease,
        finished_at,
        retry,
    })
}

pub(super) fn grant(row: &mut Columns<'_>) -> Result<Grant> {
    Ok(Grant { execution: execution(row)?, definition: row.definition()? })
}

pub(super) fn view(row: &mut Columns<'_>) -> Result<ExecutionView> {
    Ok(ExecutionView {
        execution: execution(row)?,
        definition: row.definition()?,
        worker: row.optional("worker", text_of)?,
        result: row.optional("result", bytes_of)?,
    })
}

pub(super) fn group(row: &mut Columns<'_>) -> Result<Group> {
    let downstream = row.execution_id("downstream")?;
    let flow = row.flow("flow")?;
    let join = StoredJoin {
        kind: row.read("policy", integer)?,
        k: row.optional("k", u32_of)?,
        on_satisfied: row.optional("on_satisfied", integer)?,
    };
    let policy =
        row.whole("policy, k, on_satisfied", codes::join_of(join), &format!("{join:?}"))?;
    let (edges, satisfied) = (row.u32("edges")?, row.u32("satisfied")?);
    let unsatisfied = row.u32("unsatisfied")?;
    let decision = row.read("decision", |value| codes::decision_of(integer(value)?))?;
    Ok(Group { downstream, flow, policy, edges, satisfied, unsatisfied, decision })
}

pub(super) fn edge(row: &mut Columns<'_>) -> Result<Edge> {
    Ok(Edge {
        key: row.edge_key()?,
        accepts: row.accepts()?,
        resolution: row.read("resolution", |value| codes::resolution_of(integer(value)?))?,
        upstream_incarnation: row.optional("upstream_incarnation", u32_of)?,
        passes_as: row.optional("passes_as", text_of)?,
    })
}

pub(super) fn pending_edge(row: &mut Columns<'_>) -> Result<PendingEdge> {
    let (key, accepts) = (row.edge_key()?, row.accepts()?);
    row.table = "execution";
    Ok(PendingEdge {
        key,
        accepts,
        upstream_state: row.state()?,
        upstream_incarnation: row.u32("incarnation")?,
    })
}

pub(super) fn attempt(row: &mut Columns<'_>) -> Result<Attempt> {
    let execution = row.execution_id("execution")?;
    let (incarnation, attempt) = (row.u32("incarnation")?, row.u32("attempt")?);
    let key = AttemptKey { execution, incarnation, attempt };
    let (epoch, nonce) = (row.bits("epoch")?, row.bits("nonce")?);
    let end = row.read("ending", |value| codes::attempt_end_of(integer(value)?))?;
    let report = StoredReport {
        kind: row.read("reported", integer)?,
        value: row.read("reported_value", integer)?,
    };
    let stored = codes::reported_of(report);
    let reported = row.whole("reported, reported_value", stored, &format!("{report:?}"))?;
    let payload_hash = row.bits("payload_hash")?;
    let (granted_at, ended_at) = (row.timestamp("granted_at")?, row.timestamp("ended_at")?);
    Ok(Attempt { key, epoch, nonce, end, reported, payload_hash, granted_at, ended_at })
}

pub(super) fn event(row: &mut Columns<'_>) -> Result<Event> {
    let id = row.read("id", |value| integer(value)?.try_into().ok().map(EventId))?;
    let event = NewEvent {
        execution: row.execution_id("execution")?,
        flow: row.flow("flow")?,
        incarnation: row.u32("incarnation")?,
        outcome: row.read("outcome", |value| codes::outcome_of(integer(value)?))?,
        occurred_at: row.timestamp("occurred_at")?,
    };
    let namespace = row.text("namespace")?;
    let instance_tag = row.optional("instance_tag", text_of)?;
    Ok(Event { id, event, namespace, instance_tag })
}

fn integer(value: ValueRef<'_>) -> Option<i64> {
    value.as_i64().ok()
}

fn blob(value: ValueRef<'_>) -> Option<&[u8]> {
    value.as_blob().ok()
}

fn u32_of(value: ValueRef<'_>) -> Option<u32> {
    integer(value)?.try_into().ok()
}

fn bits_of(value: ValueRef<'_>) -> Option<u64> {
    integer(value).map(codes::bits_of)
}

fn timestamp_of(value: ValueRef<'_>) -> Option<Timestamp> {
    integer(value).map(Timestamp)
}

fn text_of(value: ValueRef<'_>) -> Option<Arc<str>> {
    value.as_str().ok().map(Arc::from)
}

fn bytes_of(value: ValueRef<'_>) -> Option<Arc<[u8]>> {
    blob(value).map(Arc::from)
}

fn uuid_of(value: ValueRef<'_>) -> Option<Uuid> {
    Uuid::from_slice(blob(value)?).ok()
}
