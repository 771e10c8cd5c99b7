//! The projector: one tick over the flows that have change rows.

use sluicegate::storage::{Scope, Storage};

use crate::actors::{Progress, Stage};

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    match stage.engine.summary_tick(&Scope::default()).await {
        Ok(report) if report.errors > 0 => Progress::Failed,
        Ok(report) if report.reconciled > 0 => Progress::Worked,
        Ok(_) => Progress::Idle,
        Err(_) => Progress::Failed,
    }
}
