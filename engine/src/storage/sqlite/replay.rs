//! The verbs of a replay, on SQLite, one function each. Never decides anything.

use rusqlite::params;

use super::columns::query;
use super::pool::Session;
use super::sql;
use super::transaction::{assert_one_partition, change};
use crate::identity::FlowKey;
use crate::replay::Standing;
use crate::storage::rows::in_order;
use crate::storage::{EdgeKey, Result};

pub(super) fn read_standings(session: Session<'_>, flow: &FlowKey) -> Result<Vec<Standing>> {
    let (first, last) = flow.execution_range().into_inner();
    let mut statement = session.prepare(sql!(read_standings))?;
    let parameters =
        params![flow.partition.0, flow.id.0.as_bytes(), first.as_bytes(), last.as_bytes()];
    query(&mut statement, parameters)
}

pub(super) fn reset_edges(session: Session<'_>, keys: &[EdgeKey]) -> Result<u64> {
    let mut found = 0;
    for key in in_order(keys, |key| *key) {
        assert_one_partition(*key);
        let parameters = params![
            key.downstream.partition.0,
            key.downstream.uuid.as_bytes(),
            key.upstream.uuid.as_bytes(),
        ];
        found += u64::from(change(session, sql!(reset_edges), parameters)? == 1);
    }
    Ok(found)
}
