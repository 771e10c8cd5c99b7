//! What may be depended on: licences, one version a crate, pinned versions. Reads `cargo metadata`
//! and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::command;

/// Licences that a dependency may be used under.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that may come in several versions, each with its reason.
const DUPLICATES: &[(&str, &str)] = &[
    ("block-buffer", "sqlx-core 0.9 is one version of sha2 behind sqlx-postgres 0.9"),
    ("cpufeatures", "the same"),
    ("crypto-common", "the same"),
    ("digest", "the same"),
    ("getrandom", "turmoil 0.7 is one version of rand behind proptest"),
    ("hashbrown", "hashlink, of rusqlite 0.39, is one version behind indexmap"),
    ("r-efi", "turmoil 0.7 is one version of rand behind proptest"),
    ("rand", "the same"),
    ("rand_chacha", "the same"),
    ("rand_core", "the same"),
    ("sha2", "sqlx-core 0.9 is one version of sha2 behind sqlx-postgres 0.9"),
    ("syn", "derive macros move to syn 3 one by one; it is never part of a program"),
];

/// Crates whose version is fixed, each with its reason.
const PINNED: &[(&str, &str, &str)] = &[(
    "rusqlite",
    "0.39.",
    "later ones cannot share a lock file with sqlx 0.9: both link sqlite3",
)];

/// A crate of the lock file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
}

/// Checks every crate of the lock file, on whatever platform it is used; says how many there are.
pub(crate) fn check() -> Result<String, String> {
    let packages = packages()?;
    let problems = problems(&packages, DUPLICATES);
    if problems.is_empty() {
        return Ok(format!("{} crates, all licences allowed", packages.len()));
    }
    Err(problems.join("\n"))
}

fn packages() -> Result<Vec<Package>, String> {
    let mut command = Command::new(command::cargo());
    command.args(["metadata", "--locked", "--format-version", "1"]).current_dir(command::root());
    let output = command.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata is no JSON: {error}"))?;
    let listed = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    listed.iter().map(package).collect()
}

fn package(value: &Value) -> Result<Package, String> {
    let text = |field: &str| value[field].as_str().map(ToOwned::to_owned);
    let name = text("name").ok_or("a package has no name")?;
    let version = text("version").ok_or("a package has no version")?;
    Ok(Package { name, version, licence: text("license") })
}

fn problems(packages: &[Package], duplicates: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Package { name, version, licence } in packages {
        versions.entry(name).or_default().insert(version);
        match licence {
            None => problems.push(format!("{name} {version} states no licence")),
            Some(licence) if !allowed(licence) => {
                problems.push(format!("{name} {version} is licensed under {licence}"));
            }
            Some(_) => {}
        }
    }
    for (name, found) in &versions {
        if found.len() > 1 && !duplicates.iter().any(|known| known.0 == *name) {
            let found: Vec<&str> = found.iter().copied().collect();
            problems.push(format!("{name} comes in {}", found.join(" and ")));
        }
    }
    for (name, _) in duplicates {
        if versions.get(name).is_none_or(|found| found.len() < 2) {
            problems.push(format!("{name} no longer comes in several versions: drop its row"));
        }
    }
    for (name, pinned, reason) in PINNED {
        let found = versions.get(name).into_iter().flatten();
        for version in found.filter(|version| !version.starts_with(pinned)) {
            problems.push(format!("{name} is {version}, not {pinned}x: {reason}"));
        }
    }
    problems
}

/// True if an SPDX expression lets us choose among the allowed licences alone.
fn allowed(expression: &str) -> bool {
    // Old manifests write `/` for `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let value = any(&mut rest);
    value && rest.is_empty()
}

fn any(rest: &mut &[&str]) -> bool {
    let mut value = all(rest);
    while let Some(("OR", tail)) = rest.split_first().map(|(word, tail)| (*word, tail)) {
        *rest = tail;
        // Both sides are read, whatever the first says.
        value |= all(rest);
    }
    value
}

fn all(rest: &mut &[&str]) -> bool {
    let mut value = one(rest);
    while let Some(("AND", tail)) = rest.split_first().map(|(word, tail)| (*word, tail)) {
        *rest = tail;
        value &= one(rest);
    }
    value
}

fn one(rest: &mut &[&str]) -> bool {
    let Some((word, tail)) = rest.split_first() else { return false };
    *rest = tail;
    if *word == "(" {
        let value = any(rest);
        let Some((")", tail)) = rest.split_first().map(|(word, tail)| (*word, tail)) else {
            return false;
        };
        *rest = tail;
        return value;
    }
    // An exception only ever permits more.
    if let Some(("WITH", [_, tail @ ..])) = rest.split_first().map(|(word, tail)| (*word, tail)) {
        *rest = tail;
    }
    LICENCES.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(name: &str, version: &str, licence: Option<&str>) -> Package {
        let licence = licence.map(ToOwned::to_owned);
        Package { name: name.to_owned(), version: version.to_owned(), licence }
    }

    fn check(packages: &[Package], expected: &[&str]) {
        assert_eq!(problems(packages, &[]), expected);
    }

    #[test]
    fn one_allowed_alternative_is_enough_and_each_part_of_a_conjunction_is_needed() {
        assert!(allowed("GPL-3.0 OR MIT"));
        assert!(allowed("MIT/Apache-2.0"));
        assert!(allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(allowed("Apache-2.0 WITH LLVM-exception OR GPL-3.0"));
        assert!(!allowed("MIT AND GPL-3.0"));
        assert!(!allowed("GPL-3.0"));
        assert!(!allowed(""));
        assert!(!allowed("(MIT"));
        assert!(!allowed("MIT MIT"));
    }

    #[test]
    fn a_crate_without_a_licence_is_refused() {
        check(&[crate_of("mute", "1.0.0", None)], &["mute 1.0.0 states no licence"]);
    }

    #[test]
    fn two_versions_of_one_crate_are_refused() {
        let packages =
            [crate_of("twin", "1.0.0", Some("MIT")), crate_of("twin", "2.0.0", Some("MIT"))];
        check(&packages, &["twin comes in 1.0.0 and 2.0.0"]);
    }

    #[test]
    fn an_exception_that_is_no_longer_needed_is_refused() {
        let twins =
            [crate_of("twin", "1.0.0", Some("MIT")), crate_of("twin", "2.0.0", Some("MIT"))];
        assert_eq!(problems(&twins, &[("twin", "a reason")]), [""; 0]);
        assert_eq!(problems(&twins[..1], &[("twin", "a reason")]).len(), 1);
    }

    #[test]
    fn a_newer_rusqlite_is_refused_with_the_reason() {
        let found = problems(&[crate_of("rusqlite", "0.40.0", Some("MIT"))], &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("sqlx"), "{found:?}");
    }
}
