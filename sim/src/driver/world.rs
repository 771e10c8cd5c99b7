//! The world of one universe: virtual time, the database, what each actor waits for, and the judge.
//! Lives in a thread-local, so that handles are plain numbers and futures stay `Send`. Never picks
//! who goes on.

use crate::actors::reaping::Reaping;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate::environment::{Environment, Notice};
use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::operations::claim::LeaseToken;
use sluicegate::reconcile::FAILING_MAX;
use sluicegate::storage::{EventId, StorageError, Verb};
use sluicegate::time::{Timestamp, micros};

use crate::database::{Database, SessionId};
use crate::driver::draw::First;
use crate::driver::durable::Lagging;
use crate::driver::news::News;
use crate::driver::sqlite_lane::Doubts;
use crate::driver::statement::Sleep;
use crate::driver::tally::{Sometimes, Tally};
use crate::driver::trace::Trace;
use crate::driver::turns::Sparing;
use crate::faults::{FaultKind, Point, Strikes};
use crate::history::{ActorId, Commit, Observation};
use crate::invariants::{Judge, Violation};
use crate::mirror::Mirror;
use crate::network::{Net, Timer};
use crate::plan::{Backend, Commits, EngineKind, Plan};
use crate::random::SplitMix;
use crate::tape::{Site, Tape};

/// Steps beyond the limit of a universe that each grant earns: what comes of one takes fewer.
const STEPS_PER_GRANT: u64 = 1_000;
/// Work that kills its workers does so up to this attempt: where a policy allows very many, it
/// would go on for ever while faults are on.
const POISON_ATTEMPTS_MAX: u32 = 16;

/// Where virtual time begins on the storage's clock: 2026-01-01, in microseconds.
pub const EPOCH_US: i64 = 1_767_225_600_000_000;
/// Virtual time that one statement takes.
pub const STATEMENT_US: i64 = 200;
/// The storage gives a lock wait up after this long.
pub const LOCK_TIMEOUT_US: i64 = 5_000_000;
/// The storage ends a session that stands idle in its transaction for this long: S of SPEC 10.
pub const SESSION_LIMIT_US: i64 = 15_000_000;

/// What an actor's future waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pending {
    /// A statement was sent and not answered.
    Statement(Verb),
    /// Time has to pass, to this instant of virtual time.
    Timer(i64),
}

/// What the driver lets an actor's statement do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Permit {
    /// It is executed.
    Run,
    /// It fails, and its transaction is over.
    Fail(StorageError),
    /// It is a commit that is applied and whose answer is lost.
    CommitApplied,
    /// It is a commit that is lost, and so is its answer.
    CommitLost,
}

impl Permit {
    /// A statement fails with that error; a commit is lost, and nobody is told.
    pub(crate) fn refused(verb: Verb, error: StorageError) -> Self {
        match verb {
            Verb::Commit => Permit::CommitLost,
            _ => Permit::Fail(error),
        }
    }
}

/// How a statement stands after it was let on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Standing {
    /// It was answered, or has not been let on.
    #[default]
    Free,
    /// It took a row lock and has more to take.
    Yielded,
    /// It has waited for a row lock since this instant.
    Waiting(i64),
    /// Its wait closed a cycle of these sessions.
    Deadlocked(Vec<SessionId>),
}

/// What the answer of a call speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Answer {
    /// Rows that are there.
    #[default]
    Present,
    /// Its transaction was open when the database lost the tail of its log, and may have read rows
    /// that are no more.
    MayBeLost,
}

/// What the driver knows of one actor's client side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) pending: Option<Pending>,
    pub(crate) permit: Option<Permit>,
    pub(crate) standing: Standing,
    /// The open transaction.
    pub(crate) session: Option<SessionId>,
    /// Its storage and network are gone: nothing that it still does reaches anyone.
    pub(crate) dead: bool,
    /// Contention that goes on: the verb that it strikes, and how often it still will.
    pub(crate) burst: Option<(Verb, FaultKind, u32)>,
    /// It stood still in the turn that it is at.
    pub(crate) stood_still: bool,
    /// What the answer of its present call speaks of.
    pub(crate) answer: Answer,
    /// A notification arrived since it last looked.
    pub(crate) noticed: bool,
    /// The lease of the execution that its handler works on.
    pub(crate) works_on: Option<LeaseToken>,
}

impl Slot {
    /// The lease of a handler that is at work, and when it will be done, where nothing else of its
    /// actor is under way.
    pub(crate) fn at_work(&self) -> Option<(LeaseToken, i64)> {
        match self.pending {
            Some(Pending::Timer(at)) if self.session.is_none() && self.burst.is_none() => {
                self.works_on.map(|lease| (lease, at))
            }
            _ => None,
        }
    }
}

/// A session whose client is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lingering {
    pub(crate) session: SessionId,
    pub(crate) until: i64,
}

/// A notification under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LateNotice {
    pub(crate) at: i64,
}

/// The world of one universe.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) backend: Backend,
    pub(crate) now: i64,
    pub(crate) clock_offset: i64,
    pub(crate) clock_highest: i64,
    /// The furthest that the storage's clock has stood behind what it had shown before; steps that
    /// follow each other add up.
    pub(crate) clock_behind: i64,
    pub(crate) clock_stepped_forward: bool,
    /// How often the storage's clock has stepped.
    pub(crate) clock_steps: u32,
    pub(crate) database: Database,
    pub(crate) slots: Vec<Slot>,
    /// How far the clock of each actor's machine is off, in microseconds.
    pub(crate) skews: Vec<i64>,
    /// What the process of each actor knows of its reaper's ticks.
    pub(crate) reaping: Vec<Reaping>,
    /// When commits are said to be acknowledged.
    pub(crate) commits: Commits,
    /// What is on the disk, while that is not everything.
    pub(crate) lagging: Option<Box<Lagging>>,
    /// What is not known of a file after trouble with its disk.
    pub(crate) doubts: Doubts,
    /// What the judge knew after each commit on a file, if somebody keeps it.
    pub(crate) witness: Option<Vec<Mirror>>,
    pub(crate) lingering: Vec<Lingering>,
    pub(crate) late: Vec<LateNotice>,
    /// First actor and number of the dispatchers, which notifications wake.
    pub(crate) dispatchers: std::ops::Range<usize>,
    pub(crate) random: SplitMix,
    pub(crate) tape: Tape,
    pub(crate) strikes: Strikes,
    pub(crate) faults_left: u32,
    pub(crate) faults_on: bool,
    pub(crate) odds: crate::plan::Odds,
    pub(crate) counting: bool,
    /// Actors look only where they find something.
    pub(crate) sparing: Option<Sparing>,
    pub(crate) judge: Judge,
    /// The protocol that the judge is set up for.
    pub(crate) judged: (EngineKind, bool),
    pub(crate) commit: Commit,
    pub(crate) violation: Option<Violation>,
    /// The flow that a client was told of first.
    pub(crate) told_flow: Option<FlowKey>,
    /// Clients that may still submit.
    pub(crate) clients_left: usize,
    /// The kind that strikes before any other does.
    pub(crate) first_fault: First,
    /// A fault that strikes as soon as there is something for it.
    pub(crate) overdue: Option<FaultKind>,
    /// Actors that lie in wait for somebody to lock groups.
    pub(crate) ambushes: Vec<ActorId>,
    /// Executions that kill whoever works on them.
    pub(crate) poisonous: BTreeSet<ExecutionId>,
    /// What idle actors would find if they looked.
    pub(crate) news: News,
    /// When the last commit wrote, in virtual time.
    pub(crate) written_at: i64,
    /// When the last commit moved something of a flow that stayed.
    pub(crate) moved_at: i64,
    /// Steps that grants have earned: each brings work of its own, and a policy bounds how many
    /// there are.
    earned: u64,
    /// Counts the executions that end, for those who wait for a large universe.
    pub(crate) pulse: Option<Arc<AtomicU64>>,
    /// Until then what was given up may wait for the pause of an upstream that failed, in virtual
    /// time.
    pub(crate) reached_by: i64,
    /// The highest number of a committed event.
    pub(crate) event_highest: EventId,
    /// Number of the last session of the SQLite lane.
    pub(crate) sessions: SessionId,
    /// The actor whose write transaction the SQLite file holds.
    pub(crate) writer: Option<ActorId>,
    /// The host of each actor, on a network.
    pub(crate) hosts: Vec<usize>,
    /// The network, while the universe is on one.
    pub(crate) network: Option<Box<Net>>,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
    /// The storage's clock, beside the world, because a backend reads it while the world is held.
    static STORAGE_CLOCK: Cell<Timestamp> = const { Cell::new(Timestamp(EPOCH_US)) };
}

/// Runs a closure on this thread's world.
pub(crate) fn world<T>(f: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(f)
}

/// The storage's clock of this thread's world.
pub(crate) fn storage_clock() -> Timestamp {
    STORAGE_CLOCK.get()
}

impl World {
    fn new() -> Self {
        Self {
            backend: Backend::Simulated,
            now: 0,
            clock_offset: EPOCH_US,
            clock_highest: EPOCH_US,
            clock_behind: 0,
            clock_stepped_forward: false,
            clock_steps: 0,
            database: Database::new(),
            slots: Vec::new(),
            skews: Vec::new(),
            reaping: Vec::new(),
            commits: Commits::Synchronous,
            lagging: None,
            doubts: Doubts::default(),
            witness: None,
            lingering: Vec::new(),
            late: Vec::new(),
            dispatchers: 0..0,
            random: SplitMix(0),
            tape: Tape::quiet(),
            strikes: Strikes::default(),
            faults_left: 0,
            faults_on: false,
            odds: crate::plan::Odds { schedule: 0, fault: 0, wait: 0, outcome: 0 },
            counting: false,
            sparing: None,
            judge: Judge::new(),
            judged: (EngineKind::Sluicegate, true),
            commit: Commit::default(),
            violation: None,
            told_flow: None,
            clients_left: 0,
            first_fault: First::default(),
            overdue: None,
            ambushes: Vec::new(),
            poisonous: BTreeSet::new(),
            news: News::default(),
            written_at: 0,
            moved_at: 0,
            earned: 0,
            pulse: None,
            reached_by: 0,
            event_highest: EventId(0),
            sessions: 0,
            writer: None,
            hosts: Vec::new(),
            network: None,
            tally: Tally::default(),
            trace: Trace::default(),
        }
    }

    /// Begins a universe.
    pub(crate) fn reset(&mut self, plan: &Plan, tape: Tape) {
        let cast = plan.cast;
        let actors = usize::from(cast.actors());
        self.backend = plan.backend();
        self.now = 0;
        self.clock_offset = EPOCH_US;
        self.clock_highest = EPOCH_US;
        self.clock_behind = 0;
        self.clock_stepped_forward = false;
        self.clock_steps = 0;
        self.database.reset();
        self.database.granular = plan.granular;
        self.database.statement_max_bytes = Some(plan.statement_max_bytes);
        self.told_flow = None;
        self.ambushes.clear();
        self.poisonous.clear();
        self.clients_left = usize::from(cast.clients);
        self.slots.clear();
        self.slots.resize_with(actors, Slot::default);
        self.skews.clear();
        self.skews.resize(actors, 0);
        self.reaping.clear();
        self.reaping.resize(actors, Reaping::default());
        self.commits = plan.commits;
        self.lagging = None;
        self.doubts.clear();
        self.witness = None;
        self.lingering.clear();
        self.late.clear();
        let first = usize::from(cast.clients + cast.workers);
        self.dispatchers = first..first + usize::from(cast.dispatchers);
        self.random = SplitMix(plan.ids_seed ^ 0x5157_4943_4547_4154);
        self.tape = tape;
        self.strikes.set(&plan.faults, plan.counting);
        self.faults_left = plan.faults_max;
        self.begin_faults(plan.first_fault);
        self.faults_on = true;
        self.odds = plan.odds;
        self.counting = plan.counting;
        self.sparing = plan.sparing.then_some(Sparing { prunes: plan.prunes });
        let judged = (plan.engine, plan.cast.projectors > 0);
        if self.judged != judged {
            self.judged = judged;
            self.judge = match judged {
                (EngineKind::Sluicegate, true) => Judge::new(),
                (EngineKind::Sluicegate, false) => Judge::new().without("I10"),
                (EngineKind::Published, _) => Judge::new().without("I10").without("I21"),
            };
        }
        self.judge.reset(plan.tells_grants());
        self.violation = None;
        self.news = News::default();
        self.written_at = 0;
        self.moved_at = 0;
        self.earned = 0;
        self.reached_by = 0;
        self.event_highest = EventId(0);
        self.sessions = 0;
        self.writer = None;
        self.hosts.clear();
        self.network = None;
        self.trace.begin();
        self.sync_clock();
    }

    /// The storage's clock now.
    pub(crate) fn storage_now(&self) -> Timestamp {
        Timestamp(self.now + self.clock_offset)
    }

    /// Lets virtual time pass.
    pub(crate) fn pass(&mut self, us: i64) {
        self.now += us;
        self.sync_clock();
    }

    /// Publishes the storage's clock after a change of time or offset.
    pub(crate) fn sync_clock(&mut self) {
        let now = self.storage_now();
        self.clock_highest = self.clock_highest.max(now.0);
        self.database.storage_now = now;
        STORAGE_CLOCK.set(now);
    }

    /// Steps the storage's clock.
    pub(crate) fn step_clock(&mut self, us: i64) {
        self.clock_offset += us;
        self.clock_stepped_forward |= us > 0;
        self.clock_steps += 1;
        self.sync_clock();
        self.clock_behind = self.clock_behind.max(self.clock_highest - self.storage_now().0);
    }

    /// Takes a commit that wrote: judges it, and lets everyone know.
    pub(crate) fn committed(&mut self, actor: ActorId) {
        let actor = self.on_behalf(actor);
        self.commit.actor = actor;
        self.commit.clock_highest = Timestamp(self.clock_highest);
        let mirror = self.judge.mirror();
        let asked = !mirror.sibling_requests().is_empty() || !mirror.cancel_backlog().is_empty();
        self.news.of_commit(&self.commit, asked);
        self.written_at = self.now;
        if self.commit.moves_a_flow() {
            self.moved_at = self.now;
        }
        self.earned += self.commit.grants() * STEPS_PER_GRANT;
        if let Some(pulse) = &self.pulse {
            pulse.fetch_add(self.commit.ends(), Ordering::Relaxed);
        }
        self.note_event_numbers();
        let order = self.database.order_violation();
        self.tally.commit(&self.commit);
        self.trace.commit(self.now, &self.commit);
        if let Err(violation) = self.judge.commit(&self.commit, order.as_deref())
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
        if !self.judge.mirror().mended().is_empty() {
            self.reached_by = self.now + micros(FAILING_MAX);
        }
    }

    /// Takes note of events that commit after events with higher numbers.
    fn note_event_numbers(&mut self) {
        let numbers = || self.commit.events.iter().map(|(id, _)| *id);
        if numbers().any(|id| id < self.event_highest) {
            self.tally.sometimes(Sometimes::EventsOutOfOrder);
        }
        self.event_highest = numbers().fold(self.event_highest, EventId::max);
    }

    /// Ends a session and drops its effects.
    pub(crate) fn abort(&mut self, session: SessionId, actor: ActorId) {
        match self.backend {
            Backend::Simulated => {
                // What was passed over as locked can be had now, and nothing else would say so.
                if self.database.locks_held(session) > 0 {
                    self.news.of_everything();
                }
                self.database.abort(session);
                self.wake_waiters();
            }
            Backend::Sqlite => {
                if self.writer == Some(actor) {
                    self.writer = None;
                    self.wake_waiters();
                }
            }
        }
    }

    /// What the first actor at work works on kills from now on; nothing if none works.
    pub(crate) fn poison(&mut self) -> Option<usize> {
        let victim = self.slots.iter().position(|slot| slot.works_on.is_some())?;
        self.poisonous.extend(self.slots[victim].works_on.map(|lease| lease.execution));
        Some(victim)
    }

    /// True if the actor works on what kills. Work is harmless once faults have stopped: workers
    /// answer then.
    pub(crate) fn works_on_poison(&self, index: usize) -> bool {
        let kills = |lease: LeaseToken| {
            lease.attempt <= POISON_ATTEMPTS_MAX && self.poisonous.contains(&lease.execution)
        };
        self.faults_on && self.slots[index].works_on.is_some_and(kills)
    }

    /// Steps that grants have earned since this was last asked.
    pub(crate) fn take_earned(&mut self) -> u64 {
        std::mem::take(&mut self.earned)
    }

    /// Hands an observation to the judge.
    pub(crate) fn observe(&mut self, actor: ActorId, observation: &Observation) {
        self.trace.observe(self.now, actor, observation);
        let asked = matches!(observation, Observation::ReplayAsked { .. });
        if self.slots[usize::from(actor)].answer == Answer::MayBeLost && !asked {
            return;
        }
        if let Observation::Submitted { flow, .. } = observation {
            self.told_flow.get_or_insert(*flow);
        }
        if let Observation::LeaseLost { .. } = observation {
            self.tally.sometimes(Sometimes::LeaseLost);
            if self.slots[usize::from(actor)].stood_still {
                self.tally.sometimes(Sometimes::ZombieFenced);
            }
        }
        if let Observation::Expired { .. } = observation {
            self.tally.sometimes(Sometimes::CursorExpired);
        }
        if let Observation::Delivered { subscriber, position, .. } = observation
            && self.judge.told().heard(*subscriber).is_some_and(|heard| heard.has(*position))
        {
            self.tally.sometimes(Sometimes::EventDeliveredAgain);
        }
        if let Err(violation) = self.judge.observe(observation)
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    fn deliver(&mut self) {
        for slot in &mut self.slots[self.dispatchers.clone()] {
            slot.noticed = true;
        }
    }

    /// Delivers the late notifications that are due.
    pub(crate) fn deliver_late(&mut self) {
        let now = self.now;
        if self.late.iter().any(|late| late.at <= now) {
            self.late.retain(|late| late.at > now);
            self.deliver();
        }
    }
}

/// The environment of one actor: virtual time, numbers of the world, notifications to dispatchers.
#[derive(Clone, Copy, Debug)]
pub struct SimEnvironment {
    pub(crate) actor: ActorId,
}

impl Environment for SimEnvironment {
    fn wall_clock(&self) -> Timestamp {
        let skew = |world: &World| world.skews[usize::from(self.actor)];
        world(|world| Timestamp(world.storage_now().0 + skew(world)))
    }

    fn random(&self) -> u64 {
        world(|world| world.random.next())
    }

    fn monotonic(&self) -> std::time::Duration {
        world(|world| std::time::Duration::from_micros(world.now.unsigned_abs()))
    }

    async fn sleep(&self, duration: std::time::Duration) {
        let on_network =
            world(|world| world.network.is_some() && !world.slots[usize::from(self.actor)].dead);
        match on_network {
            true => Timer::after(duration).await,
            false => Sleep::new(self.actor, duration).await,
        }
    }

    fn notify(&self, _notice: Notice) {
        world(|world| {
            if world.slots[usize::from(self.actor)].dead {
                return;
            }
            match world.draw_fault(Site::Notice, Point::Notice) {
                Some(FaultKind::NoticeLost) => {}
                Some(FaultKind::NoticeLate) => {
                    let at = world.now + 2_500_000;
                    world.late.push(LateNotice { at });
                }
                Some(_) => {
                    world.deliver();
                    let at = world.now + 700_000;
                    world.late.push(LateNotice { at });
                }
                None => world.deliver(),
            }
        });
    }
}
