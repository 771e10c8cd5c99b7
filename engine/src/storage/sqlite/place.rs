//! The file that a storage has opened, and whether its path still leads to it. Never opens a file:
//! to close one would let go of the locks that SQLite holds on it.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

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
