//! The databases that real processes and measurements run on, by name. Decides nothing.

/// A real database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RealLane {
    /// A Postgres server.
    Postgres,
    /// A SQLite file.
    Sqlite,
}

impl RealLane {
    /// Every one, in the order in which they are shown.
    pub const ALL: [RealLane; 2] = [RealLane::Postgres, RealLane::Sqlite];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RealLane::Postgres => "postgres",
            RealLane::Sqlite => "sqlite",
        }
    }
}
