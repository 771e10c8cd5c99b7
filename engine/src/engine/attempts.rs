//! The part of the public handle that is about attempts beside claims and reports.

use crate::Engine;
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::ExecutionId;
use crate::operations::resume::Resume;
use crate::storage::{Reported, Storage};
use crate::transact::transact;

impl<S: Storage, E: Environment> Engine<S, E> {
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
