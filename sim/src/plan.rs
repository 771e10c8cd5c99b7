//! Everything that a seed decides before a universe runs: the flow, the actors, the faults and how
//! eagerly they strike. Plain data; a failure file holds one. Never decides anything at run time.

mod backend;
mod disk;
mod first;
mod order;
mod profile;
mod statements;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluicegate::flow::{Additions, FlowSpec};
use sluicegate::mutants::Mutant;
use sluicegate::storage::Wanted;

use crate::faults::{self, FaultKind};
use crate::random::SplitMix;
use crate::scenario::{Scenario, Workload};
use crate::tape::{Chance, Site, Tape};
use crate::workload;

pub use backend::Backend;
pub use disk::{FailingDisk, Strike};
pub use order::Priorities;
pub use profile::Profile;

use first::{first_fault, is_refused};
use order::Order;
use profile::Kinds;

/// Which storage, time and network a universe runs on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneKind {
    /// The simulated Postgres.
    Model,
    /// A real SQLite file.
    Sqlite,
    /// Either of them behind a storage server, on hosts of a simulated network.
    Network,
}

/// Which protocol is judged.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Sluicegate's own.
    #[default]
    Sluicegate,
    /// The published system's, which must fail.
    Published,
}

/// When a commit is acknowledged.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Commits {
    /// Once it is on the disk.
    #[default]
    Synchronous,
    /// Before that, so that a crash of the database may lose the last of them.
    Asynchronous,
}

/// The actors of a universe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cast {
    /// Clients that submit the flow under one key.
    pub clients: u8,
    /// Workers.
    pub workers: u8,
    /// Dispatchers.
    pub dispatchers: u8,
    /// Reconcilers; each runs all of them.
    pub reconcilers: u8,
    /// Operators, who cancel, replay and change joins.
    #[serde(default)]
    pub operators: u8,
    /// Projectors of summaries; without one nobody looks at summaries.
    #[serde(default)]
    pub projectors: u8,
    /// Sequencers, which number the feed.
    #[serde(default)]
    pub sequencers: u8,
    /// Subscribers; every second one wants the events of the flow's namespace only.
    #[serde(default)]
    pub subscribers: u8,
    /// Those who resume what is suspended; without one no worker suspends.
    #[serde(default)]
    pub resumers: u8,
    /// Extenders, each of which adds some of the plan's extensions to the flow.
    #[serde(default)]
    pub extenders: u8,
}

impl Cast {
    /// How many they are.
    pub fn actors(self) -> u8 {
        self.clients
            + self.workers
            + self.dispatchers
            + self.reconcilers
            + self.operators
            + self.projectors
            + self.sequencers
            + self.subscribers
            + self.resumers
            + self.extenders
    }
}

/// An actor that is held back once, in the middle of what it does: races with one who is slow are
/// rare when everyone is as likely to go on. (Burckhardt and others, "A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs", 2010, lower a priority at drawn steps for that.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// Its position among the actors.
    pub actor: u8,
    /// Before so many of its statements.
    pub statement: u8,
}

/// How likely each choice leaves the quiet one, in 65 536ths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Odds {
    /// Another actor than the present one goes on.
    pub schedule: u16,
    /// A fault strikes a statement.
    pub fault: u16,
    /// A fault strikes a wait, an await or a notification.
    pub wait: u16,
    /// A handler reports something else than success.
    pub outcome: u16,
}

/// A universe before it runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of the file, on or off")]
pub struct Plan {
    /// Its lane.
    pub lane: LaneKind,
    /// The protocol that is judged.
    pub engine: EngineKind,
    /// The planted bug that is on.
    pub mutant: Option<String>,
    /// Seed of ids, nonces and jitter, which are no choices.
    pub ids_seed: u64,
    /// The flow.
    pub flow: FlowSpec,
    /// What extenders may add to it, in any order, more than once or never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Additions>,
    /// Its actors.
    pub cast: Cast,
    /// Fault kinds that may strike.
    pub faults: BTreeSet<FaultKind>,
    /// At most so many.
    pub faults_max: u32,
    /// The kind of the first. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_fault: Option<FaultKind>,
    /// At most so many deviations from the default schedule.
    pub delays_max: u32,
    /// By which priorities actors go on, if by any. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<Priorities>,
    /// Every row lock inside a statement is a scheduling point.
    pub granular: bool,
    /// Groups that one hop may change.
    pub hop_groups_max: u32,
    /// Upstreams that one hop starts from.
    pub hop_upstreams_max: u32,
    /// Members that one transaction of a cancel looks at.
    #[serde(default = "cancel_batch")]
    pub cancel_batch: u32,
    /// When commits are acknowledged.
    #[serde(default)]
    pub commits: Commits,
    /// Who is held back, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Reconcilers take away what is over. Follows from the seed, not from a choice.
    #[serde(default)]
    pub prunes: bool,
    /// Bytes of results that a lease carries.
    #[serde(default = "inputs_max_bytes")]
    pub inputs_max_bytes: u64,
    /// Bytes of what one statement writes, and the length of the longest that the simulated server
    /// reads. Follows from the seed, not from a choice.
    #[serde(default = "statements::max_bytes")]
    pub statement_max_bytes: u64,
    /// Workers say how far they have come. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// Operators and extenders act in the middle of hops. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ambushes: bool,
    /// Rows of what has ended are damaged too. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spoils_ended: bool,
    /// Actors look only where they find something to do, not after whatever has happened. Follows
    /// from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sparing: bool,
    /// The feed tells of leases that are granted and extended, and which kinds of events its
    /// subscribers want. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<Leases>,
    /// What stands behind the server of a network, if that is not the simulated Postgres. Follows
    /// from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Backend>,
    /// The disk, if it is one that fails. Follows from the seed, not from a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<FailingDisk>,
    /// Faults stop after so many steps; 0 means that the safety phase runs to its end.
    pub heal_after: u32,
    /// How likely each choice leaves the quiet one.
    pub odds: Odds,
    /// Every choice is counted through, so that choices which change nothing are not offered.
    #[serde(default)]
    pub counting: bool,
}

/// Statements of an actor before one of which it may be held back.
const HOLD_STATEMENTS: u16 = 24;

/// What the feed tells of leases, and whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leases {
    /// Grants and renewals are events as well.
    pub grants: bool,
    /// Which kinds of events a subscriber wants; the next one takes the next choice.
    pub wanted: Wanted,
}

impl Leases {
    /// What the subscriber of that number wants.
    pub fn wanted_by(self, nth: u8) -> Wanted {
        Wanted::ALL[(self.wanted as usize + usize::from(nth)) % Wanted::ALL.len()]
    }

    fn of_seed(ids_seed: u64) -> Self {
        let chosen = (ids_seed / LEASES_EVERY) % Wanted::ALL.len() as u64;
        let wanted = Wanted::ALL[usize::try_from(chosen).unwrap_or(0)];
        Self { grants: ids_seed % LEASES_EVERY == 2, wanted }
    }
}

/// Of so many universes one has a feed that tells of grants and renewals.
const LEASES_EVERY: u64 = 5;

/// Of so many universes one has reconcilers that prune.
const PRUNES_EVERY: u64 = 8;

/// Of so many universes one has workers that report progress.
const PROGRESS_EVERY: u64 = 3;
/// Of so many universes one has operators and extenders that act in the middle of hops.
const AMBUSHES_EVERY: u64 = 4;

/// Where commits may be lost, so may what retention has seen: half of those universes have them.
fn prunes(ids_seed: u64, commits: Commits) -> bool {
    let every = if commits == Commits::Asynchronous { 2 } else { PRUNES_EVERY };
    ids_seed % every == 5 % every
}

/// The batch of plans that do not name one.
fn cancel_batch() -> u32 {
    sluicegate::Settings::default().cancel_batch
}

/// What a lease of plans that do not say so carries.
fn inputs_max_bytes() -> u64 {
    sluicegate::flow::Limits::default().inputs_max_bytes
}

impl Plan {
    /// The plan with the order of its seed. Where actors lie in wait for each other, that is one.
    fn in_order(mut self) -> Self {
        if self.ambushes {
            return self;
        }
        match Order::of_seed(self.ids_seed, self.cast.actors(), self.flow.executions.len()) {
            Order::Free => {}
            Order::Bounded { delays_max, odds } => {
                self.delays_max = delays_max;
                self.odds.schedule = odds;
            }
            Order::Priorities(priorities) => {
                self.priorities = Some(priorities);
                self.odds.schedule = 0;
            }
        }
        self
    }

    /// True if the feed tells of leases that are granted and extended.
    pub fn tells_grants(&self) -> bool {
        self.leases.is_some_and(|leases| leases.grants)
    }

    /// The lanes that its executions are claimed from, each once.
    pub fn lanes(&self) -> Arc<[Arc<str>]> {
        let added = self.extensions.iter().flat_map(|extension| &extension.executions);
        let all = self.flow.executions.iter().chain(added).map(|one| one.lane.as_str());
        let lanes: BTreeSet<&str> = all.collect();
        lanes.into_iter().map(Arc::from).collect()
    }

    /// The flow with everything that may be added to it: for names, not for what is there.
    pub fn whole(&self) -> FlowSpec {
        let mut whole = self.flow.clone();
        for extension in &self.extensions {
            whole.executions.extend(extension.executions.iter().cloned());
        }
        whole
    }
}

impl LaneKind {
    /// Every lane.
    pub const ALL: [LaneKind; 3] = [LaneKind::Model, LaneKind::Sqlite, LaneKind::Network];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LaneKind::Model => "model",
            LaneKind::Sqlite => "sqlite",
            LaneKind::Network => "network",
        }
    }
}

impl EngineKind {
    /// Every protocol.
    pub const ALL: [EngineKind; 2] = [EngineKind::Sluicegate, EngineKind::Published];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Sluicegate => "sluicegate",
            EngineKind::Published => "published",
        }
    }
}

/// What a campaign fixes for all of its universes.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The lane.
    pub lane: LaneKind,
    /// The profile.
    pub profile: Profile,
    /// The protocol.
    pub engine: EngineKind,
    /// The planted bug.
    pub mutant: Option<Mutant>,
    /// Its flows.
    pub workload: Workload,
}

/// Half of the time one of those who come last, and act seldom.
fn draw_hold(tape: &mut Tape, cast: Cast) -> Hold {
    let seldom = cast.resumers + cast.extenders;
    let all = cast.actors();
    let last = tape.draw(Site::Plan, 2, Chance::Even) == 1 && seldom > 0;
    let among = if last { seldom } else { all };
    let drawn = u8::try_from(tape.draw(Site::Plan, u16::from(among), Chance::Even));
    let statement = u8::try_from(tape.draw(Site::Plan, HOLD_STATEMENTS, Chance::Even));
    Hold {
        actor: all - among + drawn.unwrap_or_default(),
        statement: 1 + statement.unwrap_or_default(),
    }
}

impl Campaign {
    /// How many executions one universe has at least, if all have the same.
    pub fn executions(&self) -> u64 {
        let flow = match &self.workload {
            Workload::Drawn => return 0,
            Workload::Flow(flow) => flow,
            Workload::Scenario(scenario) => &scenario.flow,
        };
        flow.executions.len() as u64
    }

    /// The plan of one seed.
    pub fn plan(&self, seed: u64) -> Plan {
        self.plan_from(&mut Tape::random(seed, 0), seed)
    }

    /// The plan that the choices of a tape give.
    pub fn plan_from(&self, tape: &mut Tape, ids_seed: u64) -> Plan {
        let mut even = |arity: u16| tape.draw(Site::Plan, arity, Chance::Even);
        let faults_max = u32::from(even(self.profile.faults_max() + 1));
        let busy_schedule = even(4);
        let granular = even(2) == 1;
        let hop_groups_max = [256, 256, 2, 1][usize::from(even(4))];
        let hop_upstreams_max = [1_000, 1_000, 2, 1][usize::from(even(4))];
        let heal = even(2) == 1;
        let heal_after = if heal { 1 + u32::from(even(400)) } else { 0 };
        let outcome = [0, 6_000, 16_000][usize::from(even(3))];
        let operators = u8::from(even(3) == 1);
        let cancel_batch = [cancel_batch(), 1, 2][usize::from(even(3))];
        let relaxed = even(4) == 1;
        let behind = Backend::of_seed(ids_seed, self.lane, self.engine);
        let faults = self.draw_kinds(tape, ids_seed, self.lane.backend(behind));
        // Whom a server on a network serves is told what is on the disk.
        let relaxed = relaxed && self.lane != LaneKind::Network;
        let commits = match relaxed && faults.contains(&FaultKind::DatabaseCrash) {
            true => Commits::Asynchronous,
            false => Commits::Synchronous,
        };
        let mut flow = match &self.workload {
            Workload::Drawn => workload::flow(tape, self.profile.executions_max()),
            Workload::Flow(flow) => flow.clone(),
            Workload::Scenario(scenario) => scenario.flow.clone(),
        };
        let drawn = matches!(self.workload, Workload::Drawn);
        let resumers = 2 * u8::from(tape.draw(Site::Plan, 3, Chance::Even) == 1);
        let extenders = match (drawn, self.engine) {
            (true, EngineKind::Sluicegate) => {
                [0, 1, 2, 0, 0, 0][usize::from(tape.draw(Site::Plan, 6, Chance::Even))]
            }
            _ => 0,
        };
        let mut extensions = match extenders {
            0 => Vec::new(),
            _ => workload::growth::extensions(tape, &flow),
        };
        let operators = match operators {
            1 => 1 + u8::from(tape.draw(Site::Plan, 2, Chance::Even) == 1),
            _ => 0,
        };
        let inputs_max_bytes = match (drawn, self.engine) {
            (true, EngineKind::Sluicegate) => {
                workload::inputs::name(tape, &mut flow, &mut extensions)
            }
            _ => inputs_max_bytes(),
        };
        let cast = Cast { extenders, ..self.cast(operators, resumers) };
        let hold = (tape.draw(Site::Plan, 2, Chance::Even) == 1).then(|| draw_hold(tape, cast));
        let statements = 60 * u32::try_from(flow.executions.len()).unwrap_or(u32::MAX).max(1);
        let spread = u64::from(faults_max + 1) * 65_536 / u64::from(statements);
        let plan = Plan {
            lane: self.lane,
            engine: self.engine,
            mutant: self.mutant.map(|mutant| mutant.id().to_owned()),
            ids_seed,
            flow,
            extensions,
            cast: Cast {
                // Who follows the feed of such a database has no promise to rely on.
                subscribers: if commits == Commits::Asynchronous { 0 } else { cast.subscribers },
                ..cast
            },
            commits,
            hold,
            prunes: prunes(ids_seed, commits) && self.engine == EngineKind::Sluicegate,
            inputs_max_bytes,
            statement_max_bytes: statements::bytes_of_seed(ids_seed),
            leases: Some(Leases::of_seed(ids_seed)),
            // Where one writer is let in at a time, nobody can come in between.
            ambushes: self.lane == LaneKind::Model && ids_seed % AMBUSHES_EVERY == 3,
            progress: ids_seed % PROGRESS_EVERY == 1 && self.engine == EngineKind::Sluicegate,
            spoils_ended: SplitMix(ids_seed ^ 0x5350_4F49_4C45_4E44).next().is_multiple_of(2),
            sparing: !SplitMix(ids_seed ^ 0x5350_4152_494E_4700).next().is_multiple_of(4),
            first_fault: first_fault(ids_seed, &faults, commits, (self.lane, behind)),
            faults,
            faults_max,
            delays_max: u32::MAX,
            priorities: None,
            granular,
            hop_groups_max,
            hop_upstreams_max,
            cancel_batch,
            behind,
            disk: None,
            heal_after,
            odds: Odds {
                schedule: [0, 2_000, 12_000, 32_000][usize::from(busy_schedule)],
                fault: u16::try_from(spread.clamp(40, 6_000)).unwrap_or(u16::MAX),
                wait: 12_000,
                outcome,
            },
            counting: false,
        };
        let plan = match &self.workload {
            Workload::Scenario(scenario) => self.staged(plan, scenario, tape),
            _ => plan.on_its_disk(),
        };
        plan.in_order()
    }

    /// The plan with the actors, the faults and the settings of a scenario.
    fn staged(&self, plan: Plan, scenario: &Scenario, tape: &mut Tape) -> Plan {
        let ours = self.engine == EngineKind::Sluicegate;
        let extensions = if ours { scenario.extensions.clone() } else { Vec::new() };
        let extenders = u8::try_from(extensions.len().min(2)).unwrap_or(0);
        let resumers = if ours { scenario.resumers } else { 0 };
        let cast = Cast { extenders, ..self.cast(scenario.operators, resumers) };
        let faults_max = u32::from(tape.draw(Site::Plan, 1 + scenario.faults_max, Chance::Even));
        let hold = (tape.draw(Site::Plan, 2, Chance::Even) == 1).then(|| draw_hold(tape, cast));
        let settings = &scenario.settings;
        let set = |own: Option<u32>, drawn: u32| own.unwrap_or(drawn);
        Plan {
            extensions,
            cast,
            hold,
            faults: scenario.faults_on(self.lane, plan.backend()),
            faults_max,
            first_fault: None,
            commits: Commits::Synchronous,
            prunes: settings.prunes && ours,
            ambushes: settings.ambushes && self.lane == LaneKind::Model,
            hop_groups_max: set(settings.hop_groups_max, plan.hop_groups_max),
            hop_upstreams_max: set(settings.hop_upstreams_max, plan.hop_upstreams_max),
            cancel_batch: set(settings.cancel_batch, plan.cancel_batch),
            odds: Odds { outcome: settings.outcome.unwrap_or(plan.odds.outcome), ..plan.odds },
            ..plan
        }
    }

    /// Two of each beside the operators; the published system has no summaries, no feed and no
    /// suspensions.
    fn cast(&self, operators: u8, resumers: u8) -> Cast {
        let ours = if self.engine == EngineKind::Sluicegate { 2 } else { 0 };
        Cast {
            clients: 2,
            workers: 2,
            dispatchers: 2,
            reconcilers: 2,
            operators,
            projectors: ours,
            sequencers: ours,
            subscribers: ours,
            resumers: resumers.min(ours),
            extenders: 0,
        }
    }

    /// Those of the kinds that strike there which the profile has.
    fn draw_kinds(&self, tape: &mut Tape, ids_seed: u64, backend: Backend) -> BTreeSet<FaultKind> {
        let seldom = tape.draw(Site::Plan, 8, Chance::Even) == 1;
        let kinds = faults::kinds_on(self.lane, backend).into_iter();
        let kinds = kinds.filter(|kind| seldom || !kind.is_seldom());
        let kinds = kinds.filter(|kind| is_refused(ids_seed) || kind.refusal().is_none());
        // Which of the disk's there are does not come from the tape.
        let kinds = kinds.filter(|kind| kind.trouble().is_none());
        match self.profile.kinds() {
            Kinds::Every => kinds.collect(),
            Kinds::Drawn => kinds.filter(|_| tape.draw(Site::Plan, 2, Chance::Even) == 1).collect(),
        }
    }
}
