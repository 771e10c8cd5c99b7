//! The memory of this process as Linux accounts for it. Never allocates for others.

use std::fs;

/// Lets the peak begin anew at what is resident now.
pub(crate) fn forget_peak() -> Result<(), String> {
    // `5` resets the high-water mark, see proc(5).
    fs::write("/proc/self/clear_refs", "5").map_err(|error| format!("clear_refs: {error}"))
}

/// The most that was resident since.
pub(crate) fn peak_bytes() -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
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
