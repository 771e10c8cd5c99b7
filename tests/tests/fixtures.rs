//! The flows in `fixtures/flows`: the good ones are accepted, each bad one is refused by name.

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate::flow::{FlowSpec, Limits, ValidFlow};

fn files(directory: &str) -> Vec<PathBuf> {
    let directory = sluicegate_tests::root().join(directory);
    let entries = fs::read_dir(directory).expect("the directory exists");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort_unstable();
    assert!(!files.is_empty());
    files
}

fn load(path: &Path) -> Result<ValidFlow, String> {
    let text = fs::read_to_string(path).expect("the file can be read");
    let spec = FlowSpec::load(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
    spec.validate(&Limits::default()).map_err(|invalid| invalid.to_string())
}

#[test]
fn every_flow_by_hand_is_accepted() {
    for file in files("fixtures/flows") {
        load(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

#[test]
fn every_invalid_flow_is_refused_and_the_offender_named() {
    let expected = [
        ("cycle.json", "cycle a -> b -> c -> a"),
        ("dangling.json", "edge `ghost` -> `b` names `ghost`, which is not an execution"),
        ("duplicate.json", "execution `a` is listed 2 times"),
        ("quorum_out_of_range.json", "execution `join` needs 3 of its inbound edges"),
    ];
    let found = files("fixtures/flows/invalid");
    let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, expected.map(|row| row.0), "each invalid flow has its message here");
    for (file, (name, message)) in found.iter().zip(expected) {
        let refused = load(file).expect_err(name);
        assert!(refused.contains(message), "{name}: {refused}");
    }
}
