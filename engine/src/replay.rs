//! What a replay starts again: the reset set, from how the executions of a flow stand and which
//! edges lead where. Pure; never reads or writes a row.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Graph;
use crate::identity::ExecutionId;
use crate::mutants::mutated;
use crate::state::{Cause, Outcome, State};

/// Which executions of a flow a replay starts again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReplayScope {
    /// That execution and everything downstream of it.
    From(ExecutionId),
    /// Every execution of the flow.
    All,
    /// What failed, expired, or was cancelled by an operator or with the flow; then what was
    /// skipped or is blocked behind what starts again, and what lost a race for it.
    Failed,
}

impl ReplayScope {
    /// The scope in words, two scopes never in the same ones.
    pub(crate) fn words(self) -> String {
        match self {
            Self::From(execution) => format!("from {execution}"),
            Self::All => "all".into(),
            Self::Failed => "failed".into(),
        }
    }
}

/// How an execution stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Standing {
    /// Which execution.
    pub id: ExecutionId,
    /// Its state.
    pub state: State,
    /// Why it ended, once it has.
    pub cause: Option<Cause>,
    /// 0 at submit, one more at each replay.
    pub incarnation: u32,
}

impl Standing {
    /// It ended, and neither in success nor because of how others ended.
    fn starts(&self) -> bool {
        match self.state.outcome() {
            Some(Outcome::Failed | Outcome::Expired) => true,
            Some(Outcome::Cancelled) => {
                matches!(self.cause, Some(Cause::Operator | Cause::Flow))
            }
            _ => false,
        }
    }

    /// Its join has to be decided anew when an upstream starts again.
    fn follows(&self) -> bool {
        let skipped = State::Terminal(Outcome::Skipped);
        let succeeded = State::Terminal(Outcome::Succeeded);
        [State::Blocked, skipped].contains(&self.state)
            || (mutated!(P64) && self.state == succeeded)
    }

    /// It was cancelled because a join needed it no longer.
    fn lost(&self) -> bool {
        self.state == State::Terminal(Outcome::Cancelled) && self.cause == Some(Cause::Sibling)
    }
}

/// The executions that a replay of this scope starts again; `None` if it starts from one that is
/// not among them.
///
/// Edges lead from their first end to their second; one with an end that is not among the standings
/// leads nowhere.
pub fn reset_set(
    scope: ReplayScope,
    standings: &[Standing],
    edges: impl IntoIterator<Item = (ExecutionId, ExecutionId)>,
) -> Option<BTreeSet<ExecutionId>> {
    let places: BTreeMap<ExecutionId, usize> =
        standings.iter().enumerate().map(|(place, one)| (one.id, place)).collect();
    let place = |id: &ExecutionId| places.get(id).copied();
    let edges = edges.into_iter().filter_map(|(from, to)| place(&from).zip(place(&to)));
    let edges: Vec<(usize, usize)> = edges.collect();
    let chosen = match scope {
        ReplayScope::From(first) => {
            Graph::new(standings.len(), &edges).reachable_from([place(&first)?])
        }
        ReplayScope::All => vec![true; standings.len()],
        ReplayScope::Failed => failed(standings, &edges),
    };
    let chosen = standings.iter().zip(chosen).filter(|(_, chosen)| *chosen);
    Some(chosen.map(|(one, _)| one.id).collect())
}

/// What has to run again for the flow to come to another end, until nothing is added.
fn failed(standings: &[Standing], edges: &[(usize, usize)]) -> Vec<bool> {
    let against: Vec<(usize, usize)> = edges.iter().map(|(from, to)| (*to, *from)).collect();
    let downward = Graph::new(standings.len(), edges);
    let upward = Graph::new(standings.len(), &against);
    let mut chosen: Vec<bool> = standings.iter().map(Standing::starts).collect();
    let mut open: Vec<usize> = (0..chosen.len()).filter(|place| chosen[*place]).collect();
    while let Some(place) = open.pop() {
        let down = downward.successors(place).iter().filter(|at| standings[**at].follows());
        let up = upward.successors(place).iter().filter(|at| standings[**at].lost());
        for next in down.chain(up) {
            if !std::mem::replace(&mut chosen[*next], true) {
                open.push(*next);
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
