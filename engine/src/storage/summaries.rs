//! The rows behind a flow's summary that cross the storage seam. Plain data.

use crate::identity::FlowKey;
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

/// What is counted of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CountQuery {
    /// The flow.
    pub flow: FlowKey,
    /// Ready executions that are not to be claimed before a later instant are told apart; `None`
    /// tells none apart.
    pub now: Option<Timestamp>,
}
