//! The verbs for rows that may be unreadable, on SQLite, one function each. Never decides anything.

use rusqlite::params;

use super::pool::Session;
use super::sql;
use super::transaction::{by_id, change};
use crate::identity::ExecutionId;
use crate::storage::rows::in_order;
use crate::storage::{Execution, Group, Remains, Result, codes};

pub(super) fn hold_groups(
    session: Session<'_>,
    keys: &[ExecutionId],
) -> Result<Vec<Remains<Group>>> {
    by_id(session, sql!(hold_groups), keys)
}

pub(super) fn hold_executions(
    session: Session<'_>,
    keys: &[ExecutionId],
) -> Result<Vec<Remains<Execution>>> {
    by_id(session, sql!(hold_executions), keys)
}

pub(super) fn mend_executions(session: Session<'_>, rows: &[Execution]) -> Result<u64> {
    let mut found = 0;
    for row in in_order(rows, |row| row.id) {
        let backoff = codes::backoff(row.retry.backoff);
        let parameters = params![
            row.state.code(),
            row.cause.map(codes::cause),
            row.incarnation,
            row.propagated,
            row.has_in,
            row.has_inputs,
            row.has_out,
            row.not_before.0,
            row.deadline.map(|at| at.0),
            row.attempt,
            row.charged,
            row.give_backs,
            row.resumed.map(|resumed| codes::bits(resumed.epoch)),
            row.resumed.and_then(|resumed| resumed.outcome).map(codes::outcome),
            row.progress.map(|progress| progress.attempt),
            row.progress.map(|progress| codes::bits(progress.sequence)),
            codes::bits(row.epoch),
            row.finished_at.map(|at| at.0),
            row.retry.max_attempts,
            backoff.kind,
            backoff.delay_ms,
            backoff.factor,
            backoff.cap_ms,
            row.retry.attempt_timeout_ms,
            row.id.partition.0,
            row.id.uuid.as_bytes(),
        ];
        found += change(session, sql!(mend_executions), parameters)? as u64;
    }
    Ok(found)
}
