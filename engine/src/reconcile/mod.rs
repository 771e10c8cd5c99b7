//! The sweeps that finish what an interruption left. Each is one pass over rows, in keyset order
//! and batches; many instances may run every one of them at once.

pub mod cancel_backlog;
pub mod dependency;
pub mod reaper;
pub mod siblings;
pub(crate) mod summary;
#[cfg(feature = "system")]
pub mod supervisor;
mod table;

use std::ops::AddAssign;

pub use table::Reconciler;

/// What one tick did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Rows that the query returned.
    pub scanned: u64,
    /// Changes that were made.
    pub reconciled: u64,
    /// Rows that needed none.
    pub noop: u64,
    /// Rows that the filter left out; the filter is in the query, so that this stays zero.
    pub filtered: u64,
    /// Rows that failed and are left for a later tick.
    pub errors: u64,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.scanned += other.scanned;
        self.reconciled += other.reconciled;
        self.noop += other.noop;
        self.filtered += other.filtered;
        self.errors += other.errors;
    }
}
