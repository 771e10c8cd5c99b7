//! Works that measure hops: a state is prepared by the engine's own calls, and the dispatchers that
//! drain it are timed. Never times the preparation.

use std::time::Duration;

use sluicegate::state::Outcome;
use sluicegate::storage::Scope;

use super::{Bench, Peer, Ready, Run, Running, Sample, Scale, Work};
use crate::bench::ceilings::Ceiling;
use crate::bench::drive::{self, Dispatchers};
use crate::bench::figures::{Target, Unit};
use crate::bench::shapes::{CHAIN_NODES, DIAMOND_LAYERS as LAYERS, DIAMOND_WIDTH, Shape};
use crate::bench::verify::Expected;

/// Edges of a fan.
const FAN: usize = 1_000;
/// The dispatchers of D = 4.
const FOUR: Dispatchers = Dispatchers::OfOneProcess(4);
/// Nodes whose deadline is over before they could be claimed.
const DEADLINE_MS: u64 = 1;
const ONE_COMMIT: Option<Ceiling> = Some(Ceiling::Commits { clients: 1 });
const SET_BASED: Option<Ceiling> = Some(Ceiling::SetBased);

const fn published(figure: f64) -> Peer {
    Peer { name: "published", figure }
}

/// A row that measures hops.
const fn cascade(name: &'static str, what: &'static str, run: Run) -> Work {
    Work {
        name,
        what,
        unit: Unit::Hops,
        scale: Scale::Quick,
        ceiling: SET_BASED,
        postgres: Target { ours: None, ratio: None },
        sqlite: Target { ours: None, ratio: None },
        peer: None,
        run,
    }
}

pub(super) const FAN_OUT: Work = Work {
    ceiling: ONE_COMMIT,
    postgres: Target::with_ratio(32_000.0, 4.0),
    sqlite: Target::of(32_000.0),
    peer: Some(published(1_252.0)),
    ..cascade("fan-out", "1 -> 1000, D = 1", |bench| Box::pin(fan_out(bench)))
};

pub(super) const FAN_IN: Work = Work {
    postgres: Target::of(40_000.0),
    sqlite: Target::of(40_000.0),
    peer: Some(published(528.0)),
    ..cascade("fan-in", "1000 -> 1, D = 1", |bench| Box::pin(fan_in(bench, Dispatchers::One)))
};

pub(super) const FAN_IN_BY_FOUR: Work = Work {
    postgres: Target::of(40_000.0),
    sqlite: Target::of(40_000.0),
    peer: Some(published(294.0)),
    ..cascade("fan-in-4", "1000 -> 1, D = 4", |bench| Box::pin(fan_in(bench, FOUR)))
};

pub(super) const FAN_IN_BY_FOUR_PROCESSES: Work = Work {
    peer: Some(published(294.0)),
    ..cascade("fan-in-processes", "1000 -> 1, a dispatcher each of 4 processes", |bench| {
        Box::pin(fan_in(bench, Dispatchers::OfProcesses(4)))
    })
};

pub(super) const FAN_IN_FOUR_TO_ONE: Work = Work {
    unit: Unit::Ratio,
    ceiling: None,
    postgres: Target::of(0.9),
    sqlite: Target::of(0.9),
    ..cascade("fan-in-4:1", "1000 -> 1, D = 4 over D = 1", four_to_one)
};

pub(super) const CHAIN_SKIP: Work = Work {
    postgres: Target::of(24_000.0),
    sqlite: Target::of(24_000.0),
    peer: Some(published(284.0)),
    ..cascade("chain-skip", "501 nodes, the root fails", |bench| Box::pin(skip(bench)))
};

pub(super) const CHAIN_SUCCESS: Work = Work {
    unit: Unit::Nodes,
    ceiling: ONE_COMMIT,
    postgres: Target::of(450.0),
    sqlite: Target::of(450.0),
    peer: Some(published(300.0)),
    ..cascade("chain-success", "501 nodes, one worker: claim, complete, hop", |bench| {
        Box::pin(success(bench))
    })
};

pub(super) const DIAMOND_LAYERS: Work = Work {
    postgres: Target::of(40_000.0),
    sqlite: Target::of(40_000.0),
    peer: Some(published(1_249.0)),
    ..cascade("diamond-layers", "50 x 20, layer by layer, D = 1", |bench| {
        Box::pin(layers(bench, Dispatchers::One))
    })
};

pub(super) const DIAMOND_LAYERS_BY_FOUR: Work = Work {
    postgres: Target::of(40_000.0),
    sqlite: Target::of(40_000.0),
    peer: Some(published(1_249.0)),
    ..cascade("diamond-layers-4", "50 x 20, layer by layer, D = 4", |bench| {
        Box::pin(layers(bench, FOUR))
    })
};

pub(super) const DIAMOND_AT_ONCE: Work = Work {
    postgres: Target::of(60_000.0),
    sqlite: Target::of(60_000.0),
    ..cascade("diamond-at-once", "50 x 20, all results at once, D = 1", |bench| {
        Box::pin(at_once(bench, Dispatchers::One))
    })
};

pub(super) const DIAMOND_AT_ONCE_BY_FOUR: Work = Work {
    postgres: Target::of(60_000.0),
    sqlite: Target::of(60_000.0),
    ..cascade("diamond-at-once-4", "50 x 20, all results at once, D = 4", |bench| {
        Box::pin(at_once(bench, FOUR))
    })
};

async fn fan_out(bench: &Bench<'_>) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::fan_out(FAN);
    let flow = drive::submit(&ready.engine, &shape).await?;
    drive::complete_ready(&ready.engine, 1).await?;
    let wall = ready.drain(Dispatchers::One, &drive::scope(flow)).await?;
    let expected = Expected::first(&shape, flow, 1, Outcome::Succeeded);
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(FAN, wall))
}

async fn fan_in(bench: &Bench<'_>, dispatchers: Dispatchers) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::fan_in(FAN);
    let flow = drive::submit(&ready.engine, &shape).await?;
    drive::complete_ready(&ready.engine, FAN).await?;
    let wall = ready.drain(dispatchers, &drive::scope(flow)).await?;
    let expected = Expected::first(&shape, flow, FAN, Outcome::Succeeded);
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(FAN, wall))
}

/// Both in one repeat, so that the machine is the same.
fn four_to_one<'a>(bench: &'a Bench<'a>) -> Running<'a> {
    Box::pin(async move {
        let one = fan_in(bench, Dispatchers::One).await?;
        let four = fan_in(bench, FOUR).await?;
        Ok(Sample { figure: four.figure / one.figure, units: one.units + four.units })
    })
}

async fn skip(bench: &Bench<'_>) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::chain(CHAIN_NODES);
    let flow = drive::submit(&ready.engine, &shape).await?;
    drive::fail_ready(&ready.engine).await?;
    let wall = ready.drain(Dispatchers::One, &drive::scope(flow)).await?;
    let expected = Expected::first(&shape, flow, 1, Outcome::Failed);
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(shape.edges.len(), wall))
}

async fn success(bench: &Bench<'_>) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::chain(CHAIN_NODES);
    let flow = drive::submit(&ready.engine, &shape).await?;
    ready.fresh.settle().await?;
    let (engine, scope) = (&ready.engine, drive::scope(flow));
    let run = async {
        for node in 0..CHAIN_NODES {
            let ended = drive::one(engine).await?;
            let report = engine.dispatch_pass(&scope).await.map_err(|error| error.to_string())?;
            let expected = u64::from(node + 1 < CHAIN_NODES);
            if !ended || report.scanned != expected || report.errors > 0 {
                return Err(format!("node {node} of the chain: {report:?}"));
            }
        }
        Ok(())
    };
    let ((), wall) = ready.timed(run).await?;
    let expected = Expected::all(&shape, flow, Outcome::Succeeded);
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(CHAIN_NODES, wall))
}

async fn layers(bench: &Bench<'_>, dispatchers: Dispatchers) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::diamond();
    let flow = drive::submit(&ready.engine, &shape).await?;
    let scope = drive::scope(flow);
    let mut wall = Duration::ZERO;
    for _ in 0..LAYERS {
        drive::complete_ready(&ready.engine, DIAMOND_WIDTH).await?;
        wall += ready.drain_unsettled(dispatchers, &scope).await?;
    }
    let expected = Expected::all(&shape, flow, Outcome::Succeeded);
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(shape.edges.len(), wall))
}

async fn at_once(bench: &Bench<'_>, dispatchers: Dispatchers) -> Result<Sample, String> {
    let ready = bench.ready().await?;
    let shape = Shape::diamond().expiring(DEADLINE_MS);
    let flow = drive::submit(&ready.engine, &shape).await?;
    drive::expire(&ready.engine, shape.nodes).await?;
    let wall = ready.drain(dispatchers, &drive::scope(flow)).await?;
    let expected = Expected::all(&shape, flow, Outcome::Expired);
    ready.verified(&[expected]).await?;
    Ok(Sample::rate(shape.edges.len(), wall))
}

impl Ready {
    /// Drains with a settled disk, and returns the time of it.
    async fn drain(&self, dispatchers: Dispatchers, scope: &Scope) -> Result<Duration, String> {
        self.fresh.settle().await?;
        self.drain_unsettled(dispatchers, scope).await
    }

    async fn drain_unsettled(
        &self,
        dispatchers: Dispatchers,
        scope: &Scope,
    ) -> Result<Duration, String> {
        let (drained, _) = self.timed(drive::drain(&self.engine, dispatchers, scope)).await?;
        Ok(drained.wall)
    }
}
