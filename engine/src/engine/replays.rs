//! Replay on the public handle: what starts executions again, and what tells which these would be.

use super::Engine;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::identity::{FlowId, RequestId};
use crate::operations::replay::{self, Replay, ReplayPreview, Replayed};
use crate::replay::ReplayScope;
use crate::storage::{Consistency, Storage};
use crate::transact::transact;

impl<S: Storage, E: Environment> Engine<S, E> {
    /// Starts executions of a flow again, each in its next incarnation, all or none of them.
    ///
    /// Their attempts count from 1 again and their results are gone; a deadline that has passed is
    /// lifted, one that is still ahead stays. Their joins are decided anew, at once where their
    /// upstreams have ended. Executions outside the scope stay as they are, and so do the joins
    /// that they have decided: an edge is resolved again only if its downstream starts again. A
    /// flow that was over or closed by a cancel is open again.
    ///
    /// Repeated with the same request id it answers the same. A scope that holds nothing changes
    /// nothing and answers an empty list. Errors: `FlowNotFound`; `ExecutionNotFound` if the scope
    /// starts from an execution of another flow; `Running` if an execution of the scope is active
    /// or suspended, and names it; `Conflict` if the request id stands for another call.
    pub async fn replay(
        &self,
        flow: FlowId,
        scope: ReplayScope,
        request: RequestId,
    ) -> Result<Replayed, EngineError> {
        let flow = self.settings.partitions.key(flow);
        let body = Replay { flow, scope, request };
        let replayed =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await??;
        self.committed(flow.partition);
        Ok(replayed)
    }

    /// What a replay of that scope would start again, as the flow stands now, and what runs and
    /// would be in its way.
    ///
    /// Errors: `FlowNotFound`; `ExecutionNotFound` if the scope starts from an execution of another
    /// flow.
    pub async fn preview_replay(
        &self,
        flow: FlowId,
        scope: ReplayScope,
    ) -> Result<ReplayPreview, EngineError> {
        let flow = self.settings.partitions.key(flow);
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        replay::preview(&mut reader, flow, scope).await
    }
}
