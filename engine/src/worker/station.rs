//! What the tasks of one worker share. Decides nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Engine;
use crate::environment::Host;
use crate::said::Quoting;
use crate::signal::Signal;
use crate::storage::Storage;
use crate::worker::handler::Handler;

/// How a worker works; the builder documents each.
pub(super) struct Settings {
    pub(super) name: Arc<str>,
    pub(super) instance: Arc<str>,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) partitions: Range<u16>,
    pub(super) lanes: Vec<Arc<str>>,
    pub(super) concurrency: u32,
    pub(super) lease: Duration,
    pub(super) grace: Duration,
    pub(super) farewell: Duration,
    pub(super) poll_least: Duration,
    pub(super) poll_most: Duration,
    pub(super) quoting: Quoting,
}

/// What a worker has done from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Leases that it was granted.
    pub granted: u64,
    /// Attempts whose report was accepted, releases among them.
    pub reported: u64,
    /// Attempts whose report was refused, most often because the lease was lost.
    pub refused: u64,
    /// Attempts that lost their lease and were not reported.
    pub lost: u64,
}

impl Totals {
    /// Leases that it held at its end because the storage did not answer; they run out.
    pub fn left_leased(&self) -> u64 {
        self.granted - self.reported - self.refused - self.lost
    }
}

pub(super) struct Station<S, H> {
    pub(super) engine: Engine<S, H>,
    /// The engine that renews, perhaps on connections of its own.
    pub(super) renewals: Engine<S, H>,
    pub(super) handlers: BTreeMap<Arc<str>, Handler>,
    pub(super) settings: Settings,
    /// No more claims; handlers are told to finish.
    pub(super) closing: Signal<()>,
    /// The grace period is over; handlers are stopped.
    pub(super) overtime: Signal<()>,
    /// Calls are not repeated any more.
    pub(super) end: Signal<()>,
    pub(super) totals: Mutex<Totals>,
}

impl<S: Storage, H: Host> Station<S, H> {
    pub(super) fn host(&self) -> &H {
        self.engine.environment()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
