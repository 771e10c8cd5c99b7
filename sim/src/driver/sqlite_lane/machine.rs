//! What a thread has for its universes: a database at rest, whose connections serve one universe
//! after the other, on a network those of a server that may be killed, and, for a universe whose
//! disk fails, a machine of its own with one or two processes that each open the file. Never runs a
//! verb.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::ErrorCode;
use sluicegate::storage::sqlite::{Offload, SqliteOptions, SqliteStorage};
use sluicegate::storage::{Result, StorageError};

use super::GatedStorage;
use crate::disk::{self, Armed, Damage, Disk, Image, Process, disk, exchange, hushed, vfs};
use crate::driver::world::storage_clock;
use crate::history::ActorId;
use crate::plan::FailingDisk;

/// Connections of a process: those of every client that a server on a network takes.
const CONNECTIONS_MAX: usize = 128;

/// Takes away what a universe leaves.
const EMPTYING: [&str; 15] = [
    "delete from sluicegate_submission",
    "delete from sluicegate_flow",
    "delete from sluicegate_execution",
    "delete from sluicegate_edge",
    "delete from sluicegate_edge_group",
    "delete from sluicegate_attempt",
    "delete from sluicegate_event",
    "delete from sluicegate_flow_change",
    "delete from sluicegate_flow_summary",
    "delete from sluicegate_sibling_request",
    "delete from sluicegate_request",
    "delete from sluicegate_cancel_backlog",
    "delete from sluicegate_subscription",
    // As in a new file; but its timeline is no choice.
    "delete from sqlite_sequence",
    "update sluicegate_stream_head set timeline = zeroblob(16), last_position = 0, horizon = 0",
];

/// The database of this thread.
pub(crate) struct SqliteLane {
    /// The file as a universe finds it on a machine of its own.
    image: Image,
    /// The storage at rest; nothing while its process is started anew.
    resting: RefCell<Option<SqliteStorage>>,
    machine: RefCell<Option<Machine>>,
}

/// A machine whose disk fails.
struct Machine {
    /// The disk at rest, which this one has taken the place of.
    resting: Disk,
    failing: FailingDisk,
    /// By their places, among which the actors are divided.
    processes: Vec<Option<Running>>,
}

/// A process that has the file open.
struct Running {
    process: Process,
    storage: SqliteStorage,
}

thread_local! {
    static LANE: OnceCell<Rc<SqliteLane>> = const { OnceCell::new() };
}

/// The name of the file.
pub(crate) const DATABASE: &str = "flows.db";

pub(super) fn options(process: Process) -> SqliteOptions {
    SqliteOptions::file(format!("{process}/{DATABASE}"))
        .vfs(vfs::NAME)
        .busy_timeout(Duration::ZERO)
        .offload(Offload::Inline)
        .connections_max(CONNECTIONS_MAX)
        .clock(Arc::new(storage_clock))
}

impl Machine {
    fn seat(&self, actor: ActorId) -> usize {
        usize::from(actor) % self.processes.len()
    }
}

impl SqliteLane {
    /// The lane of this thread; its database is made at the first call.
    pub(crate) fn of_thread() -> std::result::Result<Rc<Self>, String> {
        LANE.with(|lane| {
            if let Some(lane) = lane.get() {
                return Ok(Rc::clone(lane));
            }
            let made = Self::make().map_err(|error| error.to_string())?;
            Ok(Rc::clone(lane.get_or_init(|| Rc::new(made))))
        })
    }

    fn make() -> Result<Self> {
        vfs::register();
        disk(|disk| disk.format(&Image::default()));
        let first = open()?;
        wipe(&first);
        // The last connection writes the log back as it closes, and the file is all there is.
        drop(first);
        let image = disk(|disk| disk.image());
        let resting = RefCell::new(Some(open()?));
        Ok(Self { image, resting, machine: RefCell::new(None) })
    }

    /// The storage as one actor sees it.
    #[expect(clippy::unused_self, reason = "who has a lane has made it for this thread")]
    pub(crate) fn storage(&self, actor: ActorId) -> GatedStorage {
        GatedStorage { actor }
    }

    /// Begins a universe: on an empty database at rest, or on a machine of its own.
    pub(crate) fn begin_universe(&self, failing: Option<&FailingDisk>) {
        self.leave_machine();
        let Some(failing) = failing else { return wipe(&self.at_rest()) };
        let mut own = Disk::default();
        own.format(&self.image);
        own.powersafe_overwrite = failing.powersafe_overwrite;
        own.armed = failing.strike.and_then(|strike| {
            let trouble = strike.fault.trouble()?;
            let halfway = strike.is_halfway();
            Some(Armed { halfway, ..Armed::once(trouble, strike.after) })
        });
        let resting = exchange(own);
        let mut processes = Vec::new();
        processes.resize_with(usize::from(failing.processes.max(1)), || None);
        let machine = Machine { resting, failing: *failing, processes };
        *self.machine.borrow_mut() = Some(machine);
    }

    /// The storage of the database at rest.
    fn at_rest(&self) -> SqliteStorage {
        self.resting.borrow().clone().expect("nobody asks for it while it is started anew")
    }

    /// The process that has the database at rest open is killed, as that of a server is: `drop_all`
    /// takes away what it had open there, of which nothing reaches the file. The next process finds
    /// what this one wrote.
    pub(crate) fn restart(&self, drop_all: impl FnOnce()) {
        assert!(!self.has_machine(), "what crashes there is a machine of its own");
        disk(Disk::kill_everyone);
        drop_all();
        drop(self.resting.take());
        assert!(disk(|disk| disk.is_closed()), "what a process had open is closed when it is dead");
        disk(Disk::bury);
        *self.resting.borrow_mut() = Some(open().expect("a process opens what another one left"));
    }

    fn leave_machine(&self) {
        let Some(machine) = self.machine.borrow_mut().take() else { return };
        disk(Disk::kill_everyone);
        drop(machine.processes);
        // A connection that were still open would read memory that goes with the disk.
        assert!(disk(|disk| disk.is_closed()), "what a universe opens is closed at its end");
        exchange(machine.resting);
    }

    /// The storage that an actor's process has open; it is opened if it is not.
    pub(super) fn opened(&self, actor: ActorId) -> Result<SqliteStorage> {
        let mut machine = self.machine.borrow_mut();
        let Some(machine) = machine.as_mut() else { return Ok(self.at_rest()) };
        let seat = machine.seat(actor);
        if let Some(running) = &machine.processes[seat] {
            return Ok(running.storage.clone());
        }
        let process = disk(Disk::begin_process);
        let options = options(process).checkpoint_pages(machine.failing.checkpoint_pages);
        let storage = SqliteStorage::open(options)?;
        machine.processes[seat] = Some(Running { process, storage: storage.clone() });
        Ok(storage)
    }

    /// The place of an actor's process.
    pub(crate) fn seat(&self, actor: ActorId) -> usize {
        self.machine.borrow().as_ref().map_or(0, |machine| machine.seat(actor))
    }

    /// The place of a process that has the file open.
    pub(crate) fn seat_of(&self, process: Process) -> Option<usize> {
        let machine = self.machine.borrow();
        let mut seats = machine.as_ref()?.processes.iter();
        seats.position(|running| running.as_ref().is_some_and(|one| one.process == process))
    }

    /// True if the universe has a machine of its own.
    pub(crate) fn has_machine(&self) -> bool {
        self.machine.borrow().is_some()
    }

    /// A process has died: its connections are closed, which nobody notices.
    pub(crate) fn bury(&self, seat: usize) {
        let running = self.machine.borrow_mut().as_mut().and_then(|own| own.processes[seat].take());
        drop(running);
        disk(Disk::bury);
    }

    /// Every process dies, and with them the shared memory.
    pub(crate) fn bury_all(&self) {
        disk(Disk::kill_everyone);
        let seats = self.machine.borrow().as_ref().map_or(0, |machine| machine.processes.len());
        (0..seats).for_each(|seat| self.bury(seat));
    }

    /// The power goes: every process dies, and what was not synced is lost by choices.
    pub(crate) fn cut_power(&self, choose: &mut dyn FnMut(u16) -> u16) -> Damage {
        self.bury_all();
        disk(|disk| disk.cut_power(choose))
    }

    /// The storage that somebody looks at who is not there.
    pub(super) fn looked_at(&self) -> Result<SqliteStorage> {
        disk::hushed(|| self.opened(0))
    }

    /// Deletes every event. Which there were is known by then.
    pub(crate) fn delete_events(&self) {
        self.settle_doubts();
        self.execute("delete from sluicegate_event");
    }

    pub(crate) fn execute(&self, sql: &str) {
        assert!(self.try_execute(sql), "no transaction is open between phases");
    }

    /// False if a transaction is open.
    pub(crate) fn try_execute(&self, sql: &str) -> bool {
        let done: Result<_> =
            hushed(|| self.opened(0)?.with_connection(|connection| connection.execute_batch(sql)));
        match done {
            Err(StorageError::Contention(_)) => false,
            done => match done.expect("a connection is free") {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => false,
                done => {
                    done.expect("the statement is valid");
                    true
                }
            },
        }
    }
}

/// Opens the file as a process that begins now.
fn open() -> Result<SqliteStorage> {
    SqliteStorage::open(options(disk(Disk::begin_process)))
}

/// Empties every table, in one transaction.
fn wipe(storage: &SqliteStorage) {
    let wiped = storage.with_connection(|connection| {
        let run = |sql: &str| connection.prepare_cached(sql)?.execute([]).map(drop);
        run("begin immediate")?;
        EMPTYING.iter().try_for_each(|sql| run(sql))?;
        run("commit")
    });
    wiped.expect("a connection is free").expect("no transaction is open between universes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Trouble;

    /// Lets that trouble strike at each operation of the first opening in turn; whoever is told
    /// that the database is open has it open, and the next one opens it.
    fn check(trouble: Trouble) {
        vfs::register();
        for after in 0.. {
            disk(|disk| disk.format(&Image::default()));
            disk(|disk| disk.armed = Some(Armed::once(trouble, after)));
            let first = open();
            let struck = disk(|disk| disk.armed.take()).is_none();
            if let Ok(storage) = &first {
                let mode = |connection: &rusqlite::Connection| {
                    connection.query_row("pragma journal_mode", [], |row| row.get(0))
                };
                let mode: rusqlite::Result<String> = storage.with_connection(mode).unwrap();
                if trouble != Trouble::PowerCut && trouble != Trouble::ProcessCrash {
                    assert_eq!(mode.unwrap(), "wal", "{trouble:?} at {after}");
                }
            }
            drop(first);
            disk(Disk::bury);
            disk(|disk| disk.cut_power(&mut |arity| arity - 1));
            open().unwrap_or_else(|error| panic!("{trouble:?} at {after}: {error}"));
            if !struck {
                assert!(after > 10, "{trouble:?} met {after} operations");
                return;
            }
        }
    }

    /// How often a row that was read was another one after a power cut.
    fn read_and_lost() -> u32 {
        let lane = SqliteLane::of_thread().unwrap();
        let mut lost = 0;
        for after in 0.. {
            disk(|disk| disk.format(&lane.image));
            let writer = open().unwrap();
            disk(|disk| disk.armed = Some(Armed::once(Trouble::ProcessCrash, after)));
            let sql = "update sluicegate_stream_head set last_position = last_position + 1";
            writer.with_connection(|connection| connection.execute_batch(sql).is_ok()).unwrap();
            drop(writer);
            if disk(|disk| disk.armed.take()).is_some() {
                return lost;
            }
            let read = || -> rusqlite::Result<u32> {
                let storage = open().unwrap();
                let sql = "select last_position from sluicegate_stream_head";
                let read = storage
                    .with_connection(|connection| connection.query_row(sql, [], |row| row.get(0)));
                disk(Disk::kill_everyone);
                read.unwrap()
            };
            let first = read().unwrap();
            disk(|disk| disk.cut_power(&mut |_| 0));
            lost += u32::from(read().unwrap() != first);
        }
        unreachable!("a transaction has an end")
    }

    #[test]
    fn what_one_reads_that_a_dead_process_wrote_survives_a_power_cut() {
        // The disk at rest goes along with the lane of this thread, which nobody uses again.
        assert_eq!(read_and_lost(), 0);
    }

    #[test]
    fn a_database_is_opened_as_it_should_be_or_not_whatever_goes_wrong_at_whichever_operation() {
        for trouble in
            [Trouble::PowerCut, Trouble::ProcessCrash, Trouble::IoError, Trouble::DiskFull]
        {
            check(trouble);
        }
    }
}
