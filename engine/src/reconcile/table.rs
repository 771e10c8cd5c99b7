//! The table of reconcilers: one row each. Says how often each is due; never waits.

use std::time::Duration;

use crate::Engine;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::reconcile::Report;
use crate::storage::{Scope, Storage};

macro_rules! reconcilers {
    ($($(#[$doc:meta])* $name:ident, $text:literal, every $every:expr, by $tick:ident;)*) => {
        /// A sweep that finishes what an interruption left. Any number of processes may run each.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Reconciler {
            $($(#[$doc])* $name,)*
        }

        impl Reconciler {
            /// Every reconciler.
            pub const ALL: &'static [Reconciler] = &[$(Reconciler::$name),*];

            /// Its name in reports, traces and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reconciler::$name => $text,)*
                }
            }

            /// How often it is due, unless told otherwise.
            pub fn every(self) -> Duration {
                match self {
                    $(Reconciler::$name => $every,)*
                }
            }

            /// One tick of it, by the method of the engine that is named for it.
            pub async fn tick<S: Storage, E: Environment>(
                self,
                engine: &Engine<S, E>,
                scope: &Scope,
            ) -> Result<Report, EngineError> {
                match self {
                    $(Reconciler::$name => engine.$tick(scope).await,)*
                }
            }
        }
    };
}

reconcilers! {
    /// Terminal executions that are not propagated, and decided groups with a blocked downstream.
    Dependency, "dependency", every Duration::from_secs(1), by dependency_tick;
    /// Leases that have expired, attempts that took too long, deadlines that have passed.
    Reaper, "reaper", every Duration::from_secs(1), by reaper_tick;
    /// What decided joins no longer need.
    Siblings, "siblings", every Duration::from_secs(1), by sibling_tick;
    /// What a closed flow still has to cancel.
    CancelBacklog, "cancel_backlog", every Duration::from_secs(1), by cancel_backlog_tick;
    /// The summaries of flows whose executions have moved.
    Summary, "summary", every Duration::from_secs(5), by summary_tick;
    /// Events that have no place in the feed yet.
    Sequencer, "sequencer", every Duration::from_millis(500), by sequencer_tick;
    /// Events and flows that have been kept for long enough.
    Retention, "retention", every Duration::from_mins(1), by retention_tick;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reconciler_has_a_name_of_its_own_and_a_period() {
        let names: BTreeSet<&str> = Reconciler::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Reconciler::ALL.len());
        assert!(!names.contains("dispatcher"));
        assert!(Reconciler::ALL.iter().all(|one| !one.every().is_zero()));
    }
}
