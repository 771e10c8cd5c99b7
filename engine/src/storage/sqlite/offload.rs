//! The one place that says on which thread work on SQLite runs. Never touches a statement itself.

use std::borrow::Borrow;

use tokio::runtime::Handle;

use super::pool::Held;
use crate::storage::StorageError;

/// Where work on SQLite runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Offload {
    /// On the thread that polls the future, which is then ready at its first poll.
    Inline,
    /// On tokio's blocking pool, so that no disk holds up a reactor; inline where no tokio runtime
    /// runs.
    #[default]
    BlockingPool,
}

/// Runs `work` on the connection in `held` and puts the connection back.
///
/// On the blocking pool connection and arguments go along: the connection by value, the arguments
/// as a copy, because a borrow cannot outlive a future that may be dropped at any time.
/// Cancellation: `work` then runs to its end and the connection goes home from there, its
/// transaction rolled back unless `work` committed it.
pub(super) async fn run<A, T, E, F>(
    offload: Offload,
    held: &mut Option<Held>,
    arguments: &A,
    work: F,
) -> Result<T, E>
where
    A: ToOwned + Sync + ?Sized,
    A::Owned: Send + 'static,
    T: Send + 'static,
    E: From<StorageError> + Send + 'static,
    F: FnOnce(&mut Held, &A) -> Result<T, E> + Send + 'static,
{
    let Some(mut connection) = held.take() else {
        let over = "an earlier error ended it".into();
        return Err(E::from(StorageError::Unavailable(over)));
    };
    let runtime = match offload {
        Offload::Inline => None,
        Offload::BlockingPool => Handle::try_current().ok(),
    };
    let Some(runtime) = runtime else {
        let result = work(&mut connection, arguments);
        *held = Some(connection);
        return result;
    };
    let arguments = arguments.to_owned();
    let job = runtime.spawn_blocking(move || {
        let result = work(&mut connection, arguments.borrow());
        (connection, result)
    });
    match job.await {
        Ok((connection, result)) => {
            *held = Some(connection);
            result
        }
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => {
            let stopped = "the runtime is shutting down".into();
            Err(E::from(StorageError::Unavailable(stopped)))
        }
    }
}
