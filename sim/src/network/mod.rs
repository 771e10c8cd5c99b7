//! The `network` lane: the actors on hosts of a simulated network, the database behind a storage
//! server on one of its own. Faults go on until flows have drained or the plan's time to heal has
//! come; then the phases are those of every lane. Never judges.
//!
//! The network is turmoil's: latency, order and loss of messages follow from the seed, everything
//! that strikes is drawn from the tape.

mod hosts;
mod remote;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod time;
mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use turmoil::{Builder, Sim};

use crate::driver::schedule::Settled;
use crate::driver::tally::Sometimes;
use crate::driver::universe::{End, Stores, Universe};
use crate::driver::world::{LOCK_TIMEOUT_US, Standing, World, world};
use crate::faults::Point;
use crate::random::SplitMix;
use crate::tape::{Chance, Site};

pub(crate) use state::Net;
use state::{Disturbance, Order};
pub(crate) use time::Timer;

/// The host of the database.
const DATABASE: &str = "database";
/// Where the storage server listens.
const PORT: u16 = 5_432;
const ANYWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
/// So much virtual time passes on every host before messages between them are looked at again. A
/// tick costs the same whatever it stands for, and twice as much as all that is done in it.
const TICK: Duration = Duration::from_millis(20);
/// The longest that messages take, by the seed.
const LATENCY_MAX: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(40), Duration::from_millis(120)];
/// Virtual time from a kill to the restart.
const RESTART_US: i64 = 400_000;
/// Virtual time that a plan's step to heal at stands for.
const STEP_US: i64 = 25_000;
/// Faults stop after so much virtual time.
const SAFETY_MAX_US: i64 = 40_000_000;
/// Virtual time between two instants at which a fault may strike of itself.
const AWAIT_US: i64 = 1_000_000;

/// The time that a host is to be as before.
struct Mend {
    at: i64,
    order: Order,
}

/// The safety phase of a universe, while it runs.
struct Play<'a> {
    universe: &'a Universe,
    sim: Sim<'a>,
    from_us: i64,
    /// Virtual time in which nobody had anything to do: no host saw it pass.
    skipped_us: i64,
    /// When a fault may next strike of itself.
    await_at: i64,
    /// Somebody has something to do that no message brings.
    awake: bool,
    mends: Vec<Mend>,
    /// Links on which messages are held.
    held: Vec<(IpAddr, IpAddr)>,
}

/// Takes storage and network away from everybody, before what they do is dropped.
struct Curtain;

impl Drop for Curtain {
    fn drop(&mut self) {
        world(|world| {
            for slot in &mut world.slots {
                slot.dead = true;
            }
        });
    }
}

impl Universe {
    /// Runs the actors on a network until nothing is left to do, the universe ends, or faults are
    /// to stop.
    pub(crate) fn settle_over_network(&mut self) -> Settled {
        let from_us = world(|world| {
            world.hosts = self.actors.iter().map(|one| hosts::place(one.role, one.nth)).collect();
            world.network = Some(Box::new(Net::new(self.actors.len())));
            world.now
        });
        let settled = {
            let mut play = Play::begin(self, from_us);
            let curtain = Curtain;
            let settled = play.run();
            drop(curtain);
            settled
        };
        wire::clear();
        let (done, said) = world(World::leave_network);
        if let Some(said) = said {
            panic!("{said}");
        }
        for (actor, done) in self.actors.iter_mut().zip(done) {
            actor.done |= done;
        }
        settled
    }
}

impl<'a> Play<'a> {
    fn begin(universe: &'a Universe, from_us: i64) -> Self {
        let mut random = SplitMix(universe.plan.ids_seed ^ 0x4E45_5457_4F52_4B00);
        let latency = LATENCY_MAX[usize::try_from(random.next() % 3).unwrap_or(0)];
        let mut sim = Builder::new()
            .tick_duration(TICK)
            .simulation_duration(Duration::MAX)
            .min_message_latency(Duration::ZERO)
            .max_message_latency(latency)
            .tcp_capacity(1_024)
            .rng_seed(random.next())
            .build();
        sim.host(DATABASE, move || server::listen(universe.stores.clone()));
        for (host, name) in hosts::NAMES.into_iter().enumerate() {
            sim.host(name, move || hosts::start(universe, host));
        }
        Self {
            universe,
            sim,
            from_us,
            skipped_us: 0,
            await_at: from_us + AWAIT_US,
            awake: true,
            mends: Vec::new(),
            held: Vec::new(),
        }
    }

    fn run(&mut self) -> Settled {
        let heal_after = i64::from(self.universe.plan.heal_after) * STEP_US;
        let safety_ends = self.from_us
            + match heal_after {
                0 => SAFETY_MAX_US,
                us => us.min(SAFETY_MAX_US),
            };
        loop {
            if std::mem::take(&mut self.awake) || self.messages_are_under_way() {
                self.sim.step().expect("hosts run until they are killed");
                world(|world| world.tally.steps += 1);
            } else {
                self.skip(safety_ends);
            }
            let now = self.now();
            let orders = world(|world| {
                world.reach(now);
                world.deliver_late();
                self.awake = world.take_polled() | world.time_out_waiters();
                if self.await_at <= now {
                    self.await_at = now + AWAIT_US;
                    world.strike_of_itself();
                }
                world.kill_the_poisoned();
                world.take_orders()
            });
            if let Some(violation) = world(|world| world.violation.take()) {
                return Settled::Ended(End::Violated(violation));
            }
            if world(|world| world.has_panicked()) {
                return Settled::Quiet;
            }
            for order in orders {
                self.awake = true;
                self.carry_out(order, now);
            }
            if world(|world| world.overdue.is_some() && world.faults_on) {
                self.universe.delete_next_request(Point::Await);
            }
            self.mend(now);
            if now >= safety_ends {
                return Settled::HealDue;
            }
            self.awake |= world(World::wake_the_due);
            let calm = self.mends.is_empty() && !self.awake && world(World::rests);
            if calm && self.universe.drained() {
                return Settled::Quiet;
            }
        }
    }

    fn now(&self) -> i64 {
        self.from_us + self.skipped_us + micros(self.sim.elapsed())
    }

    /// True if something will arrive on a link. What is held will not, and what was under way when
    /// a hold began may arrive as late as that.
    fn messages_are_under_way(&self) -> bool {
        let mut any = false;
        self.sim.links(|mut links| {
            any = links.any(|mut link| {
                let held = self.held.contains(&link.pair());
                !held && link.next().is_some()
            });
        });
        any
    }

    /// Lets the time pass in which nobody has anything to do: whole ticks, to the first instant at
    /// which something happens of itself.
    fn skip(&mut self, safety_ends: i64) {
        let mended = self.mends.iter().map(|mend| mend.at).min();
        let next = world(World::next_instant).into_iter().chain(mended);
        let next = next.chain([self.await_at, safety_ends]).min().unwrap_or(safety_ends);
        let tick = micros(TICK);
        self.skipped_us += ((next - self.now()).max(1) - 1) / tick * tick + tick;
    }

    fn carry_out(&mut self, order: Order, now: i64) {
        let again_at = match order {
            Order::Kill { host } => {
                self.kill(host);
                now + RESTART_US
            }
            Order::Vanish { host } => {
                self.sim.partition(hosts::NAMES[host], DATABASE);
                self.kill(host);
                now + RESTART_US
            }
            Order::Disturb { host, how, us } => {
                let name = hosts::NAMES[host];
                match how {
                    Disturbance::Hold => {
                        self.sim.hold(name, DATABASE);
                        self.held.push(self.link(name));
                    }
                    Disturbance::Partition => self.sim.partition(name, DATABASE),
                    Disturbance::Requests => self.sim.partition_oneway(name, DATABASE),
                    Disturbance::Answers => self.sim.partition_oneway(DATABASE, name),
                }
                now + us
            }
            Order::Restart => {
                self.restart();
                now + RESTART_US
            }
            Order::Damage(kind, point) => return self.universe.damage(kind, point),
        };
        self.mends.push(Mend { at: again_at, order });
    }

    /// The link between a host and the database, as the network names it.
    fn link(&self, name: &str) -> (IpAddr, IpAddr) {
        let (one, other) = (self.sim.lookup(name), self.sim.lookup(DATABASE));
        (one.min(other), one.max(other))
    }

    /// The server of the database is killed, with every session that it serves.
    fn restart(&mut self) {
        let Stores::Sqlite(lane) = &self.universe.stores else {
            return self.sim.crash(DATABASE);
        };
        lane.restart(|| self.sim.crash(DATABASE));
        world(|world| world.writer = None);
        self.universe.judge_restart();
    }

    fn kill(&mut self, host: usize) {
        world(|world| {
            for actor in hosts::actors(world, host) {
                world.slots[actor].dead = true;
            }
        });
        self.sim.crash(hosts::NAMES[host]);
    }

    /// What was struck long enough ago is as before.
    fn mend(&mut self, now: i64) {
        let due: Vec<Order> =
            self.mends.extract_if(.., |mend| mend.at <= now).map(|mend| mend.order).collect();
        for order in due {
            self.awake = true;
            let host = match order {
                Order::Kill { host } => {
                    self.sim.bounce(hosts::NAMES[host]);
                    host
                }
                Order::Vanish { host } => {
                    self.sim.repair(hosts::NAMES[host], DATABASE);
                    self.sim.bounce(hosts::NAMES[host]);
                    host
                }
                Order::Disturb { host, how, .. } => {
                    let name = hosts::NAMES[host];
                    match how {
                        Disturbance::Hold => {
                            self.sim.release(name, DATABASE);
                            let link = self.link(name);
                            self.held.retain(|held| *held != link);
                        }
                        Disturbance::Partition => self.sim.repair(name, DATABASE),
                        Disturbance::Requests => self.sim.repair_oneway(name, DATABASE),
                        Disturbance::Answers => self.sim.repair_oneway(DATABASE, name),
                    }
                    host
                }
                Order::Restart => {
                    self.sim.bounce(DATABASE);
                    continue;
                }
                Order::Damage(..) => continue,
            };
            world(|world| world.undisturbed(host));
        }
    }
}

impl World {
    fn take_orders(&mut self) -> Vec<Order> {
        self.network.as_mut().map(|net| std::mem::take(&mut net.orders)).unwrap_or_default()
    }

    fn has_panicked(&self) -> bool {
        self.network.as_ref().is_some_and(|net| net.said.is_some())
    }

    fn undisturbed(&mut self, host: usize) {
        if let Some(net) = &mut self.network {
            net.disturbed[host] = false;
        }
    }

    /// Lets those look again whose wait for a lock has lasted for the storage's limit; true if
    /// there are such.
    fn time_out_waiters(&mut self) -> bool {
        let over = |standing: &Standing| match standing {
            Standing::Waiting(since) => since + LOCK_TIMEOUT_US <= self.now,
            _ => false,
        };
        let any = self.slots.iter().any(|slot| over(&slot.standing));
        if any {
            self.wake_waiters();
        }
        any
    }

    /// A fault strikes a host that does nothing in particular.
    fn strike_of_itself(&mut self) {
        let Some(kind) = self.draw_fault(Site::Fault, Point::Await) else { return };
        let arity = u16::try_from(hosts::NAMES.len()).unwrap_or(1);
        let host = self.tape.draw(Site::Detail, arity, Chance::Even);
        self.strike_host(kind, usize::from(host), Point::Await);
    }

    /// Whoever works on what kills is killed.
    fn kill_the_poisoned(&mut self) {
        if self.poisonous.is_empty() {
            return;
        }
        for actor in 0..self.hosts.len() {
            let host = self.hosts[actor];
            let down = self.network.as_ref().is_none_or(|net| net.disturbed[host]);
            if self.works_on_poison(actor) && !down {
                self.tally.sometimes(Sometimes::PoisonKilledAgain);
                self.strike_host(crate::faults::FaultKind::CrashAwait, host, Point::Await);
            }
        }
    }

    /// The network is gone, and so is every session; says who is done, and what a task said that
    /// panicked.
    fn leave_network(&mut self) -> (Vec<bool>, Option<String>) {
        let Some(net) = self.network.take() else { return (Vec::new(), None) };
        let actors = self.hosts.len();
        for slot in &mut self.slots {
            slot.session = None;
        }
        self.database.abort_all();
        self.writer = None;
        self.slots.truncate(actors);
        self.slots.fill_with(Default::default);
        (net.done, net.said)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
