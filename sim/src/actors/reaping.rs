//! The reaper's tick, and what a reconciler process can tell of the storage's clock by its own:
//! whether that clock has stepped forward since its last tick, so that leases are to be let go on.

use sluicegate::reconcile::Report;
use sluicegate::storage::{Scope, Storage};
use sluicegate::{EngineError, Settings};

use crate::actors::{Stage, worker};
use crate::driver::tally::Sometimes;
use crate::driver::world::{World, world};
use crate::history::Observation;

/// What a process knows after a tick of its reaper.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reaping {
    /// The last tick, if the clock did not step in the middle of it.
    last: Option<Tick>,
    /// Until then leases go on, in virtual time.
    grace_until: i64,
}

/// A tick that has read the clock, and the clock while it did.
#[derive(Clone, Copy, Debug)]
struct Tick {
    /// How long it took: an answer within it may have been as slow, and hides a step as large.
    took: i64,
    /// How far the storage's clock stood before virtual time.
    offset: i64,
}

/// The clocks at an instant.
#[derive(Clone, Copy)]
struct Instant {
    now: i64,
    offset: i64,
    steps: u32,
}

impl Instant {
    fn of(world: &World) -> Self {
        Self { now: world.now, offset: world.clock_offset, steps: world.clock_steps }
    }
}

pub(crate) async fn tick<S: Storage>(
    stage: &Stage<S>,
    scope: &Scope,
) -> Result<Report, EngineError> {
    let began = world(|world| Instant::of(world));
    let ticked = stage.engine.reaper_tick(scope).await;
    let lets_go_on = world(|world| {
        let ended = Instant::of(world);
        let reaping = &mut world.reaping[usize::from(stage.actor)];
        reaping.next(began, ended, ticked.is_ok())
    });
    if let Ok(report) = &ticked
        && lets_go_on
    {
        world(|world| world.tally.sometimes(Sometimes::LeasesLetGoOn));
        stage.observe(&Observation::LetGoOn { ended: report.reconciled });
    }
    ticked
}

impl Reaping {
    /// Takes a tick in; true if it had to let leases go on.
    fn next(&mut self, began: Instant, ended: Instant, ok: bool) -> bool {
        let took = ended.now - began.now;
        let steady = ok && began.steps == ended.steps;
        let step_max = Settings::default().clock_step_max.as_micros();
        let step_max = i64::try_from(step_max).expect("a step is shorter than time");
        let lease = i64::try_from(worker::LEASE.as_micros()).expect("a lease is shorter than time");
        if let Some(last) = self.last
            && steady
            && began.offset - last.offset > step_max + last.took + took
        {
            self.grace_until = began.now + lease;
        }
        self.last = steady.then_some(Tick { took, offset: began.offset });
        ended.now < self.grace_until
    }
}
