//! The sequencer: one tick, which gives events their places in the feed.

use sluicegate::storage::{Scope, Storage};

use crate::actors::{Progress, Stage};

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    match stage.engine.sequencer_tick(&Scope::default()).await {
        Ok(report) if report.reconciled > 0 => Progress::Worked,
        Ok(_) => Progress::Idle,
        Err(_) => Progress::Failed,
    }
}
