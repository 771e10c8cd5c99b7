//! The reads of the public handle, and the projector of what is read most. Never moves an
//! execution.

use super::Engine;
use crate::draw::GraphFormat;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowId, FlowKey};
use crate::operations::describe::{self, ExecutionDetails};
use crate::operations::list::{
    self, Direction, ExecutionEntry, ExecutionFilter, FlowEntry, FlowFilter, Listed,
};
use crate::reconcile::{self, summary};
use crate::storage::{Consistency, Edge, EdgeKey, Scope, Snapshot, Storage};
use crate::summary::FlowSummary;
use crate::transact::transact;

impl<S: Storage, E: Environment> Engine<S, E> {
    /// One tick of the projector, which brings summaries up to date.
    pub async fn summary_tick(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        summary::tick(self.pass(), scope, self.settings.projector_page_rows).await
    }

    /// A flow in numbers, as of the projector's last look at it: it may lag behind. It tells no
    /// delayed execution from a waiting one, because time alone makes one of the other.
    ///
    /// Errors: `FlowNotFound`.
    pub async fn flow_summary(&self, flow: FlowId) -> Result<FlowSummary, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Statement).await?;
        let summary = reader.describe_summary(&self.flow_key(flow)).await?;
        Ok(summary::shown(&summary.ok_or(EngineError::FlowNotFound(flow))?))
    }

    /// A flow in numbers, counted now, whatever its summary says; takes time in proportion to its
    /// executions, and no lock.
    ///
    /// Errors: `FlowNotFound`.
    pub async fn count_flow(&self, flow: FlowId) -> Result<FlowSummary, EngineError> {
        let body = summary::CountFlow { flow: self.flow_key(flow) };
        let counted =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await?;
        let (tally, status) = counted.ok_or(EngineError::FlowNotFound(flow))?;
        Ok(FlowSummary {
            flow,
            status,
            counts: tally.public(),
            total: tally.counts.total(),
            ended_at: tally.ended_at(),
        })
    }

    /// Flows with their summaries, in the order of their partitions and ids.
    ///
    /// The cursor is exclusive; at most [`PAGE_ROWS_MAX`](list::PAGE_ROWS_MAX) rows come at once,
    /// and none for a limit of zero.
    pub async fn list_flows(
        &self,
        filter: &FlowFilter,
        cursor: Option<FlowKey>,
        limit: u32,
    ) -> Result<Listed<FlowEntry, FlowKey>, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Statement).await?;
        list::flows(&mut reader, filter, cursor, limit).await
    }

    /// Executions, in the order of their ids, without payloads and results.
    ///
    /// The cursor is exclusive; at most [`PAGE_ROWS_MAX`](list::PAGE_ROWS_MAX) rows come at once,
    /// and none for a limit of zero. Errors: `FlowNotFound` for a filter by a flow that does not
    /// exist.
    pub async fn list_executions(
        &self,
        filter: &ExecutionFilter,
        cursor: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Listed<ExecutionEntry, ExecutionId>, EngineError> {
        let flow = filter.flow.map(|flow| self.flow_key(flow));
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        list::executions(&mut reader, filter, flow, cursor, limit).await
    }

    /// The edges at one end of an execution, in the order of the executions at their other ends,
    /// which are their cursors.
    ///
    /// The cursor is exclusive; at most [`PAGE_ROWS_MAX`](list::PAGE_ROWS_MAX) rows come at once,
    /// and none for a limit of zero. Errors: `ExecutionNotFound`; `Invalid` for a cursor of another
    /// partition.
    pub async fn list_edges(
        &self,
        execution: ExecutionId,
        direction: Direction,
        cursor: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Listed<Edge, ExecutionId>, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        list::edges(&mut reader, execution, direction, cursor, limit).await
    }

    /// The edge from one execution to another; `None` if there is none.
    pub async fn describe_edge(
        &self,
        upstream: ExecutionId,
        downstream: ExecutionId,
    ) -> Result<Option<Edge>, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Statement).await?;
        Ok(reader.describe_edge(&EdgeKey { downstream, upstream }).await?)
    }

    /// An execution with its payload and its result, as it stands now.
    ///
    /// Errors: `ExecutionNotFound`.
    pub async fn describe_execution(
        &self,
        execution: ExecutionId,
    ) -> Result<ExecutionDetails, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        describe::execution_details(&mut reader, execution).await
    }

    /// A flow as a picture in text, with the state of each execution, all of one instant.
    ///
    /// Errors: `FlowNotFound`.
    pub async fn graph(&self, flow: FlowId, format: GraphFormat) -> Result<String, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        describe::graph(&mut reader, self.flow_key(flow), format).await
    }
}
