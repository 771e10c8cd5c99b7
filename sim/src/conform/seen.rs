//! What a transaction has locked and how those rows stand for it, from the replies that it got.
//! Never asks a database.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    AttemptKey, ConsumerName, EdgeKey, EventKey, Execution, Flow, Group, StreamHead, Subscription,
    Summary,
};

use super::calls::{Call, Reply};

/// A key under which a transaction has inserted a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NewKey {
    /// Of an execution.
    Execution(ExecutionId),
    /// Of a group.
    Group(ExecutionId),
    /// Of an edge.
    Edge(EdgeKey),
    /// Of an attempt.
    Attempt(AttemptKey),
    /// Of the summary of a flow.
    Summary(FlowKey),
    /// Of an event.
    Event(EventKey),
}

/// Rows that a transaction holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    flows: BTreeMap<FlowKey, Flow>,
    executions: BTreeMap<ExecutionId, Execution>,
    groups: BTreeMap<ExecutionId, Group>,
    summaries: BTreeMap<FlowKey, Summary>,
    head: Option<StreamHead>,
    events: BTreeSet<EventKey>,
    subscriptions: BTreeMap<ConsumerName, Subscription>,
    inserted: BTreeSet<NewKey>,
}

impl Seen {
    /// A locked flow.
    pub fn flow(&self, key: FlowKey) -> Option<&Flow> {
        self.flows.get(&key)
    }

    /// A locked execution.
    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.executions.get(&id)
    }

    /// A locked group.
    pub fn group(&self, downstream: ExecutionId) -> Option<&Group> {
        self.groups.get(&downstream)
    }

    /// A locked summary.
    pub fn summary(&self, flow: FlowKey) -> Option<&Summary> {
        self.summaries.get(&flow)
    }

    /// The locked executions.
    pub fn executions(&self) -> impl Iterator<Item = &Execution> {
        self.executions.values()
    }

    /// The locked groups.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// The locked head of the stream.
    pub fn head(&self) -> Option<&StreamHead> {
        self.head.as_ref()
    }

    /// The locked events.
    pub fn events(&self) -> &BTreeSet<EventKey> {
        &self.events
    }

    /// The locked cursor of a consumer.
    pub fn subscription(&self, name: &ConsumerName) -> Option<&Subscription> {
        self.subscriptions.get(name)
    }

    /// True if the transaction has inserted a row under that key.
    pub fn has_inserted(&self, key: NewKey) -> bool {
        self.inserted.contains(&key)
    }

    /// Takes note of a reply.
    pub fn note(&mut self, call: &Call, reply: &Reply) {
        self.inserted.extend(new_keys(call));
        match (call, reply) {
            (_, Reply::LockExecutions(rows) | Reply::TakeExecutions(rows)) => {
                self.executions.extend(rows.iter().map(|row| (row.id, *row)));
            }
            (_, Reply::HoldExecutions(rows)) => {
                self.executions.extend(rows.iter().map(|held| (held.row.id, held.row)));
            }
            (_, Reply::HoldGroups(rows)) => {
                self.groups.extend(rows.iter().map(|held| (held.row.downstream, held.row)));
            }
            (Call::MendExecutions(rows), Reply::MendExecutions(_)) => {
                for row in rows {
                    if let Some(seen) = self.executions.get_mut(&row.id) {
                        *seen = *row;
                    }
                }
            }
            (_, Reply::ClaimExecutions(grants)) => {
                let rows = grants.iter().map(|grant| (grant.execution.id, grant.execution));
                self.executions.extend(rows);
            }
            (_, Reply::LockGroups(rows)) => {
                self.groups.extend(rows.iter().map(|row| (row.downstream, *row)));
            }
            (_, Reply::LockFlow(Some(row))) | (Call::WriteFlow(row), Reply::WriteFlow(1)) => {
                self.flows.insert(row.key, row.clone());
            }
            (_, Reply::LockSummaries(rows)) => {
                self.summaries.extend(rows.iter().map(|row| (row.flow, *row)));
            }
            (Call::WriteExecutions(writes), Reply::WriteExecutions(written)) => {
                let written = writes.iter().filter(|write| written.contains(&write.after.id));
                self.executions.extend(written.map(|write| (write.after.id, write.after)));
            }
            (Call::WriteGroups(rows), Reply::WriteGroups(_))
            | (Call::WriteJoins(rows), Reply::WriteJoins(_)) => {
                for row in rows {
                    if let Some(seen) = self.groups.get_mut(&row.downstream) {
                        *seen = *row;
                    }
                }
            }
            (Call::DeleteExecutions(ids), Reply::DeleteExecutions(_)) => {
                self.executions.retain(|id, _| !ids.contains(id));
            }
            (Call::DeleteGroups(ids), Reply::DeleteGroups(_)) => {
                self.groups.retain(|id, _| !ids.contains(id));
            }
            (Call::DeleteFlow(flow), Reply::DeleteFlow(_)) => {
                self.flows.remove(flow);
            }
            (Call::DeleteSummary(flow), Reply::DeleteSummary(_)) => {
                self.summaries.remove(flow);
            }
            (_, Reply::LockStreamHead(head)) => self.head = head.or(self.head),
            (_, Reply::LockUnnumberedEvents(rows)) => {
                self.events.extend(rows.iter().map(|row| row.key));
            }
            (_, Reply::LockSubscription(Some(row))) => {
                self.subscriptions.insert(row.name.clone(), row.clone());
            }
            _ => {}
        }
    }
}

/// The keys that must be new where a verb inserts.
pub fn new_keys(call: &Call) -> Vec<NewKey> {
    match call {
        Call::InsertExecutions(rows) => {
            rows.iter().map(|row| NewKey::Execution(row.execution.id)).collect()
        }
        Call::InsertSummary(row) => vec![NewKey::Summary(row.flow)],
        Call::InsertGroups(rows) => rows.iter().map(|row| NewKey::Group(row.downstream)).collect(),
        Call::InsertEdges(rows) => rows.iter().map(|row| NewKey::Edge(row.key)).collect(),
        Call::InsertAttempts(rows) => rows.iter().map(|row| NewKey::Attempt(row.key)).collect(),
        Call::InsertEvents(rows) => rows.iter().map(|row| NewKey::Event(row.key())).collect(),
        _ => Vec::new(),
    }
}
