//! The calls of the public handle that keep a database in order, the exits of quarantine among
//! them, and note things on flows. Never brings on what can be read.

use std::sync::Arc;

use super::Engine;
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowId, RequestId};
use crate::operations::give_up::{GiveUp, GivenUp};
use crate::operations::tag::{self, SetTag};
use crate::reconcile::{self, FailingRow, Visited, retention};
use crate::storage::{Consistency, Scope, Snapshot, Storage};
use crate::transact::transact;

impl<S: Storage, E: Environment> Engine<S, E> {
    /// The rows that the sweeps of this handle and its clones could not bring on, with the reason;
    /// each is left alone for a growing while, at most
    /// [`FAILING_MAX`](crate::reconcile::FAILING_MAX), and tried again for as long as it is found.
    /// Other processes have lists of their own.
    pub fn failing(&self) -> Vec<FailingRow> {
        self.failing.list(self.environment.monotonic())
    }

    /// Has the next pass of this handle and its clones visit a row that was pushed back: its cause
    /// is mended.
    pub fn retry_failing(&self, row: Visited) {
        self.failing.forget(row);
    }

    /// Gives up an execution whose row, or whose group's row, cannot be read: it ends as failed,
    /// whatever it was doing, and what could not be read is written anew; what depends on it goes
    /// on. One that had ended keeps how. The reason is kept with the request.
    ///
    /// Repeated with the same request id it answers the same. Errors: `ExecutionNotFound`;
    /// `Refused` if both rows can be read; `Unreadable` if nobody can tell its flow, its
    /// incarnation or how it ended, or an edge into it cannot be read: that is mended by hand;
    /// `Conflict` if the request id stands for another call.
    pub async fn give_up(
        &self,
        execution: ExecutionId,
        reason: &str,
        request: RequestId,
    ) -> Result<GivenUp, EngineError> {
        let body = GiveUp { execution, reason: reason.into(), request };
        let done =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await??;
        self.failing.forget(Visited::Unreadable(execution));
        self.environment.notify(Notice { partition: execution.partition });
        Ok(done)
    }

    /// One tick of retention: takes away events, and then flows, that are over for at least
    /// [`Settings::keep`](crate::Settings::keep); nothing unless that is set. A flow goes as a
    /// whole, once none of its events is left in the feed: see [`Engine::cursor_oldest`]. Its
    /// idempotency key is free again then.
    ///
    /// A scope that names a namespace or an instance tag leaves events alone, whose stream is one
    /// for all. Errors: of the scans; flows that fail are counted and found again by the next tick.
    pub async fn retention_tick(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        match self.settings.keep {
            None => Ok(reconcile::Report::default()),
            Some(keep) => retention::tick(self.pass(), scope, keep).await,
        }
    }

    /// Hangs a tag on a flow: a value under a dotted name, which is of the form
    /// `^[a-z][a-z0-9_]*\.[a-z0-9_][a-z0-9_.]*$`. A value that stands under the name is replaced.
    ///
    /// A tag is a note of an operator's. Unlike the instance tag, which is fixed at submit and
    /// which scans, lists and subscriptions filter on, it may change at any time, even when the
    /// flow is over, and moves nothing. Repeated with the same request id it has no further effect,
    /// whatever was set since. Errors: `FlowNotFound`; `Invalid` for a name that is not dotted or a
    /// value with a zero byte; `LimitExceeded` above [`TAG_BYTES_MAX`](tag::TAG_BYTES_MAX) bytes of
    /// either or [`TAGS_MAX`](tag::TAGS_MAX) tags; `Conflict` if the request id stands for another
    /// call.
    pub async fn set_flow_tag(
        &self,
        flow: FlowId,
        tag: &str,
        value: &str,
        request: RequestId,
    ) -> Result<(), EngineError> {
        let body = SetTag::of(self.flow_key(flow), tag, value, request)?;
        transact(&self.storage, &self.environment, &self.settings.budget, &body).await?
    }

    /// The value of a tag of a flow; `None` if it has no such tag.
    ///
    /// Errors: `FlowNotFound`; those of a name that no tag has, as [`Engine::set_flow_tag`] says.
    pub async fn get_flow_tag(
        &self,
        flow: FlowId,
        tag: &str,
    ) -> Result<Option<Arc<str>>, EngineError> {
        tag::check_name(tag)?;
        let mut reader = self.storage.snapshot(Consistency::Statement).await?;
        let row = reader.describe_flow(&self.flow_key(flow)).await?;
        Ok(row.ok_or(EngineError::FlowNotFound(flow))?.tags.get(tag).cloned())
    }
}
