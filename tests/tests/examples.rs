//! The example programs, run as their first lines say, on a throwaway Postgres where they ask for
//! one. Each asserts what it shows; this asserts that it came to its end.

use std::collections::BTreeSet;
use std::process::Command;

use sluicegate_sim::postgres::shared;
use sluicegate_tests::root;

/// Every example, with the features that it needs besides the default ones.
const EXAMPLES: &[(&str, &str)] = &[
    ("cancel", ""),
    ("own_storage", "conformance"),
    ("quickstart", ""),
    ("quorum_race", ""),
    ("retries_and_deadlines", ""),
    ("subscribe", ""),
    ("transactional_submit", ""),
    ("two_workers", ""),
];

#[test]
fn every_example_runs_to_its_end() {
    for (name, features) in EXAMPLES {
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--locked", "--quiet", "-p", "sluicegate", "--example", name]);
        command.args(["--features", features]).env("DATABASE_URL", shared().url());
        let output = command.current_dir(root()).output().expect("cargo runs");
        let (said, printed) = (&output.stderr, &output.stdout);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(said));
        assert!(!printed.is_empty(), "{name} shows nothing");
    }
}

#[test]
fn every_example_is_in_the_table() {
    let files = std::fs::read_dir(root().join("engine/examples")).expect("the directory is there");
    let paths = files.map(|file| file.expect("it can be read").path());
    let programs = paths.filter(|path| path.is_file());
    let names: BTreeSet<String> = programs
        .filter_map(|path| path.file_stem().and_then(|stem| stem.to_str()).map(ToOwned::to_owned))
        .collect();
    let listed: BTreeSet<String> = EXAMPLES.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(names, listed);
}
