//! Works that measure tasks without edges: claimed and completed by four workers. Never hops.

use sluicegate::state::Outcome;

use super::{Bench, Peer, Sample, Scale, Work};
use crate::bench::ceilings::Ceiling;
use crate::bench::drive::{self, Way};
use crate::bench::figures::{Target, Unit};
use crate::bench::shapes::Shape;
use crate::bench::verify::Expected;

/// Flows over which the tasks are spread.
const FLOWS: usize = 4;
/// Tasks of a flow.
const TASKS: usize = 1_000;
/// Workers at once.
const WORKERS: usize = 4;
/// Tasks of a batch.
const BATCH: u32 = 50;

pub(super) const ONE_BY_ONE: Work = Work {
    name: "tasks",
    what: "4000 no-op tasks, 4 workers, claim and complete one by one",
    unit: Unit::Tasks,
    scale: Scale::Quick,
    ceiling: Some(Ceiling::Commits { clients: WORKERS }),
    postgres: Target::with_ratio(1_900.0, 0.13),
    sqlite: Target::with_ratio(1_900.0, 0.25),
    peer: Some(Peer { name: "graphile-worker", figure: 894.0 }),
    run: |bench| Box::pin(tasks(bench, Way::Calls { batch: 1 })),
};

pub(super) const FUSED: Work = Work {
    name: "tasks-fused",
    what: "the same by complete_and_claim",
    postgres: Target::with_ratio(2_900.0, 0.20),
    sqlite: Target::with_ratio(2_900.0, 0.25),
    run: |bench| Box::pin(tasks(bench, Way::Fused)),
    ..ONE_BY_ONE
};

pub(super) const BATCHED: Work = Work {
    name: "tasks-50",
    what: "the same, 50 to a claim and 50 to a report",
    postgres: Target::of(30_000.0),
    sqlite: Target::of(30_000.0),
    peer: Some(Peer { name: "pg-boss, batched", figure: 15_443.0 }),
    run: |bench| Box::pin(tasks(bench, Way::Calls { batch: BATCH })),
    ..ONE_BY_ONE
};

async fn tasks(bench: &Bench<'_>, way: Way) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::flat(TASKS);
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        flows.push(drive::submit(&ready.engine, &shape).await?);
    }
    ready.fresh.settle().await?;
    let (ended, wall) = ready.timed(drive::workers(&ready.engine, WORKERS, way)).await?;
    if ended != FLOWS * TASKS {
        return Err(format!("{ended} of {} tasks were completed", FLOWS * TASKS));
    }
    let expected: Vec<Expected<'_>> =
        flows.iter().map(|flow| Expected::all(&shape, *flow, Outcome::Succeeded)).collect();
    ready.verified(&expected).await?;
    Ok(Sample::rate(ended, wall))
}
