//! The committed rows of one partition as lines of text, the same from the model and from Postgres.
//! Never compares them.

use std::fmt::{Display, Write as _};

use sluicegate::identity::Partition;
use sluicegate::state::State;
use sluicegate::storage::{Execution, ExecutionView, codes};

use crate::database::Database;

/// A table with its columns, in the order in which both sides write them. What a schedule never
/// varies is left out.
const TABLES: &[(&str, &[&str])] = &[
    ("submission", &["key", "flow", "request"]),
    ("flow", &["id", "closing", "closed_by", "revision", "tags", "request", "created_at"]),
    (
        "execution",
        &[
            "id",
            "flow",
            "state",
            "cause",
            "incarnation",
            "propagated",
            "has_in",
            "not_before",
            "deadline",
            "attempt",
            "charged",
            "resumed_epoch",
            "epoch",
            "nonce",
            "request",
            "granted_at",
            "expires_at",
            "finished_at",
            "worker",
            "lane",
            "priority",
            "result",
            "progress_attempt",
            "progress_sequence",
            "progress",
        ],
    ),
    (
        "edge_group",
        &["downstream", "flow", "policy", "edges", "satisfied", "unsatisfied", "decision"],
    ),
    ("edge", &["downstream", "upstream", "accepts", "resolution", "upstream_incarnation", "input"]),
    (
        "attempt",
        &["execution", "incarnation", "attempt", "epoch", "ending", "reported", "reported_value"],
    ),
    (
        "event",
        &[
            "row_number() over (order by id)",
            "execution",
            "incarnation",
            "lease_attempt",
            "lease_change",
            "lease_expires_at",
            "outcome",
            "namespace",
            "position",
        ],
    ),
    ("flow_change", &["flow"]),
    (
        "flow_summary",
        &[
            "flow",
            "blocked",
            "ready",
            "active",
            "suspended",
            "succeeded",
            "failed",
            "cancelled",
            "expired",
            "skipped",
            "status",
            "ended_at",
        ],
    ),
    ("sibling_request", &["downstream", "flow"]),
    ("request", &["flow", "request", "reply"]),
    ("cancel_backlog", &["flow"]),
    ("stream_head", &["last_position", "horizon"]),
    ("subscription", &["name", "position"]),
];

/// Which rows of a table belong to the partition.
fn condition(table: &str) -> &'static str {
    match table {
        "stream_head" => "stream = $1::int4 + 1",
        "subscription" => "name like 'p' || $1::int4 || '/%'",
        _ => "partition = $1::int4",
    }
}

/// The statement that reads these lines from a schema; its parameter is the partition.
pub fn sql(schema: &str) -> String {
    let selects = TABLES.iter().map(|(table, columns)| {
        let columns = columns.iter().map(|column| format!("coalesce(({column})::text, '-')"));
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!(
            "select concat_ws(' ', '{table}', {columns}) as line \
             from {schema}.{table} where {}",
            condition(table)
        )
    });
    selects.collect::<Vec<_>>().join(" union all ")
}

/// The lines of the model.
pub fn of_model(database: &Database, partition: Partition) -> Vec<String> {
    let mut lines = Lines(Vec::new());
    for row in database.submissions().filter(|row| row.flow.partition == partition) {
        lines.line("submission").add(&row.key.key).add(row.flow.id.0).add(row.request.0);
    }
    for row in database.flows() {
        let closing = row.closing.map(codes::close_policy);
        let line = lines.line("flow").add(row.key.id.0).maybe(closing);
        let line = line.maybe(row.closed_by.map(|request| request.0)).add(row.revision);
        line.maybe(row.tags.text()).add(row.request.0).add(row.created_at.0);
    }
    let ids: Vec<_> = database.executions().map(|row| row.id).collect();
    for id in ids {
        let view = database.describe_execution(&id).ok().flatten();
        lines.execution(&view.expect("a committed execution is there"));
    }
    for row in database.groups() {
        let line = lines.line("edge_group").add(row.downstream.uuid).add(row.flow.0);
        let line = line.add(codes::join(row.policy).kind).add(row.edges).add(row.satisfied);
        line.add(row.unsatisfied).add(codes::decision(row.decision));
    }
    for row in database.edges() {
        let line = lines.line("edge").add(row.key.downstream.uuid).add(row.key.upstream.uuid);
        let line = line.add(row.accepts.bits()).add(codes::resolution(row.resolution));
        line.maybe(row.upstream_incarnation).maybe(row.input.map(codes::outcome));
    }
    for row in database.attempts() {
        let reported = codes::reported(row.reported);
        let line = lines.line("attempt").add(row.key.execution.uuid).add(row.key.incarnation);
        let line = line.add(row.key.attempt).add(row.epoch).add(codes::attempt_end(row.end));
        line.add(reported.kind).add(reported.value);
    }
    let mut events: Vec<_> = database.events().collect();
    events.sort_by_key(|event| event.id);
    for (position, row) in events.into_iter().enumerate() {
        let line = lines.line("event").add(position + 1);
        let line = line.add(row.event.execution.uuid).add(row.event.incarnation);
        let lease = codes::lease_event(row.event.lease());
        let line = line.add(lease.attempt).add(lease.change).add(lease.expires_at);
        let line = line.maybe(row.event.outcome().map(codes::outcome)).add(&row.namespace);
        line.maybe(database.position(row).map(|position| position.0));
    }
    for flow in database.flow_changes() {
        lines.line("flow_change").add(flow.id.0);
    }
    for row in database.summaries() {
        let line = lines.line("flow_summary").add(row.flow.id.0);
        let line = row.counts.0.into_iter().fold(line, Lines::add);
        line.add(codes::flow_status(row.status)).maybe(row.ended_at.map(|at| at.0));
    }
    for row in database.sibling_requests() {
        lines.line("sibling_request").add(row.group.uuid).add(row.flow.0);
    }
    for row in database.requests() {
        let line = lines.line("request").add(row.key.flow.id.0).add(row.key.request.0);
        line.add(hexadecimal(&row.reply));
    }
    for flow in database.cancel_backlog() {
        lines.line("cancel_backlog").add(flow.id.0);
    }
    for row in database.heads().filter(|row| row.stream.0 == 1 + u32::from(partition.0)) {
        lines.line("stream_head").add(row.last.0).add(row.horizon.0);
    }
    for row in database.subscriptions() {
        lines.line("subscription").add(&row.name.0).add(row.position.0);
    }
    lines.0.sort();
    lines.0
}

struct Lines(Vec<String>);

impl Lines {
    fn line(&mut self, table: &str) -> &mut Self {
        self.0.push(table.to_owned());
        self
    }

    fn add(&mut self, value: impl Display) -> &mut Self {
        let line = self.0.last_mut().expect("a line was begun");
        write!(line, " {value}").expect("a string takes any text");
        self
    }

    fn maybe(&mut self, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.add(value),
            None => self.add("-"),
        }
    }

    fn execution(&mut self, view: &ExecutionView) {
        let row: &Execution = &view.execution;
        let line = self.line("execution").add(row.id.uuid).add(row.flow.0).add(state(row.state));
        let line = line.maybe(row.cause.map(codes::cause)).add(row.incarnation);
        let line = line.add(row.propagated).add(row.has_in).add(row.not_before.0);
        let line = line.maybe(row.deadline.map(|at| at.0)).add(row.attempt).add(row.charged);
        let line = line.maybe(row.resumed.map(|resumed| resumed.epoch));
        let line = line.add(row.epoch).maybe(row.lease.map(|lease| lease.nonce));
        let line = line.maybe(row.lease.map(|lease| lease.request.0));
        let line = line.maybe(row.lease.map(|lease| lease.granted_at.0));
        let line = line.maybe(row.lease.map(|lease| lease.expires_at.0));
        let line = line.maybe(row.finished_at.map(|at| at.0)).maybe(view.worker.as_deref());
        let line = line.add(&view.definition.lane).add(view.definition.priority);
        let line = line.maybe(view.result.as_ref().map(|bytes| hexadecimal(bytes)));
        let line = line.maybe(row.progress.map(|progress| progress.attempt));
        let line = line.maybe(row.progress.map(|progress| progress.sequence));
        line.maybe(view.progress.as_ref().map(|bytes| hexadecimal(bytes)));
    }
}

fn state(state: State) -> u8 {
    match state {
        State::Blocked => 0,
        State::Ready => 1,
        State::Active => 2,
        State::Suspended => 3,
        State::Terminal(outcome) => 4 + codes::outcome(outcome),
    }
}

/// As Postgres shows bytes.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("\\x{}", digits.collect::<String>())
}
