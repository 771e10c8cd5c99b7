//! A failing universe for tests. Never runs the engine's own protocol.

use super::{Failure, FailureFile};
use crate::campaign::universe;
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::scenario::Workload;

/// The published protocol, which fails.
pub(crate) fn specimen() -> Campaign {
    Campaign {
        lane: LaneKind::Model,
        profile: Profile::Quick,
        engine: EngineKind::Published,
        mutant: None,
        workload: Workload::Drawn,
    }
}

/// The failure file of the first seed of the specimen that is wanted.
pub(crate) fn failing(wanted: impl Fn(&FailureFile) -> bool) -> FailureFile {
    for seed in 0..400 {
        let ran = universe(&specimen(), seed).expect("the model needs nothing");
        let Some(sighting) = ran.sighting else { continue };
        let plan = specimen().plan(seed);
        let failure = Failure::new(seed, sighting, &plan.whole(), ran.trace_hash, ran.tape);
        let file = FailureFile::new(&failure, plan, "unknown");
        if wanted(&file) {
            return file;
        }
    }
    panic!("the published protocol survives");
}
