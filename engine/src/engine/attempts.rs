//! The part of the public handle that is about attempts beside claims and reports.

use std::sync::Arc;

use crate::Engine;
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::ExecutionId;
use crate::operations::claim::LeaseToken;
use crate::operations::inputs::{self, InputPage, ReadInputs};
use crate::operations::progress::ReportProgress;
use crate::operations::resume::Resume;
use crate::storage::{Reported, Storage};
use crate::transact::transact;

impl<S: Storage, E: Environment> Engine<S, E> {
    /// A page of what the upstreams pass on to an execution, for a lease that says
    /// [`Inputs::Paged`](inputs::Inputs::Paged): inputs in the order of their upstreams, with
    /// results of at most [`Limits::inputs_max_bytes`](crate::flow::Limits::inputs_max_bytes) in
    /// total, or the first result alone if it is larger.
    ///
    /// The cursor is exclusive; at most [`PAGE_ROWS_MAX`](inputs::PAGE_ROWS_MAX) inputs come at
    /// once, and none for a limit of zero. The lease lives while the page is read, and pages of one
    /// incarnation never contradict each other. Errors: `ExecutionNotFound`; `LeaseLost` says what
    /// replaced the lease.
    pub async fn read_inputs(
        &self,
        token: LeaseToken,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<InputPage, EngineError> {
        let limit = limit.min(inputs::PAGE_ROWS_MAX);
        let bytes_max = self.settings.limits.inputs_max_bytes;
        let body = ReadInputs { token, after, limit, bytes_max };
        transact(&self.storage, &self.environment, &self.settings.budget, &body).await?
    }

    /// Stores how far the work of an attempt has come, in place of what was stored before. It stays
    /// for the attempts that follow, and when the execution has ended;
    /// [`Engine::describe_execution`] shows it, and a replay clears it. The lease goes on as it
    /// did: neither does this renew it, nor does it matter here whether it has run out, as long as
    /// nobody has ended it.
    ///
    /// `sequence` counts the reports of one attempt. One that is not above the last stored one of
    /// its attempt is accepted and changes nothing, so that a repetition, or a report that was
    /// overtaken, never moves progress back; the first one of another attempt counts whatever its
    /// number. Errors: `LimitExceeded` if the value has more bytes than
    /// [`Limits::progress_max_bytes`](crate::flow::Limits::progress_max_bytes);
    /// `ExecutionNotFound`; `LeaseLost` says what replaced the lease. Then nothing has changed.
    pub async fn progress(
        &self,
        token: LeaseToken,
        sequence: u64,
        value: Arc<[u8]>,
    ) -> Result<(), EngineError> {
        let body = ReportProgress::of(token, sequence, value, &self.settings.limits)?;
        transact(&self.storage, &self.environment, &self.settings.budget, &body).await?
    }

    /// Resumes a suspended execution: it is ready at once, without a charge. In a flow that is
    /// closed with `CancelPending` or `CancelAll` it is cancelled instead.
    ///
    /// `epoch` names the suspension: the reply to
    /// [`Report::Suspend`](crate::operations::report::Report), or
    /// [`Context::suspension`](crate::worker::Context::suspension) in advance. Until the next
    /// resume a repetition answers the same. Errors: `ExecutionNotFound`; `Refused` says where the
    /// execution stands if that is not its suspension, or not yet.
    pub async fn resume(
        &self,
        execution: ExecutionId,
        epoch: u64,
    ) -> Result<Reported, EngineError> {
        let body = Resume { execution, epoch };
        let reported =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await??;
        let notice = Notice { partition: execution.partition };
        match reported {
            Reported::Finished(_) => self.environment.notify(notice),
            Reported::Requeued { .. } | Reported::Suspended { .. } => {
                self.environment.released(notice);
            }
        }
        Ok(reported)
    }
}
