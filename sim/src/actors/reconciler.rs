//! The reconciler: one tick of the dependency reconciler and one of the reaper.

use sluicegate::storage::{Scope, Storage};

use crate::actors::{Progress, Stage, Sweeps};
use crate::plan::EngineKind;
use crate::specimens::published;

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let scope = Scope::default();
    let reaped = stage.engine.reaper_tick(&scope).await;
    let advanced = match (stage.sweeps, stage.kind) {
        (Sweeps::ReaperOnly, _) => Ok(sluicegate::reconcile::Report::default()),
        (Sweeps::All, EngineKind::Sluicegate) => stage.engine.dependency_tick(&scope).await,
        (Sweeps::All, EngineKind::Published) => published::reconciler_tick(stage).await,
    };
    match (reaped, advanced) {
        (Ok(reaped), Ok(advanced)) if reaped.errors + advanced.errors == 0 => {
            match reaped.reconciled + advanced.reconciled {
                0 => Progress::Idle,
                _ => Progress::Worked,
            }
        }
        _ => Progress::Failed,
    }
}
