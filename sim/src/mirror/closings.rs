//! How flows were closed until a replay opened them again: nothing stored says so. Never judges.

use sluicegate::identity::FlowKey;
use sluicegate::state::ClosePolicy;
use sluicegate::storage::{Flow, RequestKey};

use super::{Mirror, Row};
use crate::history::Change;

/// How a flow is or was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closing {
    /// The call that closed it.
    pub closer: RequestKey,
    /// Under which policy.
    pub policy: ClosePolicy,
}

impl Row for Closing {
    type Key = RequestKey;
    fn key(&self) -> &RequestKey {
        &self.closer
    }
}

impl Closing {
    /// How a flow is closed; `None` if it is open.
    pub fn of(flow: &Flow) -> Option<Closing> {
        let (policy, request) = flow.closing.zip(flow.closed_by)?;
        Some(Closing { closer: RequestKey { flow: flow.key, request }, policy })
    }

    /// How a flow was closed that this change opens.
    pub fn ended(change: &Change<Flow>) -> Option<Closing> {
        let open = change.after.as_ref().is_some_and(|after| after.closing.is_none());
        change.before.as_ref().filter(|_| open).and_then(Closing::of)
    }
}

impl Mirror {
    /// How that flow was closed at times, and is no longer.
    pub fn closings(&self, flow: FlowKey) -> impl Iterator<Item = &Closing> {
        self.closings.rows.iter().filter(move |closing| closing.closer.flow == flow)
    }
}
