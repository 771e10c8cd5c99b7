//! The hosts: which actors are on which, and what a process does as long as it lives. Never decides
//! when one is killed.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use sluicegate::storage::boxed::BoxStorage;

use super::remote::RemoteStorage;
use crate::actors::reaping::Reaping;
use crate::actors::{self, Progress, Role, Stage};
use crate::driver::Universe;
use crate::driver::universe::id;
use crate::driver::world::{Slot, World, world};
use crate::history::ActorId;
use crate::panics::guarded;

/// The hosts beside the database's; each costs time at every tick, and so does each pair of them.
pub(super) const NAMES: [&str; 5] = ["client", "worker-1", "worker-2", "keeper-1", "keeper-2"];

/// The wait of one that found nothing to do.
const POLL: Duration = Duration::from_secs(1);
/// The wait of one that failed.
const RETRY: Duration = Duration::from_millis(100);
/// How often a dispatcher looks whether a notification has come.
const LISTEN: Duration = Duration::from_millis(100);

/// The host of an actor: two of a role that does the work are never on one.
pub(super) fn place(role: Role, nth: u8) -> usize {
    let nth = usize::from(nth % 2);
    match role {
        Role::Client | Role::Operator | Role::Extender | Role::Resumer | Role::Subscriber => 0,
        Role::Worker => 1 + nth,
        Role::Dispatcher | Role::Reconciler | Role::Projector | Role::Sequencer => 3 + nth,
    }
}

/// The host of an actor.
pub(super) fn of(world: &World, actor: ActorId) -> usize {
    of_index(world, usize::from(actor))
}

/// The same by its position.
pub(super) fn of_index(world: &World, actor: usize) -> usize {
    world.hosts[actor]
}

/// The actors of a host.
pub(super) fn actors(world: &World, host: usize) -> Vec<usize> {
    (0..world.hosts.len()).filter(|actor| world.hosts[*actor] == host).collect()
}

/// Starts the processes of a host; what they do until they are killed.
pub(super) fn start(
    universe: &Universe,
    host: usize,
) -> impl Future<Output = turmoil::Result> + use<> {
    let seats: Vec<usize> = world(|world| actors(world, host));
    let stages: Vec<_> = seats
        .into_iter()
        .filter(|index| !universe.actors[*index].done && !world(|world| world.is_done(*index)))
        .map(|index| {
            world(|world| {
                world.slots[index] = Slot::default();
                world.reaping[index] = Reaping::default();
            });
            let storage = BoxStorage::new(RemoteStorage::new(id(index)));
            let engine = universe.engine(index, storage);
            let role = universe.actors[index].role;
            (index, role, universe.stage(index, engine))
        })
        .collect();
    async move {
        for (index, role, stage) in stages {
            tokio::task::spawn_local(contained(live(index, role, stage)));
        }
        std::future::pending().await
    }
}

/// One turn after the other.
async fn live(index: usize, role: Role, stage: Stage<BoxStorage>) {
    loop {
        world(|world| {
            world.read_network_clock();
            world.slots[index].noticed = false;
            world.trace.began(world.now, id(index));
        });
        let began_at = world(|world| world.now);
        let progress = actors::turn(role, stage.clone()).await;
        world(|world| {
            world.read_network_clock();
            world.slots[index].stood_still = false;
            world.trace.ended(world.now, id(index), progress != Progress::Failed);
            let rested = matches!(progress, Progress::Idle | Progress::Done);
            world.rest(index, rested.then_some(began_at));
        });
        match progress {
            Progress::Worked => tokio::task::yield_now().await,
            Progress::Failed => tokio::time::sleep(RETRY).await,
            Progress::Idle if role == Role::Dispatcher => listen(index).await,
            Progress::Idle => tokio::time::sleep(POLL).await,
            Progress::Done => return world(|world| world.done(index, role)),
        }
    }
}

/// Waits for a notification, or for the time to look anyway.
async fn listen(index: usize) {
    let mut left = POLL;
    while !left.is_zero() && !world(|world| world.slots[index].noticed) {
        tokio::time::sleep(LISTEN).await;
        left = left.saturating_sub(LISTEN);
    }
}

/// A task whose panic ends the universe, with its words.
pub(super) async fn contained(task: impl Future<Output = ()>) {
    let mut task = Box::pin(task);
    poll_fn(|context| match guarded(|| task.as_mut().poll(context)) {
        Ok(polled) => polled,
        Err(said) => {
            world(|world| world.panicked(said));
            Poll::Ready(())
        }
    })
    .await;
}

impl World {
    fn is_done(&self, index: usize) -> bool {
        self.network.as_ref().is_some_and(|net| net.done[index])
    }

    /// An actor has nothing left to do in this universe.
    fn done(&mut self, index: usize, role: Role) {
        let Some(net) = &mut self.network else { return };
        if !std::mem::replace(&mut net.done[index], true) && role == Role::Client {
            self.clients_left = self.clients_left.saturating_sub(1);
        }
    }

    /// An actor found nothing to do, from then on, or did something.
    fn rest(&mut self, index: usize, from: Option<i64>) {
        if let Some(net) = &mut self.network {
            net.rested_at[index] = from;
        }
    }
}
