//! The faults that only a file has. Never judges.

use std::time::Duration;

use tokio::time::sleep;

use super::database::{BUSY_TIMEOUT, Database};
use super::faults::{Fault, Field, Kind};

/// How long a saboteur holds the file.
const HOLD: Duration = Duration::from_millis(1_500);
/// How long a saboteur waits for the file itself.
const PATIENCE: Duration = Duration::from_secs(4);

pub(super) const LOCK_HOLDER: Fault = Fault {
    id: "lock_holder",
    title: "an engine answered that the file is busy, behind a writer that outlasts its timeout",
    kind: Kind::Struck(|field| Box::pin(hold(field))),
    unavailable: |_| None,
};

pub(super) const DISK_FULL: Fault = Fault {
    id: "disk_full",
    title: "an engine's write or commit refused because the disk is full",
    kind: Kind::Struck(|field| Box::pin(fill(field))),
    unavailable: |field| field.disk.as_ref().err().cloned(),
};

async fn hold(field: &mut Field) -> Result<u64, String> {
    let Database::Sqlite(place) = &field.database else { return Ok(0) };
    assert!(HOLD > BUSY_TIMEOUT, "a holder outlasts what an engine waits");
    let before = field.answered("busy")?;
    let connection = rusqlite::Connection::open(&place.file).map_err(|e| e.to_string())?;
    connection.busy_timeout(PATIENCE).map_err(|error| error.to_string())?;
    connection.execute_batch("begin immediate").map_err(|error| error.to_string())?;
    sleep(HOLD).await;
    connection.execute_batch("rollback").map_err(|error| error.to_string())?;
    Ok(field.answered("busy")? - before)
}

/// A disk that is full shows at a write, or at COMMIT, whose outcome is then unknown; but only to
/// whoever needs more room: not to a log that is written over from its start, beside a file with
/// the room of what was taken away.
async fn fill(field: &mut Field) -> Result<u64, String> {
    let (Ok(disk), Database::Sqlite(place)) = (&field.disk, &field.database) else {
        return Ok(0);
    };
    let before = answered_full(field)?;
    let connection = rusqlite::Connection::open(&place.file).map_err(|e| e.to_string())?;
    connection.busy_timeout(PATIENCE).map_err(|error| error.to_string())?;
    let shortened = connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
    shortened.map_err(|error| error.to_string())?;
    drop(connection);
    disk.fill().map_err(|error| error.to_string())?;
    sleep(HOLD).await;
    let seen = answered_full(field);
    disk.empty().map_err(|error| error.to_string())?;
    Ok(seen? - before)
}

fn answered_full(field: &Field) -> Result<u64, String> {
    Ok(field.answered("full")? + field.answered("unknown_commit")?)
}
