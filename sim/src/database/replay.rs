//! The verbs of a replay: how the executions of a flow stand, and edges that wait again.

use sluicegate::identity::FlowKey;
use sluicegate::replay::Standing;
use sluicegate::state::{Outcome, State};
use sluicegate::storage::{Edge, EdgeKey, Resolution, Result};

use super::Database;
use super::session::{Cursor, SessionId, Step};
use super::table::Dirty;

impl Database {
    /// How the executions of a flow stand, in id order.
    pub fn read_standings(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<Vec<Standing>>> {
        self.read(cursor, |db| {
            let entries = db.executions.entries_after(None).iter();
            let rows = entries.filter_map(|entry| db.executions.visible(entry.1, session));
            let rows = rows.map(|member| &member.execution);
            let own = rows.filter(|row| row.flow_key() == *flow);
            let standings: Vec<Standing> = own
                .map(|row| Standing {
                    id: row.id,
                    state: row.state,
                    cause: row.cause,
                    incarnation: row.incarnation,
                })
                .collect();
            let skipped = |one: &&Standing| one.state == State::Terminal(Outcome::Skipped);
            let seen = &mut db.session_mut(session).skipped_at_look;
            seen.clear();
            seen.extend(standings.iter().filter(skipped).map(|one| one.id));
            standings
        })
    }

    /// Makes edges of locked groups pending again; returns how many it found.
    pub fn reset_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        keys: &[EdgeKey],
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            for key in keys {
                self.choose_write(session, cursor, key, |_: &Edge| true);
            }
        }
        self.write_candidates(session, cursor, |edge: &Edge, _| {
            Some(Dirty::Written(Edge {
                resolution: Resolution::Pending,
                upstream_incarnation: None,
                input: None,
                ..edge.clone()
            }))
        })
        .map(|()| Ok(self.written_keys::<Edge>(cursor).len() as u64))
        .into()
    }
}
