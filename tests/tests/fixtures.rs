//! The flows in `fixtures/flows`: the good ones are accepted, each bad one is refused by name. The
//! scenarios in `fixtures/reports`: each can be read, and stands in the table.

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate::flow::{FlowSpec, Limits, ValidFlow};
use sluicegate_sim::scenario::{RULES, Scenario, Specimen};

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
fn every_report_is_a_scenario_and_stands_in_the_table() {
    let table = sluicegate_tests::root().join("fixtures/reports/README.md");
    let table = fs::read_to_string(table).expect("the table can be read");
    let load = |file: &PathBuf| {
        let scenario = Scenario::load(file).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(file.file_stem().and_then(|stem| stem.to_str()), Some(&*scenario.id));
        scenario
    };
    let scenarios: Vec<Scenario> = files("fixtures/reports").iter().map(load).collect();
    for Scenario { id, class, system, url, rules, specimens, .. } in &scenarios {
        let specimens: Vec<&str> = specimens.iter().map(Specimen::name).collect();
        let row = table.lines().find(|line| line.contains(&format!("[{id}]({id}.json)")));
        let row = row.unwrap_or_else(|| panic!("{id} has no row"));
        for cell in [class, &format!("[{system}]({url})"), &rules.join(" "), &specimens.join(" ")] {
            assert!(row.contains(&format!("| {cell} |")), "{id}: `{cell}` is not in `{row}`");
        }
    }
    for (rule, invariants, words) in RULES {
        let is_about = |scenario: &Scenario| scenario.rules.iter().any(|one| one == rule);
        assert!(scenarios.iter().any(is_about), "no report is about {rule}");
        let row = format!("| {rule} | {} | {words} |", invariants.join(" "));
        assert!(table.contains(&row), "`{row}` is not in the table");
    }
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
