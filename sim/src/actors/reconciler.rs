//! The reconciler: one tick of every reconciler that may find something in this universe.

use sluicegate::EngineError;
use sluicegate::reconcile::Report;
use sluicegate::storage::{Scope, Storage};

use crate::actors::{Progress, Stage, Sweeps, reaping};
use crate::driver::world::world;
use crate::plan::EngineKind;
use crate::specimens::published;

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    match sweep(stage).await {
        Ok(report) if report.errors > 0 => Progress::Failed,
        Ok(report) if report.reconciled > 0 => Progress::Worked,
        Ok(_) => Progress::Idle,
        Err(_) => Progress::Failed,
    }
}

/// Every reconciler runs, whatever becomes of the one before it; the first error is the turn's.
async fn sweep<S: Storage>(stage: &Stage<S>) -> Result<Report, EngineError> {
    let scope = Scope::default();
    let mut ticks = vec![reaping::tick(stage, &scope).await];
    match (stage.sweeps, stage.kind) {
        (Sweeps::WithoutDependency, _) => {}
        (Sweeps::All, EngineKind::Sluicegate) => {
            ticks.push(stage.engine.dependency_tick(&scope).await);
        }
        (Sweeps::All, EngineKind::Published) => ticks.push(published::reconciler_tick(stage).await),
    }
    // What nobody can have asked for is not looked for.
    let added = stage.extensions.iter().flat_map(|extension| extension.groups.values());
    let mut policies = stage.flow.spec().groups.values().chain(added);
    let races = policies.any(|policy| policy.cancels_remaining());
    if (races || stage.operated) && stage.kind == EngineKind::Sluicegate {
        ticks.push(stage.engine.sibling_tick(&scope).await);
    }
    if stage.operated && stage.kind == EngineKind::Sluicegate {
        ticks.push(stage.engine.cancel_backlog_tick(&scope).await);
    }
    // Retention is longer than anybody repeats a submit.
    if stage.prunes && world(|world| world.clients_left == 0) {
        ticks.push(stage.engine.retention_tick(&scope).await);
    }
    let mut report = Report::default();
    for tick in ticks {
        report += tick?;
    }
    Ok(report)
}
