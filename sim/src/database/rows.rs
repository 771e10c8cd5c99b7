//! What each table holds under which key, and how a value finds its table. Never locks anything.

use std::sync::Arc;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Attempt, AttemptKey, ConsumerName, Definition, Edge, EdgeKey, Event, EventKey, Execution, Flow,
    Group, Position, Request, RequestKey, SiblingRequest, StreamHead, StreamId, Submission,
    SubmissionKey, Subscription, Summary,
};

use super::Database;
use super::table::{Slot, Table};

/// An execution as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) execution: Execution,
    pub(super) definition: Arc<Definition>,
    /// Who holds the lease; exists only beside one.
    pub(super) worker: Option<Arc<str>>,
    pub(super) result: Option<Arc<[u8]>>,
    /// Exists only beside the mark in the execution.
    pub(super) progress: Option<Arc<[u8]>>,
}

/// A flow whose members are being cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Backlog(pub(super) FlowKey);

/// An event as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outboxed {
    pub(super) event: Event,
    /// Its place in the feed, once it has one.
    pub(super) position: Option<Position>,
}

/// The tables, in no order that means anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TableName {
    Submission,
    Flow,
    Group,
    Execution,
    Edge,
    Attempt,
    Event,
    SiblingRequest,
    Request,
    Backlog,
    Summary,
    StreamHead,
    Subscription,
}

/// A row of some table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub(super) table: TableName,
    pub(super) slot: Slot,
}

impl TableName {
    pub(super) fn row(self, slot: Slot) -> Target {
        Target { table: self, slot }
    }

    /// The name in the schema.
    pub(super) fn name(self) -> &'static str {
        match self {
            TableName::Submission => "submission",
            TableName::Flow => "flow",
            TableName::Group => "edge_group",
            TableName::Execution => "execution",
            TableName::Edge => "edge",
            TableName::Attempt => "attempt",
            TableName::Event => "event",
            TableName::SiblingRequest => "sibling_request",
            TableName::Request => "request",
            TableName::Backlog => "cancel_backlog",
            TableName::Summary => "flow_summary",
            TableName::StreamHead => "stream_head",
            TableName::Subscription => "subscription",
        }
    }

    /// Inserts meet each other there without a lock that comes first and keeps them apart.
    pub(super) fn insert_may_wait(self) -> bool {
        matches!(
            self,
            TableName::Submission | TableName::Flow | TableName::Request | TableName::Subscription
        )
    }

    /// The place in the one lock order; `None` for tables that are covered by locks of another.
    pub(super) fn rank(self) -> Option<u8> {
        match self {
            TableName::Submission => Some(0),
            TableName::Flow => Some(1),
            TableName::Summary => Some(2),
            TableName::Group => Some(3),
            TableName::Execution => Some(4),
            TableName::SiblingRequest | TableName::Request | TableName::Backlog => Some(5),
            TableName::StreamHead => Some(6),
            TableName::Event => Some(7),
            TableName::Subscription => Some(8),
            TableName::Edge | TableName::Attempt => None,
        }
    }
}

/// A value that has a table.
pub(super) trait Stored: Sized {
    type Key: Ord + Clone + std::fmt::Debug;
    const TABLE: TableName;
    fn table(database: &Database) -> &Table<Self::Key, Self>;
    fn table_mut(database: &mut Database) -> &mut Table<Self::Key, Self>;
}

macro_rules! stored {
    ($($value:ty, $key:ty, $name:ident, $field:ident;)*) => { $(
        impl Stored for $value {
            type Key = $key;
            const TABLE: TableName = TableName::$name;
            fn table(database: &Database) -> &Table<$key, $value> { &database.$field }
            fn table_mut(database: &mut Database) -> &mut Table<$key, $value> {
                &mut database.$field
            }
        }
    )* };
}

stored! {
    Submission, SubmissionKey, Submission, submissions;
    Flow, FlowKey, Flow, flows;
    Group, ExecutionId, Group, groups;
    Member, ExecutionId, Execution, executions;
    Edge, EdgeKey, Edge, edges;
    Attempt, AttemptKey, Attempt, attempts;
    Outboxed, EventKey, Event, events;
    SiblingRequest, ExecutionId, SiblingRequest, sibling_requests;
    Request, RequestKey, Request, requests;
    Backlog, FlowKey, Backlog, backlog;
    Summary, FlowKey, Summary, summaries;
    StreamHead, StreamId, StreamHead, heads;
    Subscription, ConsumerName, Subscription, subscriptions;
}

/// Runs an expression on the table that a name stands for, borrowed as the brackets say.
macro_rules! on_table {
    ([$($borrow:tt)+] $database:expr, $name:expr, $table:ident => $body:expr) => {
        match $name {
            $crate::database::rows::TableName::Submission => {
                let $table = $($borrow)+ $database.submissions;
                $body
            }
            $crate::database::rows::TableName::Flow => {
                let $table = $($borrow)+ $database.flows;
                $body
            }
            $crate::database::rows::TableName::Group => {
                let $table = $($borrow)+ $database.groups;
                $body
            }
            $crate::database::rows::TableName::Execution => {
                let $table = $($borrow)+ $database.executions;
                $body
            }
            $crate::database::rows::TableName::Edge => {
                let $table = $($borrow)+ $database.edges;
                $body
            }
            $crate::database::rows::TableName::Attempt => {
                let $table = $($borrow)+ $database.attempts;
                $body
            }
            $crate::database::rows::TableName::Event => {
                let $table = $($borrow)+ $database.events;
                $body
            }
            $crate::database::rows::TableName::SiblingRequest => {
                let $table = $($borrow)+ $database.sibling_requests;
                $body
            }
            $crate::database::rows::TableName::Request => {
                let $table = $($borrow)+ $database.requests;
                $body
            }
            $crate::database::rows::TableName::Backlog => {
                let $table = $($borrow)+ $database.backlog;
                $body
            }
            $crate::database::rows::TableName::Summary => {
                let $table = $($borrow)+ $database.summaries;
                $body
            }
            $crate::database::rows::TableName::StreamHead => {
                let $table = $($borrow)+ $database.heads;
                $body
            }
            $crate::database::rows::TableName::Subscription => {
                let $table = $($borrow)+ $database.subscriptions;
                $body
            }
        }
    };
}
pub(super) use on_table;
