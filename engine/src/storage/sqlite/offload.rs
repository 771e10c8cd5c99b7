//! The one place that says on which thread work on SQLite runs. Never touches a statement itself.

use std::borrow::Borrow;

use tokio::runtime::Handle;

use super::pool::Held;
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::storage::{
    AttemptKey, ClaimQuery, ConsumerName, CountQuery, EdgeKey, EdgeListing, EndedScan, EventId,
    ExecutionListing, FeedQuery, Flow, FlowListing, FlowPage, InputQuery, MemberQuery, OverdueScan,
    Page, PlanQuery, ProgressWrite, Request, RequestKey, StorageError, StreamHead, StreamId,
    Submission, SubmissionKey, Subscription, Summary, UnnumberedQuery, UpstreamScan, Verb,
};

/// Rows that brief work touches at most: what they cost, all in the page cache, is about what the
/// way to another thread and back costs.
const BRIEF_ROWS_MAX: usize = 16;

/// Where work on SQLite runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Offload {
    /// On the thread that polls the future, which is then ready at its first poll.
    Inline,
    /// On tokio's blocking pool whatever may wait for a lock, syncs the disk or touches many rows,
    /// so that it holds up no reactor; brief work on the thread that polls, which may have to read
    /// a page that is not cached. Inline where no tokio runtime runs.
    #[default]
    Long,
    /// On tokio's blocking pool whatever touches a file, for disks whose every read is slow.
    Everything,
}

/// How long work may hold a thread up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Effort {
    /// It touches a few pages and waits for nobody.
    Brief,
    /// It may wait for a lock, syncs the disk or touches many rows.
    Long,
}

impl Effort {
    /// The effort of a verb over that argument.
    pub(super) fn of(verb: Verb, rows: usize) -> Self {
        match verb {
            // What these read is not bounded by what they are given.
            Verb::PendingEdges
            | Verb::PlanGroups
            | Verb::ReadGrants
            | Verb::ReadEdges
            | Verb::ReadAncestry
            | Verb::ReadInputs
            | Verb::CountEvents
            | Verb::DeleteAttempts
            | Verb::DeleteEdges => Effort::Long,
            Verb::ReadFlow | Verb::LockFlow => Effort::Brief,
            _ if rows <= BRIEF_ROWS_MAX => Effort::Brief,
            _ => Effort::Long,
        }
    }
}

/// How many rows a verb with that argument touches.
pub(super) trait Rows {
    /// At most so many.
    fn rows(&self) -> usize;
}

macro_rules! rows {
    ($($argument:ty: $rows:expr;)*) => {
        $(impl Rows for $argument {
            fn rows(&self) -> usize {
                let rows: fn(&Self) -> usize = $rows;
                rows(self)
            }
        })*
    };
}
rows! {
    (): |()| 0;
    Submission: |_| 1;
    SubmissionKey: |_| 1;
    Flow: |_| 1;
    AttemptKey: |_| 1;
    ProgressWrite: |_| 1;
    EventId: |_| 1;
    ExecutionId: |_| 1;
    // Of a whole flow, or of a whole claim.
    FlowKey: |_| usize::MAX;
    RequestId: |_| usize::MAX;
    ClaimQuery: |query| query.limit as usize;
    PlanQuery: |query| query.limit as usize;
    Page: |page| page.limit as usize;
    UpstreamScan: |scan| scan.page.limit as usize;
    OverdueScan: |scan| scan.page.limit as usize;
    FlowPage: |page| page.limit as usize;
    EndedScan: |scan| scan.limit as usize;
    MemberQuery: |query| query.limit as usize;
    RequestKey: |_| 1;
    Request: |_| 1;
    Summary: |_| 1;
    CountQuery: |_| usize::MAX;
    InputQuery: |query| query.executions.len();
    FlowListing: |listing| listing.page.limit as usize;
    ExecutionListing: |listing| listing.page.limit as usize;
    EdgeListing: |_| usize::MAX;
    EdgeKey: |_| 1;
    StreamId: |_| 1;
    StreamHead: |_| 1;
    ConsumerName: |_| 1;
    Subscription: |_| 1;
    UnnumberedQuery: |query| query.limit as usize;
    FeedQuery: |query| query.limit as usize;
}

impl<T> Rows for [T] {
    fn rows(&self) -> usize {
        self.len()
    }
}

/// Runs `work` on the connection in `held` and puts the connection back.
///
/// On the blocking pool connection and arguments go along: the connection by value, the arguments
/// as a copy, because a borrow cannot outlive a future that may be dropped at any time.
/// Cancellation: `work` then runs to its end and the connection goes home from there, its
/// transaction rolled back unless `work` committed it.
pub(super) async fn run<A, T, E, F>(
    offload: Offload,
    effort: Effort,
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
    let runtime = match (offload, effort) {
        (Offload::Inline, _) | (Offload::Long, Effort::Brief) => None,
        (Offload::Long, Effort::Long) | (Offload::Everything, _) => Handle::try_current().ok(),
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
