//! The tables by which things are added: every row is used, and everything that should be a row is.

use std::collections::BTreeSet;

use sluicegate::mutants::Mutant;
use sluicegate_sim::invariants;

use crate::none;
use crate::tree::{files, read};

/// What `mutated!(..)` names in this code.
fn planted(code: &str) -> BTreeSet<String> {
    let calls = code.split("mutated!(").skip(1);
    let ids = calls.filter_map(|rest| rest.split_once(')').map(|(id, _)| id.trim().to_owned()));
    ids.filter(|id| !id.starts_with('$')).collect()
}

fn mutant_violations(listed: &BTreeSet<String>, planted: &BTreeSet<String>) -> Vec<String> {
    let idle = listed.difference(planted).map(|id| format!("{id} is listed and planted nowhere"));
    let unlisted = planted.difference(listed).map(|id| format!("{id} is planted and not listed"));
    idle.chain(unlisted).collect()
}

#[test]
fn every_listed_mutant_is_planted_and_every_planted_one_is_listed() {
    let listed: BTreeSet<String> = Mutant::ALL.iter().map(|one| one.id().to_owned()).collect();
    // What a statement does wrong is planted where the statement is modelled.
    let sources = files("engine/src", "rs").into_iter().chain(files("sim/src/database", "rs"));
    let found: BTreeSet<String> = sources.flat_map(|file| planted(&file.code())).collect();
    none(&mutant_violations(&listed, &found));
    let sample = planted("if mutated!(P98) || mutated!( P99 ) {}");
    let listed = BTreeSet::from(["P97".to_owned(), "P98".to_owned()]);
    assert_eq!(mutant_violations(&listed, &sample).len(), 2);
}

#[test]
fn every_mutant_names_invariants_that_are_checked() {
    let checked = |id: &str| invariants::TABLE.iter().any(|row| row.id == id);
    let unknown = Mutant::ALL
        .iter()
        .filter(|one| one.seen_by().is_empty() || !one.seen_by().split(' ').all(checked));
    let say = |one: &Mutant| format!("{} is seen by `{}`", one.id(), one.seen_by());
    none(&unknown.map(say).collect::<Vec<_>>());
}

/// The modules `i01_..` among file names.
fn invariant_modules(paths: &[String]) -> Vec<String> {
    let stems = paths.iter().filter_map(|path| path.rsplit('/').next()?.strip_suffix(".rs"));
    let numbered = |stem: &&str| {
        let digits = stem.strip_prefix('i').unwrap_or_default();
        digits.starts_with(|c: char| c.is_ascii_digit())
    };
    stems.filter(numbered).map(ToOwned::to_owned).collect()
}

#[test]
fn every_invariant_file_is_a_row_of_the_table() {
    let sources = files("sim/src/invariants", "rs");
    let paths: Vec<String> = sources.into_iter().map(|file| file.path).collect();
    let modules = invariant_modules(&paths);
    let table = read("sim/src/invariants/mod.rs");
    let missing = modules.iter().filter(|stem| !table.contains(&format!("{stem}::INVARIANT,")));
    none(&missing.map(|stem| format!("{stem} is not in the table")).collect::<Vec<_>>());
    assert_eq!(modules.len(), invariants::TABLE.len());
    assert_eq!(invariant_modules(&["a/i07_x.rs".to_owned(), "a/io.rs".to_owned()]), ["i07_x"]);
}

/// The command lines of the fenced block after the heading.
fn commands<'a>(readme: &'a str, heading: &str) -> Vec<&'a str> {
    let section = readme.split_once(heading).map_or("", |(_, rest)| rest);
    let block = section.split("```").nth(1).unwrap_or_default();
    let lines = block.lines().skip(1).map(|line| line.split('#').next().unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_gate_runs_the_test_command_of_the_readme_and_nothing_else() {
    let readme = read("README.md");
    let found = commands(&readme, "## Two commands");
    assert_eq!(found.len(), 2, "{found:?}");
    let gate = read(".ci/run");
    assert!(gate.starts_with("#!/usr/bin/env bash\n"));
    assert!(gate.contains("set -euo pipefail"));
    assert_eq!(gate.lines().last(), Some(found[1]));
    let sample = "## Two commands\n\n```sh\na b # c\nd\n```\n";
    assert_eq!(commands(sample, "## Two commands"), ["a b", "d"]);
}

#[test]
fn the_aliases_of_the_readme_exist() {
    let config = read(".cargo/config.toml");
    let readme = read("README.md");
    let lines = commands(&readme, "## Two commands");
    for command in lines.iter().flat_map(|line| line.split(" && ")) {
        if command == "sh ci/setup.sh" {
            continue;
        }
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("cargo"), "{command}");
        let alias = words.next().unwrap_or_default();
        assert!(config.contains(&format!("\n{alias} = ")), "no alias `{alias}`");
    }
}
