//! The directory of a run, and in it a small disk that can be filled up and emptied again. Neither
//! outlives this process, whatever becomes of it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Megabytes of the disk.
const SIZE_MB: u32 = 96;
/// What the guard runs: `$1` the directory, `$2` the disk. Its input ends with this process.
const GUARD: &str = r#"read -r _; umount -l "$2" 2>/dev/null; rm -rf "$1""#;
/// The name of the disk in its directory.
const DISK: &str = "disk";
/// The file that takes the space.
const BALLAST: &str = "ballast";
/// Bytes of the pieces that fill the disk: large ones first, then what is left.
const PIECES_BYTES: [usize; 2] = [1_024 * 1_024, 4_096];
/// Pieces of one size at most.
const PIECES_MAX: usize = 100_000;

/// The directory of a run.
#[derive(Debug)]
pub(super) struct Home {
    directory: PathBuf,
    guard: Child,
}

impl Home {
    /// Makes a directory that goes with this process.
    pub(super) fn make() -> Result<Self, String> {
        let made = tempfile::Builder::new().prefix("sluicegate-chaos-").tempdir();
        let directory = made.map_err(|error| format!("making a directory: {error}"))?.keep();
        // A server of another user reaches its tables in there.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))
            .map_err(|error| format!("opening a directory: {error}"))?;
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&directory).arg(directory.join(DISK));
        guard.process_group(0);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.spawn().map_err(|error| format!("starting a guard: {error}"))?;
        Ok(Self { directory, guard })
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // It ends by itself; there is nobody to tell if it does not.
        drop(self.guard.wait());
    }
}

/// A mounted disk.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Mounts a disk in a directory, whose guard unmounts it.
    ///
    /// Errors: the system does not let this process mount anything.
    pub(super) fn mount(home: &Home) -> Result<Self, String> {
        let directory = home.directory.join(DISK);
        fs::create_dir_all(&directory).map_err(|error| format!("making a directory: {error}"))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={SIZE_MB}m,mode=0777"), "tmpfs"]);
        let said = mount.arg(&directory).stdin(Stdio::null()).output();
        let said = said.map_err(|error| format!("mount: {error}"))?;
        if !said.status.success() {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            return Err(format!("no small disk can be mounted: {why}"));
        }
        Ok(Self { directory })
    }

    /// Its directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes a directory on it that belongs to whoever owns another.
    pub(super) fn directory_like(&self, name: &str, other: &Path) -> std::io::Result<PathBuf> {
        let owner = fs::metadata(other)?;
        let directory = self.directory.join(name);
        fs::create_dir(&directory)?;
        chown(&directory, Some(owner.uid()), Some(owner.gid()))?;
        Ok(directory)
    }

    /// Fills it until nothing more fits; true if it did fill up.
    pub(super) fn fill(&self) -> std::io::Result<bool> {
        let mut ballast = File::create(self.directory.join(BALLAST))?;
        let mut full = false;
        for size in PIECES_BYTES {
            let piece = vec![0xA5; size];
            full = (0..PIECES_MAX).any(|_| ballast.write_all(&piece).is_err());
        }
        Ok(full)
    }

    /// Makes room again.
    pub(super) fn empty(&self) -> std::io::Result<()> {
        fs::remove_file(self.directory.join(BALLAST))
    }
}
