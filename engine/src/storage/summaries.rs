//! The rows behind a flow's summary that cross the storage seam. Plain data.

use uuid::Uuid;

use crate::identity::{FlowId, FlowKey, Partition};
use crate::storage::Scope;
use crate::summary::{FlowStatus, StateCounts};
use crate::time::Timestamp;

/// Number of a change row; grows with insertion, not with commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ChangeId(pub u64);

/// What the projector knows of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Summary {
    /// The flow.
    pub flow: FlowKey,
    /// Its executions by stored state: time alone changes none of them.
    pub counts: StateCounts,
    /// How it stands as a whole; the one mark that a flow is over.
    pub status: FlowStatus,
    /// When its last execution ended; exists exactly while the status is a terminal one.
    pub ended_at: Option<Timestamp>,
    /// The highest number of the change rows that it includes. Says nothing of lower numbers: a
    /// transaction that drew one may commit later.
    pub last_change: ChangeId,
}

/// A flow that is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndedFlow {
    /// When its last execution ended.
    pub ended_at: Timestamp,
    /// The flow.
    pub flow: FlowKey,
}

impl EndedFlow {
    /// Before every flow.
    pub const FIRST: EndedFlow = EndedFlow {
        ended_at: Timestamp(i64::MIN),
        flow: FlowKey { partition: Partition(0), id: FlowId(Uuid::nil()) },
    };
}

/// A page of flows that are over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedScan {
    /// Which flows; applied before the limit.
    pub scope: Scope,
    /// Those that had ended by then.
    pub ended_by: Timestamp,
    /// Exclusive cursor.
    pub after: Option<EndedFlow>,
    /// At most so many.
    pub limit: u32,
}

/// What is counted of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CountQuery {
    /// The flow.
    pub flow: FlowKey,
    /// Ready executions that are not to be claimed before a later instant are told apart; `None`
    /// tells none apart.
    pub now: Option<Timestamp>,
}
