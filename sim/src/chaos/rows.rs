//! The committed rows of some flows, all of one instant, read with plain SQL and decoded here, so
//! that the judge trusts neither the engine's statements nor its decoder. Never judges.

use std::collections::BTreeMap;

use serde_json::Value;
use sluicegate::identity::{ExecutionId, FlowId, Partition, RequestId};
use sluicegate::policy::AcceptSet;
use sluicegate::retry::RetryPolicy;
use sluicegate::state::State;
use sluicegate::storage::codes::{self, StoredBackoff, StoredJoin, StoredLease, StoredReport};
use sluicegate::storage::{
    Attempt, AttemptKey, Edge, EdgeKey, EventId, EventKind, Execution, Group, Lease, NewEvent,
    ProgressMark, Resumed,
};
use sluicegate::time::Timestamp;
use sqlx::{Connection, Row};
use uuid::Uuid;

use super::database::{Database, PostgresPlace, SqlitePlace};

/// The rows of one instant.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// The storage's clock at that instant.
    pub(super) now: Timestamp,
    /// The flows.
    pub(super) flows: Vec<FlowRow>,
    /// Executions, in id order.
    pub(super) executions: Vec<Execution>,
    /// Groups, in id order.
    pub(super) groups: Vec<Group>,
    /// Edges, in key order.
    pub(super) edges: Vec<Edge>,
    /// Ended attempts, in key order.
    pub(super) attempts: Vec<Attempt>,
    /// Completion events, by number.
    pub(super) events: Vec<(EventId, NewEvent)>,
    /// Events that tell of leases, by number.
    pub(super) lease_events: Vec<(EventId, NewEvent)>,
    /// Names of the executions.
    pub(super) names: BTreeMap<ExecutionId, String>,
    /// Their progress, of those that have any.
    pub(super) progress: BTreeMap<ExecutionId, Vec<u8>>,
}

/// A flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FlowRow {
    pub(super) id: FlowId,
    /// How often it has grown.
    pub(super) revision: u64,
    /// Its tags.
    pub(super) tags: BTreeMap<String, String>,
}

/// Which SQL a query is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    Postgres,
    Sqlite,
}

/// A table as it is read: columns, where from, in which order. Columns that begin with `#` are
/// identifiers of 16 bytes, with `~` other bytes. `{}` stands before each name of a table.
const QUERIES: [(&str, &str); 6] = [
    (
        "f.partition #f.id f.revision f.tags",
        "from {}flow as f where {filter} order by f.partition, f.id",
    ),
    (
        "x.partition #x.id #x.flow x.state x.cause x.incarnation x.propagated x.has_in \
         x.has_inputs x.has_out x.not_before x.deadline x.attempt x.charged x.give_backs \
         x.resumed_epoch \
         x.resumed_outcome x.progress_attempt x.progress_sequence x.epoch x.nonce #x.request \
         x.granted_at x.expires_at x.finished_at x.max_attempts x.backoff x.backoff_delay_ms \
         x.backoff_factor x.backoff_cap_ms x.attempt_timeout_ms x.name ~x.progress",
        "from {}execution as x \
         join {}flow as f on f.partition = x.partition and f.id = x.flow \
         where {filter} order by x.partition, x.id",
    ),
    (
        "g.partition #g.downstream #g.flow g.policy g.k g.on_satisfied g.edges g.satisfied \
         g.unsatisfied g.decision",
        "from {}edge_group as g \
         join {}flow as f on f.partition = g.partition and f.id = g.flow \
         where {filter} order by g.partition, g.downstream",
    ),
    (
        "e.partition #e.downstream #e.upstream e.accepts e.resolution e.upstream_incarnation \
         e.input e.passes_as",
        "from {}edge as e \
         join {}execution as x on x.partition = e.partition and x.id = e.downstream \
         join {}flow as f on f.partition = x.partition and f.id = x.flow \
         where {filter} order by e.partition, e.downstream, e.upstream",
    ),
    (
        "a.partition #a.execution a.incarnation a.attempt a.epoch a.nonce a.ending a.reported \
         a.reported_value a.payload_hash a.granted_at a.ended_at",
        "from {}attempt as a \
         join {}execution as x on x.partition = a.partition and x.id = a.execution \
         join {}flow as f on f.partition = x.partition and f.id = x.flow \
         where {filter} order by a.partition, a.execution, a.incarnation, a.attempt",
    ),
    (
        "c.id c.partition #c.execution #c.flow c.incarnation c.lease_attempt c.lease_change \
         c.lease_expires_at c.outcome c.occurred_at",
        "from {}event as c \
         join {}flow as f on f.partition = c.partition and f.id = c.flow \
         where {filter} order by c.id",
    ),
];

/// Reads the flows of a tenant, or all.
pub(super) async fn read(database: &Database, namespace: Option<&str>) -> Result<Rows, Unread> {
    let tables = match database {
        Database::Postgres(place) => read_postgres(place, namespace).await,
        Database::Sqlite(place) => read_sqlite(place, namespace),
    };
    decode(tables.map_err(Unread::Unavailable)?).map_err(Unread::Illegal)
}

/// Why there are no rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    /// The database did not answer.
    Unavailable(String),
    /// A row holds what no engine writes.
    Illegal(String),
}

/// The clock, and for each query its rows as arrays of JSON.
type Tables = (i64, Vec<Vec<String>>);

async fn read_postgres(place: &PostgresPlace, namespace: Option<&str>) -> Result<Tables, String> {
    let say = |error: sqlx::Error| error.to_string();
    let mut session = place.session(&[("statement_timeout", "30000")]).await.map_err(say)?;
    let begin = "begin isolation level repeatable read read only";
    sqlx::query(begin).execute(&mut session).await.map_err(say)?;
    let now = "select (extract(epoch from clock_timestamp()) * 1000000)::int8";
    let now: i64 = sqlx::query(now)
        .fetch_one(&mut session)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(say)?;
    let prefix = format!("\"{}\".", place.schema);
    let mut tables = Vec::new();
    for query in QUERIES {
        let sql = sql(Dialect::Postgres, query, &prefix, namespace);
        let rows =
            sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut session).await.map_err(say)?;
        let texts = rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<_, _>>();
        tables.push(texts.map_err(say)?);
    }
    session.close().await.map_err(say)?;
    Ok((now, tables))
}

fn read_sqlite(place: &SqlitePlace, namespace: Option<&str>) -> Result<Tables, String> {
    let read = || -> rusqlite::Result<Tables> {
        let connection = rusqlite::Connection::open(&place.file)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.execute_batch("begin")?;
        // The first reading fixes the instant, which the clock must not show a time before.
        connection.query_row("select count(*) from sluicegate_stream_head", [], |_| Ok(()))?;
        let now = "select cast((julianday('now') - 2440587.5) * 86400000 as integer) * 1000";
        let now = connection.query_row(now, [], |row| row.get(0))?;
        let mut tables = Vec::new();
        for query in QUERIES {
            let sql = sql(Dialect::Sqlite, query, "sluicegate_", namespace);
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
            tables.push(rows.collect::<rusqlite::Result<Vec<String>>>()?);
        }
        connection.execute_batch("rollback")?;
        Ok((now, tables))
    };
    read().map_err(|error| error.to_string())
}

fn sql(dialect: Dialect, query: (&str, &str), prefix: &str, namespace: Option<&str>) -> String {
    let column = |name: &str| match (dialect, name.split_at(1)) {
        (Dialect::Postgres, ("#", name)) => format!("{name}::text"),
        (Dialect::Postgres, ("~", name)) => format!("encode({name}, 'hex')"),
        (Dialect::Sqlite, ("#" | "~", name)) => format!("nullif(lower(hex({name})), '')"),
        _ => name.to_owned(),
    };
    let columns: Vec<String> = query.0.split_whitespace().map(column).collect();
    let columns = columns.join(", ");
    let array = match dialect {
        Dialect::Postgres => format!("json_build_array({columns})::text"),
        Dialect::Sqlite => format!("json_array({columns})"),
    };
    let filter = namespace.map_or("true".to_owned(), |name| format!("f.namespace = '{name}'"));
    let rest = query.1.replace("{filter}", &filter).replace("{}", prefix);
    format!("select {array} {rest}")
}

/// Reads the columns of one row, in order.
struct Columns {
    values: std::vec::IntoIter<Value>,
    row: String,
}

impl Columns {
    fn of(row: &str) -> Result<Self, String> {
        let values: Vec<Value> = serde_json::from_str(row).map_err(|e| format!("{row}: {e}"))?;
        Ok(Self { values: values.into_iter(), row: row.to_owned() })
    }

    fn refuse(&self) -> String {
        format!("a row holds what no engine writes: {}", self.row)
    }

    fn optional(&mut self) -> Result<Option<i64>, String> {
        match self.values.next() {
            Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value.into())),
            Some(Value::Number(number)) => number.as_i64().map(Some).ok_or_else(|| self.refuse()),
            _ => Err(self.refuse()),
        }
    }

    fn integer(&mut self) -> Result<i64, String> {
        self.optional()?.ok_or_else(|| self.refuse())
    }

    fn small<T: TryFrom<i64>>(&mut self) -> Result<T, String> {
        T::try_from(self.integer()?).map_err(|_| self.refuse())
    }

    fn small_optional<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, String> {
        self.optional()?.map(T::try_from).transpose().map_err(|_| self.refuse())
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.integer()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.refuse()),
        }
    }

    fn code<T>(&mut self, of: impl Fn(i64) -> Option<T>) -> Result<T, String> {
        of(self.integer()?).ok_or_else(|| self.refuse())
    }

    fn time(&mut self) -> Result<Timestamp, String> {
        self.integer().map(Timestamp)
    }

    fn time_optional(&mut self) -> Result<Option<Timestamp>, String> {
        Ok(self.optional()?.map(Timestamp))
    }

    fn text(&mut self) -> Result<Option<String>, String> {
        match self.values.next() {
            Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            _ => Err(self.refuse()),
        }
    }

    /// Bytes in hexadecimal digits.
    fn bytes(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(digits) = self.text()? else { return Ok(None) };
        let byte = |at| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
        bytes.map(Some).ok_or_else(|| self.refuse())
    }

    fn uuid(&mut self) -> Result<Option<Uuid>, String> {
        let text = self.text()?;
        text.map(|text| Uuid::parse_str(&text)).transpose().map_err(|_| self.refuse())
    }

    fn id(&mut self) -> Result<Uuid, String> {
        self.uuid()?.ok_or_else(|| self.refuse())
    }

    fn execution(&mut self) -> Result<ExecutionId, String> {
        Ok(ExecutionId { partition: Partition(self.small()?), uuid: self.id()? })
    }
}

fn decode((now, tables): Tables) -> Result<Rows, String> {
    let mut rows = Rows { now: Timestamp(now), ..Rows::default() };
    for (table, lines) in tables.iter().enumerate() {
        for line in lines {
            let mut columns = Columns::of(line)?;
            match table {
                0 => rows.flows.push(flow(&mut columns)?),
                1 => {
                    let execution = execution(&mut columns)?;
                    let name = columns.text()?.ok_or_else(|| columns.refuse())?;
                    rows.names.insert(execution.id, name);
                    rows.progress.extend(columns.bytes()?.map(|bytes| (execution.id, bytes)));
                    rows.executions.push(execution);
                }
                2 => rows.groups.push(group(&mut columns)?),
                3 => rows.edges.push(edge(&mut columns)?),
                4 => rows.attempts.push(attempt(&mut columns)?),
                _ => {
                    let (id, event) = event(&mut columns)?;
                    let events = match event.kind {
                        EventKind::Completed { .. } => &mut rows.events,
                        _ => &mut rows.lease_events,
                    };
                    events.push((id, event));
                }
            }
        }
    }
    // Servers may sort identifiers otherwise.
    rows.executions.sort_by_key(|row| row.id);
    rows.groups.sort_by_key(|row| row.downstream);
    rows.edges.sort_by_key(|row| row.key);
    rows.attempts.sort_by_key(|row| row.key);
    Ok(rows)
}

fn flow(columns: &mut Columns) -> Result<FlowRow, String> {
    let _partition: u16 = columns.small()?;
    let (id, revision) = (FlowId(columns.id()?), columns.small()?);
    let tags = columns.text()?.map(|text| serde_json::from_str(&text));
    let tags = tags.transpose().map_err(|_| columns.refuse())?.unwrap_or_default();
    Ok(FlowRow { id, revision, tags })
}

fn execution(columns: &mut Columns) -> Result<Execution, String> {
    let id = columns.execution()?;
    let flow = FlowId(columns.id()?);
    let state = columns.code(State::from_code)?;
    let cause = match columns.optional()? {
        Some(code) => Some(codes::cause_of(code).ok_or_else(|| columns.refuse())?),
        None => None,
    };
    let incarnation = columns.small()?;
    let (propagated, has_in) = (columns.flag()?, columns.flag()?);
    let (has_inputs, has_out) = (columns.flag()?, columns.flag()?);
    let (not_before, deadline) = (columns.time()?, columns.time_optional()?);
    let (attempt, charged, give_backs) = (columns.small()?, columns.small()?, columns.small()?);
    let resumed = match (columns.optional()?, columns.optional()?) {
        (None, None) => None,
        (Some(epoch), None) => Some(Resumed { epoch: codes::bits_of(epoch), outcome: None }),
        (Some(epoch), Some(code)) => {
            let outcome = codes::outcome_of(code).ok_or_else(|| columns.refuse())?;
            Some(Resumed { epoch: codes::bits_of(epoch), outcome: Some(outcome) })
        }
        (None, Some(_)) => return Err(columns.refuse()),
    };
    let progress = match (columns.small_optional()?, columns.optional()?) {
        (None, None) => None,
        (Some(attempt), Some(sequence)) => {
            Some(ProgressMark { attempt, sequence: codes::bits_of(sequence) })
        }
        _ => return Err(columns.refuse()),
    };
    let epoch = codes::bits_of(columns.integer()?);
    let (nonce, request) = (columns.optional()?, columns.uuid()?);
    let (granted_at, expires_at) = (columns.time_optional()?, columns.time_optional()?);
    let lease = match (nonce, request, granted_at, expires_at) {
        (None, None, None, None) => None,
        (Some(nonce), Some(request), Some(granted_at), Some(expires_at)) => {
            let (nonce, request) = (codes::bits_of(nonce), RequestId(request));
            Some(Lease { nonce, request, granted_at, expires_at })
        }
        _ => return Err(columns.refuse()),
    };
    let finished_at = columns.time_optional()?;
    let max_attempts = columns.small()?;
    let backoff = StoredBackoff {
        kind: columns.integer()?,
        delay_ms: columns.small()?,
        factor: columns.small_optional()?,
        cap_ms: columns.small_optional()?,
    };
    let backoff = codes::backoff_of(backoff).ok_or_else(|| columns.refuse())?;
    let attempt_timeout_ms = columns.small_optional()?;
    let retry = RetryPolicy { max_attempts, backoff, attempt_timeout_ms };
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

fn group(columns: &mut Columns) -> Result<Group, String> {
    let downstream = columns.execution()?;
    let flow = FlowId(columns.id()?);
    let stored = StoredJoin {
        kind: columns.integer()?,
        k: columns.small_optional()?,
        on_satisfied: columns.optional()?,
    };
    Ok(Group {
        downstream,
        flow,
        policy: codes::join_of(stored).ok_or_else(|| columns.refuse())?,
        edges: columns.small()?,
        satisfied: columns.small()?,
        unsatisfied: columns.small()?,
        decision: columns.code(codes::decision_of)?,
    })
}

fn edge(columns: &mut Columns) -> Result<Edge, String> {
    let downstream = columns.execution()?;
    let upstream = ExecutionId { partition: downstream.partition, uuid: columns.id()? };
    let accepts = AcceptSet::from_bits(columns.small()?).ok_or_else(|| columns.refuse())?;
    Ok(Edge {
        key: EdgeKey { downstream, upstream },
        accepts,
        resolution: columns.code(codes::resolution_of)?,
        upstream_incarnation: columns.small_optional()?,
        input: match columns.optional()? {
            Some(code) => Some(codes::outcome_of(code).ok_or_else(|| columns.refuse())?),
            None => None,
        },
        passes_as: columns.text()?.map(Into::into),
    })
}

fn attempt(columns: &mut Columns) -> Result<Attempt, String> {
    let execution = columns.execution()?;
    let (incarnation, attempt) = (columns.small()?, columns.small()?);
    let epoch = codes::bits_of(columns.integer()?);
    let nonce = codes::bits_of(columns.integer()?);
    let end = columns.code(codes::attempt_end_of)?;
    let stored = StoredReport { kind: columns.integer()?, value: columns.integer()? };
    Ok(Attempt {
        key: AttemptKey { execution, incarnation, attempt },
        epoch,
        nonce,
        end,
        reported: codes::reported_of(stored).ok_or_else(|| columns.refuse())?,
        payload_hash: codes::bits_of(columns.integer()?),
        granted_at: columns.time()?,
        ended_at: columns.time()?,
    })
}

fn event(columns: &mut Columns) -> Result<(EventId, NewEvent), String> {
    let id = EventId(columns.small()?);
    let execution = columns.execution()?;
    let flow = FlowId(columns.id()?);
    let incarnation = columns.small()?;
    let (attempt, change) = (columns.integer()?, columns.integer()?);
    let stored = StoredLease { attempt, change, expires_at: columns.integer()? };
    let lease = codes::lease_event_of(stored).ok_or_else(|| columns.refuse())?;
    let outcome = match columns.optional()? {
        Some(code) => Some(codes::outcome_of(code).ok_or_else(|| columns.refuse())?),
        None => None,
    };
    let kind = codes::event_of(lease, outcome).ok_or_else(|| columns.refuse())?;
    let occurred_at = columns.time()?;
    Ok((id, NewEvent { execution, flow, incarnation, kind, occurred_at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_engine_writes_is_refused_with_its_row() {
        let id = "00000000-0000-7000-8000-000000000001";
        let edge = |accepts: i64, resolution: i64| {
            let key = format!("3, \"{id}\", \"{id}\"");
            let row = format!("[{key}, {accepts}, {resolution}, null, null, \"from_a\"]");
            Columns::of(&row).and_then(|mut columns| super::edge(&mut columns))
        };
        assert!(edge(1, 0).is_ok());
        for refused in [edge(1, 3), edge(99, 0), edge(-1, 0)] {
            assert!(refused.unwrap_err().contains(id));
        }
    }

    #[test]
    fn both_dialects_read_identifiers_as_text() {
        let query = QUERIES[0];
        let postgres = sql(Dialect::Postgres, query, "\"s\".", Some("round1"));
        assert_eq!(
            postgres,
            "select json_build_array(f.partition, f.id::text, f.revision, f.tags)::text \
             from \"s\".flow as f \
             where f.namespace = 'round1' order by f.partition, f.id"
        );
        let sqlite = sql(Dialect::Sqlite, query, "", None);
        assert!(
            sqlite.starts_with("select json_array(f.partition, nullif(lower(hex(f.id)), ''), ")
        );
    }
}
