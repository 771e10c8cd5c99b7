//! The script that readies a machine: it is shell, and it asks nothing.

use std::process::Command;

use crate::none;
use crate::tree::read;

/// Lines that would wait for somebody's answer.
fn questions(script: &str) -> Vec<String> {
    let installs = |line: &&str| line.contains("apt-get install") || line.contains("dnf install");
    let asking = script.lines().filter(installs).filter(|line| !line.contains(" -y"));
    asking.map(|line| format!("would wait for an answer: {line}")).collect()
}

#[test]
fn setup_asks_nothing() {
    let script = read("ci/setup.sh");
    none(&questions(&script));
    for manager in ["apt-get install", "dnf install", "brew install"] {
        assert!(script.contains(manager), "it does not know {manager}");
    }
    assert_eq!(questions("sudo apt-get install gcc\n").len(), 1);
}

#[test]
fn setup_is_a_script_of_any_shell() {
    let mut shell = Command::new("sh");
    let checked = shell.args(["-n", "ci/setup.sh"]).current_dir(sluicegate_tests::root()).status();
    assert!(checked.expect("a shell runs").success());
}
