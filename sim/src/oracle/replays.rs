//! What a replay must start again, by the words of the specification applied until nothing changes.
//! Pure; never calls the engine's walk.

use std::collections::BTreeSet;

use sluicegate::identity::ExecutionId;
use sluicegate::replay::ReplayScope;
use sluicegate::state::{Cause, Outcome, State};

/// How an execution stood before a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Which execution.
    pub id: ExecutionId,
    /// Its state.
    pub state: State,
    /// Why it ended, once it has.
    pub cause: Option<Cause>,
}

/// Edges, each from its upstream to its downstream.
type Edges<'a> = &'a [(ExecutionId, ExecutionId)];

/// The set that a replay of that scope starts again.
pub fn reset_set(scope: ReplayScope, lives: &[Life], edges: Edges<'_>) -> BTreeSet<ExecutionId> {
    let ids = || lives.iter().map(|life| life.id);
    let mut set: BTreeSet<ExecutionId> = match scope {
        ReplayScope::All => return ids().collect(),
        ReplayScope::From(first) => ids().filter(|id| *id == first).collect(),
        ReplayScope::Failed => lives.iter().filter(|life| failed(life)).map(|one| one.id).collect(),
    };
    loop {
        let next = match scope {
            ReplayScope::Failed => must_start_again(&set, lives, edges),
            _ => ids().find(|id| !set.contains(id) && below(&set, *id, edges)),
        };
        match next {
            Some(id) => set.insert(id),
            None => return set,
        };
    }
}

/// An execution that is not in the set and has to be, once the set holds these.
pub fn must_start_again(
    set: &BTreeSet<ExecutionId>,
    lives: &[Life],
    edges: Edges<'_>,
) -> Option<ExecutionId> {
    let outside = lives.iter().filter(|life| !set.contains(&life.id));
    let mut follows = outside.filter(|life| match (life.state, life.cause) {
        (State::Blocked | State::Terminal(Outcome::Skipped), _) => below(set, life.id, edges),
        (State::Terminal(Outcome::Cancelled), Some(Cause::Sibling)) => {
            edges.iter().any(|edge| edge.0 == life.id && set.contains(&edge.1))
        }
        _ => false,
    });
    follows.next().map(|life| life.id)
}

fn failed(life: &Life) -> bool {
    match (life.state, life.cause) {
        (State::Terminal(Outcome::Failed | Outcome::Expired), _) => true,
        (State::Terminal(Outcome::Cancelled), cause) => {
            matches!(cause, Some(Cause::Operator | Cause::Flow))
        }
        _ => false,
    }
}

fn below(set: &BTreeSet<ExecutionId>, id: ExecutionId, edges: Edges<'_>) -> bool {
    edges.iter().any(|edge| edge.1 == id && set.contains(&edge.0))
}
