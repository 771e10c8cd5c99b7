//! From columns to the rows of summaries and lists.

use super::{Columns, FromColumns, Read, corrupt, execution, execution_id, row_of};
use crate::identity::ExecutionId;
use crate::replay::Standing;
use crate::state::State;
use crate::storage::{
    ChangeId, EndedFlow, Flow, FlowView, ListedExecution, Result, Summary, codes,
};
use crate::summary::{Counted, StateCounts};

/// The columns of the counters, in the order of [`State::ALL`].
const COUNTERS: [&str; State::ALL.len()] = [
    "blocked",
    "ready",
    "active",
    "suspended",
    "succeeded",
    "failed",
    "cancelled",
    "expired",
    "skipped",
];

/// The number of a change row.
pub(in crate::storage) fn change_id(row: &mut impl Columns) -> Result<ChangeId> {
    row.code("id", |value| value.try_into().ok().map(ChangeId))
}

/// A flow by the columns `partition` and `flow`.
pub(in crate::storage) fn flow_key(row: &mut impl Columns) -> Result<crate::identity::FlowKey> {
    row.flow_key("flow")
}

impl FromColumns for Summary {
    const TABLE: &'static str = "flow_summary";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let flow = row.flow_key("flow")?;
        let mut counts = StateCounts::default();
        for (state, column) in State::ALL.into_iter().zip(COUNTERS) {
            counts.add(state, row.code(column, |value| value.try_into().ok())?);
        }
        let status = row.code("status", codes::flow_status_of)?;
        let stored = row.optional_timestamp("ended_at")?;
        let ended_at = Some(stored).filter(|at| at.is_some() == status.is_terminal());
        let ended_at = row.whole("status, ended_at", ended_at, || status.name())?;
        let last_change = row.code("last_change", |value| value.try_into().ok().map(ChangeId))?;
        Ok(Summary { flow, counts, status, ended_at, last_change })
    }
}

impl FromColumns for EndedFlow {
    const TABLE: &'static str = "flow_summary";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(EndedFlow { flow: row.flow_key("flow")?, ended_at: row.timestamp("ended_at")? })
    }
}

impl FromColumns for Counted {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(Counted {
            state: row.state()?,
            cause: row.optional_code("cause", codes::cause_of)?,
            delayed: row.boolean("delayed")?,
            executions: row.code("executions", |value| value.try_into().ok())?,
            finished_at: row.optional_timestamp("finished_at")?,
        })
    }
}

impl FromColumns for Standing {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(Standing {
            id: execution_id(row, "id")?,
            state: row.state()?,
            cause: row.optional_code("cause", codes::cause_of)?,
            incarnation: row.u32("incarnation")?,
        })
    }
}

impl FromColumns for FlowView {
    const TABLE: &'static str = "flow";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let flow = Flow::from_columns(row)?;
        *row.table() = Summary::TABLE;
        let summary = Summary::from_columns(row)?;
        if summary.flow != flow.key {
            return Err(corrupt(Summary::TABLE, "flow", summary.flow.id));
        }
        Ok(FlowView { flow, summary })
    }
}

impl FromColumns for ListedExecution {
    const TABLE: &'static str = "execution";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let id = execution_id(row, "id")?;
        row_of(id, listed(row, id))
    }
}

/// An execution whose id has been read, as a list shows it.
fn listed(row: &mut impl Columns, id: ExecutionId) -> Result<ListedExecution> {
    Ok(ListedExecution {
        execution: execution(row, id)?,
        name: row.name("name")?,
        kind: row.name("kind")?,
        lane: row.name("lane")?,
        priority: row.code("priority", |value| value.try_into().ok())?,
        namespace: row.name("namespace")?,
        instance_tag: row.text("instance_tag")?,
        worker: row.text("worker")?,
    })
}
