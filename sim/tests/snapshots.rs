//! What people read, as snapshots of the real program: help, a story, the listing, errors. Exit
//! codes are part of what they show.

use std::path::Path;
use std::process::Command;

/// Runs the program in the workspace's root; its output and exit code as one text.
fn shown(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO_BIN_EXE_sluicegate-sim"))
        .args(arguments)
        .current_dir(root)
        .env_remove("GITHUB_ACTIONS")
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    let code = output.status.code().map_or("a signal".to_owned(), |code| code.to_string());
    format!("{}{}exit {code}\n", text(output.stdout), text(output.stderr))
}

#[test]
fn help_names_every_command() {
    insta::assert_snapshot!(shown(&["--help"]));
}

#[test]
fn help_of_a_campaign_names_every_option() {
    insta::assert_snapshot!(shown(&["run", "--help"]));
}

#[test]
fn the_listing_names_everything_that_there_is() {
    insta::assert_snapshot!(shown(&["list"]));
}

#[test]
fn a_failure_of_the_published_protocol_reads_as_a_story() {
    insta::assert_snapshot!(shown(&["replay", "5", "--engine", "published"]));
}

#[test]
fn a_story_is_the_same_bytes_each_time() {
    let story = || shown(&["replay", "23", "--engine", "published", "--trace"]);
    assert_eq!(story(), story());
}

/// Every kind of bad input, one after the other.
fn refused(commands: &[&[&str]]) -> String {
    let lines = commands
        .iter()
        .map(|arguments| format!("$ cargo sim {}\n{}", arguments.join(" "), shown(arguments)));
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
fn words_that_do_not_exist_are_refused_with_those_that_do() {
    insta::assert_snapshot!(refused(&[
        &["run", "--lane", "oracle"],
        &["run", "--profile", "slow"],
        &["run", "--quickly"],
        &["run", "--seeds", "9..3"],
        &["run", "--mutant", "P99"],
        &["exhaust", "--nodes", "0"],
        &["exhaust", "--lane", "network"],
        &["fly"],
    ]));
}

#[test]
fn flows_that_cannot_run_are_refused_with_the_offenders() {
    insta::assert_snapshot!(refused(&[
        &["run", "--flow", "fixtures/flows/invalid/cycle.json"],
        &["run", "--flow", "fixtures/flows/invalid/dangling.json"],
        &["run", "--flow", "fixtures/flows/invalid/duplicate.json"],
        &["run", "--flow", "fixtures/flows/invalid/quorum_out_of_range.json"],
        &["run", "--flow", "Cargo.toml"],
        &["run", "--flow", "no-such-file.json"],
    ]));
}

#[test]
fn a_broken_failure_file_is_refused_with_its_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let whole = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/failures/I8-stuck-groups-hide-neighbours.json");
    let whole = std::fs::read_to_string(whole).expect("the fixture is there");
    let broken = directory.path().join("broken.json");
    std::fs::write(&broken, &whole[..whole.len() / 2]).expect("the file is written");
    let path = broken.to_str().expect("the path is text");
    let text = shown(&["replay", path]).replace(path, "broken.json");
    insta::assert_snapshot!(text);
}

#[test]
fn a_refused_run_writes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let json = directory.path().join("report.json");
    let json = json.to_str().expect("the path is text");
    let flow = "fixtures/flows/invalid/cycle.json";
    let text = shown(&["run", "--flow", flow, "--json", json]);
    assert!(text.ends_with("exit 2\n"), "{text}");
    assert!(!Path::new(json).exists());
}
