//! Rows that may hold what no engine writes: each row by itself, so that it fails no other, and of
//! a locked one each column by itself, with what stands there in a new row for what cannot be read.

use super::{Columns, FromColumns, Read, corrupt, execution_id, row_of};
use crate::identity::{ExecutionId, FlowId, FlowKey, RequestId};
use crate::policy::{Decision, JoinPolicy};
use crate::retry::{Backoff, RetryPolicy};
use crate::state::State;
use crate::storage::codes::{self, StoredBackoff};
use crate::storage::{
    Decoded, Edge, EdgeKey, Execution, ExecutionView, FlowView, Group, Lease, ListedExecution,
    ProgressMark, Remains, Result, Resumed, StorageError, Unreadable,
};
use crate::time::Timestamp;

/// A row with a key, which is what its first columns hold.
pub(in crate::storage) trait Keyed: FromColumns {
    /// Its key.
    type Key;

    /// Reads the key.
    fn key_from(row: &mut impl Columns) -> Result<Self::Key>;
}

/// Errors: where nobody can tell whose row it is.
impl<T: Keyed> FromColumns for Decoded<T, T::Key> {
    const TABLE: &'static str = T::TABLE;

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        match T::from_columns(row) {
            Ok(decoded) => Ok(Ok(decoded)),
            Err(StorageError::Corrupt(reason) | StorageError::Unreadable(_, reason)) => {
                row.rewind();
                let key = T::key_from(row)?;
                row.finish();
                Ok(Err(Unreadable { key, reason }))
            }
            Err(error) => Err(error),
        }
    }
}

macro_rules! keyed {
    ($($row:ty: $key:ty = $read:expr;)*) => { $(
        impl Keyed for $row {
            type Key = $key;

            fn key_from(row: &mut impl Columns) -> Result<$key> {
                $read(row)
            }
        }
    )* };
}

keyed! {
    ExecutionView: ExecutionId = |row| execution_id(row, "id");
    ListedExecution: ExecutionId = |row| execution_id(row, "id");
    Group: ExecutionId = |row| execution_id(row, "downstream");
    Edge: EdgeKey = |row| Read::edge_key(row);
    FlowView: FlowKey = |row| Read::flow_key(row, "id");
}

/// Reads a row strictly, or else what can be read of it.
fn read<C: Columns, T: FromColumns>(
    row: &mut C,
    remains: impl FnOnce(&mut C) -> Result<T>,
) -> Result<Remains<T>> {
    match T::from_columns(row) {
        Ok(row) => Ok(Remains { row, unreadable: None }),
        Err(StorageError::Unreadable(_, reason)) => {
            row.rewind();
            Ok(Remains { row: remains(row)?, unreadable: Some(reason) })
        }
        Err(error) => Err(error),
    }
}

impl FromColumns for Remains<Execution> {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        read(row, |row| {
            let id = execution_id(row, "id")?;
            row_of(id, execution(row, id))
        })
    }
}

impl FromColumns for Remains<Group> {
    const TABLE: &'static str = "edge_group";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        read(row, |row| {
            let downstream = execution_id(row, "downstream")?;
            row_of(downstream, group(row, downstream))
        })
    }
}

fn small(row: &mut impl Columns, column: &'static str) -> Result<Option<u32>> {
    Ok(row.integer(column)?.and_then(|value| value.try_into().ok()))
}

fn count(row: &mut impl Columns, column: &'static str) -> Result<u32> {
    Ok(small(row, column)?.unwrap_or(0))
}

fn skip(row: &mut impl Columns, columns: &[&'static str]) -> Result<()> {
    columns.iter().try_for_each(|column| row.integer(column).map(drop))
}

/// Errors: where nobody can tell the flow, the incarnation, or how it ended.
fn execution(row: &mut impl Columns, id: ExecutionId) -> Result<Execution> {
    let flow = FlowId(row.id("flow")?);
    let code = row.integer("state")?;
    let cause = row.integer("cause")?.and_then(codes::cause_of);
    let incarnation = row.u32("incarnation")?;
    let propagated = row.boolean("propagated")?;
    let (has_in, has_inputs) = (row.boolean("has_in")?, row.boolean("has_inputs")?);
    let has_out = row.boolean("has_out")?;
    let not_before = Timestamp(row.integer("not_before")?.unwrap_or(0));
    let deadline = row.integer("deadline")?.map(Timestamp);
    let (attempt, charged) = (count(row, "attempt")?, count(row, "charged")?);
    let give_backs = count(row, "give_backs")?;
    let (resumed, progress) = (resumed(row)?, progress(row)?);
    let epoch = row.bits("epoch")?;
    let nonce = row.integer("nonce")?.map(codes::bits_of);
    let request = row.uuid("request")?.map(RequestId);
    let granted_at = row.integer("granted_at")?.map(Timestamp);
    let expires_at = row.integer("expires_at")?.map(Timestamp);
    let finished_at = row.integer("finished_at")?.map(Timestamp);
    let max_attempts = count(row, "max_attempts")?.max(charged).max(1);
    let backoff = backoff(row)?.unwrap_or_default();
    let attempt_timeout_ms = small(row, "attempt_timeout_ms")?;
    let lease = match (nonce, request, granted_at, expires_at) {
        (Some(nonce), Some(request), Some(granted_at), Some(expires_at)) => {
            Some(Lease { nonce, request, granted_at, expires_at })
        }
        _ => None,
    };
    let waits = if has_in { State::Blocked } else { State::Ready };
    let state = match code.and_then(State::from_code) {
        Some(state) if state.is_terminal() == finished_at.is_some() => state,
        _ if finished_at.is_some() => {
            return Err(corrupt("execution", "state", format!("{code:?} of what has ended")));
        }
        _ => waits,
    };
    let state = if state == State::Active && lease.is_none() { State::Ready } else { state };
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
        lease: lease.filter(|_| state == State::Active),
        finished_at,
        retry: RetryPolicy { max_attempts, backoff, attempt_timeout_ms },
    })
}

/// What was last resumed: a worker was told so.
fn resumed(row: &mut impl Columns) -> Result<Option<Resumed>> {
    let epoch = row.integer("resumed_epoch")?.map(codes::bits_of);
    let outcome = row.integer("resumed_outcome")?;
    let known = outcome.map(codes::outcome_of);
    Ok(epoch.and_then(|epoch| match known {
        None => Some(Resumed { epoch, outcome: None }),
        Some(outcome) => outcome.map(|outcome| Resumed { epoch, outcome: Some(outcome) }),
    }))
}

/// How far it had come: a worker was told that this is stored.
fn progress(row: &mut impl Columns) -> Result<Option<ProgressMark>> {
    let attempt = small(row, "progress_attempt")?;
    let sequence = row.integer("progress_sequence")?.map(codes::bits_of);
    Ok(attempt.zip(sequence).map(|(attempt, sequence)| ProgressMark { attempt, sequence }))
}

fn backoff(row: &mut impl Columns) -> Result<Option<Backoff>> {
    let kind = row.integer("backoff")?;
    let delay_ms = small(row, "backoff_delay_ms")?;
    let factor = small(row, "backoff_factor")?;
    let cap_ms = small(row, "backoff_cap_ms")?;
    let stored =
        kind.zip(delay_ms).map(|(kind, delay_ms)| StoredBackoff { kind, delay_ms, factor, cap_ms });
    Ok(stored.and_then(codes::backoff_of))
}

/// Its policy and its counters are for the one who writes it anew.
fn group(row: &mut impl Columns, downstream: ExecutionId) -> Result<Group> {
    let flow = FlowId(row.id("flow")?);
    skip(row, &["policy", "k", "on_satisfied", "edges", "satisfied", "unsatisfied", "decision"])?;
    Ok(Group {
        downstream,
        flow,
        policy: JoinPolicy::AllOf,
        edges: 0,
        satisfied: 0,
        unsatisfied: 0,
        decision: Decision::Undecided,
    })
}
