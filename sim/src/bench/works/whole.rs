//! Works that measure one call: a submit, and the migrations of an empty database.

use super::{Bench, Peer, Sample, Scale, Work};
use crate::bench::ceilings::Ceiling;
use crate::bench::drive::{self, Dispatchers};
use crate::bench::figures::{Target, Unit};
use crate::bench::shapes::Shape;
use crate::bench::verify::{Expected, verify};
use crate::report::progress::Stopwatch;

pub(super) const SUBMIT: Work = Work {
    name: "submit",
    what: "a diamond of 1000 nodes: validate, hash, insert",
    unit: Unit::Nodes,
    scale: Scale::Quick,
    ceiling: Some(Ceiling::SetBased),
    postgres: Target::of(28_000.0),
    sqlite: Target::of(28_000.0),
    peer: Some(Peer { name: "published", figure: 257.0 }),
    run: |bench| Box::pin(submit(bench)),
};

pub(super) const MIGRATIONS: Work = Work {
    name: "migrations",
    what: "open an empty database",
    unit: Unit::Seconds,
    scale: Scale::Quick,
    ceiling: None,
    postgres: Target::of(1.0),
    sqlite: Target::of(1.0),
    peer: Some(Peer { name: "published", figure: 44.5 }),
    run: |bench| Box::pin(migrations(bench)),
};

async fn submit(bench: &Bench<'_>) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::diamond();
    let spec = shape.spec();
    ready.fresh.settle().await?;
    let call = async { ready.engine.submit(spec).await.map_err(|error| error.to_string()) };
    let (submitted, wall) = ready.timed(call).await?;
    let expected =
        Expected { shape: &shape, flow: submitted.flow(), ended: vec![None; shape.nodes] };
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(shape.nodes, wall))
}

/// Verified by a small flow that runs to its end.
async fn migrations(bench: &Bench<'_>) -> Result<Sample, String> {
    let watch = Stopwatch::start();
    let fresh = bench.place.fresh(bench.counters.as_ref()).await?;
    let wall = watch.elapsed();
    let engine = drive::handle(&fresh.storage);
    let shape = Shape::chain(2);
    let flow = drive::submit(&engine, &shape).await?;
    for _ in 0..shape.nodes {
        drive::complete_ready(&engine, 1).await?;
        drive::drain(&engine, Dispatchers::One, &drive::scope(flow)).await?;
    }
    let outcome = sluicegate::state::Outcome::Succeeded;
    let verdict = verify(&fresh.storage, &[Expected::all(&shape, flow, outcome)]).await;
    fresh.close().await?;
    verdict?;
    Ok(Sample { figure: wall.as_secs_f64(), units: 1 })
}
