//! What holds the rows of a universe: its lane says so, but behind the server of a network stands
//! one or the other. Which one follows from the seed, not from a choice. Pure.

use serde::{Deserialize, Serialize};

use super::{EngineKind, LaneKind, Plan};
use crate::random::SplitMix;

/// Of so many universes on a network one has a file behind its server.
const FILE_EVERY: u64 = 4;

/// What holds the rows of a universe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The simulated Postgres.
    Simulated,
    /// The SQLite backend.
    Sqlite,
}

impl Backend {
    /// The name in files and in stories.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Simulated => "simulated",
            Backend::Sqlite => "sqlite",
        }
    }

    /// What stands behind the server of that seed's universe, if that is not what stands there
    /// usually.
    pub(super) fn of_seed(ids_seed: u64, lane: LaneKind, engine: EngineKind) -> Option<Self> {
        let ours = engine == EngineKind::Sluicegate && lane == LaneKind::Network;
        let file = SplitMix(ids_seed ^ 0x4245_4849_4E44_4954).next().is_multiple_of(FILE_EVERY);
        (ours && file).then_some(Backend::Sqlite)
    }
}

impl LaneKind {
    /// What may hold its rows, what usually does first.
    pub(crate) fn backends(self) -> &'static [Backend] {
        match self {
            LaneKind::Model => &[Backend::Simulated],
            LaneKind::Sqlite => &[Backend::Sqlite],
            LaneKind::Network => &[Backend::Simulated, Backend::Sqlite],
        }
    }

    /// What does, if what stands behind its server is that.
    pub(super) fn backend(self, behind: Option<Backend>) -> Backend {
        behind.unwrap_or(self.backends()[0])
    }
}

impl Plan {
    /// What holds the rows.
    pub(crate) fn backend(&self) -> Backend {
        self.lane.backend(self.behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(lane: LaneKind, engine: EngineKind) -> usize {
        let behind = (0..1_000).map(|seed| Backend::of_seed(seed, lane, engine));
        behind.filter(|behind| *behind == Some(Backend::Sqlite)).count()
    }

    #[test]
    fn a_file_stands_behind_the_server_of_about_one_universe_in_four_and_nowhere_else() {
        let network = files(LaneKind::Network, EngineKind::Sluicegate);
        assert!((200..300).contains(&network), "{network} of 1 000");
        assert_eq!(files(LaneKind::Network, EngineKind::Published), 0);
        for lane in [LaneKind::Model, LaneKind::Sqlite] {
            assert_eq!(files(lane, EngineKind::Sluicegate), 0);
        }
    }

    #[test]
    fn every_lane_keeps_its_rows_where_it_always_did_unless_the_plan_says_otherwise() {
        let usual = LaneKind::ALL.map(|lane| lane.backend(None));
        assert_eq!(usual, [Backend::Simulated, Backend::Sqlite, Backend::Simulated]);
        let behind = LaneKind::Network.backend(Some(Backend::Sqlite));
        assert_eq!(behind, Backend::Sqlite);
    }
}
