//! The architecture invariants: who depends on whom, what is pure, and that the engine asks nobody
//! but its environment for time, randomness and threads.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::tree::{File, files, read};
use crate::{lexer, none};

/// The packages and the project packages that each may depend on, for whatever purpose.
const PACKAGES: &[(&str, &[&str])] = &[
    ("sluicegate", &[]),
    ("sluicegate-sim", &["sluicegate"]),
    ("sluicegate-tests", &["sluicegate", "sluicegate-sim"]),
    ("sluicegate-ci", &[]),
];

/// Modules that decide and compute, and nothing else.
const PURE: &[&str] = &[
    "engine/src/draw.rs",
    "engine/src/flow/",
    "engine/src/graph.rs",
    "engine/src/identity.rs",
    "engine/src/policy.rs",
    "engine/src/replay.rs",
    "engine/src/retry.rs",
    "engine/src/state.rs",
    "engine/src/summary.rs",
    "engine/src/time.rs",
];

/// What no pure module names.
const IMPURE: &[&str] =
    &["async", "await", "crate::storage", "Instant", "SystemTime", "rusqlite", "tokio"];

/// What the engine never asks for: its environment or its storage hands it over.
const AMBIENT: &[&str] = &[
    "Instant",
    "SystemTime",
    "std::env",
    "env::var",
    "std::thread",
    "thread::",
    "thread_local",
    "rand::",
    "getrandom",
    "new_v4",
    "now_v7",
];

/// Where the engine may, each with its reason.
const AMBIENT_EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "engine/src/environment/system.rs",
        "SystemTime",
        "the environment of a real process, which hands the clock to the engine",
    ),
    ("engine/src/environment/system.rs", "getrandom", "the same"),
    ("engine/src/environment/system.rs", "Instant", "the same"),
    (
        "engine/src/environment/system.rs",
        "std::thread",
        "a thread on which no handler runs, for what keeps leases",
    ),
    ("engine/src/environment/system.rs", "thread::", "the same"),
    (
        "engine/src/storage/sqlite/mod.rs",
        "SystemTime",
        "SQLite has no server: the backend is the storage's clock, unless one is injected",
    ),
    (
        "engine/src/mutants.rs",
        "thread_local",
        "which planted bug is on; compiled only with the feature of the simulator",
    ),
];

fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.current_dir(sluicegate_tests::root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The project packages that each package depends on.
fn dependencies(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().expect("a name is text").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let packages = list(&metadata["packages"]);
    let of = |package: &Value| {
        let named = list(&package["dependencies"]).iter().map(|one| text(&one["name"])).collect();
        let named: Vec<String> = named;
        named.into_iter().filter(|name| name.starts_with("sluicegate")).collect()
    };
    packages.iter().map(|package| (text(&package["name"]), of(package))).collect()
}

fn dependency_violations(found: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut violations = Vec::new();
    for (package, dependencies) in found {
        let Some((_, allowed)) = PACKAGES.iter().find(|row| row.0 == package) else {
            violations.push(format!("{package} has no row among the packages"));
            continue;
        };
        for name in dependencies.iter().filter(|name| !allowed.contains(&name.as_str())) {
            violations.push(format!("{package} depends on {name}"));
        }
    }
    violations
}

#[test]
fn packages_depend_only_downwards() {
    let found = dependencies(&metadata());
    assert_eq!(found.len(), PACKAGES.len());
    none(&dependency_violations(&found));
    let reversed = BTreeMap::from([("sluicegate".to_owned(), vec!["sluicegate-sim".to_owned()])]);
    assert_eq!(dependency_violations(&reversed), ["sluicegate depends on sluicegate-sim"]);
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    let manifests = files("", "toml").into_iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let without = manifests.filter(|file| !file.text.contains("[lints]\nworkspace = true"));
    none(&without.map(|file| format!("{} takes no lints", file.path)).collect::<Vec<_>>());
}

/// True if the code holds the word, not as a part of a longer one.
fn names(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let goes_on = |inside: bool, beyond: Option<char>| inside && beyond.is_some_and(part);
        !goes_on(word.starts_with(part), before) && !goes_on(word.ends_with(part), after)
    })
}

fn named_violations(file: &File, code: &str, words: &[&str]) -> Vec<String> {
    let found = words.iter().filter(|word| names(code, word));
    found.map(|word| format!("{} names {word}", file.path)).collect()
}

#[test]
fn pure_modules_know_no_storage_no_clock_and_no_async() {
    let pure = |file: &File| PURE.iter().any(|path| file.path.starts_with(path));
    let found: Vec<File> = files("engine/src", "rs").into_iter().filter(pure).collect();
    for path in PURE {
        assert!(found.iter().any(|file| file.path.starts_with(path)), "{path} is gone");
    }
    let violations = found.iter().flat_map(|file| named_violations(file, &file.code(), IMPURE));
    none(&violations.collect::<Vec<_>>());
    assert!(names("use crate::storage::Group;", "crate::storage"));
    assert!(names("async fn f() {}", "async"));
    assert!(!names("let asynchronous = 1;", "async"));
}

#[test]
fn the_engine_reads_no_ambient_clock_randomness_environment_or_thread() {
    let excepted = |path: &str, word: &str| {
        AMBIENT_EXCEPTIONS.iter().any(|row| (row.0, row.1) == (path, word))
    };
    let mut violations = Vec::new();
    for file in files("engine/src", "rs").iter().filter(|file| !file.is_test()) {
        let words: Vec<&str> =
            AMBIENT.iter().copied().filter(|word| !excepted(&file.path, word)).collect();
        violations.extend(named_violations(file, &file.shipped_code(), &words));
    }
    for (path, word, _) in AMBIENT_EXCEPTIONS {
        let code = lexer::code(&read(path));
        if !names(&code, word) {
            violations.push(format!("{path} no longer names {word}: drop its exception"));
        }
    }
    none(&violations);
    assert!(names("let now = std::time::Instant::now();", "Instant"));
}

/// The directories of the backends.
fn backends(files: &[File]) -> Vec<String> {
    let names = files.iter().filter_map(|file| {
        let rest = file.path.strip_prefix("engine/src/storage/")?;
        rest.split_once("/mod.rs").map(|(name, _)| name.to_owned())
    });
    names.filter(|name| name != "conformance").collect()
}

fn backend_violations(file: &File, backends: &[String]) -> Vec<String> {
    let home =
        backends.iter().find(|name| file.path.starts_with(&format!("engine/src/storage/{name}/")));
    let code = file.code();
    let mut violations = Vec::new();
    for other in backends.iter().filter(|name| Some(*name) != home) {
        let paths = [format!("{other}::"), format!("::{other};")];
        if paths.iter().any(|path| names(&code, path)) {
            violations.push(format!("{} knows the backend {other}", file.path));
        }
    }
    if home.is_none() {
        violations.extend(named_violations(file, &code, &["rusqlite", "sqlx"]));
    }
    violations
}

#[test]
fn no_backend_knows_another_and_nothing_above_the_seam_knows_any() {
    let found = files("engine/src", "rs");
    let backends = backends(&found);
    assert!(backends.contains(&"sqlite".to_owned()));
    let violations = found.iter().flat_map(|file| backend_violations(file, &backends));
    none(&violations.collect::<Vec<_>>());
    let both = ["sqlite".to_owned(), "postgres".to_owned()];
    let check = |path: &str, text: &str, expected: usize| {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(backend_violations(&file, &both).len(), expected, "{path}: {text}");
    };
    check("engine/src/storage/postgres/mod.rs", "use crate::storage::sqlite::Clock;", 1);
    check("engine/src/storage/sqlite/mod.rs", "use crate::storage::sqlite::Clock;", 0);
    check("engine/src/engine.rs", "use rusqlite::Connection;", 1);
}
