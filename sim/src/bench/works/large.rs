//! Works on the largest flow that the engine's limits admit: a million edges. Hops must cost what
//! they cost in a small flow, and memory must not grow with the flow.

use sluicegate::identity::FlowKey;
use sluicegate::state::Outcome;

use super::{Bench, Ready, Sample, Scale, Work};
use crate::bench::drive::{self, Dispatchers};
use crate::bench::figures::{Spread, Target, Unit, rate};
use crate::bench::memory;
use crate::bench::shapes::Shape;
use crate::bench::verify::Expected;

/// Layers of the flow of a million edges, and of the one of ten thousand.
const LAYERS: (usize, usize) = (101, 2);
/// Nodes of a layer.
const WIDTH: usize = 500;
/// Inbound edges of a node.
const DEGREE: usize = 20;
/// Runs of the small flow beside one of the large one.
const SMALL_RUNS: usize = 5;
/// Nodes whose deadline is over before they could be claimed.
const DEADLINE_MS: u64 = 1;

pub(super) const HOP_COST: Work = Work {
    name: "large-hop-cost",
    what: "time of a hop in a flow of 1 000 000 edges over one of 10 000, all results at once",
    unit: Unit::Cost,
    scale: Scale::Full,
    ceiling: None,
    postgres: Target::of(1.5),
    sqlite: Target::of(1.5),
    peer: None,
    run: |bench| Box::pin(hop_cost(bench)),
};

pub(super) const MEMORY: Work = Work {
    name: "large-memory",
    what: "peak memory of the process that drains a flow of 1 000 000 edges",
    unit: Unit::Megabytes,
    postgres: Target::of(200.0),
    sqlite: Target::of(200.0),
    run: |bench| Box::pin(peak(bench)),
    ..HOP_COST
};

async fn hop_cost(bench: &Bench<'_>) -> Result<Sample, String> {
    let mut small = Vec::new();
    for _ in 0..SMALL_RUNS {
        small.push(cost(bench, LAYERS.1).await?.figure);
    }
    let large = cost(bench, LAYERS.0).await?;
    Ok(Sample { figure: large.figure / Spread::of(&small).median, units: large.units })
}

/// Seconds that a hop takes in a flow of so many layers.
async fn cost(bench: &Bench<'_>, layers: usize) -> Result<Sample, String> {
    let (ready, shape, flow) = expired(bench, layers).await?;
    let scope = drive::scope(flow);
    let (drained, _) = ready.timed(drive::drain(&ready.engine, Dispatchers::One, &scope)).await?;
    ready.verified(&[Expected::all(&shape, flow, Outcome::Expired)]).await?;
    let units = shape.edges.len();
    Ok(Sample { figure: 1.0 / rate(units, drained.wall), units })
}

async fn peak(bench: &Bench<'_>) -> Result<Sample, String> {
    let (ready, shape, flow) = expired(bench, LAYERS.0).await?;
    let bytes = memory::peak_of_drain(&ready.fresh).await?;
    ready.verified(&[Expected::all(&shape, flow, Outcome::Expired)]).await?;
    Ok(Sample { figure: memory::megabytes(bytes), units: shape.edges.len() })
}

/// A flow of so many layers, all of whose nodes have expired.
async fn expired(bench: &Bench<'_>, layers: usize) -> Result<(Ready, Shape, FlowKey), String> {
    let ready = bench.ready().await?;
    let shape = Shape::layers(layers, WIDTH, DEGREE).expiring(DEADLINE_MS);
    let flow = drive::submit(&ready.engine, &shape).await?;
    drive::expire(&ready.engine, shape.nodes).await?;
    ready.fresh.settle().await?;
    Ok((ready, shape, flow))
}
