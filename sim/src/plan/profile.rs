//! How large and how hostile the universes of a campaign are: one row for each profile. Pure.

use serde::{Deserialize, Serialize};

/// Which of a lane's faults a universe has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kinds {
    /// Every one.
    Every,
    /// About half of them, drawn anew for each seed (Groce and others, "Swarm Testing", 2012).
    Drawn,
}

macro_rules! profiles {
    ($(
        $profile:ident $name:literal $executions:literal $faults:literal $kinds:ident $what:literal;
    )*) => {
        /// How large and how hostile the universes of a campaign are.
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        #[serde(rename_all = "lowercase")]
        pub enum Profile {
            $(#[doc = $what] $profile,)*
        }

        impl Profile {
            /// Every profile.
            pub const ALL: &'static [Profile] = &[$(Profile::$profile,)*];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Profile::$profile => $name,)* }
            }

            /// What its universes look like.
            pub fn what(self) -> &'static str {
                match self { $(Profile::$profile => $what,)* }
            }

            /// Executions of a drawn flow, at most.
            pub(super) fn executions_max(self) -> u16 {
                match self { $(Profile::$profile => $executions,)* }
            }

            /// Faults of a universe, at most.
            pub(super) fn faults_max(self) -> u16 {
                match self { $(Profile::$profile => $faults,)* }
            }

            pub(super) fn kinds(self) -> Kinds {
                match self { $(Profile::$profile => Kinds::$kinds,)* }
            }
        }
    };
}

profiles! {
    Quick "quick" 6 4 Every "up to 6 executions and 4 faults, every kind on";
    Swarm "swarm" 12 12 Drawn "up to 12 executions and 12 faults, the kinds drawn per seed";
    Storm "storm" 8 60 Every "up to 8 executions and 60 faults, every kind on";
    Soak "soak" 40 30 Drawn "up to 40 executions and 30 faults, the kinds drawn per seed";
}

impl Profile {
    /// Those under which planted bugs are hunted: small universes show them soonest.
    pub const HUNTED: [Profile; 2] = [Profile::Quick, Profile::Swarm];
}
