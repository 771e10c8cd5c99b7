//! What executions are passed by their upstreams, on Postgres. Never writes.

use super::link::Link;
use super::parameters::Parameters;
use crate::storage::rows::in_order;
use crate::storage::{Input, InputQuery, Result, Verb};

pub(super) async fn read_inputs(link: &mut Link, asked: &InputQuery) -> Result<Vec<Input>> {
    let executions = in_order(&asked.executions, |id| *id);
    let parameters = Parameters::new()
        .executions(executions.into_iter())
        .value(asked.after.map(|after| after.uuid))
        .value(i64::from(asked.limit))
        .value(i64::try_from(asked.bytes_max).unwrap_or(i64::MAX));
    link.read(Verb::ReadInputs, parameters).await
}
