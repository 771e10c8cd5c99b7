//! The reads before a flow grows. None takes a lock or waits.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{Edge, EdgeKey, Result};

use super::Database;
use super::reads::sorted_by_key;
use super::session::{Cursor, SessionId, Step};

impl Database {
    /// The edges of groups, resolved ones too, in key order.
    pub fn read_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        groups: &[ExecutionId],
    ) -> Step<Result<Vec<Edge>>> {
        self.read(cursor, |db| {
            let groups = groups.iter().flat_map(|group| db.edges_into(*group));
            let edges = groups.filter_map(|slot| db.edges.visible(slot, session).cloned());
            sorted_by_key(edges.collect(), |edge: &Edge| edge.key)
        })
    }

    /// The edges on every path that leads to one of these executions, each once, in key order.
    pub fn read_ancestry(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        executions: &[ExecutionId],
    ) -> Step<Result<Vec<EdgeKey>>> {
        self.read(cursor, |db| {
            let mut above: BTreeMap<ExecutionId, BTreeSet<EdgeKey>> = BTreeMap::new();
            let mut open: Vec<ExecutionId> = executions.to_vec();
            while let Some(downstream) = open.pop() {
                if above.contains_key(&downstream) {
                    continue;
                }
                let slots = db.edges_into(downstream);
                let edges = slots.filter_map(|slot| Some(db.edges.visible(slot, session)?.key));
                let edges: BTreeSet<EdgeKey> = edges.collect();
                open.extend(edges.iter().map(|edge| edge.upstream));
                above.insert(downstream, edges);
            }
            above.into_values().flatten().collect()
        })
    }

    /// How many edges the groups of a flow have.
    pub fn count_edges(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        flow: &FlowKey,
    ) -> Step<Result<u64>> {
        self.read(cursor, |db| {
            let entries = db.groups.entries_after(None).iter();
            let groups = entries.filter_map(|entry| db.groups.visible(entry.1, session));
            let own = groups.filter(|group| {
                group.flow == flow.id && group.downstream.partition == flow.partition
            });
            own.map(|group| u64::from(group.edges)).sum()
        })
    }
}
