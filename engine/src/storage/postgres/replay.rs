//! The verbs of a replay, on Postgres, one function each. Never decides anything.

use super::link::Link;
use super::parameters::Parameters;
use super::transaction::of_edges;
use crate::identity::FlowKey;
use crate::replay::Standing;
use crate::storage::rows::in_order;
use crate::storage::{EdgeKey, Result, Verb};

pub(super) async fn read_standings(link: &mut Link, flow: &FlowKey) -> Result<Vec<Standing>> {
    let (first, last) = flow.execution_range().into_inner();
    link.read(Verb::ReadStandings, Parameters::new().flow(*flow).value(first).value(last)).await
}

pub(super) async fn reset_edges(link: &mut Link, keys: &[EdgeKey]) -> Result<u64> {
    let keys = in_order(keys, |key| *key);
    link.execute(Verb::ResetEdges, of_edges(keys.iter().copied())).await
}
