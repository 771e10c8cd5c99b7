//! Every universe of one flow: the odometer over the choice tape. Where no future lives, or only
//! those of handlers at work, the state is plain data: it is saved there, so that the next tape
//! begins at the last state that it shares with the one before, and a state that was seen before
//! ends its universe. Never judges.

use std::time::Duration;

use sluicegate::operations::claim::LeaseToken;
use sluicegate::time::Timestamp;

use crate::actors::{self, Sweeps};
use crate::database::Database;
use crate::driver::Universe;
use crate::driver::news::News;
use crate::driver::phases::Part;
use crate::driver::schedule::Settled;
use crate::driver::statement::ModelStorage;
use crate::driver::universe::{Actor, End, Life, id};
use crate::driver::world::{LateNotice, Lingering, Slot, world};
use crate::exhaust::memo::{Memo, State};
use crate::invariants::Judge;
use crate::random::SplitMix;
use crate::tape::{Chance, Site, Tape};

/// What an exhaustive run remembers of the universes of one flow.
#[derive(Default)]
pub(crate) struct Explorer {
    memo: Option<Memo>,
    /// Universes go on from the last state that they share.
    forks: bool,
    /// States on the way of the present universe, the deepest last.
    saved: Vec<Saved>,
    /// The states on that way: one that is met again here is a loop, not a known end.
    way: Vec<State>,
}

/// A state that is plain data.
struct Saved {
    /// Cells that were drawn before it.
    at: usize,
    /// Hashes on the way before it.
    way: usize,
    database: Database,
    judge: Judge,
    now: i64,
    news: News,
    noticed: Vec<bool>,
    lingering: Vec<Lingering>,
    late: Vec<LateNotice>,
    faults_left: u32,
    faults_on: bool,
    trace_hash: u64,
    actors: Vec<Plain>,
    current: usize,
    delays_left: u32,
    offered: (u32, u32),
    steps_left: u64,
    sweeps: Sweeps,
    healed: Option<(i64, Part)>,
}

/// An actor between two turns, or at work.
#[derive(Clone, Copy)]
struct Plain {
    seen: u64,
    began_at: Timestamp,
    next_at: i64,
    asleep_since: i64,
    asleep_until: i64,
    done: bool,
    off: bool,
    /// What its handler is at, and until when.
    work: Option<(LeaseToken, i64)>,
}

impl Explorer {
    pub(crate) fn new(memo: bool, forks: bool) -> Self {
        Self { memo: memo.then(Memo::default), forks, ..Self::default() }
    }

    /// Takes note of a state; true if it was seen before and its continuations with it.
    fn knows(&mut self, state: State, replayed: bool) -> bool {
        let Some(memo) = &mut self.memo else { return false };
        if !replayed && !memo.note(state) && !self.way.contains(&state) {
            return true;
        }
        self.way.push(state);
        false
    }
}

impl Universe {
    /// Runs the next universe of its flow, which is the one of the tape that the world holds.
    pub(crate) fn explore(&mut self) -> End {
        let end = self.phases();
        let strayed = world(|world| world.tape.strayed().map(str::to_owned));
        strayed.map_or(end, End::Strayed)
    }

    /// Prepares the next universe, from the deepest saved state that it shares with the last one;
    /// false if there is none left.
    pub(crate) fn advance(&mut self) -> bool {
        let mut tape = world(|world| std::mem::replace(&mut world.tape, Tape::quiet()));
        if !tape.advance() {
            return false;
        }
        let changed = tape.cells().len() - 1;
        let mut explorer = self.explorer.take().expect("an exhaustive run has an explorer");
        while explorer.saved.last().is_some_and(|saved| saved.at > changed) {
            explorer.saved.pop();
        }
        if let Some(saved) = explorer.saved.last() {
            explorer.way.truncate(saved.way);
            self.resume(saved, tape);
        } else {
            explorer.way.clear();
            self.reset(tape);
        }
        self.explorer = Some(explorer);
        true
    }

    /// In counting mode, between two steps: where the state is plain data, the universe may end
    /// because it was seen, and it is saved; where nobody is at work either, it may heal.
    pub(crate) fn between_steps(&mut self) -> Option<Settled> {
        if !self.plan.counting {
            return None;
        }
        if !self.actors.iter().enumerate().all(|(index, _)| self.is_plain(index)) {
            return None;
        }
        let way = self.explorer.as_ref().map_or(0, |explorer| explorer.way.len());
        if self.visited_before() {
            return Some(Settled::Ended(End::Pruned));
        }
        self.save_here(way);
        let at_work = self.actors.iter().any(|actor| actor.op.is_some());
        (!at_work && self.heals_here()).then_some(Settled::HealDue)
    }

    /// True if nothing of an actor lives, or only a handler at work.
    fn is_plain(&self, index: usize) -> bool {
        let Actor { op, life, .. } = &self.actors[index];
        // What its process remembers is not in the state.
        let remembers = || life.as_ref().and_then(Life::tries_again_in).is_some();
        let works = || world(|world| world.slots[index].at_work().is_some());
        op.is_none() || works() && !remembers()
    }

    /// In a state that is plain data: true if it was seen before. Derives from the state what
    /// engines are given as random numbers.
    pub(crate) fn visited_before(&mut self) -> bool {
        if !self.plan.counting {
            return false;
        }
        let state = self.state();
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one too")]
        let (replayed, holds_locks) = world(|world| {
            world.random = SplitMix(state.hash as u64);
            (!world.tape.at_end(), !world.lingering.is_empty())
        });
        let explorer = self.explorer.as_mut();
        explorer.is_some_and(|explorer| !holds_locks && explorer.knows(state, replayed))
    }

    /// True if a fault or a deviation has occurred since healing was last a choice.
    pub(crate) fn is_disturbed(&self) -> bool {
        let left = (world(|world| world.faults_left), self.delays_left);
        self.offered != left
    }

    /// After each fault and each deviation, once nobody is in the middle of anything, healing is a
    /// choice: else the safety phase with everyone at work would drain nearly every flow, and what
    /// the dispatchers or the reconcilers do alone would not be seen.
    fn heals_here(&mut self) -> bool {
        if !world(|world| world.faults_on) || !self.is_disturbed() {
            return false;
        }
        self.offered = (world(|world| world.faults_left), self.delays_left);
        world(|world| world.tape.draw(Site::Heal, 2, Chance::Even)) == 1
    }

    /// Saves the state, to which so many others led; it is noted again when it is resumed.
    fn save_here(&mut self, way: usize) {
        let Some(explorer) = self.explorer.as_mut().filter(|explorer| explorer.forks) else {
            return;
        };
        let at = world(|world| world.tape.position());
        if explorer.saved.last().is_some_and(|saved| saved.at >= at) {
            return;
        }
        let actors = self.actors.iter().enumerate();
        let plain = actors.map(|(index, actor)| Plain {
            seen: actor.seen,
            began_at: actor.began_at,
            next_at: actor.next_at,
            asleep_since: actor.asleep_since,
            asleep_until: actor.asleep_until,
            done: actor.done,
            off: actor.off,
            work: actor.op.as_ref().and_then(|_| world(|world| world.slots[index].at_work())),
        });
        let plain: Vec<Plain> = plain.collect();
        explorer.saved.push(world(|world| Saved {
            at,
            way,
            database: world.database.clone(),
            judge: world.judge.clone(),
            now: world.now,
            news: world.news,
            noticed: world.slots.iter().map(|slot| slot.noticed).collect(),
            lingering: world.lingering.clone(),
            late: world.late.clone(),
            faults_left: world.faults_left,
            faults_on: world.faults_on,
            trace_hash: world.trace.hash(),
            actors: plain,
            current: self.current,
            delays_left: self.delays_left,
            offered: self.offered,
            steps_left: self.steps_left,
            sweeps: self.sweeps,
            healed: self.healed,
        }));
    }

    fn resume(&mut self, saved: &Saved, mut tape: Tape) {
        self.drop_ops();
        for (actor, plain) in self.actors.iter_mut().zip(&saved.actors) {
            let Plain { seen, began_at, next_at, asleep_since, asleep_until, done, off, work: _ } =
                *plain;
            (actor.seen, actor.began_at, actor.done, actor.off) = (seen, began_at, done, off);
            (actor.next_at, actor.asleep_since, actor.asleep_until) =
                (next_at, asleep_since, asleep_until);
        }
        self.current = saved.current;
        self.delays_left = saved.delays_left;
        self.offered = saved.offered;
        self.steps_left = saved.steps_left;
        self.sweeps = saved.sweeps;
        self.healed = saved.healed;
        tape.seek(saved.at);
        world(|world| {
            world.tape = tape;
            world.database.clone_from(&saved.database);
            world.judge.clone_from(&saved.judge);
            world.now = saved.now;
            world.news = saved.news;
            for (slot, noticed) in world.slots.iter_mut().zip(&saved.noticed) {
                *slot = Slot { noticed: *noticed, ..Slot::default() };
            }
            world.lingering.clone_from(&saved.lingering);
            world.late.clone_from(&saved.late);
            world.faults_left = saved.faults_left;
            world.faults_on = saved.faults_on;
            world.violation = None;
            world.trace.restore(saved.trace_hash);
            world.sync_clock();
            world.tally.universes += 1;
        });
        for (index, plain) in saved.actors.iter().enumerate() {
            if let Some((token, done_at)) = plain.work {
                self.go_on_working(index, token, done_at);
            }
        }
    }

    /// Has a worker do the rest of a turn in the middle of which the state was saved.
    fn go_on_working(&mut self, index: usize, token: LeaseToken, done_at: i64) {
        let left = world(|world| u64::try_from(done_at - world.now).unwrap_or(0));
        let engine = self.engine(index, ModelStorage { actor: id(index) });
        let stage = self.stage(index, engine.clone());
        let actor = &mut self.actors[index];
        actor.life = Some(Life::Model(engine));
        actor.op = Some(actors::rest_of_turn(stage, token, Duration::from_micros(left)));
        self.poll(index);
    }
}
