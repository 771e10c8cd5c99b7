//! What executions are passed by their upstreams. Takes no lock and never waits.

use sluicegate::identity::ExecutionId;
use sluicegate::state::Outcome;
use sluicegate::storage::{Input, InputQuery, Result};

use super::Database;
use super::session::{Cursor, SessionId, Step};
use super::table::Slot;

impl Database {
    /// What executions are passed by their upstreams, in key order of the edges.
    pub fn read_inputs(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &InputQuery,
    ) -> Step<Result<Vec<Input>>> {
        self.read(cursor, |db| {
            let mut executions = query.executions.clone();
            executions.sort_unstable();
            let of_one = |id: &ExecutionId| {
                let edges = db.edges_into(*id).filter_map(|slot| db.input(session, slot));
                let behind = |input: &Input| query.after < Some(input.key.upstream);
                query.shown(edges.filter(behind))
            };
            executions.iter().flat_map(of_one).collect()
        })
    }

    /// What an edge passes on, if it has a name and is an input.
    fn input(&self, session: SessionId, edge: Slot) -> Option<Input> {
        let row = self.edges.visible(edge, session)?;
        let (name, outcome) = (row.passes_as.clone()?, row.input?);
        let upstream = self.upstream_of(edge);
        let upstream = upstream.and_then(|slot| self.executions.visible(slot, session));
        let result = upstream.filter(|upstream| {
            let incarnation = Some(upstream.execution.incarnation);
            outcome == Outcome::Succeeded && incarnation == row.upstream_incarnation
        });
        let result = result.and_then(|upstream| upstream.result.clone());
        let bytes = result.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Some(Input { key: row.key, name, outcome, bytes, result })
    }
}
