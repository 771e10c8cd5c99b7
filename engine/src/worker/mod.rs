//! The worker: claims work of the kinds that it has handlers for, runs them under leases that it
//! renews, and reports. Adds no decision to the engine's; everything it does, its calls do.

mod attempt;
mod builder;
mod busy;
mod calls;
mod context;
mod handler;
mod lease;
mod progress;
mod run;
mod station;

use std::future::Future;
use std::sync::Arc;

use crate::Engine;
use crate::environment::Host;
use crate::storage::Storage;

pub use crate::failure::{Failure, MESSAGE_MAX_BYTES};
pub use builder::{BuildError, CONCURRENCY, FAREWELL, GRACE, LEASE, POLL, WorkerBuilder};
pub use context::{Cancellation, Cancelled, Context, InputError};
pub use handler::HandlerError;
pub use lease::BLOCKED_AFTER;
pub use progress::ProgressError;
pub use station::Totals;

use station::Station;

/// Runs handlers for the executions of an engine, on tokio.
///
/// Leases: each is renewed at a third of its time by a task of its own. If a renewal says that it
/// is lost, or it runs out on the monotonic clock, counted from the moment the request for it was
/// sent, the handler's [`Cancellation`] tells; the handler is stopped at its next await once the
/// grace period is over.
///
/// Answers that were lost: claims and reports are repeated under their ids until they are answered,
/// with growing pauses of at most two seconds, so that a storage that goes away costs time and
/// nothing else. A lease that was lost meanwhile makes the report count for nothing.
///
/// Order: an attempt that ends is reported in the transaction that claims the next one for its
/// slot. Attempts of one worker run at once, in no order that their flow does not impose.
///
/// A worker releases nothing that waits for its work: a dispatcher does, of this process or
/// another, which a [`Supervisor`](crate::reconcile::supervisor::Supervisor) runs.
pub struct Worker<S, H> {
    station: Arc<Station<S, H>>,
}

impl<S: Storage, H: Host> Worker<S, H> {
    /// Puts one together for an engine.
    pub fn builder(engine: Engine<S, H>) -> WorkerBuilder<S, H> {
        WorkerBuilder::new(engine)
    }

    /// Works until the shutdown is ready, then closes: it stops claiming, tells its handlers, lets
    /// them go on for the grace period, stops and releases what still runs, and repeats reports
    /// that are not answered for [`FAREWELL`]. Then nothing of it is leased, unless the storage did
    /// not answer ([`Totals::left_leased`]); that runs out.
    ///
    /// No error ends it. Cancellation: dropping the future is a crash; its handlers are stopped,
    /// and its leases run out. Calls on a tokio runtime only.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Totals {
        run::run(self.station, shutdown).await
    }
}
