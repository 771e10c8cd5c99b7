//! What executions are passed by their upstreams, on SQLite. Never writes.

use rusqlite::params;

use super::columns::query;
use super::pool::Session;
use super::sql;
use crate::storage::rows::in_order;
use crate::storage::{Input, InputQuery, Result};

pub(super) fn read_inputs(session: Session<'_>, asked: &InputQuery) -> Result<Vec<Input>> {
    let mut statement = session.prepare(sql!(read_inputs))?;
    let after = asked.after.map(|after| after.uuid.into_bytes());
    let bytes_max = i64::try_from(asked.bytes_max).unwrap_or(i64::MAX);
    let mut inputs = Vec::new();
    for id in in_order(&asked.executions, |id| *id) {
        let parameters = params![bytes_max, id.partition.0, id.uuid.as_bytes(), after, asked.limit];
        inputs.append(&mut query(&mut statement, parameters)?);
    }
    Ok(inputs)
}
