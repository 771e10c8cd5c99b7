//! The cascade that follows a completion. A hop is planned, locked, re-read, decided and written;
//! visits repeat hops until their upstreams are propagated. Dispatcher and reconciler share it.

pub mod dispatcher;
pub(crate) mod hop;
pub(crate) mod resolve;
pub(crate) mod siblings;
pub mod visit;

/// The bounds of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopLimits {
    /// Upstreams that one hop starts from.
    pub upstreams_max: u32,
    /// Groups that one hop may change; 1 is the published one-edge rule.
    pub groups_max: u32,
    /// Hops of one visit; beyond it the visit is reported as an error and found again later.
    pub hops_max: u32,
}

impl Default for HopLimits {
    fn default() -> Self {
        Self { upstreams_max: 1_000, groups_max: 256, hops_max: 1_000_000 }
    }
}
