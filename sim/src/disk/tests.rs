use rusqlite::{Connection, OpenFlags};

use super::*;

/// Transactions of the work, and rows that each of them inserts.
const TRANSACTIONS: i64 = 5;
const ROWS: i64 = 3;
/// Ways in which a power cut goes: each of those of a tape, and two numbers each.
const WAYS: [[u16; 2]; 6] = [[0, 0], [1, 0], [2, 11], [2, 2_222], [3, 3], [3, 4_444]];

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
struct Mode {
    journal: &'static str,
    synchronous: &'static str,
    /// Pages of a WAL after which it is written back.
    checkpoint: u32,
    /// Another process reads meanwhile.
    reader: bool,
    /// What SQLite is told of the device.
    powersafe: bool,
}

const WAL: Mode =
    Mode { journal: "wal", synchronous: "full", checkpoint: 1000, reader: true, powersafe: false };
const WRITTEN_BACK: Mode = Mode { checkpoint: 4, ..WAL };
const ALONE: Mode = Mode { reader: false, ..WRITTEN_BACK };
/// Under `full` the directory is not synced when the journal goes, and with it the transaction.
const ROLLBACK: Mode = Mode { journal: "delete", synchronous: "extra", reader: false, ..WAL };

/// What a run of many crashes came to.
#[derive(Debug, Default)]
struct Found {
    crashes: u32,
    /// Recoveries after which an acknowledged transaction was gone.
    lost: u32,
    /// Recoveries after which a transaction was there in part.
    torn: u32,
    /// Recoveries after which the database could not be read.
    corrupt: u32,
}

fn connect(process: Process, mode: Mode) -> rusqlite::Result<Connection> {
    vfs::register();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let path = format!("{process}/test.db");
    let connection = Connection::open_with_flags_and_vfs(path, flags, vfs::NAME)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    let Mode { journal, synchronous, checkpoint, .. } = mode;
    connection.execute_batch(&format!(
        "pragma journal_mode = {journal}; pragma synchronous = {synchronous};
        pragma wal_autocheckpoint = {checkpoint}"
    ))?;
    Ok(connection)
}

/// A disk with the empty table on it.
fn formatted(mode: Mode) -> Image {
    disk(|disk| disk.format(&Image::default()));
    let connection = connect(disk(Disk::begin_process), mode).unwrap();
    connection.execute_batch("create table t (g integer, i integer, p blob)").unwrap();
    drop(connection);
    disk(|disk| disk.image())
}

fn transaction(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    connection.execute_batch("begin immediate")?;
    for row in 0..ROWS {
        connection.execute("insert into t values (?1, ?2, zeroblob(1500))", (number, row))?;
    }
    connection.execute_batch("commit")
}

/// The work; returns the transactions that were acknowledged, in order. Whoever meets an error
/// connects again and goes on with the next one.
fn work(mode: Mode) -> Vec<i64> {
    let (writes, reads) = disk(|disk| (disk.begin_process(), disk.begin_process()));
    let mut writer = connect(writes, mode).ok();
    let reader = mode.reader.then(|| connect(reads, mode).ok()).flatten();
    let mut acknowledged = Vec::new();
    disk(Disk::bury);
    for number in 0..TRANSACTIONS {
        let looked = reader.as_ref().map(|reader| seen(reader).map(|rows| rows.len()));
        disk(Disk::bury);
        if let Some(Ok(count)) = looked {
            assert!(count >= acknowledged.len(), "{count} seen of {acknowledged:?}");
        }
        if writer.is_none() {
            let process = disk(|disk| match disk.is_alive(writes) {
                true => writes,
                false => disk.begin_process(),
            });
            writer = connect(process, mode).ok();
        }
        disk(Disk::bury);
        match writer.as_ref().map(|writer| transaction(writer, number)) {
            Some(Ok(())) => acknowledged.push(number),
            _ => writer = None,
        }
        disk(Disk::bury);
        if disk(Disk::take_struck).is_some_and(|struck| struck.0 == Trouble::PowerCut) {
            break;
        }
    }
    acknowledged
}

/// Transactions by number, with how many of their rows there are.
fn seen(connection: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut statement = connection.prepare("select g, count(*) from t group by g order by g")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn judge(mode: Mode, acknowledged: &[i64], found: &mut Found) {
    found.crashes += 1;
    let read = || {
        let connection = connect(disk(Disk::begin_process), mode)?;
        let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>((sound, seen(&connection)?))
    };
    match read() {
        Ok((sound, rows)) if sound == "ok" => {
            let whole: Vec<i64> = rows.iter().map(|row| row.0).collect();
            found.torn += u32::from(rows.iter().any(|row| row.1 != ROWS));
            found.lost += u32::from(acknowledged.iter().any(|one| !whole.contains(one)));
        }
        _ => found.corrupt += 1,
    }
}

/// Lets that trouble strike at each operation in turn, and then the power go in each way.
fn at_each_operation(mode: Mode, trouble: Trouble, ways: &[[u16; 2]], honest: bool) -> Found {
    let image = formatted(mode);
    let mut found = Found::default();
    for after in 0.. {
        for (at, way) in ways.iter().enumerate() {
            disk(|disk| {
                disk.format(&image);
                disk.syncs_ignored = !honest;
                disk.powersafe_overwrite = mode.powersafe;
                disk.armed = Some(Armed { halfway: at % 2 == 1, ..Armed::once(trouble, after) });
            });
            let acknowledged = work(mode);
            if disk(|disk| disk.armed.take()).is_some() {
                return found;
            }
            let mut choices = way.iter().copied();
            disk(|disk| disk.cut_power(&mut |_| choices.next().unwrap()));
            judge(mode, &acknowledged, &mut found);
        }
    }
    found
}

fn check_sound(mode: Mode, trouble: Trouble) {
    // What goes wrong differs by the operation; how the power goes then matters less.
    let ways = if trouble == Trouble::PowerCut { &WAYS[..] } else { &WAYS[..2] };
    let found = at_each_operation(mode, trouble, ways, true);
    assert_eq!((found.lost, found.torn, found.corrupt), (0, 0, 0), "{mode:?} {trouble:?}");
    assert!(found.crashes > 40, "{found:?}");
}

#[test]
fn what_is_acknowledged_under_full_survives_a_power_cut_at_every_operation() {
    for mode in [WAL, WRITTEN_BACK, ALONE, ROLLBACK] {
        check_sound(mode, Trouble::PowerCut);
        check_sound(Mode { powersafe: true, ..mode }, Trouble::PowerCut);
    }
}

#[test]
fn what_is_acknowledged_under_full_survives_a_process_that_dies_at_every_operation() {
    for mode in [WAL, WRITTEN_BACK, ALONE, ROLLBACK] {
        check_sound(mode, Trouble::ProcessCrash);
    }
}

#[test]
fn what_is_acknowledged_under_full_survives_errors_at_every_operation() {
    for mode in [WAL, WRITTEN_BACK, ALONE, ROLLBACK] {
        check_sound(mode, Trouble::IoError);
        check_sound(mode, Trouble::DiskFull);
    }
}

#[test]
fn a_sync_that_fails_and_then_lies_tears_no_transaction_but_may_lose_one() {
    let mut lost = 0;
    for mode in [WAL, WRITTEN_BACK, ALONE] {
        let found = at_each_operation(mode, Trouble::FsyncLies, &WAYS, true);
        assert_eq!((found.torn, found.corrupt), (0, 0), "{mode:?}");
        assert!(found.crashes >= 24, "{found:?}");
        lost += found.lost;
    }
    // The end of the frame that fills up a sector is written after the sync of its transaction. The
    // next sync drops it, and it is not written again: the WAL has a hole.
    assert!(lost > 0, "{lost}");
    // Where SQLite fills up no sectors, what was dropped is written again.
    for mode in [WAL, WRITTEN_BACK, ALONE] {
        let mode = Mode { powersafe: true, ..mode };
        let found = at_each_operation(mode, Trouble::FsyncLies, &WAYS, true);
        assert_eq!((found.lost, found.torn, found.corrupt), (0, 0, 0), "{mode:?}");
    }
}

#[test]
fn a_missing_sync_is_seen() {
    let normal = Mode { synchronous: "normal", ..WAL };
    let found = at_each_operation(normal, Trouble::PowerCut, &WAYS, true);
    assert!(found.lost > 0 && found.corrupt + found.torn == 0, "{found:?}");
    for mode in [WAL, ROLLBACK] {
        let found = at_each_operation(mode, Trouble::PowerCut, &WAYS, false);
        assert!(found.lost > 0, "{mode:?} {found:?}");
    }
    let off = Mode { synchronous: "off", ..ROLLBACK };
    let found = at_each_operation(off, Trouble::PowerCut, &WAYS, true);
    assert!(found.lost > 0 && found.corrupt > 0, "{found:?}");
}

#[test]
fn equal_choices_leave_equal_disks() {
    let image = formatted(WRITTEN_BACK);
    let once = || {
        disk(|disk| disk.format(&image));
        work(WRITTEN_BACK);
        let operations = disk(|disk| disk.operations);
        let mut choices = WAYS[3].iter().copied();
        disk(|disk| disk.cut_power(&mut |_| choices.next().unwrap()));
        (disk(|disk| disk.operations) - operations, disk(|disk| disk.image()).0.len())
    };
    assert_eq!(once(), once());
}

#[test]
fn a_second_writer_finds_the_file_busy_and_a_reader_does_not() {
    let image = formatted(WAL);
    disk(|disk| disk.format(&image));
    let (one, other) = disk(|disk| (disk.begin_process(), disk.begin_process()));
    let (first, second) = (connect(one, WAL).unwrap(), connect(other, WAL).unwrap());
    first.execute_batch("begin immediate; insert into t values (1, 1, null)").unwrap();
    let busy = second.execute_batch("begin immediate").unwrap_err();
    assert_eq!(busy.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    assert_eq!(seen(&second).unwrap(), []);
    first.execute_batch("commit").unwrap();
    assert_eq!(seen(&second).unwrap(), [(1, 1)]);
    second.execute_batch("begin immediate; insert into t values (1, 2, null); commit").unwrap();
    assert_eq!(seen(&first).unwrap(), [(1, 2)]);
}

#[test]
fn the_lock_of_a_dead_writer_is_free_and_what_it_had_not_committed_is_gone() {
    let image = formatted(WAL);
    disk(|disk| disk.format(&image));
    let (one, other) = disk(|disk| (disk.begin_process(), disk.begin_process()));
    let (first, second) = (connect(one, WAL).unwrap(), connect(other, WAL).unwrap());
    first.execute_batch("begin immediate; insert into t values (1, 1, null)").unwrap();
    disk(|disk| disk.kill(one));
    assert!(first.execute_batch("commit").is_err());
    drop(first);
    disk(Disk::bury);
    assert!(!disk(|disk| disk.is_alive(one)));
    second.execute_batch("begin immediate; insert into t values (2, 2, null); commit").unwrap();
    assert_eq!(seen(&second).unwrap(), [(2, 1)]);
}

/// Lets the only process die at each operation in turn, another one read, and then the power go:
/// how often what was read is lost.
fn read_and_lost(checkpoint: &str) -> u32 {
    let mode = Mode { reader: false, ..WAL };
    let image = formatted(mode);
    let mut lost = 0;
    for after in 0.. {
        disk(|disk| disk.format(&image));
        let process = disk(Disk::begin_process);
        let writer = connect(process, mode).unwrap();
        disk(|disk| disk.armed = Some(Armed::once(Trouble::ProcessCrash, after)));
        let done = (0..TRANSACTIONS).try_for_each(|number| transaction(&writer, number));
        drop(writer);
        if disk(|disk| disk.armed.take()).is_some() {
            return lost;
        }
        assert!(done.is_err() || disk(|disk| !disk.is_alive(process)));
        let next = connect(disk(Disk::begin_process), mode).unwrap();
        next.execute_batch(checkpoint).unwrap();
        let read = seen(&next).unwrap();
        disk(Disk::kill_everyone);
        drop(next);
        disk(|disk| disk.cut_power(&mut |_| 0));
        let last = connect(disk(Disk::begin_process), mode).unwrap();
        lost += u32::from(seen(&last).unwrap() != read);
    }
    unreachable!("the work has an end")
}

#[test]
fn what_recovery_shows_of_a_dead_process_is_synced_by_a_checkpoint_and_not_before() {
    assert!(read_and_lost("select 1") > 0);
    assert_eq!(read_and_lost("pragma wal_checkpoint(passive)"), 0);
}
