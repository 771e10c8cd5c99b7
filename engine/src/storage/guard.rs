//! Whether a write keeps its guard. Never writes.

/// Whether a write keeps its guard; only a planted bug lets go of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Guarded {
    /// It does.
    #[default]
    Yes,
    /// It does not.
    No,
}
