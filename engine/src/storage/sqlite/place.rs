//! The file that a storage has opened, whether its path still leads to it, and what stands beside it.
//! Never opens a file: to close one would let go of the locks that SQLite holds on it.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::{Location, SqliteOptions};
use crate::storage::{Result, StorageError};

/// What tells two files apart that stand at one path, one after the other. An inode is not used
/// again while a connection has the file open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    device: u64,
    inode: u64,
}

/// A path and the file that stood there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    path: PathBuf,
    identity: Identity,
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Identity { device: metadata.dev(), inode: metadata.ino() }
}

/// Elsewhere the system keeps an open file from being deleted or replaced.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    Identity { device: 0, inode: 0 }
}

impl Place {
    /// The file at the path of a database; `None` for one in memory, and for one that does not
    /// exist or that a VFS keeps where the system does not know it.
    pub(super) fn of(options: &SqliteOptions) -> Option<Self> {
        let Location::File(path) = &options.location else { return None };
        let metadata = fs::metadata(path).ok()?;
        Some(Self { path: path.clone(), identity: identity(&metadata) })
    }

    /// `Unavailable` if the path does not lead to the file.
    pub(super) fn check(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.identity => Ok(()),
            other => Err(self.lost(other)),
        }
    }

    #[cold]
    fn lost(&self, found: io::Result<Metadata>) -> StorageError {
        let path = self.path.display();
        let words = match found {
            Ok(_) => format!("another file has taken the place of {path} since it was opened"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!("{path} was deleted or moved away since it was opened")
            }
            Err(error) => format!("{path} cannot be looked at: {error}"),
        };
        StorageError::Unavailable(words.into())
    }
}

/// What stood beside a database before anything was read from it. The first read of one that has a
/// write-ahead log makes what is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Beside {
    /// A log that may hold commits.
    log: bool,
    /// Its index, in shared memory.
    index: bool,
}

impl Beside {
    /// As it stands. Of what the system does not know nothing is said to be missing.
    pub(super) fn now(options: &SqliteOptions) -> Self {
        let Location::File(path) = &options.location else {
            return Self { log: true, index: true };
        };
        if !options.is_plain_file() {
            return Self { log: true, index: true };
        }
        let bytes = |end: &str| fs::metadata(with_end(path, end)).map_or(0, |found| found.len());
        Self { log: bytes("-wal") > 0, index: bytes("-shm") > 0 }
    }

    /// True if a read would make an index for a log that stays.
    pub(super) fn hides_a_look(self) -> bool {
        self.log && !self.index
    }

    /// Has a connection that is about to be closed leave nothing behind that was not there: the last
    /// one of all takes away a log without commits. One with commits stays as it is.
    pub(super) fn leave(self, connection: &Connection) {
        if !self.log {
            let on_close = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            // Where that fails an empty log stays, which says nothing.
            drop(connection.set_db_config(on_close, false));
        }
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
