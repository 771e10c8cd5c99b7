//! The dispatcher: one pass over what has ended and is not propagated.

use sluicegate::storage::{Scope, Storage};

use crate::actors::{Progress, Stage};
use crate::plan::EngineKind;
use crate::specimens::published;

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let pass = match stage.kind {
        EngineKind::Sluicegate => stage.engine.dispatch_pass(&Scope::default()).await,
        EngineKind::Published => published::dispatch_pass(stage).await,
    };
    match pass {
        Ok(report) if report.errors > 0 => Progress::Failed,
        Ok(report) if report.reconciled > 0 => Progress::Worked,
        Ok(_) => Progress::Idle,
        Err(_) => Progress::Failed,
    }
}
