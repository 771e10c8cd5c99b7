//! What happened, as a rolling hash always and as entries on replay. The quiet path formats
//! nothing.

use sluicegate::storage::Verb;

use crate::faults::FaultKind;
use crate::history::{ActorId, Commit, Observation};

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Virtual microseconds since the universe began.
    pub at_us: i64,
    /// Who did it.
    pub actor: ActorId,
    /// What it was.
    pub what: What,
}

/// The kinds of things that happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// An actor began a piece of work.
    Began,
    /// An actor ended a piece of work; false if it failed.
    Ended(bool),
    /// A statement was answered, or failed.
    Statement(Verb, bool),
    /// A statement began to wait for a row lock.
    Waits(Verb),
    /// A fault struck.
    Fault(FaultKind),
    /// A commit wrote.
    Committed(Box<Commit>),
    /// An actor was told something.
    Told(Observation),
    /// Faults stopped, and a part of the liveness phase began.
    Healed(&'static str),
    /// The storage acted by itself.
    Storage(&'static str),
}

/// The hash and, if asked for, the entries.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: u64,
    entries: Option<Vec<Entry>>,
    actor: ActorId,
}

impl Trace {
    /// Starts over, keeping the choice whether to keep entries.
    pub(crate) fn begin(&mut self) {
        self.hash = 0xCBF2_9CE4_8422_2325;
        if let Some(entries) = &mut self.entries {
            entries.clear();
        }
        self.actor = 0;
    }

    /// Keeps entries from now on, or no longer.
    pub(crate) fn keep_entries(&mut self, keep: bool) {
        self.entries = keep.then(Vec::new);
    }

    /// The entries kept.
    pub(crate) fn take_entries(&mut self) -> Vec<Entry> {
        self.entries.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The hash of everything since the start.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Restores the hash of an earlier state.
    pub(crate) fn restore(&mut self, hash: u64) {
        self.hash = hash;
    }

    pub(crate) fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    fn push(&mut self, at_us: i64, actor: ActorId, what: impl FnOnce() -> What) {
        if let Some(entries) = &mut self.entries {
            entries.push(Entry { at_us, actor, what: what() });
        }
    }

    pub(crate) fn began(&mut self, at_us: i64, actor: ActorId) {
        self.actor = actor;
        self.mix(0x100 | u64::from(actor));
        self.push(at_us, actor, || What::Began);
    }

    pub(crate) fn ended(&mut self, at_us: i64, actor: ActorId, well: bool) {
        self.mix(0x200 | u64::from(actor));
        self.push(at_us, actor, || What::Ended(well));
    }

    pub(crate) fn statement(&mut self, at_us: i64, actor: ActorId, verb: Verb, well: bool) {
        self.actor = actor;
        self.mix(
            0x1_0000
                | u64::from(well) << 20
                | (verb as u64) << 8
                | u64::from(actor)
                | at_us.unsigned_abs() << 24,
        );
        self.push(at_us, actor, || What::Statement(verb, well));
    }

    pub(crate) fn waits(&mut self, at_us: i64, actor: ActorId, verb: Verb) {
        self.mix(0x2_0000 | (verb as u64) << 8 | u64::from(actor));
        self.push(at_us, actor, || What::Waits(verb));
    }

    /// The actor that a fault strikes.
    pub(crate) fn at_actor(&mut self, actor: ActorId) {
        self.actor = actor;
    }

    pub(crate) fn fault(&mut self, at_us: i64, kind: FaultKind) {
        self.mix(0x4_0000 | kind as u64);
        let actor = self.actor;
        self.push(at_us, actor, || What::Fault(kind));
    }

    pub(crate) fn commit(&mut self, at_us: i64, commit: &Commit) {
        for change in &commit.executions {
            if let Some(after) = &change.after {
                let (high, low) = after.id.uuid.as_u64_pair();
                self.mix(high ^ low ^ u64::from(after.state.code()) ^ after.epoch << 8);
                self.mix(u64::from(after.charged) | u64::from(after.propagated) << 32);
            }
        }
        for change in &commit.edges {
            if let Some(after) = &change.after {
                self.mix(after.key.upstream.uuid.as_u64_pair().1 ^ after.resolution as u64);
            }
        }
        self.mix(commit.events.len() as u64 | (commit.groups.len() as u64) << 32);
        self.push(at_us, commit.actor, || What::Committed(Box::new(commit.clone())));
    }

    pub(crate) fn observe(&mut self, at_us: i64, actor: ActorId, observation: &Observation) {
        self.mix(match observation {
            Observation::Submitted { created, .. } => 0x8_0000 | u64::from(*created),
            Observation::Reported { holder, .. } => 0x8_0100 | holder.epoch << 20,
            Observation::LeaseLost { holder, .. } => 0x8_0200 | holder.epoch << 20,
            Observation::ReportContended { holder, .. } => 0x8_0800 | holder.epoch << 20,
            Observation::FlowCancelled { cancelled, done, .. } => {
                0x8_0400 | (cancelled.len() as u64) << 20 | u64::from(*done)
            }
            Observation::ExecutionCancelled { ended, .. } => 0x8_0500 | u64::from(ended.is_some()),
            Observation::FlowTagged { request, .. } => 0x8_0900 | request.0.as_u64_pair().1 << 20,
            Observation::Resumed { epoch, reported, .. } => {
                0x8_0a00 | epoch << 20 | u64::from(reported.is_some())
            }
            Observation::Extended { revision, .. } => 0x8_0b00 | *revision << 20,
            Observation::ReplayAsked { .. } => 0x8_0c00,
            Observation::Replayed { members, .. } => 0x8_0c01 | (members.len() as u64) << 20,
            Observation::Passed { holder, inputs } => {
                0x8_0d00 | holder.epoch << 20 | inputs.len() as u64
            }
            Observation::TooLarge { executions } => 0x8_1200 | (*executions as u64) << 20,
            Observation::Garbled { holder, payload } => {
                0x8_1100 | holder.epoch << 20 | (payload.len() as u64) << 40
            }
            Observation::Progressed { holder, sequence } => {
                0x8_0e00 | holder.epoch << 20 | sequence << 40
            }
            Observation::Granted { holder } => 0x8_0300 | holder.epoch << 20,
            Observation::GivenUp { ended, .. } => 0x8_0f00 | u64::from(ended.is_some()) << 20,
            Observation::ListedFlows { flows, .. } => 0x8_0400 | (flows.len() as u64) << 20,
            Observation::ListedExecutions { executions, .. } => {
                0x8_0500 | (executions.len() as u64) << 20
            }
            Observation::Subscribed { subscriber, .. } => 0x8_0600 | u64::from(*subscriber),
            Observation::Expired { subscriber, oldest } => {
                0x8_0700 | u64::from(*subscriber) | oldest.0 << 32
            }
            Observation::LetGoOn { ended } => 0x8_1000 | ended << 20,
            Observation::Delivered { position, .. } => 0x8_0700 | position.0 << 20,
        });
        self.push(at_us, actor, || What::Told(observation.clone()));
    }

    pub(crate) fn healed(&mut self, at_us: i64, part: &'static str) {
        self.mix(0x10_0000);
        self.push(at_us, 0, || What::Healed(part));
    }

    pub(crate) fn storage(&mut self, at_us: i64, actor: ActorId, what: &'static str) {
        self.mix(0x20_0000);
        self.push(at_us, actor, || What::Storage(what));
    }
}
