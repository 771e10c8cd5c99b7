//! Universes that failed once: they pass, and the bug that made them fail is still seen in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicegate_sim::driver::{End, Universe};
use sluicegate_sim::failure::FailureFile;
use sluicegate_sim::tape::Tape;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/failures")
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).expect("the fixtures are there");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the entry can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

/// How the universe of a file ends with that planted bug on.
fn end_of(path: &Path, mutant: Option<&str>) -> End {
    let file = FailureFile::load(path).expect("the file is a failure file");
    let mut plan = file.plan;
    plan.mutant = mutant.map(str::to_owned);
    let mut universe = Universe::new(Arc::new(plan)).expect("its flow is valid");
    universe.run(Tape::replay(file.tape)).end
}

#[test]
fn every_kept_universe_passes() {
    let files = files();
    assert!(!files.is_empty(), "no failure is kept");
    for path in files {
        assert_eq!(end_of(&path, None), End::Clean, "{}", path.display());
    }
}

#[test]
fn failing_groups_that_hide_their_neighbours_are_still_seen() {
    let path = directory().join("I8-stuck-groups-hide-neighbours.json");
    match end_of(&path, Some("S01")) {
        End::Violated(violation) => assert_eq!(violation.invariant, "I8"),
        end => panic!("the planted bug was not seen: {end:?}"),
    }
}
