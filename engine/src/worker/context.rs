//! What a handler is told of its attempt, what it may say while it works, and how it learns that
//! nobody wants it any more. Never decides anything.

use std::sync::Arc;

use crate::environment::Host;
use crate::identity::{ExecutionId, FlowKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::operations::claim::LeaseToken;
use crate::operations::inputs::{Claimed, Inputs};
use crate::said::{self, Quoting};
use crate::signal::Signal;
use crate::state::Outcome;
use crate::storage::{Definition, Input, Storage};
use crate::worker::progress::{ProgressError, Reporter};
use crate::worker::station::Station;

/// Why the work of an attempt is no longer wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cancelled {
    /// The lease was ended by somebody else, or it has run out: another attempt may run by now, and
    /// what this one reports counts for nothing unless nobody has noticed yet.
    LeaseLost,
    /// The worker stops. Whatever the handler returns within the grace period is reported.
    Shutdown,
}

/// Tells a handler that its work is no longer wanted. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Cancellation(Signal<Cancelled>);

impl Cancellation {
    pub(super) fn new() -> Self {
        Self(Signal::new())
    }

    pub(super) fn cancel(&self, why: Cancelled) {
        self.0.give(why);
    }

    /// Why the work is no longer wanted; `None` as long as it is. The first reason stays.
    pub fn reason(&self) -> Option<Cancelled> {
        self.0.get()
    }

    /// True once the work is no longer wanted: for loops that cannot wait.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Waits until the work is no longer wanted; for `tokio::select!`. Cancellation: dropping the
    /// future loses nothing.
    pub async fn cancelled(&self) -> Cancelled {
        self.0.given().await
    }
}

/// Why a handler does not get an input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// No edge of that name was satisfied when the join decided.
    #[error("input `{name}` is not there: no edge of that name was satisfied by the decision")]
    Missing {
        /// The name.
        name: String,
    },
    /// The upstream satisfied its edge by another outcome than success.
    #[error("input `{name}` has no result: its upstream ended as {}", outcome.name())]
    NoResult {
        /// The name.
        name: String,
        /// How the upstream ended.
        outcome: Outcome,
    },
    /// The result is not what the handler takes it for.
    #[error("input `{name}` is of another type: {reason}")]
    Undecodable {
        /// The name.
        name: String,
        /// What the decoder said.
        reason: String,
    },
    /// The inputs are too large to come along with the lease.
    #[error("input `{name}` is read in pages, by `Engine::read_inputs` under the lease")]
    Paged {
        /// The name.
        name: String,
    },
}

/// One attempt, as its handler sees it. Cheap to clone.
///
/// Delivery is at least once: a handler may run again after its work was done, when a lease was
/// lost or a process died before the report arrived. What it does outside goes under
/// [`Context::execution`] and [`Context::incarnation`] as an idempotency key, which stay the same
/// for every attempt.
#[derive(Clone, Debug)]
pub struct Context {
    grant: Arc<Claimed>,
    worker: Arc<str>,
    reporter: Arc<Reporter>,
    cancellation: Cancellation,
    quoting: Quoting,
}

impl Context {
    pub(super) fn new<S: Storage, H: Host>(station: &Arc<Station<S, H>>, grant: Claimed) -> Self {
        let reporter = Arc::new(Reporter::new(station, grant.token()));
        let worker = Arc::clone(&station.settings.name);
        let (grant, cancellation) = (Arc::new(grant), Cancellation::new());
        Self { grant, worker, reporter, cancellation, quoting: station.settings.quoting }
    }

    /// The execution.
    pub fn execution(&self) -> ExecutionId {
        self.grant.execution.id
    }

    /// The flow that it belongs to.
    pub fn flow(&self) -> FlowKey {
        self.grant.execution.flow_key()
    }

    /// 0 until the execution is replayed, then one more each time.
    pub fn incarnation(&self) -> u32 {
        self.grant.execution.incarnation
    }

    /// Which grant of this incarnation it is, from 1; given-back ones count.
    pub fn attempt(&self) -> u32 {
        self.grant.execution.attempt
    }

    /// The most attempts that are charged before the execution ends.
    pub fn attempts_max(&self) -> u32 {
        self.grant.execution.retry.max_attempts
    }

    /// Attempts charged so far, this one among them.
    pub fn attempts_charged(&self) -> u32 {
        self.grant.execution.charged
    }

    /// Name, kind, lane, labels and payload, as they were submitted.
    pub fn definition(&self) -> &Definition {
        &self.grant.definition
    }

    /// The lease, which fences what else is written in its name.
    pub fn lease(&self) -> LeaseToken {
        self.grant.token()
    }

    /// What the upstreams pass on by named edges; the same for every attempt.
    pub fn inputs(&self) -> &Inputs {
        &self.grant.inputs
    }

    /// The result of the upstream whose edge passes it on under that name.
    ///
    /// Errors name the input: none of that name was satisfied when the join decided, its upstream
    /// did not succeed, its result is not of that type, or the inputs are read in pages.
    pub fn input<T: DeserializeOwned>(&self, name: &str) -> Result<T, InputError> {
        let input = self.named(name)?;
        let (name, outcome) = (name.to_owned(), input.outcome);
        match &input.result {
            Some(result) => {
                serde_json::from_slice(result).map_err(|error| self.undecodable(name, &error))
            }
            None => Err(InputError::NoResult { name, outcome }),
        }
    }

    /// How the upstream ended whose edge passes its result on under that name: for joins that a
    /// failure satisfies. Errors as those of [`Context::input`].
    pub fn input_outcome(&self, name: &str) -> Result<Outcome, InputError> {
        self.named(name).map(|input| input.outcome)
    }

    fn undecodable(&self, name: String, error: &serde_json::Error) -> InputError {
        InputError::Undecodable { name, reason: said::of_json(error, self.quoting) }
    }

    /// Whether messages about what it reads may quote values.
    pub(super) fn quoting(&self) -> Quoting {
        self.quoting
    }

    fn named(&self, name: &str) -> Result<&Input, InputError> {
        let Some(inputs) = self.grant.inputs.sent() else {
            return Err(InputError::Paged { name: name.into() });
        };
        let found = inputs.iter().find(|input| &*input.name == name);
        found.ok_or_else(|| InputError::Missing { name: name.into() })
    }

    /// The epoch by which this execution is resumed if this attempt returns
    /// [`HandlerError::Suspend`](super::HandlerError): for whoever is to call
    /// [`Engine::resume`](crate::Engine::resume), which is refused until then.
    pub fn suspension(&self) -> u64 {
        self.grant.execution.epoch + 1
    }

    /// Stores how far the work has come, as JSON of at most
    /// [`Limits::progress_max_bytes`](crate::flow::Limits::progress_max_bytes) bytes, for whoever
    /// watches the execution and for the attempts that follow. Costs a transaction each time.
    ///
    /// Of several calls that are stored the one that began last stands.
    /// Cancellation: dropped, it is stored or it is not. Errors: the lease was lost, the value is
    /// too large or has no form as JSON, or the storage did not answer; by `?` each is a retryable
    /// failure, and a handler may as well go on without.
    pub async fn report_progress<T: Serialize>(&self, value: &T) -> Result<(), ProgressError> {
        self.reporter.report(value).await
    }

    /// How far this incarnation had come by its last report, which an earlier attempt may have
    /// made; `None` if there is none. Read from the storage at each call.
    ///
    /// Errors: what is stored is not of that type, or the storage did not answer.
    pub async fn last_progress<T: DeserializeOwned>(&self) -> Result<Option<T>, ProgressError> {
        self.reporter.last().await
    }

    /// Name of the worker.
    pub fn worker(&self) -> &str {
        &self.worker
    }

    /// Tells when the work is no longer wanted.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Waits until the work is no longer wanted, as [`Cancellation::cancelled`].
    pub async fn cancelled(&self) -> Cancelled {
        self.cancellation.cancelled().await
    }
}
