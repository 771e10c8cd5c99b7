//! Who goes on: the default schedule, deviations from it, and the passing of time when nobody can.
//! One loop for every phase. Never decides what a fault does.

use std::task::{Context, Poll, Waker};

use sluicegate::storage::{Contention, StorageError};

use crate::actors::{Progress, Role};
use crate::driver::strike::Struck;
use crate::driver::tally::Sometimes;
use crate::driver::turns::POLL_US;
use crate::driver::universe::{End, Life, Universe, id};
use crate::driver::world::{
    LOCK_TIMEOUT_US, Pending, Permit, SESSION_LIMIT_US, STATEMENT_US, Standing, World, world,
};
use crate::faults::Point;
use crate::invariants::Violation;
use crate::plan::Backend;
use crate::tape::{Chance, Site};

/// Beside a damaged row the rest has gone as far as it can after so much virtual time without a
/// commit: longer than any lease, delay, pause of an actor, or pause of a row that fails.
const DAMAGED_QUIET_US: i64 = 120_000_000;
/// A universe of this lane has at most so many actors.
const ACTORS_MAX: usize = 64;

/// Who goes on.
enum Picked {
    Actor(usize),
    Nobody,
    Violation(Box<Violation>),
}

/// Why the loop ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// Nothing can go on and time brings nothing.
    Quiet,
    /// The plan's step to heal at was reached.
    HealDue,
    /// The universe is over.
    Ended(End),
}

impl Universe {
    /// Runs until nothing is left to do, the universe ends, or faults are to stop.
    pub(crate) fn settle(&mut self) -> Settled {
        loop {
            if let Some(settled) = self.between_steps() {
                return settled;
            }
            let index = match world(|world| self.pick(world)) {
                Picked::Actor(index) => index,
                Picked::Violation(violation) => return Settled::Ended(End::Violated(*violation)),
                Picked::Nobody => match self.let_time_pass() {
                    true => {
                        self.meet_trouble(Point::Await);
                        continue;
                    }
                    false => return Settled::Quiet,
                },
            };
            self.steps_left -= 1;
            if self.steps_left == 0 {
                self.steps_left = world(World::take_earned);
            }
            if self.steps_left == 0 {
                return Settled::Ended(End::Livelock(self.livelock()));
            }
            if self.heal_in > 0 {
                self.heal_in -= 1;
                if self.heal_in == 0 {
                    return Settled::HealDue;
                }
            }
            self.step(index);
        }
    }

    /// The actor that goes on: the present one, unless the tape deviates or it cannot.
    fn pick(&mut self, world: &mut World) -> Picked {
        if let Some(violation) = world.violation.take() {
            return Picked::Violation(Box::new(violation));
        }
        world.tally.steps += 1;
        self.ranks.step();
        if self.ranks.rule() && world.faults_on {
            return self.highest(world);
        }
        let stays = self.can_go_on(world, self.current);
        if self.deviates(world) {
            return self.choose(world, stays);
        }
        if stays {
            return Picked::Actor(self.current);
        }
        let able = (0..self.actors.len()).find(|index| self.can_go_on(world, *index));
        match able {
            Some(index) => {
                self.current = index;
                Picked::Actor(index)
            }
            None => Picked::Nobody,
        }
    }

    /// The actor with the highest priority of those that can go on.
    fn highest(&mut self, world: &World) -> Picked {
        let able = (0..self.actors.len()).filter(|index| self.can_go_on(world, *index));
        let Some(index) = able.min_by_key(|index| self.ranks.of(*index)) else {
            return Picked::Nobody;
        };
        self.ranks.went_on(index);
        self.current = index;
        Picked::Actor(index)
    }

    /// True if the schedule may leave its default here. Counting chooses among all actors at once;
    /// otherwise one cell says whether, and a second one to whom.
    fn deviates(&self, world: &mut World) -> bool {
        if self.delays_left == 0 || !world.faults_on {
            return false;
        }
        if world.counting {
            return true;
        }
        let chance = Chance::Of(world.odds.schedule);
        world.odds.schedule > 0 && world.tape.draw(Site::Schedule, 2, chance) == 1
    }

    /// Chooses among everyone who can go on, the default first.
    fn choose(&mut self, world: &mut World, stays: bool) -> Picked {
        let mut able = [0_usize; ACTORS_MAX];
        let mut count = 0;
        if stays {
            able[count] = self.current;
            count += 1;
        }
        for index in 0..self.actors.len() {
            if index != self.current && self.can_go_on(world, index) {
                able[count] = index;
                count += 1;
            }
        }
        let time_may_pass = count == 0;
        for index in 0..self.actors.len() {
            // A projector is late only if it looks early: between two commits of others.
            let early = world.counting || self.actors[index].role == Role::Projector;
            if early && self.may_poll(world, index) {
                able[count] = index;
                count += 1;
            }
        }
        if count == 0 {
            return Picked::Nobody;
        }
        // Where nobody can go on, the default is that time passes.
        let quiet = usize::from(time_may_pass);
        let arity = u16::try_from(quiet + count).unwrap_or(u16::MAX);
        let drawn = usize::from(world.tape.draw(Site::Schedule, arity, Chance::Even));
        if drawn > 0 {
            self.delays_left -= 1;
            world.tally.delays += 1;
        }
        match drawn.checked_sub(quiet) {
            Some(chosen) => {
                self.current = able[chosen];
                Picked::Actor(self.current)
            }
            None => Picked::Nobody,
        }
    }

    /// True if the actor is idle and polls at times of its own, so that it may also look now. A
    /// count has to offer it: polls come between other actors' statements, at no fixed distance.
    fn may_poll(&self, world: &World, index: usize) -> bool {
        let actor = &self.actors[index];
        let polls = matches!(actor.role, Role::Dispatcher | Role::Reconciler | Role::Projector);
        let idle = polls && actor.op.is_none() && !actor.off && !actor.done;
        let unseen = world.has_news(actor.role, actor.seen) && actor.asleep_until <= world.now;
        idle && unseen && !self.can_go_on(world, index)
    }

    /// True if the actor has a statement, a timer or a turn that can go on now.
    fn can_go_on(&self, world: &World, index: usize) -> bool {
        let actor = &self.actors[index];
        if actor.off || actor.asleep_until > world.now {
            return false;
        }
        let slot = &world.slots[index];
        if actor.op.is_some() {
            return match slot.pending {
                Some(Pending::Timer(at)) => at <= world.now,
                Some(Pending::Statement(_)) => match slot.standing {
                    Standing::Waiting(_) => !world.is_blocked(index),
                    _ => true,
                },
                None => true,
            };
        }
        if actor.done {
            return false;
        }
        let woken = match actor.role {
            Role::Client
            | Role::Reconciler
            | Role::Operator
            | Role::Extender
            | Role::Projector
            | Role::Sequencer
            | Role::Subscriber
            | Role::Resumer => false,
            // Only commits that wrote wake an idle actor.
            Role::Worker => actor.next_at == i64::MAX && world.has_news(actor.role, actor.seen),
            Role::Dispatcher => slot.noticed,
        };
        woken || actor.next_at <= world.now
    }

    /// One step of one actor: begins its turn, lets time arrive, or meets its statement.
    fn step(&mut self, index: usize) {
        let pending = world(|world| world.slots[index].pending);
        self.go_on(index, pending);
        self.meet_trouble(match pending {
            Some(Pending::Statement(verb)) => Point::Statement(verb),
            _ => Point::Await,
        });
    }

    fn go_on(&mut self, index: usize, pending: Option<Pending>) {
        if self.actors[index].op.is_none() {
            self.begin_turn(index);
            self.poll(index);
            return;
        }
        match pending {
            Some(Pending::Statement(verb)) => match self.strike_statement(index, verb) {
                Struck::Goes(permit) => self.execute(index, permit),
                Struck::Gone => {}
                Struck::AfterExecution => {
                    self.execute(index, Permit::Run);
                    self.kill(index);
                }
            },
            Some(Pending::Timer(_)) => match self.strike_await(index) {
                Struck::Gone => {}
                _ => self.poll(index),
            },
            None => self.poll(index),
        }
    }

    /// One step of an actor that is alone: time passes for its timers, and nothing strikes.
    pub(crate) fn run_quietly(&mut self, index: usize) {
        match world(|world| world.slots[index].pending) {
            Some(Pending::Statement(_)) => self.execute(index, Permit::Run),
            Some(Pending::Timer(at)) => {
                world(|world| {
                    let us = (at - world.now).max(0);
                    world.pass(us);
                });
                self.poll(index);
            }
            None => self.poll(index),
        }
    }

    /// Lets the pending statement go on with that permit, and handles the wait that it may begin.
    fn execute(&mut self, index: usize, permit: Permit) {
        let waited = world(|world| {
            world.pass(STATEMENT_US);
            let slot = &mut world.slots[index];
            slot.permit = Some(permit);
            matches!(slot.standing, Standing::Waiting(_))
        });
        self.poll(index);
        let standing = world(|world| match &world.slots[index].standing {
            Standing::Free | Standing::Yielded => None,
            standing => Some(standing.clone()),
        });
        let Some(standing) = standing else { return };
        match standing {
            Standing::Free | Standing::Yielded => {}
            Standing::Waiting(_) if waited => {}
            Standing::Waiting(_) => self.begin_wait(index),
            Standing::Deadlocked(cycle) => self.choose_victim(index, &cycle),
        }
    }

    fn choose_victim(&mut self, index: usize, cycle: &[crate::database::SessionId]) {
        let victim = world(|world| {
            let arity = u16::try_from(cycle.len()).unwrap_or(1);
            let drawn = world.tape.draw(Site::Victim, arity, Chance::Even);
            let session = cycle[usize::from(drawn)];
            world.slots.iter().position(|slot| slot.session == Some(session))
        });
        let victim = victim.unwrap_or(index);
        world(|world| {
            world.trace.storage(world.now, id(victim), "chose it as deadlock victim");
            if victim != index {
                world.slots[index].standing = Standing::Waiting(world.now);
            }
        });
        self.fail(victim, Contention::Deadlock);
    }

    /// Fails an actor's pending statement.
    pub(crate) fn fail(&mut self, index: usize, contention: Contention) {
        let error = StorageError::Contention(contention);
        world(|world| world.slots[index].permit = Some(Permit::Fail(error)));
        self.poll(index);
    }

    /// Polls an actor's turn and takes note if it ended.
    pub(crate) fn poll(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some(op) = actor.op.as_mut() else { return };
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(progress) = op.as_mut().poll(&mut context) else { return };
        actor.op = None;
        let again = actor.life.as_ref().filter(|_| actor.role == Role::Worker);
        let again = again.and_then(Life::tries_again_in);
        world(|world| {
            world.slots[index].pending = None;
            world.slots[index].stood_still = false;
            world.trace.ended(world.now, id(index), progress != Progress::Failed);
            actor.next_at = world.next_turn(actor.role, actor.seen, progress, again);
            actor.done |= progress == Progress::Done;
        });
        if progress == Progress::Done {
            self.count_clients();
        }
    }

    /// Moves virtual time to whatever comes next; false if nothing does.
    fn let_time_pass(&mut self) -> bool {
        self.plan_next_turns();
        let mut next = world(|world| world.next_event());
        for index in 0..self.actors.len() {
            if let Some(at) = self.wakes_at(index) {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        let Some(next) = next else { return false };
        let damaged = world(|world| !world.judge.mirror().damaged().is_empty());
        // What is damaged is tried for ever; what falls due beside it is waited for.
        let limit = self.quiet_limit.or(damaged.then_some(DAMAGED_QUIET_US));
        let waits = damaged && self.quiet_limit.is_none();
        let due = if waits { world(|world| world.next_due()) } else { None };
        if let Some(limit) = limit
            && world(|world| {
                let last = world.written_at.max(self.phase_from).max(world.reached_by);
                next > last.max(due.unwrap_or(last)).saturating_add(limit)
            })
        {
            return false;
        }
        world(|world| {
            let us = (next - world.now).max(0);
            world.pass(us);
            world.deliver_late();
            world.end_lingering();
        });
        self.time_out_waits();
        self.end_idle_sessions();
        true
    }

    /// When an actor that cannot go on now can, by time alone.
    fn wakes_at(&self, index: usize) -> Option<i64> {
        let actor = &self.actors[index];
        if actor.off {
            return None;
        }
        let slot = world(|world| {
            let slot = &world.slots[index];
            (slot.pending, slot.standing.clone(), slot.session.is_some(), world.now)
        });
        let (pending, standing, in_transaction, now) = slot;
        if actor.asleep_until > now {
            let session_ends = actor.asleep_since + SESSION_LIMIT_US;
            return Some(match in_transaction && session_ends > now {
                true => session_ends.min(actor.asleep_until),
                false => actor.asleep_until,
            });
        }
        if actor.op.is_some() {
            return match (pending, standing) {
                (Some(Pending::Timer(at)), _) => Some(at),
                (_, Standing::Waiting(since)) => Some(since + LOCK_TIMEOUT_US),
                _ => None,
            };
        }
        (!actor.done && actor.next_at < i64::MAX).then_some(actor.next_at)
    }

    /// Idle actors look again a little after a commit that they have not seen, and at the instant
    /// at which some row can next be acted on.
    fn plan_next_turns(&mut self) {
        world(|world| {
            for actor in &mut self.actors {
                if actor.op.is_some() || actor.done || actor.off {
                    continue;
                }
                let (news, poll_us) = (world.has_news(actor.role, actor.seen), world.poll_us());
                if news {
                    actor.next_at = actor.next_at.min(world.now + poll_us);
                }
                let in_time = news && poll_us == POLL_US;
                if !in_time && matches!(actor.role, Role::Worker | Role::Reconciler) {
                    let next = world.next_interesting(actor.role, actor.began_at);
                    actor.next_at = actor.next_at.min(next.unwrap_or(i64::MAX));
                }
            }
        });
    }

    /// Fails every lock wait that has lasted for the storage's limit.
    fn time_out_waits(&mut self) {
        for index in 0..self.actors.len() {
            let timed_out = world(|world| match world.slots[index].standing {
                Standing::Waiting(since) => {
                    let over = since + LOCK_TIMEOUT_US <= world.now;
                    over && world.is_blocked(index)
                }
                _ => false,
            });
            if timed_out {
                world(|world| {
                    world.tally.sometimes(Sometimes::LockWaitTimedOut);
                    world.trace.storage(world.now, id(index), "timed its lock wait out");
                });
                let contention = world(|world| world.waited_in_vain());
                self.fail(index, contention);
            }
        }
    }

    fn livelock(&self) -> String {
        let limit = self.step_limit();
        let busy: Vec<String> = (0..self.actors.len())
            .filter(|index| self.actors[*index].op.is_some())
            .map(|index| self.actor_name(id(index)))
            .collect();
        format!("no end after {limit} steps; at work: {}", busy.join(", "))
    }
}

impl World {
    /// True if the actor's statement waits for something that another session holds.
    pub(crate) fn is_blocked(&self, index: usize) -> bool {
        match self.backend {
            Backend::Simulated => {
                self.slots[index].session.is_some_and(|session| self.database.is_blocked(session))
            }
            Backend::Sqlite => self.writer.is_some_and(|writer| usize::from(writer) != index),
        }
    }

    /// A statement begins to wait for what another session holds.
    pub(crate) fn begins_to_wait(&mut self) {
        self.tally.sometimes(match self.backend {
            Backend::Simulated => Sometimes::LockWait,
            Backend::Sqlite => Sometimes::WriterWait,
        });
    }

    /// What it fails with once the storage has let it wait for long enough.
    pub(crate) fn waited_in_vain(&self) -> Contention {
        match self.backend {
            Backend::Simulated => Contention::LockTimeout,
            Backend::Sqlite => Contention::Busy,
        }
    }

    /// The next thing that happens by itself: a lingering session ends, a late notification comes.
    pub(crate) fn next_event(&self) -> Option<i64> {
        let lingering = self.lingering.iter().map(|lingering| lingering.until);
        lingering.chain(self.late.iter().map(|late| late.at)).min()
    }
}
