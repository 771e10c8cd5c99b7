//! What faults do: kill, linger, stand still, fail, lose answers, step the clock. Never decides
//! when one strikes; that is drawn at the point.

use sluicegate::storage::{Contention, StorageError, Verb};

use crate::actors::Role;
use crate::driver::tally::Sometimes;
use crate::driver::universe::{Universe, id};
use crate::driver::world::{
    Lingering, Permit, SESSION_LIMIT_US, STATEMENT_US, Slot, Standing, World, world,
};
use crate::faults::{FaultKind, Point};
use crate::tape::{Chance, Site};

/// Virtual time from a kill to the restart.
const RESTART_US: i64 = 400_000;
/// How long a dead client's session may keep its locks, in microseconds.
const LINGER_US: [i64; 3] = [SESSION_LIMIT_US, 2_000_000, 7_000_000];
/// How long an actor stands still: beyond one lease, beyond a session, briefly.
const PAUSE_US: [i64; 3] = [12_000_000, 31_000_000, 6_000_000];
/// How long the plan holds an actor back: shorter than any limit of the storage.
const HOLD_US: i64 = 3_000_000;
/// How often a burst strikes: beyond a retry budget of five runs.
const BURST_STATEMENTS: u32 = 5;
/// How far the storage's clock steps.
const CLOCK_STEP_US: [i64; 3] = [20_000_000, 500_000, 4_000_000];
/// How far an actor's own clock is off: an hour, either way.
const CLOCK_SKEW_US: [i64; 2] = [-3_600_000_000, 3_600_000_000];

/// What became of the point that a fault may have struck.
pub(crate) enum Struck {
    /// The statement goes on.
    Goes(Permit),
    /// The statement is executed, and then its actor is killed.
    AfterExecution,
    /// The actor is gone, or stands still.
    Gone,
}

impl Universe {
    /// A statement is about to be executed.
    pub(crate) fn strike_statement(&mut self, index: usize, verb: Verb) -> Struck {
        let resumed = world(|world| !matches!(world.slots[index].standing, Standing::Free));
        if resumed {
            return Struck::Goes(Permit::Run);
        }
        if self.holds_back(index) {
            return Struck::Gone;
        }
        if let Some(contention) = world(|world| go_on_bursting(world, index, verb)) {
            return Struck::Goes(Permit::Fail(StorageError::Contention(contention)));
        }
        if world(|world| world.overdue.is_some() && world.faults_on) {
            self.delete_next_request(Point::Statement(verb));
        }
        let kind = world(|world| {
            world.trace.at_actor(id(index));
            world.draw_fault(Site::Fault, Point::Statement(verb))
        });
        let Some(kind) = kind else { return Struck::Goes(Permit::Run) };
        if let Some(contention) = kind.contention() {
            world(|world| begin_burst(world, index, verb, kind));
            return Struck::Goes(Permit::Fail(StorageError::Contention(contention)));
        }
        if let Some(refusal) = kind.refusal() {
            return Struck::Goes(Permit::refused(verb, refusal));
        }
        match kind {
            FaultKind::CommitApplied => Struck::Goes(Permit::CommitApplied),
            FaultKind::CommitLost => Struck::Goes(Permit::CommitLost),
            FaultKind::CrashAfter => Struck::AfterExecution,
            FaultKind::LingeringSession => {
                // Without a session it is a crash, and counts as one.
                world(|world| {
                    if world.slots[index].session.is_none() {
                        world.tally.recount(kind, FaultKind::Crash, Point::Statement(verb));
                    }
                });
                self.linger(index);
                Struck::Gone
            }
            FaultKind::Pause => {
                self.pause(index);
                Struck::Gone
            }
            FaultKind::ClockForward | FaultKind::ClockBackward => {
                world(|world| step_clock(world, kind));
                Struck::Goes(Permit::Run)
            }
            FaultKind::DatabaseCrash => {
                self.crash_database();
                Struck::Goes(Permit::Run)
            }
            FaultKind::ClockSkew => {
                world(|world| skew_clock(world, index));
                Struck::Goes(Permit::Run)
            }
            FaultKind::PoisonWork => self.poison(index, Point::Statement(verb)),
            kind if kind.trouble().is_some() => {
                if let Some(trouble) = kind.trouble() {
                    Self::arm(kind, trouble, Point::Statement(verb));
                }
                Struck::Goes(Permit::Run)
            }
            kind if kind.damages() => {
                self.damage(kind, Point::Statement(verb));
                Struck::Goes(Permit::Run)
            }
            _ => {
                self.kill(index);
                Struck::Gone
            }
        }
    }

    /// What a worker works on at this instant kills it, and whoever gets it next.
    fn poison(&mut self, index: usize, point: Point) -> Struck {
        let Some(victim) = world(World::poison) else {
            world(|world| world.missed(FaultKind::PoisonWork, point));
            return Struck::Goes(Permit::Run);
        };
        world(|world| world.trace.fault(world.now, FaultKind::PoisonWork));
        self.kill(victim);
        if victim == index { Struck::Gone } else { Struck::Goes(Permit::Run) }
    }

    /// The time that an actor waited for has come.
    pub(crate) fn strike_await(&mut self, index: usize) -> Struck {
        if world(|world| world.works_on_poison(index)) {
            world(|world| world.tally.sometimes(Sometimes::PoisonKilledAgain));
            self.kill(index);
            return Struck::Gone;
        }
        let kind = world(|world| {
            world.trace.at_actor(id(index));
            world.draw_fault(Site::Fault, Point::Await)
        });
        match kind {
            None => Struck::Goes(Permit::Run),
            Some(kind @ (FaultKind::ClockForward | FaultKind::ClockBackward)) => {
                world(|world| step_clock(world, kind));
                Struck::Goes(Permit::Run)
            }
            Some(FaultKind::DatabaseCrash) => {
                self.crash_database();
                Struck::Goes(Permit::Run)
            }
            Some(FaultKind::ClockSkew) => {
                world(|world| skew_clock(world, index));
                Struck::Goes(Permit::Run)
            }
            Some(kind) if kind.damages() => {
                self.damage(kind, Point::Await);
                Struck::Goes(Permit::Run)
            }
            Some(FaultKind::Pause) => {
                self.pause(index);
                Struck::Gone
            }
            Some(FaultKind::PoisonWork) => self.poison(index, Point::Await),
            Some(_) => {
                self.kill(index);
                Struck::Gone
            }
        }
    }

    /// A statement has begun to wait for what another session holds.
    pub(crate) fn begin_wait(&mut self, index: usize) {
        let kind = world(|world| {
            world.begins_to_wait();
            world.trace.at_actor(id(index));
            let Some(crate::driver::world::Pending::Statement(verb)) = world.slots[index].pending
            else {
                return None;
            };
            world.trace.waits(world.now, id(index), verb);
            world.draw_fault(Site::Wait, Point::Wait(verb))
        });
        let Some(kind) = kind else { return };
        match kind.contention() {
            Some(contention) => self.fail(index, contention),
            None => self.kill(index),
        }
    }

    /// The database crashes and recovers; clients whose flow is lost submit it again.
    fn crash_database(&mut self) {
        let (lost, now) = world(|world| {
            let told = world.told_flow.is_some();
            world.crash_database();
            (told && world.told_flow.is_none(), world.now)
        });
        let clients = self.actors.iter_mut().filter(|actor| actor.role == Role::Client);
        for client in clients.filter(|client| lost && client.done) {
            client.done = false;
            client.next_at = now;
        }
        self.count_clients();
    }

    /// `kill -9`: storage and network of the actor go dead, its session is aborted, then its
    /// futures are dropped; it starts again a little later.
    pub(crate) fn kill(&mut self, index: usize) {
        Self::sever(index);
        self.drop_op(index);
    }

    /// The same, but the storage has not noticed yet: the session keeps its locks for a while.
    fn linger(&mut self, index: usize) {
        world(|world| {
            let drawn = world.tape.draw(Site::Detail, 3, Chance::Even);
            let until = world.now + LINGER_US[usize::from(drawn)];
            let slot = &mut world.slots[index];
            slot.dead = true;
            slot.pending = None;
            if let Some(session) = slot.session.take() {
                world.lingering.push(Lingering { session, until });
                world.tally.sometimes(Sometimes::SessionLingered);
            }
        });
        self.drop_op(index);
    }

    fn drop_op(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        actor.op = None;
        actor.life = None;
        actor.seen = u64::MAX;
        world(|world| {
            world.slots[index] = Slot::default();
            actor.asleep_since = world.now;
            actor.asleep_until = world.now + RESTART_US;
            actor.next_at = actor.asleep_until;
        });
    }

    /// True if the statement is the one before which the plan holds its actor back; it goes on
    /// later as after a pause that nobody else notices.
    fn holds_back(&mut self, index: usize) -> bool {
        let Some(left) = self
            .hold_in
            .filter(|_| self.plan.hold.is_some_and(|hold| usize::from(hold.actor) == index))
        else {
            return false;
        };
        self.hold_in = left.checked_sub(1).filter(|left| *left > 0);
        if self.hold_in.is_some() || !world(|world| world.faults_on) {
            return false;
        }
        let actor = &mut self.actors[index];
        world(|world| {
            world.tally.sometimes(Sometimes::HeldBack);
            actor.asleep_since = world.now;
            actor.asleep_until = world.now + HOLD_US;
        });
        true
    }

    /// The actor stands still, its session open, and goes on later as if nothing had happened.
    fn pause(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        world(|world| {
            let drawn = world.tape.draw(Site::Detail, 3, Chance::Even);
            world.slots[index].stood_still = true;
            actor.asleep_since = world.now;
            actor.asleep_until = world.now + PAUSE_US[usize::from(drawn)];
        });
    }

    /// Ends the sessions of actors that stand still for longer than the storage's limit.
    pub(crate) fn end_idle_sessions(&mut self) {
        for (index, actor) in self.actors.iter().enumerate() {
            world(|world| {
                let over = actor.asleep_since + SESSION_LIMIT_US <= world.now;
                if actor.asleep_until > world.now && over {
                    end_session(world, index);
                }
            });
        }
    }
}

/// Contention strikes once, or again and again until the caller's retry budget is spent.
fn begin_burst(world: &mut World, index: usize, verb: Verb, kind: FaultKind) {
    if !world.counting && world.tape.draw(Site::Detail, 3, Chance::Even) == 2 {
        world.slots[index].burst = Some((verb, kind, BURST_STATEMENTS));
    }
}

/// The contention that a burst still has for that statement.
fn go_on_bursting(world: &mut World, index: usize, verb: Verb) -> Option<Contention> {
    let (struck, kind, left) = world.slots[index].burst?;
    if struck != verb || !world.faults_on {
        return None;
    }
    world.slots[index].burst = (left > 1).then_some((struck, kind, left - 1));
    if left == 1 {
        world.tally.sometimes(Sometimes::BudgetSpent);
    }
    kind.contention()
}

fn end_session(world: &mut World, index: usize) {
    if let Some(session) = world.slots[index].session.take() {
        world.abort(session, id(index));
        world.tally.sometimes(Sometimes::SessionEnded);
        world.trace.storage(world.now, id(index), "ended its idle session");
    }
}

/// The clock of the actor's machine is wrong from now on.
pub(crate) fn skew_clock(world: &mut World, index: usize) {
    let drawn = world.tape.draw(Site::Detail, 2, Chance::Even);
    world.skews[index] = CLOCK_SKEW_US[usize::from(drawn)];
}

/// The storage's clock steps.
pub(crate) fn step_clock(world: &mut World, kind: FaultKind) {
    let drawn = world.tape.draw(Site::Detail, 3, Chance::Even);
    let us = CLOCK_STEP_US[usize::from(drawn)];
    let backward = kind == FaultKind::ClockBackward;
    world.step_clock(if backward { -us } else { us });
    world.pass(STATEMENT_US);
}

impl World {
    /// Ends the sessions of dead clients whose time has come.
    pub(crate) fn end_lingering(&mut self) {
        let now = self.now;
        for at in (0..self.lingering.len()).rev() {
            if self.lingering[at].until <= now {
                let lingering = self.lingering.remove(at);
                self.abort(lingering.session, 0);
            }
        }
    }
}
