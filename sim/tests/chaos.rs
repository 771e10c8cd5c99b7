//! `chaos` as a user starts it: a planted bug is seen in processes that are really killed.
#![cfg(feature = "mutants")]

use std::process::Command;

#[test]
fn a_planted_bug_is_seen_by_real_processes_on_a_real_file() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report.json");
    let chaos = Command::new(env!("CARGO_BIN_EXE_sluicegate-sim"))
        .args(["chaos", "--lane", "sqlite", "--budget", "1s", "--seed", "1", "--mutant", "P38"])
        .arg("--failures")
        .arg(directory.path())
        .arg("--json")
        .arg(&report)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&chaos.stdout);
    assert_eq!(chaos.status.code(), Some(1), "{said}");
    let report = std::fs::read_to_string(report).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["violations"][0]["invariant"], "I11", "{report}");
    assert!(said.contains("not replayable"), "{said}");
    let rows = std::fs::read_to_string(directory.path().join("chaos-sqlite-1-round1.txt"));
    assert!(rows.unwrap().contains("Execution {"), "the rows of the flow are kept");
}
