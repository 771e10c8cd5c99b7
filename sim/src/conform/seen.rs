//! What a transaction has locked and how those rows stand for it, from the replies that it got.
//! Never asks a database.

use std::collections::BTreeMap;

use sluicegate::identity::ExecutionId;
use sluicegate::storage::{Execution, Group};

use super::calls::{Call, Reply};

/// Rows that a transaction holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    executions: BTreeMap<ExecutionId, Execution>,
    groups: BTreeMap<ExecutionId, Group>,
}

impl Seen {
    /// A locked execution.
    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.executions.get(&id)
    }

    /// A locked group.
    pub fn group(&self, downstream: ExecutionId) -> Option<&Group> {
        self.groups.get(&downstream)
    }

    /// The locked executions.
    pub fn executions(&self) -> impl Iterator<Item = &Execution> {
        self.executions.values()
    }

    /// The locked groups.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// Takes note of a reply.
    pub fn note(&mut self, call: &Call, reply: &Reply) {
        match (call, reply) {
            (_, Reply::LockExecutions(rows) | Reply::TakeExecutions(rows)) => {
                self.executions.extend(rows.iter().map(|row| (row.id, *row)));
            }
            (_, Reply::ClaimExecutions(grants)) => {
                let rows = grants.iter().map(|grant| (grant.execution.id, grant.execution));
                self.executions.extend(rows);
            }
            (_, Reply::LockGroups(rows)) => {
                self.groups.extend(rows.iter().map(|row| (row.downstream, *row)));
            }
            (Call::WriteExecutions(writes), Reply::WriteExecutions(written)) => {
                let written = writes.iter().filter(|write| written.contains(&write.after.id));
                self.executions.extend(written.map(|write| (write.after.id, write.after)));
            }
            (Call::WriteGroups(rows), Reply::WriteGroups(_)) => {
                for row in rows {
                    if let Some(seen) = self.groups.get_mut(&row.downstream) {
                        *seen = *row;
                    }
                }
            }
            _ => {}
        }
    }
}
