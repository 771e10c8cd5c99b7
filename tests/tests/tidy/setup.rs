//! The script that readies a machine: it is shell, and it asks nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

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

/// A directory of programs, each of which notes how it was called; `id` says that it is root.
fn programs(names: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("the file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    };
    write("id", "#!/bin/sh\necho 0\n");
    write("sh", "#!/bin/sh\nexec /bin/sh \"$@\"\n");
    for name in names {
        let log = directory.path().join("log");
        write(name, &format!("#!/bin/sh\necho {name} \"$@\" >> {}\n", log.display()));
    }
    directory
}

/// Runs the script where no compiler is found, and nothing else than these programs.
fn set_up(path: &Path) -> Output {
    let mut shell = Command::new("/bin/sh");
    shell.arg("ci/setup.sh").current_dir(sluicegate_tests::root()).env_clear();
    shell.env("PATH", path).env("CC", "no-such-compiler").output().expect("a shell runs")
}

#[test]
fn every_package_manager_is_told_what_to_install() {
    for (manager, called) in [
        ("apt-get", "apt-get install -y build-essential"),
        ("dnf", "dnf install -y gcc glibc-devel"),
        ("brew", "brew install gcc"),
    ] {
        let here = programs(&[manager]);
        let output = set_up(here.path());
        let log = fs::read_to_string(here.path().join("log")).expect("it was called");
        assert!(log.contains(called), "{log}");
        // What it installed here is no compiler: that is not passed over.
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains("something is still missing"), "{said}");
    }
}

#[test]
fn what_nobody_can_install_is_asked_for() {
    let output = set_up(programs(&[]).path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("install a C compiler") && said.contains("PostgreSQL server"), "{said}");
}

#[test]
fn what_is_there_needs_nobody() {
    let mut shell = Command::new("sh");
    let output = shell.arg("ci/setup.sh").current_dir(sluicegate_tests::root()).output();
    let output = output.expect("a shell runs");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}
