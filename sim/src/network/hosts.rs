//! The hosts: which actors are on which, and what a process does as long as it lives. Never decides
//! when one is killed.

use std::future::{Future, poll_fn};
use std::task::Poll;

use sluicegate::storage::boxed::BoxStorage;

use super::remote::RemoteStorage;
use super::time;
use crate::actors::reaping::Reaping;
use crate::actors::{self, Progress, Role, Stage};
use crate::driver::Universe;
use crate::driver::universe::{id, tries_again_in};
use crate::driver::world::{Slot, World, world};
use crate::history::ActorId;
use crate::panics::guarded;

/// The hosts beside the database's; each costs time at every tick, and so does each pair of them.
pub(super) const NAMES: [&str; 5] = ["client", "worker-1", "worker-2", "keeper-1", "keeper-2"];

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
                world.net().resting[index] = None;
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
        let looked = world(|world| {
            world.trace.began(world.now, id(index));
            world.looks(index, role)
        });
        let progress = actors::turn(role, stage.clone()).await;
        world(|world| {
            world.slots[index].stood_still = false;
            world.trace.ended(world.now, id(index), progress != Progress::Failed);
        });
        match progress {
            Progress::Worked | Progress::Failed | Progress::Idle => {
                time::rest(index, looked, progress, tries_again_in(&stage.engine)).await;
            }
            Progress::Done => return world(|world| world.done(index, role)),
        }
    }
}

/// A task whose panic ends the universe, with its words.
pub(super) async fn contained(task: impl Future<Output = ()>) {
    let mut task = Box::pin(task);
    poll_fn(|context| {
        world(World::polled);
        match guarded(|| task.as_mut().poll(context)) {
            Ok(polled) => polled,
            Err(said) => {
                world(|world| world.panicked(said));
                Poll::Ready(())
            }
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
}
