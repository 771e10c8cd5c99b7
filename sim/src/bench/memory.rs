//! The memory that draining a flow takes: of a process that does nothing else, as Linux accounts
//! for it. Never allocates for others.

use std::process::Stdio;

use sluicegate::storage::Scope;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::drive::{self, Dispatchers};
use super::place::{Fresh, open_at};

/// Drains a database in a process of its own, and returns the most memory that it had.
pub(crate) async fn peak_of_drain(fresh: &Fresh) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let mut child = Command::new(this)
        .args(["bench", "--drain"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    // An address may hold a password: it does not go through the arguments.
    let mut input = child.stdin.take().expect("the input is piped");
    input.write_all(fresh.address().as_bytes()).await.map_err(|error| error.to_string())?;
    drop(input);
    let output = child.wait_with_output().await.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes = text.trim().parse();
    bytes.map_err(|_| format!("the draining process ended with {}: `{text}`", output.status))
}

/// What that process does: drains the database at the address on its standard input, and returns
/// the most memory that it had.
pub(crate) async fn drain() -> Result<u64, String> {
    let address = std::io::read_to_string(std::io::stdin()).map_err(|error| error.to_string())?;
    let storage = open_at(address.trim()).await?;
    drive::drain(&drive::handle(&storage), Dispatchers::One, &Scope::default()).await?;
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    peak_of(&status).ok_or_else(|| "/proc/self/status names no VmHWM".to_owned())
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Millions of bytes.
#[expect(clippy::cast_precision_loss, reason = "figures are read by people")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_its_line() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 5 kB\n";
        assert_eq!(peak_of(status), Some(1_234 * 1_024));
        assert_eq!(peak_of("Name:\tx\nVmHWM:\tmany\n"), None);
    }
}
