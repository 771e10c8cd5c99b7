//! The phases of a universe: safety with faults, heal, and liveness in two parts, each of which
//! must drain alone within the bounds. Never decides who goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate::identity::ExecutionId;
use sluicegate::policy::Decision;
use sluicegate::reconcile::FAILING_MAX;
use sluicegate::retry::RetryPolicy;
use sluicegate::state::State;
use sluicegate::storage::{EventId, Execution, Group, Resolution};
use sluicegate::time::micros;

use crate::actors::resumer::RESUMED_AFTER;
use crate::actors::worker::{LEASE, SNOOZE, WORK_MAX};
use crate::actors::{Role, Sweeps};
use crate::database::Database;
use crate::driver::news::News;
use crate::driver::schedule::Settled;
use crate::driver::tally::Sometimes;
use crate::driver::turns::SIGMA_US;
use crate::driver::universe::{End, Stores, Universe};
use crate::driver::world::{SESSION_LIMIT_US, World, world};
use crate::faults::Point;
use crate::invariants::{Judge, Violation};
use crate::liveness::{Bounds, Following, Node, Settings};
use crate::mirror::Mirror;
use crate::plan::{Backend, EngineKind, LaneKind};
use crate::random::SplitMix;
use crate::tape::{Chance, Site};

/// While a group is stuck, the rest has gone as far as it can after so much virtual time without a
/// commit: one poll, and every upstream of the group may spend a whole retry budget on it.
const STUCK_POLL_US: i64 = 2_000_000;
const STUCK_UPSTREAM_US: i64 = 2_500_000;

/// An execution by its name, with its retry policy and the delay before its first claim.
type Named = (String, RetryPolicy, Duration);
/// Upstream and downstream, by their places.
type Link = (usize, usize);

/// A part of the liveness phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The dispatchers drive the cascades; of the reconcilers all run but that of dependencies.
    Dispatchers,
    /// The reconcilers drive them; the dispatchers are off and every event is deleted.
    Reconcilers,
}

impl Part {
    const ALL: [Part; 2] = [Part::Dispatchers, Part::Reconcilers];

    fn title(self) -> &'static str {
        match self {
            Part::Dispatchers => "dispatchers alone, dependency reconciler off",
            Part::Reconcilers => "reconcilers alone, dispatchers off, every event deleted",
        }
    }
}

/// The state at heal, when no future lives.
struct Saved {
    database: Database,
    judge: Judge,
    now: i64,
    random: SplitMix,
    news: News,
    done: Vec<bool>,
}

impl Universe {
    /// Runs every phase to the end of the universe.
    pub(crate) fn phases(&mut self) -> End {
        if let Some((healed_at, part)) = self.healed {
            // A saved state of that part goes on.
            return self.drain(healed_at, part);
        }
        let settled = match self.plan.lane {
            LaneKind::Network => self.settle_over_network(),
            LaneKind::Model | LaneKind::Sqlite => self.settle(),
        };
        let midway = match settled {
            Settled::Ended(end) => return end,
            Settled::HealDue => true,
            Settled::Quiet => false,
        };
        self.heal();
        let undrained = !self.drained();
        if midway && undrained {
            world(|world| world.tally.sometimes(Sometimes::HealedMidway));
        }
        if !undrained && !midway {
            return self.judge_rest(None);
        }
        // A state without futures can be run twice; a file cannot, and counting takes turns.
        let both = world(|world| world.backend == Backend::Simulated && !world.counting);
        if !both {
            let drawn = world(|world| world.tape.draw(Site::Detail, 2, Chance::Even));
            return self.part(Part::ALL[usize::from(drawn)]);
        }
        Self::draw_stuck_group();
        let saved = self.save();
        match self.part(Part::Dispatchers) {
            End::Clean => {}
            end => return end,
        }
        self.restore(saved);
        self.healed = None;
        self.part(Part::Reconcilers)
    }

    /// Faults stop: every actor is killed, and the storage ends the sessions of dead clients.
    fn heal(&mut self) {
        self.end_trouble();
        self.end_lives();
        world(|world| {
            world.faults_on = false;
            world.late.clear();
            let last = world.lingering.iter().map(|lingering| lingering.until).max();
            if let Some(last) = last {
                let us = (last - world.now).max(0);
                world.pass(us);
                world.end_lingering();
            }
        });
    }

    /// One group of the flow may stay out of reach for a while after the other faults have stopped.
    fn draw_stuck_group() {
        world(|world| {
            let open = |group: &&Group| group.decision == Decision::Undecided;
            let groups: Vec<ExecutionId> = world
                .judge
                .mirror()
                .groups()
                .iter()
                .filter(open)
                .map(|group| group.downstream)
                .collect();
            if groups.is_empty() {
                return;
            }
            world.faults_on = true;
            let struck = world.draw_fault(Site::Fault, Point::Heal).is_some();
            world.faults_on = false;
            if struck {
                let arity = u16::try_from(groups.len()).unwrap_or(u16::MAX);
                let drawn = world.tape.draw(Site::Detail, arity, Chance::Even);
                world.database.stuck_group = Some(groups[usize::from(drawn)]);
            }
        });
    }

    fn part(&mut self, part: Part) -> End {
        world(|world| world.trace.healed(world.now, part.title()));
        self.steps_left = self.step_limit();
        self.heal_in = 0;
        self.phase_from = 0;
        self.awaken();
        self.sweeps = match part {
            Part::Dispatchers => Sweeps::WithoutDependency,
            Part::Reconcilers => Sweeps::All,
        };
        if self.visited_before() {
            return End::Pruned;
        }
        let mut healed_at = world(|world| world.now);
        if part == Part::Reconcilers {
            self.delete_events();
            if let Some(end) = self.first_tick() {
                return end;
            }
            self.awaken();
        }
        for actor in &mut self.actors {
            // The bounds are those of a flow that does not grow meanwhile.
            actor.off = actor.role == Role::Extender
                || part == Part::Reconcilers && actor.role == Role::Dispatcher;
        }
        if let Some(stuck) = world(|world| world.database.stuck_group)
            && let Some(end) = self.around_stuck_group(stuck, part)
        {
            return end;
        }
        healed_at = healed_at.max(self.phase_from);
        self.drain(healed_at, part)
    }

    fn drain(&mut self, healed_at: i64, part: Part) -> End {
        self.healed = Some((healed_at, part));
        match self.settle() {
            Settled::Ended(end) => end,
            Settled::HealDue | Settled::Quiet => self.judge_rest(Some((healed_at, part))),
        }
    }

    /// Everything but one group goes on while that group cannot be locked; then it can.
    fn around_stuck_group(&mut self, stuck: ExecutionId, part: Part) -> Option<End> {
        self.phase_from = world(|world| world.now);
        let upstreams = world(|world| world.judge.mirror().edges_into(stuck).len());
        let upstreams = i64::try_from(upstreams).unwrap_or(i64::MAX);
        self.quiet_limit =
            Some(STUCK_POLL_US.saturating_add(STUCK_UPSTREAM_US.saturating_mul(upstreams)));
        let settled = self.settle();
        self.quiet_limit = None;
        if let Settled::Ended(end) = settled {
            return Some(end);
        }
        let ended: Vec<ExecutionId> = ended(&world(|world| world.judge.mirror().clone()));
        let left = world(|world| left_behind(world, &ended, &[], Some(stuck), "everyone at work"));
        if let Some(left) = left {
            let message = format!("{left}, while another group was stuck ({})", part.title());
            return Some(End::Violated(Violation { invariant: "I8", message }));
        }
        world(|world| world.database.stuck_group = None);
        self.phase_from = world(|world| world.now);
        self.awaken_keeping_off();
        None
    }

    fn awaken_keeping_off(&mut self) {
        self.drop_ops();
        let off: Vec<bool> = self.actors.iter().map(|actor| actor.off).collect();
        self.awaken();
        for (actor, off) in self.actors.iter_mut().zip(off) {
            actor.off = off;
        }
    }

    /// Every actor starts afresh, now.
    fn awaken(&mut self) {
        let now = world(|world| world.now);
        for actor in &mut self.actors {
            actor.seen = u64::MAX;
            actor.next_at = if actor.done { i64::MAX } else { now };
            actor.asleep_until = 0;
            actor.off = false;
        }
        self.current = 0;
    }

    /// L1: one tick that starts after S + F + B + sigma leaves nothing that stood at its start.
    fn first_tick(&mut self) -> Option<End> {
        let wait = micros(self.bounds().l1.total());
        world(|world| world.pass(wait));
        let reconciler = self.actors.iter().position(|actor| actor.role == Role::Reconciler)?;
        let ended = world(|world| ended(world.judge.mirror()));
        let stuck = world(|world| world.database.stuck_group);
        let decided: Vec<_> = world(|world| {
            let groups = world.judge.mirror().groups().iter();
            groups
                .filter(|group| group.decision != Decision::Undecided)
                .map(|group| group.downstream)
                .collect()
        });
        for (index, actor) in self.actors.iter_mut().enumerate() {
            actor.off = index != reconciler;
        }
        self.current = reconciler;
        self.begin_turn(reconciler);
        self.poll(reconciler);
        while self.actors[reconciler].op.is_some() {
            self.steps_left -= 1;
            if self.steps_left == 0 {
                return Some(End::Livelock("one tick of the reconciler does not end".into()));
            }
            self.run_quietly(reconciler);
            if let Some(violation) = world(|world| world.violation.take()) {
                return Some(End::Violated(violation));
            }
        }
        world(|world| world.tally.ticks_most = world.tally.ticks_most.max(1));
        let left = world(|world| left_behind(world, &ended, &decided, stuck, ONE_TICK));
        left.map(|message| End::Violated(Violation { invariant: "I8", message }))
    }

    fn delete_events(&mut self) {
        match &self.stores {
            Stores::Model => world(|world| world.database.delete_all_events()),
            Stores::Sqlite(lane) => lane.delete_events(),
        }
        world(|world| world.judge.events_deleted());
    }

    /// Judges what remains, and by when.
    fn judge_rest(&mut self, healed: Option<(i64, Part)>) -> End {
        if let Some(violation) = world(|world| world.violation.take()) {
            return End::Violated(violation);
        }
        let rest = world(|world| world.judge.quiescent());
        if let Err(mut violation) = rest {
            if let Some((_, part)) = healed {
                violation.message = format!("{} ({})", violation.message, part.title());
            }
            return End::Violated(violation);
        }
        let damaged = world(|world| !world.judge.mirror().damaged().is_empty());
        if self.plan.cast.projectors > 0
            && let Err(violation) = self.read_lists()
        {
            return End::Violated(violation);
        }
        if let Stores::Sqlite(lane) = &self.stores
            && !damaged
            && let Some(message) = lane.differs_from_mirror()
        {
            return End::Violated(Violation { invariant: "I9", message });
        }
        if let Some((healed_at, part)) = healed {
            // The feed may go on after the flow has ended.
            let took = world(|world| world.moved_at - healed_at);
            let bounds = self.bounds();
            if took > micros(bounds.l2) {
                let message =
                    format!("drained {took} us after the last fault ({}): {bounds}", part.title());
                return End::Violated(Violation { invariant: "I8", message });
            }
        }
        End::Clean
    }

    /// Another process has opened the file: what was committed is there, and nothing else. Rows
    /// that are damaged are not as the judge knows them.
    pub(crate) fn judge_restart(&self) {
        let Stores::Sqlite(lane) = &self.stores else { return };
        let judged = world(|world| {
            world.doubts.recovers = world.judge.mirror().damaged().is_empty();
            world.doubts.recovers
        });
        if judged && let Some(message) = lane.differs_from_mirror() {
            let lost = Violation { invariant: "I19", message };
            world(|world| {
                world.violation.get_or_insert(lost);
            });
        }
    }

    /// True if every execution of a submitted flow has ended and is propagated, or it was pruned.
    pub(crate) fn drained(&self) -> bool {
        let propagation = self.plan.engine == EngineKind::Sluicegate;
        world(|world| {
            let mirror = world.judge.mirror();
            let rows = mirror.executions();
            let pending = mirror.edges().iter().any(|edge| edge.resolution == Resolution::Pending);
            (!rows.is_empty() || mirror.has_pruned())
                && !pending
                && rows
                    .iter()
                    .all(|row| row.state.is_terminal() && (row.propagated || !propagation))
        })
    }

    fn save(&self) -> Saved {
        world(|world| Saved {
            database: world.database.clone(),
            judge: world.judge.clone(),
            now: world.now,
            random: world.random,
            news: world.news,
            done: self.actors.iter().map(|actor| actor.done).collect(),
        })
    }

    fn restore(&mut self, saved: Saved) {
        self.end_lives();
        for (actor, done) in self.actors.iter_mut().zip(saved.done) {
            actor.done = done;
        }
        self.count_clients();
        world(|world| {
            world.database = saved.database;
            world.judge = saved.judge;
            world.now = saved.now;
            world.moved_at = saved.now;
            world.reached_by = saved.now;
            world.event_highest = EventId(0);
            world.random = saved.random;
            world.news = saved.news;
            world.lingering.clear();
            world.late.clear();
            world.sync_clock();
        });
    }

    /// The bounds of SPEC 10 for this flow: two workers handle everything one after the other, so
    /// that a claim waits at most for the whole flow's work.
    pub(crate) fn bounds(&self) -> Bounds {
        let (members, edges) = self.members();
        let members = members.iter();
        let nodes: Vec<Node<'_>> = members
            .map(|(name, retry, delay)| Node { name, retry: *retry, delay: *delay })
            .collect();
        let attempt = WORK_MAX + LEASE;
        let (back, forward) = world(|world| (world.clock_behind, world.clock_stepped_forward));
        let clock_step = Duration::from_micros(back.unsigned_abs())
            + if forward { LEASE } else { Duration::ZERO };
        let executions = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        // What is suspended when faults stop waits for somebody outside first.
        let resumed_after = match self.plan.cast.resumers {
            0 => Duration::ZERO,
            _ => RESUMED_AFTER,
        };
        Bounds::of(
            &nodes,
            &edges,
            &Settings {
                session_limit: Duration::from_micros(SESSION_LIMIT_US.unsigned_abs()),
                backoff_longest: FAILING_MAX,
                clock_step,
                stale_after: Duration::from_micros(SIGMA_US.unsigned_abs()),
                claim_delay: attempt * executions + Duration::from_secs(4) + resumed_after,
                attempt_limit: attempt,
                tick: Duration::from_secs(2),
                // Healed workers give nothing back; what was put off before still waits.
                give_backs: 0,
                snooze_longest: SNOOZE,
                following: Following::Yes,
            },
        )
    }
}

impl Universe {
    /// The executions and edges of the flow as it has grown; as it was planned until it has.
    fn members(&self) -> (Vec<Named>, Vec<Link>) {
        let grown = world(|world| world.judge.mirror().flows().iter().any(|row| row.revision > 0));
        if !grown {
            let nodes = self.flow.spec().executions.iter().map(Node::of);
            let members = nodes.map(|one| (one.name.to_owned(), one.retry, one.delay)).collect();
            return (members, self.flow.edges().map(|(from, to, _)| (from, to)).collect());
        }
        let whole = self.plan.whole();
        let mut delays: BTreeMap<&str, Duration> = BTreeMap::new();
        for node in whole.executions.iter().map(Node::of) {
            let longest = delays.entry(node.name).or_default();
            *longest = node.delay.max(*longest);
        }
        let delay = |name: &str| delays.get(name).copied().unwrap_or_default();
        let names: BTreeMap<ExecutionId, String> =
            self.names().into_iter().map(|(name, id)| (id, name)).collect();
        world(|world| {
            let mirror = world.judge.mirror();
            let name = |id| names.get(&id).cloned().unwrap_or_else(|| id.to_string());
            let rows = mirror.executions().iter();
            let member = |row: &Execution| {
                let name = name(row.id);
                let delay = delay(&name);
                (name, row.retry, delay)
            };
            let members = rows.map(member).collect();
            let place = |id| mirror.execution_index(id).expect("an edge has both ends");
            let edges = mirror.edges().iter();
            let edges = edges.map(|edge| (place(edge.key.upstream), place(edge.key.downstream)));
            (members, edges.collect())
        })
    }
}

/// The executions that have ended, in id order.
fn ended(mirror: &Mirror) -> Vec<ExecutionId> {
    let rows = mirror.executions().iter().filter(|row| row.state.is_terminal());
    rows.map(|row| row.id).collect()
}

/// Whom the first bound is about.
const ONE_TICK: &str = "one tick of the dependency reconciler";

/// Names what was left although it stood at its start.
fn left_behind(
    world: &World,
    ended: &[ExecutionId],
    decided: &[ExecutionId],
    stuck: Option<ExecutionId>,
    who: &str,
) -> Option<String> {
    let mirror = world.judge.mirror();
    let waiting = mirror.waiting();
    let pending = mirror.edges().iter().find(|edge| {
        edge.resolution == Resolution::Pending
            && !waiting.has_end_of(edge)
            && stuck != Some(edge.key.downstream)
            && ended.binary_search(&edge.key.upstream).is_ok()
    });
    if let Some(edge) = pending {
        return Some(format!(
            "{who} left the edge from {} to {} pending although its upstream had ended before",
            edge.key.upstream, edge.key.downstream
        ));
    }
    let blocked = decided
        .iter()
        .filter(|id| !waiting.has(**id))
        .find(|id| mirror.execution(**id).is_some_and(|row| row.state == State::Blocked));
    blocked.map(|id| format!("{who} left {id} blocked although its group had decided"))
}
