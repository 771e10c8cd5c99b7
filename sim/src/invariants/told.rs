//! What actors were told in a universe, and what they asked for, as far as invariants ask for it
//! later. Never judges.

use std::sync::Arc;

use sluicegate::identity::{FlowKey, RequestId};
use sluicegate::replay::ReplayScope;
use sluicegate::storage::{AttemptEnd, EventKey, Position, Reported, RequestKey, Wanted};

use crate::history::{Commit, Holder, Observation};
use crate::mirror::{Mirror, Row, Table};

/// A report that was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// The lease that it carried.
    pub holder: Holder,
    /// Which report.
    pub end: AttemptEnd,
    /// What the reply said.
    pub reported: Reported,
}

impl Row for Acknowledged {
    type Key = Holder;
    fn key(&self) -> &Holder {
        &self.holder
    }
}

/// A submit that was told that it created its flow.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The id of the call.
    pub request: RequestId,
    /// The flow.
    pub flow: FlowKey,
}

impl Row for Created {
    type Key = RequestId;
    fn key(&self) -> &RequestId {
        &self.request
    }
}

/// A lease of which its worker was told.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// The lease.
    pub holder: Holder,
}

impl Row for Granted {
    type Key = Holder;
    fn key(&self) -> &Holder {
        &self.holder
    }
}

/// A replay that an operator has called for, whatever came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The id of the call.
    pub request: RequestId,
    /// The flow.
    pub flow: FlowKey,
    /// What is to start again.
    pub scope: ReplayScope,
}

impl Row for Asked {
    type Key = RequestId;
    fn key(&self) -> &RequestId {
        &self.request
    }
}

/// What a subscriber was handed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Which subscriber.
    pub subscriber: u8,
    /// The only namespace that it wants events of.
    pub namespace: Option<Arc<str>>,
    /// Which kinds of events it wants.
    pub wanted: Wanted,
    /// It goes on behind that place: nothing before it was there when it first opened its consumer,
    /// or it was told that it is gone.
    pub from: Position,
    /// The places of the events, in order, each once.
    pub positions: Vec<Position>,
}

impl Heard {
    /// True if events of that key are of a kind that it wants.
    pub fn wants(&self, key: &EventKey) -> bool {
        self.wanted.leases().is_none_or(|leases| leases == key.lease.is_some())
    }

    /// True if it was handed the event of that place.
    pub fn has(&self, position: Position) -> bool {
        self.positions.binary_search(&position).is_ok()
    }

    /// The furthest place of an event that it was handed.
    pub fn furthest(&self) -> Position {
        self.positions.last().copied().unwrap_or_default()
    }
}

impl Row for Heard {
    type Key = u8;
    fn key(&self) -> &u8 {
        &self.subscriber
    }
}

/// An extension that was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// The id of the call.
    pub request: RequestId,
    /// The revision that it was told.
    pub revision: u64,
}

impl Row for Growth {
    type Key = RequestId;
    fn key(&self) -> &RequestId {
        &self.request
    }
}

/// What actors were told in a universe.
#[derive(Clone, Debug, Default)]
pub struct Told {
    reports: Table<Acknowledged>,
    created: Table<Created>,
    grants: Table<Granted>,
    calls: Table<RequestKey>,
    heard: Table<Heard>,
    grown: Table<Growth>,
    asked: Table<Asked>,
}

impl Told {
    /// The replay that a call of that id was to be.
    pub fn replay(&self, request: RequestId) -> Option<&Asked> {
        self.asked.get(&request)
    }

    /// The acknowledged reports, by lease.
    pub fn reports(&self) -> &[Acknowledged] {
        self.reports.rows()
    }

    /// The first acknowledged report under that lease.
    pub fn report(&self, holder: &Holder) -> Option<&Acknowledged> {
        self.reports.get(holder)
    }

    /// True if a submit with that request id was told that it created its flow.
    pub fn created(&self, request: RequestId) -> bool {
        self.created.get(&request).is_some()
    }

    /// The submits that were told that they created their flow.
    pub fn all_created(&self) -> &[Created] {
        self.created.rows()
    }

    /// The leases of which workers were told.
    pub fn grants(&self) -> &[Granted] {
        self.grants.rows()
    }

    /// The answered calls that had a record of their own then.
    pub fn calls(&self) -> &[RequestKey] {
        self.calls.rows()
    }

    /// What each subscriber was handed, by its number.
    pub fn subscribers(&self) -> &[Heard] {
        self.heard.rows()
    }

    /// What a subscriber was handed, once it has opened its consumer.
    pub fn heard(&self, subscriber: u8) -> Option<&Heard> {
        self.heard.get(&subscriber)
    }

    /// The extensions that were acknowledged, by request id.
    pub fn extensions(&self) -> &[Growth] {
        self.grown.rows()
    }

    pub(super) fn record(&mut self, observation: &Observation, mirror: &Mirror) {
        match *observation {
            Observation::Granted { holder } => self.grants.insert_if_absent(&Granted { holder }),
            Observation::FlowCancelled { flow, request, .. } => {
                let key = RequestKey { flow, request };
                if mirror.request(key).is_some() {
                    self.calls.insert_if_absent(&key);
                }
            }
            Observation::Subscribed { subscriber, ref namespace, wanted, from } => {
                let (namespace, positions) = (namespace.clone(), Vec::new());
                self.heard.insert_if_absent(&Heard {
                    subscriber,
                    namespace,
                    wanted,
                    from,
                    positions,
                });
            }
            Observation::Expired { subscriber, oldest } => {
                if let Some(heard) = self.heard.get_mut(&subscriber) {
                    heard.from = heard.from.max(oldest);
                }
            }
            Observation::Delivered { subscriber, position, .. } => {
                if let Some(heard) = self.heard.get_mut(&subscriber)
                    && let Err(at) = heard.positions.binary_search(&position)
                {
                    heard.positions.insert(at, position);
                }
            }
            Observation::ReplayAsked { flow, request, scope } => {
                self.asked.insert_if_absent(&Asked { request, flow, scope });
            }
            // What starts nothing again leaves no record.
            Observation::Replayed { flow, request, ref members } if !members.is_empty() => {
                self.calls.insert_if_absent(&RequestKey { flow, request });
            }
            Observation::Reported { holder, end, reported } => {
                self.reports.insert_if_absent(&Acknowledged { holder, end, reported });
            }
            Observation::Extended { flow, request, revision } => {
                self.calls.insert_if_absent(&RequestKey { flow, request });
                self.grown.insert_if_absent(&Growth { request, revision });
            }
            Observation::Submitted { created: true, request, flow, .. } => {
                self.created.insert_if_absent(&Created { request, flow });
            }
            _ => {}
        }
    }

    /// Forgets everything and keeps the allocations.
    pub(super) fn reset(&mut self) {
        self.forget_calls();
        self.heard.clear();
    }

    /// A flow that was pruned takes along what was told of it; a universe has one.
    pub(super) fn forget(&mut self, commit: &Commit) {
        if commit.flows.iter().any(|change| change.after.is_none()) {
            self.forget_calls();
        }
    }

    fn forget_calls(&mut self) {
        self.reports.clear();
        self.created.clear();
        self.grants.clear();
        self.calls.clear();
        self.grown.clear();
        self.asked.clear();
    }

    /// Takes over what actors have asked for.
    pub(super) fn recall_asked(&mut self, lost: &Told) {
        for asked in lost.asked.rows() {
            self.asked.insert_if_absent(asked);
        }
    }
}
