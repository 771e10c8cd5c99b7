//! What the world knows of a universe on a network: which actor each connection serves, who waits
//! for a lock, and what is to be done to hosts between two ticks. Never touches a host.

use std::task::Waker;

use sluicegate::storage::{StorageError, Verb};

use super::hosts;
use super::time::{Resting, Timers};
use crate::driver::strike;
use crate::driver::tally::Sometimes;
use crate::driver::world::{Permit, Slot, World};
use crate::faults::{FaultKind, Point};
use crate::history::ActorId;
use crate::tape::{Chance, Site};

/// Connections that the server takes.
const DESKS_MAX: usize = 100;
/// How long messages are held or lost: beyond a session, beyond a lease, briefly.
const DISTURBED_US: [i64; 3] = [16_000_000, 11_000_000, 2_000_000];

/// Which messages between a host and the database do not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disturbance {
    /// All of them come late.
    Hold,
    /// None does.
    Partition,
    /// Those to the database are lost.
    Requests,
    /// Those from the database are lost.
    Answers,
}

/// What is to be done once the present tick is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The processes of a host are killed.
    Kill { host: usize },
    /// The same, and the database hears nothing of it.
    Vanish { host: usize },
    /// Messages of a host do not arrive for a while.
    Disturb { host: usize, how: Disturbance, us: i64 },
    /// The server of the database is started anew.
    Restart,
    /// A row is damaged.
    Damage(FaultKind, Point),
}

/// Whom a connection serves.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    actor: ActorId,
    /// It ends before its answer is sent.
    cut: bool,
}

/// The network of a universe.
#[derive(Debug)]
pub(crate) struct Net {
    /// The actors; the slots behind theirs are those of connections.
    actors: usize,
    desks: Vec<Option<Served>>,
    waiters: Vec<Waker>,
    pub(super) orders: Vec<Order>,
    /// Hosts whose messages do not arrive, or that are down.
    pub(super) disturbed: [bool; hosts::NAMES.len()],
    /// Some task went on since that was last asked.
    polled: bool,
    pub(super) timers: Timers,
    /// The actors that are between two turns.
    pub(super) resting: Vec<Option<Resting>>,
    /// Who has nothing left to do in this universe.
    pub(super) done: Vec<bool>,
    /// What a task said that panicked.
    pub(super) said: Option<String>,
}

impl Net {
    pub(super) fn new(actors: usize) -> Self {
        Self {
            actors,
            desks: Vec::new(),
            waiters: Vec::new(),
            orders: Vec::new(),
            disturbed: [false; hosts::NAMES.len()],
            polled: false,
            timers: Timers::default(),
            resting: (0..actors).map(|_| None).collect(),
            done: vec![false; actors],
            said: None,
        }
    }
}

impl World {
    pub(super) fn net(&mut self) -> &mut Net {
        self.network.as_mut().expect("the universe is on a network")
    }

    /// A task goes on.
    pub(super) fn polled(&mut self) {
        if let Some(net) = &mut self.network {
            net.polled = true;
        }
    }

    /// True if some task went on since that was last asked: what it sent may be at its receiver
    /// already, where nobody sees it before the next tick.
    pub(super) fn take_polled(&mut self) -> bool {
        std::mem::take(&mut self.net().polled)
    }

    /// Lets virtual time come to an instant, unless it is past that.
    pub(super) fn reach(&mut self, now: i64) {
        let us = now - self.now;
        if us > 0 {
            self.pass(us);
        }
    }

    /// Opens a place for a connection.
    pub(super) fn open_desk(&mut self) -> Option<ActorId> {
        let net = self.net();
        let free = net.desks.iter().position(Option::is_none).unwrap_or(net.desks.len());
        if free == DESKS_MAX {
            return None;
        }
        if free == net.desks.len() {
            net.desks.push(None);
        }
        net.desks[free] = Some(Served::default());
        let slot = net.actors + free;
        if self.slots.len() == slot {
            self.slots.push(Slot::default());
        }
        self.slots[slot] = Slot::default();
        Some(ActorId::try_from(slot).expect("fewer than 256 actors and connections"))
    }

    /// Closes it; its transaction has gone.
    pub(super) fn close_desk(&mut self, desk: ActorId) {
        self.slots[usize::from(desk)] = Slot::default();
        let net = self.net();
        let at = usize::from(desk) - net.actors;
        net.desks[at] = None;
    }

    /// The connection works for that actor from now on.
    pub(super) fn serve(&mut self, desk: ActorId, actor: ActorId) {
        let net = self.net();
        let at = usize::from(desk) - net.actors;
        net.desks[at] = Some(Served { actor, cut: false });
    }

    /// Whether the connection ends before its answer is sent.
    pub(super) fn take_cut(&mut self, desk: ActorId) -> bool {
        let net = self.net();
        let at = usize::from(desk) - net.actors;
        net.desks[at].as_mut().is_some_and(|served| std::mem::take(&mut served.cut))
    }

    /// Whom a slot stands for: an actor for itself, a connection for the actor that it serves.
    pub(crate) fn on_behalf(&self, slot: ActorId) -> ActorId {
        let Some(net) = &self.network else { return slot };
        let desk = usize::from(slot).checked_sub(net.actors).and_then(|at| net.desks.get(at));
        desk.copied().flatten().map_or(slot, |served| served.actor)
    }

    /// Wakes whoever waits for a lock: somebody let one go.
    pub(crate) fn wake_waiters(&mut self) {
        if let Some(net) = &mut self.network {
            net.waiters.drain(..).for_each(Waker::wake);
        }
    }

    /// Takes note of who waits for a lock.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        self.net().waiters.push(waker.clone());
    }

    /// A task of a host panicked: nothing of this universe goes on.
    pub(super) fn panicked(&mut self, said: String) {
        for slot in &mut self.slots {
            slot.dead = true;
        }
        self.net().said.get_or_insert(said);
    }

    /// What strikes a statement that has reached the server, and what it may do.
    pub(crate) fn strike_served(&mut self, desk: ActorId, verb: Verb) -> Permit {
        let actor = self.on_behalf(desk);
        let point = Point::Statement(verb);
        self.trace.at_actor(actor);
        let Some(kind) = self.draw_fault(Site::Fault, point) else { return Permit::Run };
        if let Some(contention) = kind.contention() {
            return Permit::Fail(StorageError::Contention(contention));
        }
        if let Some(refusal) = kind.refusal() {
            return Permit::refused(verb, refusal);
        }
        match kind {
            FaultKind::CommitApplied => return Permit::CommitApplied,
            FaultKind::CommitLost => return Permit::CommitLost,
            FaultKind::CrashAfter => self.cut(desk),
            FaultKind::Crash => {
                self.cut(desk);
                self.strike_host(kind, hosts::of(self, actor), point);
                return Permit::Fail(StorageError::Unavailable("its client was killed".into()));
            }
            FaultKind::LingeringSession if self.slots[usize::from(desk)].session.is_none() => {
                // Without a session it is a crash, and counts as one.
                self.tally.recount(kind, FaultKind::Crash, point);
            }
            _ => {}
        }
        self.strike_host(kind, hosts::of(self, actor), point);
        Permit::Run
    }

    /// The answer of that connection is not sent.
    fn cut(&mut self, desk: ActorId) {
        let net = self.net();
        let at = usize::from(desk) - net.actors;
        if let Some(served) = &mut net.desks[at] {
            served.cut = true;
        }
    }

    /// A statement has begun to wait for a lock; what it fails with, if it does.
    pub(crate) fn strike_waiting(&mut self, desk: ActorId, verb: Verb) -> Option<StorageError> {
        let actor = self.on_behalf(desk);
        self.begins_to_wait();
        self.trace.at_actor(actor);
        self.trace.waits(self.now, actor, verb);
        let kind = self.draw_fault(Site::Wait, Point::Wait(verb))?;
        if let Some(contention) = kind.contention() {
            return Some(StorageError::Contention(contention));
        }
        self.strike_host(kind, hosts::of(self, actor), Point::Wait(verb));
        None
    }

    /// What a fault does to a host, or to everybody.
    pub(super) fn strike_host(&mut self, kind: FaultKind, host: usize, point: Point) {
        let order = match kind {
            FaultKind::Crash
            | FaultKind::CrashAfter
            | FaultKind::CrashWaiting
            | FaultKind::CrashAwait => Order::Kill { host },
            FaultKind::LingeringSession => {
                self.tally.sometimes(Sometimes::SessionLingered);
                Order::Vanish { host }
            }
            FaultKind::Pause => self.disturbance(host, Disturbance::Hold),
            FaultKind::Partition => self.disturbance(host, Disturbance::Partition),
            FaultKind::PartitionOneWay => {
                let drawn = self.tape.draw(Site::Detail, 2, Chance::Even);
                let how = [Disturbance::Answers, Disturbance::Requests][usize::from(drawn)];
                self.disturbance(host, how)
            }
            FaultKind::DatabaseCrash => {
                self.crash_database();
                Order::Restart
            }
            FaultKind::ClockForward | FaultKind::ClockBackward => {
                return strike::step_clock(self, kind);
            }
            FaultKind::ClockSkew => {
                let actors = hosts::actors(self, host);
                return actors.into_iter().for_each(|actor| strike::skew_clock(self, actor));
            }
            FaultKind::PoisonWork => match self.poison() {
                Some(victim) => {
                    self.trace.fault(self.now, kind);
                    Order::Kill { host: hosts::of_index(self, victim) }
                }
                None => return self.missed(kind, point),
            },
            kind => Order::Damage(kind, point),
        };
        let free = match order {
            Order::Kill { host } | Order::Vanish { host } | Order::Disturb { host, .. } => {
                !std::mem::replace(&mut self.net().disturbed[host], true)
            }
            Order::Restart | Order::Damage(..) => true,
        };
        // Of a host that is down already, or cannot be reached, nobody notices more.
        if free {
            self.net().orders.push(order);
        }
    }

    fn disturbance(&mut self, host: usize, how: Disturbance) -> Order {
        let drawn = self.tape.draw(Site::Detail, 3, Chance::Even);
        for actor in hosts::actors(self, host) {
            self.slots[actor].stood_still = true;
        }
        Order::Disturb { host, how, us: DISTURBED_US[usize::from(drawn)] }
    }
}
