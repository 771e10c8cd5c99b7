//! The faults that a universe can suffer: one row each. A row says where a fault can strike; the
//! driver carries it out.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sluicegate::storage::{Contention, Kind, StorageError, Verb};

use crate::disk::Trouble;
use crate::plan::{Backend, LaneKind};

macro_rules! faults {
    ($($kind:ident $name:literal $lanes:ident $what:literal;)*) => {
        /// A kind of fault.
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        pub enum FaultKind {
            $(#[doc = $what] #[serde(rename = $name)] $kind,)*
        }

        impl FaultKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$kind,)*];

            /// The name in JSON, on the command line and in stories.
            pub fn name(self) -> &'static str {
                match self { $(FaultKind::$kind => $name,)* }
            }

            /// What happens.
            pub fn what(self) -> &'static str {
                match self { $(FaultKind::$kind => $what,)* }
            }

            fn lanes(self) -> Lanes {
                match self { $(FaultKind::$kind => Lanes::$lanes,)* }
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lanes {
    Every,
    /// Where the database is a server, or stands behind one.
    Server,
    /// Where the database is the simulated Postgres.
    Model,
    /// Where the database is a file.
    File,
    /// Where that file is on a disk that may fail.
    Disk,
    Network,
}

faults! {
    Crash "crash" Every "the actor is killed before a statement";
    CrashAfter "crash_after" Every "the actor is killed after a statement, before its answer";
    CrashWaiting "crash_waiting" Every "the actor is killed while it waits for a lock, or a writer";
    CrashAwait "crash_await" Every "the actor is killed while it waits for time to pass";
    LingeringSession "lingering_session" Server "the actor is killed, its session keeps its locks";
    DatabaseCrash "database_crash" Server "the database crashes and recovers; all sessions end";
    Serialization "serialization_40001" Model "the statement fails with 40001";
    Deadlock "deadlock_40P01" Model "the session is chosen as deadlock victim";
    LockTimeout "lock_timeout_55P03" Model "a lock wait, or a statement, fails with 55P03";
    StatementTimeout "statement_timeout_57014" Model "the statement fails with 57014";
    Busy "sqlite_busy" File "the statement finds the file busy";
    CommitApplied "commit_applied" Every "the commit is applied and its answer lost";
    CommitLost "commit_lost" Every "the commit is lost, and so is its answer";
    Pause "pause" Every "the actor stands still for longer than a lease";
    StuckGroup "stuck_group" Model "a group cannot be locked for long after other faults stopped";
    NoticeLost "notice_lost" Every "a notification is lost";
    NoticeDuplicated "notice_duplicated" Every "a notification arrives twice";
    NoticeLate "notice_late" Every "a notification arrives late";
    ClockForward "clock_forward" Every "the storage's clock steps forward";
    ClockBackward "clock_backward" Every "the storage's clock steps back";
    GroupDeleted "group_deleted" Model "the row of an edge group is deleted";
    RowUnreadable "row_unreadable" Every "a column of a row holds a value that no engine writes";
    ClockSkew "clock_skew" Every "the clock of the actor's machine is an hour off from then on";
    EventDeleted "event_deleted" Every "the row of an event is deleted";
    RequestDeleted "request_deleted" Every "the row by which a join asks for cancels is deleted";
    PoisonWork "poison_work" Every "an execution kills its worker, and whoever gets it next";
    PowerCut "power_cut" Disk "the power goes at an operation on the disk";
    ProcessCrash "process_crash" Disk "a process dies at an operation on the disk";
    IoError "io_error" Disk "operations on the disk fail";
    DiskFull "disk_full" Disk "the disk is full";
    FsyncLies "fsync_lies" Disk "a sync fails, and those after it do not write what it had to";
    Partition "partition" Network "a host and the database are cut off from each other for long";
    PartitionOneWay "partition_one_way" Network "requests, or answers, of a host get lost for long";
    ConnectionLost "connection_lost_08006" Model "the connection fails before the statement";
    ServerFull "server_full_53300" Model "the server takes no further connection";
    Terminated "terminated_57P01" Model "an administrator ends the session";
    ReadOnly "read_only_25006" Model "the server refuses to write";
    ServerDiskFull "disk_full_53100" Model "the server's disk is full";
    ServerIoError "io_error_58030" Model "the server cannot read or write a file";
}

/// Where a fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A statement is about to be executed.
    Statement(Verb),
    /// A statement begins to wait for a row lock.
    Wait(Verb),
    /// The actor waits for time to pass.
    Await,
    /// A notification was sent.
    Notice,
    /// The other faults stop.
    Heal,
}

impl Point {
    /// How many points there are: each verb, executed or waiting, and those without a verb.
    pub const COUNT: usize = 2 * Verb::ALL.len() + 3;

    /// Every point.
    pub fn all() -> impl Iterator<Item = Point> {
        let verbs = Verb::ALL.iter();
        let waits = verbs.clone().map(|verb| Point::Wait(*verb));
        let others = [Point::Await, Point::Notice, Point::Heal];
        verbs.map(|verb| Point::Statement(*verb)).chain(waits).chain(others)
    }

    /// The kind of the statement that is executed there.
    fn verb_kind(self) -> Option<Kind> {
        match self {
            Point::Statement(verb) => Some(verb.descriptor().kind),
            _ => None,
        }
    }

    /// Its number, below [`Point::COUNT`].
    pub fn index(self) -> usize {
        let verbs = Verb::ALL.len();
        match self {
            Point::Statement(verb) => verb as usize,
            Point::Wait(verb) => verbs + verb as usize,
            Point::Await => 2 * verbs,
            Point::Notice => 2 * verbs + 1,
            Point::Heal => 2 * verbs + 2,
        }
    }
}

impl FaultKind {
    /// True if some universe of that lane can suffer it.
    pub fn strikes_in(self, lane: LaneKind) -> bool {
        lane.backends().iter().any(|backend| self.strikes_on(lane, *backend))
    }

    /// True if a universe of that lane can suffer it where that holds its rows.
    pub fn strikes_on(self, lane: LaneKind, backend: Backend) -> bool {
        match self.lanes() {
            Lanes::Every => true,
            Lanes::Server => lane != LaneKind::Sqlite,
            Lanes::Model => backend == Backend::Simulated,
            Lanes::File => backend == Backend::Sqlite,
            Lanes::Disk => lane == LaneKind::Sqlite,
            Lanes::Network => lane == LaneKind::Network,
        }
    }

    /// True if it can strike there.
    pub fn strikes_at(self, point: Point) -> bool {
        use Point::{Await, Heal, Notice, Statement, Wait};
        // Nothing answers a rollback, so that nothing can fail it.
        let answered = matches!(point, Statement(verb) if verb != Verb::Rollback);
        match self {
            Self::NoticeLost | Self::NoticeDuplicated | Self::NoticeLate => point == Notice,
            Self::StuckGroup => point == Heal,
            Self::CrashAwait => point == Await,
            Self::CrashWaiting => matches!(point, Wait(_)),
            Self::Crash | Self::CrashAfter | Self::LingeringSession => {
                matches!(point, Statement(_))
            }
            Self::Pause
            | Self::Partition
            | Self::PartitionOneWay
            | Self::ClockForward
            | Self::ClockBackward
            | Self::ClockSkew
            | Self::GroupDeleted
            | Self::RowUnreadable
            | Self::EventDeleted
            | Self::RequestDeleted
            | Self::PoisonWork
            | Self::DatabaseCrash => answered || point == Await,
            Self::StatementTimeout => answered || matches!(point, Wait(_)),
            // Those of the disk strike at an operation of this statement, or of one that follows.
            Self::PowerCut
            | Self::ProcessCrash
            | Self::IoError
            | Self::DiskFull
            | Self::FsyncLies => answered,
            Self::Deadlock | Self::LockTimeout => match point {
                Statement(verb) => matches!(verb.descriptor().kind, Kind::Lock | Kind::Insert),
                point => matches!(point, Wait(_)),
            },
            Self::CommitApplied | Self::CommitLost => point == Statement(Verb::Commit),
            Self::Busy => matches!(point, Statement(Verb::Begin | Verb::Commit)),
            Self::ServerFull => point == Statement(Verb::Begin),
            Self::Serialization | Self::ConnectionLost | Self::Terminated | Self::ServerIoError => {
                answered
            }
            Self::ReadOnly => point.verb_kind().is_some_and(writes),
            Self::ServerDiskFull => {
                point == Statement(Verb::Commit) || point.verb_kind().is_some_and(writes)
            }
        }
    }

    /// True if a universe in eight has it and no other does: what damages rows excuses what is left
    /// over, for part of a flow waits for an operator, and work that kills hides what comes after.
    pub fn is_seldom(self) -> bool {
        (self.damages() && self != Self::RequestDeleted) || self == Self::PoisonWork
    }

    /// True if it damages rows. That of an event excuses nothing but that nobody hears of it, that
    /// of a request nothing but that who lost a race runs on.
    pub fn damages(self) -> bool {
        matches!(
            self,
            Self::GroupDeleted | Self::RowUnreadable | Self::EventDeleted | Self::RequestDeleted
        )
    }

    /// True if there may be nothing that it can strike: whoever carries it out tells of it then.
    pub fn needs_a_target(self) -> bool {
        self.damages() || self == Self::PoisonWork || self.trouble().is_some()
    }

    /// What goes wrong with an operation on the disk, if that is what it is.
    pub(crate) fn trouble(self) -> Option<Trouble> {
        Some(match self {
            Self::PowerCut => Trouble::PowerCut,
            Self::ProcessCrash => Trouble::ProcessCrash,
            Self::IoError => Trouble::IoError,
            Self::DiskFull => Trouble::DiskFull,
            Self::FsyncLies => Trouble::FsyncLies,
            _ => return None,
        })
    }

    /// The kinds that strike at operations on the disk, in the order of the table.
    pub(crate) fn of_the_disk() -> impl Iterator<Item = FaultKind> {
        Self::ALL.iter().copied().filter(|kind| kind.trouble().is_some())
    }

    /// True if it comes to the same there as another fault does elsewhere, so that a count leaves
    /// it out: a kill after a statement is a kill before the actor's next one, unless the statement
    /// was the commit.
    pub fn repeats_another_at(self, point: Point) -> bool {
        self == Self::CrashAfter && point != Point::Statement(Verb::Commit)
    }

    /// The error that the statement fails with, if the server, or the way to it, refuses it for a
    /// while. At a commit it says nothing of what became of that.
    pub fn refusal(self) -> Option<StorageError> {
        Some(match self {
            Self::ConnectionLost | Self::ServerFull | Self::Terminated | Self::ServerIoError => {
                StorageError::Unavailable(self.what().into())
            }
            Self::ReadOnly => StorageError::ReadOnly,
            Self::ServerDiskFull => StorageError::Full,
            _ => return None,
        })
    }

    /// The error that the statement fails with, if somebody was in its way.
    pub fn contention(self) -> Option<Contention> {
        Some(match self {
            Self::Serialization => Contention::Serialization,
            Self::Deadlock => Contention::Deadlock,
            Self::LockTimeout => Contention::LockTimeout,
            Self::StatementTimeout => Contention::StatementTimeout,
            Self::Busy => Contention::Busy,
            _ => return None,
        })
    }
}

/// True if a server that takes no writes refuses statements of that kind.
fn writes(kind: Kind) -> bool {
    matches!(kind, Kind::Lock | Kind::Take | Kind::Write | Kind::Insert)
}

/// Which of the enabled kinds strike at each point, made once for a set of kinds.
#[derive(Clone, Debug, Default)]
pub struct Strikes {
    enabled: BTreeSet<FaultKind>,
    counting: bool,
    points: Vec<Vec<FaultKind>>,
}

impl Strikes {
    /// Makes the table of these kinds.
    pub fn set(&mut self, enabled: &BTreeSet<FaultKind>, counting: bool) {
        let same = self.enabled == *enabled && self.counting == counting;
        if same && !self.points.is_empty() {
            return;
        }
        self.counting = counting;
        self.enabled.clone_from(enabled);
        self.points = (0..Point::COUNT).map(|_| Vec::new()).collect();
        for point in Point::all() {
            let strikes = |kind: &FaultKind| {
                kind.strikes_at(point) && !(counting && kind.repeats_another_at(point))
            };
            let kinds = enabled.iter().copied().filter(strikes);
            self.points[point.index()] = kinds.collect();
        }
    }

    /// The kinds that may strike there, in the order of the table.
    pub fn at(&self, point: Point) -> &[FaultKind] {
        self.points.get(point.index()).map_or(&[], Vec::as_slice)
    }
}

/// The kinds that strike in that lane, in the order of the table.
pub fn kinds(lane: LaneKind) -> Vec<FaultKind> {
    FaultKind::ALL.iter().copied().filter(|kind| kind.strikes_in(lane)).collect()
}

/// Those that strike there where that holds the rows.
pub(crate) fn kinds_on(lane: LaneKind, backend: Backend) -> Vec<FaultKind> {
    FaultKind::ALL.iter().copied().filter(|kind| kind.strikes_on(lane, backend)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_strikes_somewhere_in_some_lane() {
        for kind in FaultKind::ALL {
            assert!(Point::all().any(|point| kind.strikes_at(point)), "{kind:?}");
            assert!(LaneKind::ALL.iter().any(|lane| kind.strikes_in(*lane)), "{kind:?}");
        }
    }

    #[test]
    fn a_file_behind_a_server_suffers_what_its_server_does_and_neither_sqlstates_nor_its_disk() {
        let suffers = |kind: FaultKind| kind.strikes_on(LaneKind::Network, Backend::Sqlite);
        for kind in [FaultKind::LingeringSession, FaultKind::DatabaseCrash, FaultKind::Partition] {
            assert!(suffers(kind), "{kind:?}");
        }
        assert!(suffers(FaultKind::Busy) && suffers(FaultKind::CrashWaiting));
        for kind in [FaultKind::Deadlock, FaultKind::StuckGroup, FaultKind::GroupDeleted] {
            assert!(!suffers(kind), "{kind:?}");
        }
        assert!(!FaultKind::of_the_disk().any(suffers));
        assert!(!FaultKind::ALL.iter().any(|kind| kind.refusal().is_some() && suffers(*kind)));
        let postgres = kinds_on(LaneKind::Network, Backend::Simulated);
        assert!(!postgres.contains(&FaultKind::Busy), "no file is there");
    }

    #[test]
    fn a_commit_can_fail_both_ways_and_a_rollback_in_neither() {
        let fails = |verb| {
            [FaultKind::CommitApplied, FaultKind::CommitLost, FaultKind::Serialization]
                .map(|kind| kind.strikes_at(Point::Statement(verb)))
        };
        assert_eq!(fails(Verb::Commit), [true; 3]);
        assert_eq!(fails(Verb::Rollback), [false; 3]);
    }
}
