//! The rows of calls that change a flow as a whole: requests with their replies, and what is read
//! to serve them. Plain data with no storage behind it.

use std::sync::Arc;

use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::policy::{Decision, JoinPolicy};
use crate::state::State;
use crate::storage::{EdgeKey, Scope};

/// A call that changes a flow, by its request id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestKey {
    /// The flow that it changes.
    pub flow: FlowKey,
    /// The caller's id of the call.
    pub request: RequestId,
}

/// A call that took effect, with what it answered; kept as long as its flow.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// Which call.
    pub key: RequestKey,
    /// Hash of what the caller asked for: another question under the same id is a conflict.
    pub content_hash: [u8; 32],
    /// What it answered, in the form of the operation that wrote it.
    pub reply: Arc<[u8]>,
}

/// A member of a flow that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// Its id.
    pub id: ExecutionId,
    /// Its state; never a terminal one.
    pub state: State,
}

/// A page of the members of a flow that have not ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemberQuery {
    /// The flow.
    pub flow: FlowKey,
    /// Exclusive cursor.
    pub after: Option<ExecutionId>,
    /// At most so many.
    pub limit: u32,
}

/// A group that waits for an upstream, or was decided without it, beside the pending edge between
/// the two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FedGroup {
    /// The edge; its downstream names the group.
    pub edge: EdgeKey,
    /// How the group decides.
    pub policy: JoinPolicy,
    /// Its decision.
    pub decision: Decision,
}

/// A keyset page of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowPage {
    /// What it looks at.
    pub scope: Scope,
    /// Exclusive cursor.
    pub after: Option<FlowKey>,
    /// At most so many rows.
    pub limit: u32,
}
