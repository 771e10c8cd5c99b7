//! The verbs for rows that may be unreadable, on Postgres, one function each. Never decides
//! anything.

use super::link::Link;
use super::parameters::Parameters;
use super::transaction::{of_executions, resumed_outcome};
use crate::identity::ExecutionId;
use crate::storage::rows::in_order;
use crate::storage::{Execution, Group, Remains, Result, Verb, codes};

pub(super) async fn hold_groups(
    link: &mut Link,
    keys: &[ExecutionId],
) -> Result<Vec<Remains<Group>>> {
    link.read(Verb::HoldGroups, of_executions(keys)).await
}

pub(super) async fn hold_executions(
    link: &mut Link,
    keys: &[ExecutionId],
) -> Result<Vec<Remains<Execution>>> {
    link.read(Verb::HoldExecutions, of_executions(keys)).await
}

pub(super) async fn mend_executions(link: &mut Link, rows: &[Execution]) -> Result<u64> {
    let rows = in_order(rows, |row| row.id);
    let rows = || rows.iter().copied();
    let backoff = || rows().map(|row| codes::backoff(row.retry.backoff));
    let parameters = Parameters::new()
        .executions(rows().map(|row| &row.id))
        .column(rows().map(|row| i16::from(row.state.code())))
        .column(rows().map(|row| row.cause.map(|cause| i16::from(codes::cause(cause)))))
        .column(rows().map(|row| i64::from(row.incarnation)))
        .column(rows().map(|row| row.propagated))
        .column(rows().map(|row| row.has_in))
        .column(rows().map(|row| row.has_inputs))
        .column(rows().map(|row| row.has_out))
        .column(rows().map(|row| row.not_before.0))
        .column(rows().map(|row| row.deadline.map(|at| at.0)))
        .column(rows().map(|row| i64::from(row.attempt)))
        .column(rows().map(|row| i64::from(row.charged)))
        .column(rows().map(|row| i64::from(row.give_backs)))
        .column(rows().map(|row| row.resumed.map(|resumed| codes::bits(resumed.epoch))))
        .column(rows().map(|row| resumed_outcome(row).map(i16::from)))
        .column(rows().map(|row| row.progress.map(|progress| i64::from(progress.attempt))))
        .column(rows().map(|row| row.progress.map(|progress| codes::bits(progress.sequence))))
        .column(rows().map(|row| codes::bits(row.epoch)))
        .column(rows().map(|row| row.finished_at.map(|at| at.0)))
        .column(rows().map(|row| i64::from(row.retry.max_attempts)))
        .column(backoff().map(|backoff| super::transaction::small(backoff.kind)))
        .column(backoff().map(|backoff| i64::from(backoff.delay_ms)))
        .column(backoff().map(|backoff| backoff.factor.map(i64::from)))
        .column(backoff().map(|backoff| backoff.cap_ms.map(i64::from)))
        .column(rows().map(|row| row.retry.attempt_timeout_ms.map(i64::from)));
    link.execute(Verb::MendExecutions, parameters).await
}
