//! The actors of a universe. A turn is one piece of work of one actor, written against the public
//! handle of the engine, as a service would write it. Never looks into the database.

pub(crate) mod client;
pub(crate) mod dispatcher;
pub(crate) mod extender;
pub(crate) mod operator;
pub(crate) mod projector;
pub(crate) mod reaping;
pub(crate) mod reconciler;
mod reporter;
pub(crate) mod resumer;
pub(crate) mod sequencer;
pub(crate) mod subscriber;
pub(crate) mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::Engine;
use sluicegate::flow::{Additions, Payload, ValidFlow};
use sluicegate::operations::claim::LeaseToken;
use sluicegate::storage::Storage;

use crate::driver::statement::Ambush;
use crate::driver::world::{SimEnvironment, world};
use crate::history::{ActorId, Observation};
use crate::plan::{EngineKind, Leases};
use crate::tape::{Chance, Site};

/// What an actor is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Role {
    /// Submits the flow.
    Client,
    /// Claims, handles, reports.
    Worker,
    /// Advances cascades as completions arrive.
    Dispatcher,
    /// Runs the reconcilers.
    Reconciler,
    /// Cancels the flow or an execution, replays, exchanges the policy of a join, hangs a tag on a
    /// flow, or prunes.
    Operator,
    /// Brings summaries up to date.
    Projector,
    /// Gives events their places in the feed.
    Sequencer,
    /// Reads the feed and acknowledges it.
    Subscriber,
    /// Resumes what is suspended.
    Resumer,
    /// Adds to the flow.
    Extender,
}

impl Role {
    /// The word in stories.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Worker => "worker",
            Role::Dispatcher => "dispatcher",
            Role::Reconciler => "reconciler",
            Role::Operator => "operator",
            Role::Projector => "projector",
            Role::Sequencer => "sequencer",
            Role::Subscriber => "subscriber",
            Role::Resumer => "resumer",
            Role::Extender => "extender",
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// It changed something: there may be more.
    Worked,
    /// There was nothing to do.
    Idle,
    /// It failed and is to be tried again a little later.
    Failed,
    /// This actor has nothing left to do in this universe.
    Done,
}

/// How long somebody lies in wait for a hop at most.
const AMBUSH: Duration = Duration::from_secs(3);

/// Which sweeps a reconciler runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Sweeps {
    /// All of them.
    All,
    /// All but the dependency reconciler: the dispatchers drive the cascades alone.
    WithoutDependency,
}

/// Payloads by the name of their execution; extensions may bring several for one name.
pub(crate) type Payloads = BTreeMap<String, BTreeSet<Payload>>;

/// What a turn needs.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of the cast, there or not")]
pub(crate) struct Stage<S> {
    pub(crate) engine: Engine<S, SimEnvironment>,
    pub(crate) storage: S,
    pub(crate) kind: EngineKind,
    pub(crate) actor: ActorId,
    /// Its number among the actors of its role.
    pub(crate) nth: u8,
    pub(crate) flow: Arc<ValidFlow>,
    /// What extenders may add to it.
    pub(crate) extensions: Arc<[Additions]>,
    /// Every lane of the flow and of what may be added to it.
    pub(crate) lanes: Arc<[Arc<str>]>,
    /// The payloads that the flow and its extensions have, by the name of the execution.
    pub(crate) payloads: Arc<Payloads>,
    pub(crate) sweeps: Sweeps,
    /// Somebody may cancel the flow.
    pub(crate) operated: bool,
    /// Somebody resumes what is suspended.
    pub(crate) resumed: bool,
    /// Reconcilers take away what is over.
    pub(crate) prunes: bool,
    /// Operators and extenders act in the middle of hops.
    pub(crate) ambushes: bool,
    /// Workers say how far they have come.
    pub(crate) progress: bool,
    /// Which kinds of events its subscribers want.
    pub(crate) leases: Option<Leases>,
}

impl<S: Storage> Stage<S> {
    /// In some universes, waits for the middle of a hop, for a while at most.
    pub(crate) async fn lie_in_wait(&self) {
        if self.ambushes {
            Ambush::new(self.actor, AMBUSH).await;
        }
    }

    pub(crate) fn observe(&self, observation: &Observation) {
        world(|world| world.observe(self.actor, observation));
    }
}

/// A choice of the tape; always the quiet one while universes are counted.
pub(crate) fn choose(site: Site, arity: u16, chance: Chance) -> u16 {
    world(|world| match world.counting {
        true => 0,
        false => world.tape.draw(site, arity, chance),
    })
}

/// A turn under way.
pub(crate) type Turn = Pin<Box<dyn Future<Output = Progress>>>;

/// One turn of an actor of that role. Each role has a box of its own size: there are many turns,
/// and most are of roles that need little room.
pub(crate) fn turn<S: Storage + 'static>(role: Role, stage: Stage<S>) -> Turn {
    match role {
        Role::Client => Box::pin(async move { client::turn(&stage).await }),
        Role::Worker => Box::pin(async move { worker::turn(&stage).await }),
        Role::Dispatcher => Box::pin(async move { dispatcher::turn(&stage).await }),
        Role::Reconciler => Box::pin(async move { reconciler::turn(&stage).await }),
        Role::Operator => Box::pin(async move { operator::turn(&stage).await }),
        Role::Projector => Box::pin(async move { projector::turn(&stage).await }),
        Role::Sequencer => Box::pin(async move { sequencer::turn(&stage).await }),
        Role::Subscriber => Box::pin(async move { subscriber::turn(&stage).await }),
        Role::Resumer => Box::pin(async move { resumer::turn(&stage).await }),
        Role::Extender => Box::pin(async move { extender::turn(&stage).await }),
    }
}

/// The rest of a worker's turn, while universes are counted, from the middle of its work on.
pub(crate) fn rest_of_turn<S: Storage + 'static>(
    stage: Stage<S>,
    token: LeaseToken,
    left: Duration,
) -> Turn {
    Box::pin(async move { worker::rest_of_turn(&stage, token, left).await })
}
