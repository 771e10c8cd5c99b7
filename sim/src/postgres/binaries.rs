//! Where the programs of a Postgres server are. Never runs one.

use std::fs;
use std::path::{Path, PathBuf};

/// How a server is installed.
pub const INSTALL: &str = "run `apt-get install postgresql`, `dnf install postgresql-server` or \
                           `brew install postgresql@16`, or name one with --postgres URL";

/// Directories of which each entry that begins so holds one version, in `bin`.
const VERSIONED: &[(&str, &str)] = &[
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql"),
    ("/usr/local/opt", "postgresql"),
];
/// What is needed of it.
const PROGRAMS: &[&str] = &["initdb", "pg_ctl", "postgres"];

/// The directory with the programs of a server: the newest that a package manager installed, or the
/// one on the search path.
pub(super) fn find() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for (directory, prefix) in VERSIONED {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
                continue;
            };
            let bin = entry.path().join("bin");
            if holds_all(&bin) {
                found.push((version(rest), bin));
            }
        }
    }
    found.sort();
    let installed = found.pop().map(|(_, bin)| bin);
    installed.or_else(|| on_path().into_iter().find(|directory| holds_all(directory)))
}

/// The first number in a name: `15`, `15.3` and `@15` are all fifteen.
fn version(text: &str) -> u32 {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

fn holds_all(directory: &Path) -> bool {
    PROGRAMS.iter().all(|program| directory.join(program).is_file())
}

fn on_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_number_of_a_name() {
        for (name, expected) in [("15", 15), ("9.6", 9), ("@16", 16), ("", 0), ("none", 0)] {
            assert_eq!(version(name), expected, "{name}");
        }
    }
}
