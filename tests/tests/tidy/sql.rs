//! The SQL files of every backend against the descriptor table: one file a verb, and each file what
//! its kind may be.

use std::collections::BTreeSet;

use sluicegate::storage::{Descriptor, Kind, Verb};

use crate::none;
use crate::sql_rules::{Keys, Rows, keys, names_clock, violations, without_prefix};
use crate::tree::{File, files};

/// Control verbs that a backend may have a statement for.
const CONTROL_FILES: &[&str] = &["clock", "read_clock"];

/// A backend: its directory and its files.
struct Backend {
    name: String,
    statements: Vec<File>,
    migrations: Vec<File>,
}

fn backends() -> Vec<Backend> {
    let all = files("engine/src/storage", "sql");
    let mut names = BTreeSet::new();
    for file in &all {
        let rest = file.path.strip_prefix("engine/src/storage/").expect("the walk began there");
        names.insert(rest.split('/').next().expect("a path has a first name").to_owned());
    }
    let within = |name: &str, directory: &str| {
        let prefix = format!("engine/src/storage/{name}/{directory}/");
        files(&format!("engine/src/storage/{name}/{directory}"), "sql")
            .into_iter()
            .inspect(|file| assert!(file.path.starts_with(&prefix)))
            .collect::<Vec<_>>()
    };
    let backend = |name: String| Backend {
        statements: within(&name, "sql"),
        migrations: within(&name, "migrations"),
        name,
    };
    let backends: Vec<Backend> = names.into_iter().map(backend).collect();
    let known: usize = backends.iter().map(|one| one.statements.len() + one.migrations.len()).sum();
    assert_eq!(known, all.len(), "a stray .sql file lies outside sql/ and migrations/");
    backends
}

impl Backend {
    fn rows(&self) -> Rows {
        if self.name == "sqlite" { Rows::OneByOne } else { Rows::Joined }
    }

    fn keys(&self) -> Keys {
        let migrations: String = self.migrations.iter().map(|file| file.text.as_str()).collect();
        keys(&migrations)
    }
}

fn stem(file: &File) -> &str {
    let name = file.path.rsplit('/').next().expect("a path has a last name");
    name.strip_suffix(".sql").expect("the walk takes .sql files")
}

fn descriptors() -> impl Iterator<Item = Descriptor> {
    Verb::ALL.iter().map(|verb| verb.descriptor())
}

#[test]
fn every_backend_has_one_statement_a_verb_and_no_other() {
    let mut found = Vec::new();
    let backends = backends();
    assert!(!backends.is_empty());
    for backend in &backends {
        let stems: BTreeSet<&str> = backend.statements.iter().map(stem).collect();
        for verb in descriptors().filter(|verb| verb.kind != Kind::Control) {
            if !stems.contains(verb.name) {
                found.push(format!("{}: no statement for {}", backend.name, verb.name));
            }
        }
        let named = |stem: &str| {
            descriptors().any(|verb| {
                let file = verb.kind != Kind::Control || CONTROL_FILES.contains(&verb.name);
                verb.name == stem && file
            })
        };
        let stray = stems.iter().filter(|stem| !named(stem));
        found.extend(stray.map(|stem| format!("{}: no verb for {stem}.sql", backend.name)));
    }
    none(&found);
}

#[test]
fn every_statement_does_what_the_kind_of_its_verb_may() {
    let mut found = Vec::new();
    for backend in backends() {
        let keys = backend.keys();
        assert!(keys.len() > 5, "{}: its migrations create no tables", backend.name);
        for file in &backend.statements {
            let Some(verb) = descriptors().find(|verb| verb.name == stem(file)) else { continue };
            let wrong = violations(verb, &file.text, backend.rows(), &keys);
            found.extend(wrong.into_iter().map(|reason| format!("{}: {reason}", file.path)));
        }
    }
    none(&found);
}

#[test]
fn every_verb_works_on_a_table_of_the_schema() {
    let mut found = Vec::new();
    for backend in backends() {
        let keys = backend.keys();
        let unknown = descriptors()
            .filter(|verb| verb.kind != Kind::Control && !keys.contains_key(verb.table));
        found.extend(unknown.map(|verb| format!("{}: no table {}", verb.name, verb.table)));
    }
    none(&found);
}

#[test]
fn what_a_file_holds_of_ours_has_our_prefix() {
    let backends = backends();
    let sqlite = backends.iter().filter(|backend| backend.name == "sqlite");
    let found = sqlite.flat_map(|backend| &backend.migrations).flat_map(|file| {
        let names = without_prefix(&file.text).into_iter();
        names.map(|name| format!("{}: {name} has no prefix", file.path))
    });
    none(&found.collect::<Vec<_>>());
    let text = "create table sluicegate_t (a); create unique index i on sluicegate_t (a);
        create table event (b);";
    assert_eq!(without_prefix(text), ["i", "event"]);
}

#[test]
fn no_migration_names_a_clock() {
    let backends = backends();
    let migrations = backends.iter().flat_map(|backend| &backend.migrations);
    let found = migrations.filter(|file| names_clock(&file.text));
    none(&found.map(|file| format!("{} names a clock", file.path)).collect::<Vec<_>>());
    assert!(names_clock("create table t (at text default current_timestamp)"));
}

const SCHEMA: &str = "create table t (a integer, b integer, primary key (a, b));
    create table u (id integer primary key, x text);";

/// Holds a statement of that kind on table `t` to the rules; `None` if it must be accepted.
#[track_caller]
fn check(kind: Kind, rows: Rows, statement: &str, expected: Option<&str>) {
    let verb = Descriptor { name: "sample", kind, table: "t" };
    let guarded = statement.starts_with("--");
    let text =
        if guarded { statement.to_owned() } else { format!("-- Guards something.\n{statement}\n") };
    let found = violations(verb, &text, rows, &keys(SCHEMA));
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{statement}");
}

#[test]
fn primary_keys_are_read_from_the_schema() {
    let found = keys(SCHEMA);
    assert_eq!(found["t"], ["a", "b"]);
    assert_eq!(found["u"], ["id"]);
}

#[test]
fn statements_that_break_a_rule_of_every_kind_are_rejected() {
    let check = |statement, expected| check(Kind::Read, Rows::OneByOne, statement, Some(expected));
    check(
        "select a from t where a = :a and b = :b; select b from t where a = :a and b = :b",
        "it is more than one statement, or ends in a semicolon",
    );
    check("select * from t order by a", "it selects every column instead of naming them");
    check("select x.* from t as x order by a", "it selects every column instead of naming them");
    check("select A from t order by a", "it holds capitals");
    check("select a from t where b < now() order by a", "it names a clock");
    check("select a from t as x, u order by a", "it joins tables by a comma");
    check("select a from t where a = :a", "its rows come in no order");
    check("select a from (select a from t order by a)", "its rows come in no order");
    check("--\nselect a from t order by a", "the first line does not say what it guards");
}

#[test]
fn a_read_neither_writes_nor_locks() {
    let check = |statement, expected| check(Kind::Read, Rows::OneByOne, statement, expected);
    check("select a from t where a = :a and b = :now", None);
    check("with r as (select count(*) as n from u) select n from r order by n", None);
    check(
        "with r as (delete from t returning a) select a from r order by a",
        Some("a read writes or locks"),
    );
}

#[test]
fn a_lock_reads_only_its_own_target_rows() {
    let one = |statement, expected| check(Kind::Lock, Rows::OneByOne, statement, expected);
    one("select a from t where a = :a and b = :b", None);
    one("select max(a) from t where a = :a and b = :b", Some("a lock aggregates"));
    one(
        "select a from t where a = :a and b = :b and a in (select id from u)",
        Some("a lock names its own table, once, and no other"),
    );
    let many = |statement: &str, expected| check(Kind::Lock, Rows::Joined, statement, expected);
    let keys = "(select $1::int4 p, r.* from unnest($2) r offset 0) r";
    let lock = format!("select a from {keys} join s.t on t.a = r.p order by a");
    many(&format!("{lock} for no key update of t"), None);
    many(&lock, Some("a lock ends with for no key update"));
}

#[test]
fn a_take_skips_what_is_locked_and_writes_its_own_table_only() {
    let many = |statement: &str, expected| check(Kind::Take, Rows::Joined, statement, expected);
    let lock = "select a from s.t join s.u on u.id = t.a order by a limit 1 for no key update of t";
    many(&format!("{lock} skip locked"), None);
    many(lock, Some("a take does not skip locked rows"));
    let one = |statement, expected| check(Kind::Take, Rows::OneByOne, statement, expected);
    one("update t set a = 1 where b in (select b from t limit :limit) returning a", None);
    one("update u set x = 1 where id = :id returning x", Some("a take writes another table"));
}

#[test]
fn a_write_changes_rows_of_one_table_by_key() {
    let check = |statement, expected| check(Kind::Write, Rows::OneByOne, statement, expected);
    check("update t set b = :b where a = :a", None);
    check("delete from t where a = :a", None);
    check("update t set b = :b", Some("a write has no key"));
    check(
        "update u set x = :x where id = 1",
        Some("a write names its own table, once, and no other"),
    );
    check("update t set b = (select 1) where a = :a", Some("a write selects"));
}

#[test]
fn an_insert_adds_rows_and_leaves_the_others_alone() {
    let check = |statement, expected| check(Kind::Insert, Rows::OneByOne, statement, expected);
    check("insert into t (a, b) values (:a, :b) on conflict (a, b) do nothing", None);
    check(
        "insert into t (a) values (:a) on conflict (a, b) do update set a = :a",
        Some("an insert updates on conflict"),
    );
    check(
        "insert into t (a) select id from u where id = :id",
        Some("an insert reads another table"),
    );
    check("insert into nowhere (a) values (:a)", Some("an insert writes another table"));
}
