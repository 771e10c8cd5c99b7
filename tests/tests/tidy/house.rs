//! The house rules of Rust files: length, width, a stated responsibility, and what no code holds.

use crate::none;
use crate::tree::{File, rust_files};

const LINES_MAX: usize = 600;
const COLUMNS_MAX: usize = 100;
/// A reason for length stands among so many first lines.
const REASON_WITHIN_LINES: usize = 20;
const REASON: &str = "// Reason for length:";

/// What no code holds, and the lint that a reasoned `expect` just above may name to admit it.
const FORBIDDEN: &[(&str, Option<&str>)] = &[
    ("#[ignore", None),
    ("#[allow(", None),
    ("todo!", None),
    ("unimplemented!", None),
    ("dbg!", None),
    ("thread::sleep", Some("clippy::disallowed_methods")),
    ("HashMap<", Some("clippy::disallowed_types")),
    ("HashMap::", Some("clippy::disallowed_types")),
    ("HashSet<", Some("clippy::disallowed_types")),
    ("HashSet::", Some("clippy::disallowed_types")),
];
/// An `expect` admits what stands on this many lines after it.
const EXPECT_REACHES_LINES: usize = 4;

fn length(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let reasoned = file.text.lines().take(REASON_WITHIN_LINES).any(|line| line.starts_with(REASON));
    if lines <= LINES_MAX || reasoned {
        return Vec::new();
    }
    vec![format!("{} has {lines} lines and no `{REASON}`", file.path)]
}

fn width(file: &File) -> Vec<String> {
    let wide = |(at, line): (usize, &str)| {
        let columns = line.chars().count();
        let wide = columns > COLUMNS_MAX;
        wide.then(|| format!("{}:{} has {columns} columns", file.path, at + 1))
    };
    file.text.lines().enumerate().filter_map(wide).collect()
}

fn responsibility(file: &File) -> Vec<String> {
    // The tests of one module are for what that module is for.
    if file.text.starts_with("//! ") || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    vec![format!("{} does not say what it is for", file.path)]
}

fn forbidden(file: &File) -> Vec<String> {
    let code = file.code();
    let lines: Vec<&str> = code.lines().collect();
    let mut violations = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        for (word, lint) in FORBIDDEN {
            let above = lines[at.saturating_sub(EXPECT_REACHES_LINES)..at].concat();
            let expected = lint.is_some_and(|lint| {
                above.contains("expect(") && above.contains(lint) && above.contains("reason")
            });
            if line.contains(word) && !expected {
                violations.push(format!("{}:{} holds {word}", file.path, at + 1));
            }
        }
    }
    violations
}

/// Holds every file to a rule, and the rule to a text that it must reject and one that it must not.
#[track_caller]
fn check(rule: fn(&File) -> Vec<String>, rejected: &str, accepted: &str) {
    let sample = |text: &str| File { path: "sample.rs".to_owned(), text: text.to_owned() };
    assert_eq!(rule(&sample(rejected)).len(), 1, "the rule must reject {rejected}");
    assert_eq!(rule(&sample(accepted)), [""; 0]);
    none(&rust_files().iter().flat_map(rule).collect::<Vec<_>>());
}

#[test]
fn a_long_file_says_why_it_is_long() {
    let long = "x\n".repeat(LINES_MAX + 1);
    check(length, &long, &format!("//! A table.\n{REASON} one table.\n{long}"));
}

#[test]
fn no_line_is_wider_than_the_page() {
    check(width, &"x".repeat(COLUMNS_MAX + 1), &"ä".repeat(COLUMNS_MAX));
}

#[test]
fn every_file_begins_with_its_responsibility() {
    check(responsibility, "use std::fmt;\n", "//! Prints; never parses.\n");
}

#[test]
fn code_holds_nothing_unfinished_ignored_asleep_or_unordered() {
    let reasoned = "#[expect(clippy::disallowed_types, reason = \"never iterated\")]\n\
                    type Seen = HashMap<u8, u8>; // HashMap<u8, u8>\n";
    check(forbidden, "#[ignore = \"slow\"]\nfn f() {}\n", reasoned);
    check(forbidden, "type Seen = HashMap<u8, u8>;\n", "let text = \"todo!\";\n");
}
