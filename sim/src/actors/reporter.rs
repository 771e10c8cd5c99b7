//! How a worker says how far it has come: now and then, sometimes twice, sometimes out of order,
//! and sometimes when its attempt is over.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::operations::claim::LeaseToken;
use sluicegate::storage::Storage;

use crate::actors::worker::holder;
use crate::actors::{Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::tape::{Chance, Site};

/// How long after its attempt a worker still speaks of it: others may have gone on meanwhile.
const LATE: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(3)];

/// The progress of one attempt.
pub(super) struct Reporter<'a, S> {
    stage: &'a Stage<S>,
    token: LeaseToken,
    /// The number of the last report.
    sequence: u64,
}

impl<'a, S: Storage> Reporter<'a, S> {
    pub(super) fn new(stage: &'a Stage<S>, token: LeaseToken) -> Self {
        Self { stage, token, sequence: 0 }
    }

    /// Says how far the work has come, if it does; false if the lease was lost.
    pub(super) async fn advance(&mut self) -> bool {
        if !self.stage.progress {
            return true;
        }
        let how = choose(Site::Progress, 4, Chance::Of(28_000));
        if how == 0 {
            return true;
        }
        self.sequence += 1;
        let held = self.report(self.sequence).await;
        match how {
            // As after a lost answer.
            2 => held && self.report(self.sequence).await,
            // As a report that was overtaken.
            3 => held && self.report(self.sequence - 1).await,
            _ => held,
        }
    }

    /// Speaks of what is over, as a process that does not know it. Only while faults are on: the
    /// time that it takes is nobody's who waits for the flow to drain.
    pub(super) async fn late(&mut self) {
        if !self.stage.progress || !world(|world| world.faults_on) {
            return;
        }
        let how = choose(Site::Progress, 3, Chance::Of(16_000));
        if how == 0 {
            return;
        }
        let pause = LATE[usize::from(how) - 1];
        SimEnvironment { actor: self.stage.actor }.sleep(pause).await;
        self.sequence += 1;
        self.report(self.sequence).await;
    }

    /// False if the lease was lost.
    async fn report(&self, sequence: u64) -> bool {
        let holder = holder(&self.token);
        let value: Arc<[u8]> = Arc::from(sequence.to_be_bytes());
        match self.stage.engine.progress(self.token, sequence, value).await {
            Ok(()) => {
                let behind = sequence < self.sequence;
                let condition =
                    if behind { Sometimes::ProgressOvertaken } else { Sometimes::Progressed };
                world(|world| world.tally.sometimes(condition));
                self.stage.observe(&Observation::Progressed { holder, sequence });
                true
            }
            Err(EngineError::LeaseLost(_)) => {
                world(|world| world.tally.sometimes(Sometimes::ProgressFenced));
                self.stage.observe(&Observation::LeaseLost { holder, end: None });
                false
            }
            // Whoever works goes on; the next report says more.
            Err(_) => true,
        }
    }
}
