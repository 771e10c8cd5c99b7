//! From the columns of a database to rows, for every backend whose columns are those of the
//! migrations. A value that no engine writes is an error that names table, column and value;
//! nothing is ever defaulted, and nothing is decided here.

mod edges;
mod feed;
mod listings;
mod remains;

use std::fmt::Display;
use std::sync::Arc;

use uuid::Uuid;

use crate::identity::{ExecutionId, FlowId, FlowKey, Partition, RequestId};
use crate::mutants::mutated;
use crate::policy::{AcceptSet, JoinPolicy};
use crate::retry::RetryPolicy;
use crate::state::{ClosePolicy, State};
use crate::storage::codes::{self, StoredBackoff, StoredJoin, StoredReport};
use crate::storage::{
    Attempt, AttemptKey, Definition, EdgeKey, EventId, Execution, ExecutionView, Flow, Grant,
    Group, Lease, Member, Position, ProgressMark, Request, RequestKey, Result, Resumed,
    SiblingRequest, StorageError, Submission, SubmissionKey, Tags,
};
use crate::time::Timestamp;

pub(super) use feed::feed_rows;
pub(super) use listings::{change_id, flow_key};

/// Bytes of a value that an error shows.
const SHOWN_BYTES_MAX: usize = 32;

/// The columns of one row, read from left to right. Each call moves on by one; the name is for
/// errors, and for a check of the order in builds with assertions.
pub(super) trait Columns {
    /// An integer of any width.
    fn integer(&mut self, column: &'static str) -> Result<Option<i64>>;
    /// A boolean.
    fn boolean(&mut self, column: &'static str) -> Result<bool>;
    /// A text.
    fn text(&mut self, column: &'static str) -> Result<Option<Arc<str>>>;
    /// An identifier.
    fn uuid(&mut self, column: &'static str) -> Result<Option<Uuid>>;
    /// Bytes, handed to `read`.
    fn bytes<T>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>>;
    /// Begins with the first column again.
    fn rewind(&mut self);
    /// Leaves the columns that are left.
    fn finish(&mut self);
    /// The table that the next columns belong to.
    fn table(&mut self) -> &mut &'static str;
}

/// A row that is read from the columns of one table.
pub(super) trait FromColumns: Sized {
    /// The table of its first column.
    const TABLE: &'static str;

    /// Reads it; every column, from left to right.
    fn from_columns(row: &mut impl Columns) -> Result<Self>;
}

/// The error for a value that no engine writes.
pub(super) fn corrupt(table: &str, column: &str, value: impl Display) -> StorageError {
    StorageError::Corrupt(format!("{table}.{column} holds {value}").into())
}

/// Text in an error: as it is if it is short, otherwise the start of its bytes.
pub(super) fn shown_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= SHOWN_BYTES_MAX => format!("{text:?}"),
        _ => shown_bytes(bytes),
    }
}

/// The start of some bytes, and how many there are.
pub(super) fn shown_bytes(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    format!("{start:02x?} of {} bytes", bytes.len())
}

/// What every backend's columns are read with.
trait Read: Columns {
    /// What some columns hold together, or an error with what is `stored` in them; that is put into
    /// words only then, for most rows are whole.
    fn whole<T, S: Display>(
        &mut self,
        columns: &str,
        value: Option<T>,
        stored: impl FnOnce() -> S,
    ) -> Result<T> {
        let table: &'static str = self.table();
        value.ok_or_else(|| {
            StorageError::Corrupt(format!("{table}.({columns}) hold {}", stored()).into())
        })
    }

    fn present<T>(&mut self, column: &'static str, value: Option<T>) -> Result<T> {
        let table: &'static str = self.table();
        value.ok_or_else(|| corrupt(table, column, "null"))
    }

    /// An integer through `read`, which answers `None` to a value that no engine writes.
    fn code<T>(&mut self, column: &'static str, read: impl Fn(i64) -> Option<T>) -> Result<T> {
        let stored = self.integer(column)?;
        let stored = self.present(column, stored)?;
        let table: &'static str = self.table();
        read(stored).ok_or_else(|| corrupt(table, column, stored))
    }

    fn optional_code<T>(
        &mut self,
        column: &'static str,
        read: impl Fn(i64) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(stored) = self.integer(column)? else { return Ok(None) };
        let table: &'static str = self.table();
        read(stored).map(Some).ok_or_else(|| corrupt(table, column, stored))
    }

    fn u32(&mut self, column: &'static str) -> Result<u32> {
        self.code(column, |value| value.try_into().ok())
    }

    fn optional_u32(&mut self, column: &'static str) -> Result<Option<u32>> {
        self.optional_code(column, |value| value.try_into().ok())
    }

    fn bits(&mut self, column: &'static str) -> Result<u64> {
        self.code(column, |value| Some(codes::bits_of(value)))
    }

    fn timestamp(&mut self, column: &'static str) -> Result<Timestamp> {
        self.code(column, |value| Some(Timestamp(value)))
    }

    fn optional_timestamp(&mut self, column: &'static str) -> Result<Option<Timestamp>> {
        self.optional_code(column, |value| Some(Timestamp(value)))
    }

    fn name(&mut self, column: &'static str) -> Result<Arc<str>> {
        let stored = self.text(column)?;
        self.present(column, stored)
    }

    fn id(&mut self, column: &'static str) -> Result<Uuid> {
        let stored = self.uuid(column)?;
        self.present(column, stored)
    }

    fn partition(&mut self) -> Result<Partition> {
        self.code("partition", |value| value.try_into().ok().map(Partition))
    }

    fn flow_key(&mut self, column: &'static str) -> Result<FlowKey> {
        Ok(FlowKey { partition: self.partition()?, id: FlowId(self.id(column)?) })
    }

    fn content_hash(&mut self) -> Result<[u8; 32]> {
        let stored = self.bytes("content_hash", |bytes| bytes.try_into().ok())?;
        self.present("content_hash", stored)
    }

    fn state(&mut self) -> Result<State> {
        self.code("state", State::from_code)
    }

    fn tags(&mut self) -> Result<Tags> {
        let stored = self.text("tags")?;
        let tags = Tags::of_text(stored.as_deref());
        let shown = || shown_text(stored.as_deref().unwrap_or_default().as_bytes());
        self.whole("tags", tags, shown)
    }

    fn closing(&mut self) -> Result<Option<ClosePolicy>> {
        self.optional_code("closing", codes::close_policy_of)
    }

    fn accepts(&mut self) -> Result<AcceptSet> {
        let set = |value: i64| AcceptSet::from_bits(value.try_into().ok()?);
        self.code("accepts", |value| set(value).filter(|set| !set.is_empty()))
    }

    fn lease(&mut self, state: State) -> Result<Option<Lease>> {
        let nonce = self.optional_code("nonce", |value| Some(codes::bits_of(value)))?;
        let request = self.uuid("request")?.map(RequestId);
        let granted_at = self.optional_timestamp("granted_at")?;
        let expires_at = self.optional_timestamp("expires_at")?;
        let lease = match (nonce, request, granted_at, expires_at) {
            (Some(nonce), Some(request), Some(granted_at), Some(expires_at)) => {
                Some(Some(Lease { nonce, request, granted_at, expires_at }))
            }
            (None, None, None, None) => Some(None),
            _ => None,
        };
        let lease = lease.filter(|lease| lease.is_some() == (state == State::Active));
        let columns = "state, nonce, request, granted_at, expires_at";
        self.whole(columns, lease, || format!("part of a lease in state {}", state.name()))
    }

    fn resumed(&mut self) -> Result<Option<Resumed>> {
        let epoch = self.optional_code("resumed_epoch", |value| Some(codes::bits_of(value)))?;
        let outcome = self.optional_code("resumed_outcome", codes::outcome_of)?;
        let whole = (epoch.is_some() || outcome.is_none())
            .then(|| epoch.map(|epoch| Resumed { epoch, outcome }));
        self.whole("resumed_epoch, resumed_outcome", whole, || "part of a resume")
    }

    fn progress(&mut self) -> Result<Option<ProgressMark>> {
        let attempt = self.optional_u32("progress_attempt")?;
        let sequence =
            self.optional_code("progress_sequence", |value| Some(codes::bits_of(value)))?;
        let whole = match (attempt, sequence) {
            (Some(attempt), Some(sequence)) => Some(Some(ProgressMark { attempt, sequence })),
            (None, None) => Some(None),
            _ => None,
        };
        let part = || "part of a report of progress";
        self.whole("progress_attempt, progress_sequence", whole, part)
    }

    fn retry(&mut self) -> Result<RetryPolicy> {
        let max_attempts = self.u32("max_attempts")?;
        let backoff = StoredBackoff {
            kind: self.code("backoff", Some)?,
            delay_ms: self.u32("backoff_delay_ms")?,
            factor: self.optional_u32("backoff_factor")?,
            cap_ms: self.optional_u32("backoff_cap_ms")?,
        };
        let columns = "backoff, backoff_factor, backoff_cap_ms";
        let backoff = self.whole(columns, codes::backoff_of(backoff), || format!("{backoff:?}"))?;
        let attempt_timeout_ms = self.optional_u32("attempt_timeout_ms")?;
        Ok(RetryPolicy { max_attempts, backoff, attempt_timeout_ms })
    }

    fn definition(&mut self) -> Result<Definition> {
        Ok(Definition {
            name: self.name("name")?,
            kind: self.name("kind")?,
            lane: self.name("lane")?,
            priority: self.code("priority", |value| value.try_into().ok())?,
            namespace: self.name("namespace")?,
            instance_tag: self.text("instance_tag")?,
            payload: {
                let stored = self.bytes("payload", |bytes| Some(bytes.into()))?;
                self.present("payload", stored)?
            },
        })
    }

    fn join_policy(&mut self) -> Result<JoinPolicy> {
        let join = StoredJoin {
            kind: self.code("policy", Some)?,
            k: self.optional_u32("k")?,
            on_satisfied: self.integer("on_satisfied")?,
        };
        let read = match mutated!(P50) {
            true => Some(codes::join_of(join).unwrap_or(JoinPolicy::AllOf)),
            false => codes::join_of(join),
        };
        self.whole("policy, k, on_satisfied", read, || format!("{join:?}"))
    }

    fn position(&mut self, column: &'static str) -> Result<Position> {
        self.code(column, |value| value.try_into().ok().map(Position))
    }

    fn event_id(&mut self) -> Result<EventId> {
        self.code("id", |value| value.try_into().ok().map(EventId))
    }

    fn edge_key(&mut self) -> Result<EdgeKey> {
        let downstream = execution_id(self, "downstream")?;
        Ok(EdgeKey { downstream, upstream: execution_in(self, downstream.partition, "upstream")? })
    }
}

impl<C: Columns + ?Sized> Read for C {}

/// `partition` and an identifier column.
pub(super) fn execution_id<C: Columns + ?Sized>(
    row: &mut C,
    column: &'static str,
) -> Result<ExecutionId> {
    Ok(ExecutionId { partition: row.partition()?, uuid: row.id(column)? })
}

/// An identifier column of a row whose partition is known.
pub(super) fn execution_in<C: Columns + ?Sized>(
    row: &mut C,
    partition: Partition,
    column: &'static str,
) -> Result<ExecutionId> {
    Ok(ExecutionId { partition, uuid: row.id(column)? })
}

/// A sum of counters.
pub(super) fn total(row: &mut impl Columns, column: &'static str) -> Result<u64> {
    row.code(column, |value| value.try_into().ok())
}

/// An instant.
#[cfg(feature = "postgres")]
pub(super) fn instant(row: &mut impl Columns, column: &'static str) -> Result<Timestamp> {
    row.timestamp(column)
}

/// What was read of an execution, or of its group: the error names whose row it is.
fn row_of<T>(id: ExecutionId, read: Result<T>) -> Result<T> {
    read.map_err(|error| match error {
        StorageError::Corrupt(reason) => StorageError::Unreadable(id, reason),
        error => error,
    })
}

/// A submission, without the key that it was found by.
pub(super) fn submission(row: &mut impl Columns, key: &SubmissionKey) -> Result<Submission> {
    let flow = row.flow_key("flow")?;
    let (content_hash, request) = (row.content_hash()?, RequestId(row.id("request")?));
    Ok(Submission { key: key.clone(), flow, content_hash, request })
}

impl FromColumns for Flow {
    const TABLE: &'static str = "flow";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(Flow {
            key: row.flow_key("id")?,
            namespace: row.name("namespace")?,
            instance_tag: row.text("instance_tag")?,
            closing: row.closing()?,
            closed_by: row.uuid("closed_by")?.map(RequestId),
            revision: row.code("revision", |value| value.try_into().ok())?,
            tags: row.tags()?,
            content_hash: row.content_hash()?,
            request: RequestId(row.id("request")?),
            created_at: row.timestamp("created_at")?,
        })
    }
}

impl FromColumns for (FlowKey, ClosePolicy) {
    const TABLE: &'static str = "flow";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let key = row.flow_key("id")?;
        let policy = row.closing()?;
        Ok((key, row.present("closing", policy)?))
    }
}

impl FromColumns for FlowKey {
    const TABLE: &'static str = "cancel_backlog";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        row.flow_key("flow")
    }
}

impl FromColumns for Request {
    const TABLE: &'static str = "request";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let flow = row.flow_key("flow")?;
        let key = RequestKey { flow, request: RequestId(row.id("request")?) };
        let content_hash = row.content_hash()?;
        let reply = row.bytes("reply", |bytes| Some(bytes.into()))?;
        Ok(Request { key, content_hash, reply: row.present("reply", reply)? })
    }
}

impl FromColumns for Member {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(Member { id: execution_id(row, "id")?, state: row.state()? })
    }
}

impl FromColumns for SiblingRequest {
    const TABLE: &'static str = "sibling_request";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let group = execution_id(row, "downstream")?;
        Ok(SiblingRequest { group, flow: FlowId(row.id("flow")?) })
    }
}

impl FromColumns for Execution {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let id = execution_id(row, "id")?;
        row_of(id, execution(row, id))
    }
}

/// An execution whose id has been read.
fn execution(row: &mut impl Columns, id: ExecutionId) -> Result<Execution> {
    let flow = FlowId(row.id("flow")?);
    let state = row.state()?;
    let cause = row.optional_code("cause", codes::cause_of)?;
    let incarnation = row.u32("incarnation")?;
    let propagated = row.boolean("propagated")?;
    let (has_in, has_inputs) = (row.boolean("has_in")?, row.boolean("has_inputs")?);
    let has_out = row.boolean("has_out")?;
    let not_before = row.timestamp("not_before")?;
    let deadline = row.optional_timestamp("deadline")?;
    let (attempt, charged) = (row.u32("attempt")?, row.u32("charged")?);
    let (give_backs, resumed) = (row.u32("give_backs")?, row.resumed()?);
    let progress = row.progress()?;
    let epoch = row.bits("epoch")?;
    let lease = row.lease(state)?;
    let finished_at = row.optional_timestamp("finished_at")?;
    let retry = row.retry()?;
    Ok(Execution {
        id,
        flow,
        state,
        cause,
        incarnation,
        propagated,
        has_in,
        has_inputs,
        has_out,
        not_before,
        deadline,
        attempt,
        charged,
        give_backs,
        resumed,
        progress,
        epoch,
        lease,
        finished_at,
        retry,
    })
}

impl FromColumns for Grant {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let execution = Execution::from_columns(row)?;
        Ok(Grant { execution, definition: row_of(execution.id, row.definition())? })
    }
}

impl FromColumns for ExecutionView {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let id = execution_id(row, "id")?;
        row_of(id, view(row, id))
    }
}

/// An execution whose id has been read, as a snapshot shows it.
fn view(row: &mut impl Columns, id: ExecutionId) -> Result<ExecutionView> {
    Ok(ExecutionView {
        execution: execution(row, id)?,
        definition: row.definition()?,
        worker: row.text("worker")?,
        result: row.bytes("result", |bytes| Some(bytes.into()))?,
        progress: row.bytes("progress", |bytes| Some(bytes.into()))?,
    })
}

impl FromColumns for Group {
    const TABLE: &'static str = "edge_group";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let downstream = execution_id(row, "downstream")?;
        row_of(downstream, group(row, downstream))
    }
}

/// A group whose downstream has been read.
fn group(row: &mut impl Columns, downstream: ExecutionId) -> Result<Group> {
    let flow = FlowId(row.id("flow")?);
    let policy = row.join_policy()?;
    let (edges, satisfied) = (row.u32("edges")?, row.u32("satisfied")?);
    let unsatisfied = row.u32("unsatisfied")?;
    let decision = row.code("decision", codes::decision_of)?;
    Ok(Group { downstream, flow, policy, edges, satisfied, unsatisfied, decision })
}

impl FromColumns for Attempt {
    const TABLE: &'static str = "attempt";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let execution = execution_id(row, "execution")?;
        let (incarnation, attempt) = (row.u32("incarnation")?, row.u32("attempt")?);
        let key = AttemptKey { execution, incarnation, attempt };
        let (epoch, nonce) = (row.bits("epoch")?, row.bits("nonce")?);
        let end = row.code("ending", codes::attempt_end_of)?;
        let report = StoredReport {
            kind: row.code("reported", Some)?,
            value: row.code("reported_value", Some)?,
        };
        let stored = codes::reported_of(report);
        let reported = row.whole("reported, reported_value", stored, || format!("{report:?}"))?;
        let payload_hash = row.bits("payload_hash")?;
        let (granted_at, ended_at) = (row.timestamp("granted_at")?, row.timestamp("ended_at")?);
        Ok(Attempt { key, epoch, nonce, end, reported, payload_hash, granted_at, ended_at })
    }
}
