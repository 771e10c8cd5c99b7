//! What people and programs read of a command: text, JSON, stories, progress. Never runs anything.

pub mod coverage;
pub mod json;
pub mod list;
pub(crate) mod names;
pub mod progress;
pub(crate) mod rows;
pub mod story;
pub mod text;

use std::io::Write;
use std::process::{Command, Stdio};

/// Hexadecimal digits of a commit that are shown.
const COMMIT_DIGITS: &str = "--short=12";

/// Whether escape codes colour the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Plain text.
    Off,
    /// For a terminal.
    On,
}

impl Paint {
    /// Something that must not be overlooked.
    pub fn alarm(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// A detail.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Paint::Off => text.to_owned(),
            Paint::On => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Prints to standard output; a reader that has left is no error.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints one line to standard error.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The line that repeats a command.
pub fn reproduction(command: &str) -> String {
    format!("reproduce: {command}\n")
}

/// The commit of the sources: as the build says, else as git does, else `unknown`.
pub fn commit() -> String {
    if let Some(commit) = option_env!("SLUICEGATE_COMMIT") {
        return commit.to_owned();
    }
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", COMMIT_DIGITS, "HEAD"])
        .stderr(Stdio::null())
        .output();
    let said = git.ok().filter(|output| output.status.success());
    let said = said.and_then(|output| String::from_utf8(output.stdout).ok());
    said.map_or_else(|| "unknown".to_owned(), |commit| commit.trim().to_owned())
}

/// The first line of a message, cut to that many characters.
pub(crate) fn first_line(message: &str, characters_max: usize) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(characters_max) {
        Some((at, _)) => format!("{}..", &line[..at]),
        None => line.to_owned(),
    }
}

/// An error as GitHub shows it beside a run.
pub fn annotation(title: &str, text: &str) -> String {
    let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let title = escape(title).replace(':', "%3A").replace(',', "%2C");
    format!("::error title={title}::{}\n", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_stay_on_one_line() {
        let text = annotation("a: b", "50 %\nof it");
        assert_eq!(text, "::error title=a%3A b::50 %25%0Aof it\n");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(first_line("äöü\nx", 2), "äö..");
        assert_eq!(first_line("äöü\nx", 3), "äöü");
    }
}
