//! The storage seam: the contract that every backend keeps, in words. Never decides anything.
//!
//! A verb is one SQL statement, writes at most one table and is one of six kinds ([`Kind`]). A
//! statement that may wait reads only its own target rows; a statement that joins or aggregates
//! never waits. Transactions run at READ COMMITTED: each verb sees what had committed when it
//! began, and its own transaction's writes. Locks are `for no key update` and last until the
//! transaction ends. After any error the transaction is over; nothing of it remains, its locks are
//! free, and whatever it is asked from then on answers `Unavailable`.
//!
//! The suite of the feature `conformance` holds a backend to every sentence of this contract.

pub mod boxed;
pub(crate) mod chunks;
pub mod codes;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod decode;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod desk;
pub mod error;
pub mod feed;
pub mod guard;
pub mod inputs;
pub mod listings;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod progress;
pub mod remains;
pub mod requests;
pub mod rows;
pub mod schema;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod summaries;
pub mod tags;
pub mod verbs;

use std::future::Future;

use crate::with_verbs;

pub use chunks::INSERT_ROWS_MAX;
pub use error::{CommitError, Contention, Result, StorageError};
pub use feed::*;
pub use guard::Guarded;
pub use inputs::*;
pub use listings::*;
pub use progress::*;
pub(crate) use remains::parted;
pub use remains::{Decoded, Remains, Unreadable, all_readable};
pub use requests::*;
pub use rows::*;
pub use summaries::*;
pub use tags::Tags;
pub use verbs::{Descriptor, Kind, Verb};

/// How the verbs of a [`Snapshot`] relate to each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Consistency {
    /// Each verb sees what had committed when it began.
    Statement,
    /// All verbs see the instant at which the reader was opened (REPEATABLE READ, read only); only
    /// the clock goes on.
    Snapshot,
}

/// A database that holds flows. Handles are cheap to clone and share one pool.
pub trait Storage: Clone + Send + Sync + 'static {
    /// A transaction of this storage.
    type Transaction: Transaction + 'static;
    /// A reader of this storage.
    type Snapshot: Snapshot + 'static;

    /// Opens a read-write transaction at READ COMMITTED.
    ///
    /// A storage with one writer lets it wait until the writer before it has ended, or answers
    /// `Busy`; any other opens it at once, whatever the others hold.
    ///
    /// Cancellation: a future dropped before it is ready has opened nothing.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Opens a reader, which sees committed rows alone, takes no lock and never waits for one.
    ///
    /// A storage of one connection may let it wait for the end of an open transaction; no
    /// transaction ever waits for a reader.
    fn snapshot(
        &self,
        consistency: Consistency,
    ) -> impl Future<Output = Result<Self::Snapshot>> + Send;
}

macro_rules! traits {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        /// A transaction that changes flows; its methods are the verbs of the table.
        ///
        /// Atomicity: everything up to `commit`, or nothing. Cancellation: dropping it is for
        /// crashes only; the storage then rolls back in its own time and may hold the locks for
        /// that long. Key lists hold no key twice; an empty list changes nothing and answers
        /// nothing. Replies come in the order that the verb states.
        pub trait Transaction: Send {
            $(
                $(#[$tdoc])*
                fn $tm(&mut self $(, $ta: &$tty)?) -> impl Future<Output = Result<$tr>> + Send;
            )*
            /// Ends the transaction and keeps its effects, durably before it answers.
            fn commit(self) -> impl Future<Output = Result<(), CommitError>> + Send;
            /// Ends the transaction and drops its effects.
            fn rollback(self) -> impl Future<Output = ()> + Send;
        }

        /// Reads that take no lock.
        pub trait Snapshot: Send {
            $(
                $(#[$sdoc])*
                fn $sm(&mut self $(, $sa: &$sty)?) -> impl Future<Output = Result<$sr>> + Send;
            )*
        }
    };
}
with_verbs!(traits);
