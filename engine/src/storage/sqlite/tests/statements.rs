//! The SQL files: one for each verb, in the house style, each with a plan that uses an index.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rusqlite::StatementStatus;

use super::*;
use crate::storage::{ExecutionWrite, Kind, ResultChange, Verb};

/// The statements by name.
fn statements() -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/storage/sqlite/sql");
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_verb_but_control_has_its_file_and_every_file_its_verb() {
    let verbs: Vec<&str> = Verb::ALL
        .iter()
        .map(|verb| verb.descriptor())
        .filter(|descriptor| descriptor.kind != Kind::Control)
        .map(|descriptor| descriptor.name)
        .collect();
    let mut sorted = verbs.clone();
    sorted.sort_unstable();
    assert_eq!(statements().keys().collect::<Vec<_>>(), sorted);
}

#[test]
fn every_file_says_what_it_guards_and_keeps_to_the_width() {
    for (name, sql) in statements() {
        assert!(sql.starts_with("-- "), "{name}");
        assert!(sql.lines().all(|line| line.len() <= 100), "{name}");
        let code: String = sql.lines().filter(|line| !line.starts_with("--")).collect();
        assert!(!code.chars().any(char::is_uppercase), "{name} has upper-case letters");
    }
}

/// The steps of a statement's plan.
fn plan(storage: &SqliteStorage, sql: &str) -> Vec<String> {
    storage
        .with_connection(|connection| {
            let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
            let none = vec![None::<i64>; statement.parameter_count()];
            let steps = statement
                .query_map(rusqlite::params_from_iter(none), |row| row.get::<_, String>(3))
                .unwrap();
            steps.collect::<Result<_, _>>().unwrap()
        })
        .unwrap()
}

#[test]
fn a_statement_is_compiled_once_whatever_is_bound_to_it() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    let flow = flow(1);
    let rows = State::ALL
        .into_iter()
        .filter(|state| *state != State::Active)
        .map(|state| execution(flow.key, state.name(), state));
    let rows: Vec<NewExecution> = rows.collect();
    submit(&storage, &flow, &rows, &[], &[]);
    for row in &rows {
        let (guard, after) = (row.execution.guard(), row.execution);
        let write = ExecutionWrite { guard, after, result: ResultChange::Keep };
        let mut transaction = begin(&storage);
        assert_eq!(ready(transaction.write_executions(&[write])), Ok(vec![after.id]));
        commit(transaction);
    }
    let status = |status| {
        storage
            .with_connection(|connection| {
                connection
                    .prepare_cached(include_str!("../sql/write_executions.sql"))
                    .unwrap()
                    .get_status(status)
            })
            .unwrap()
    };
    assert_eq!(status(StatementStatus::Run), 8);
    assert_eq!(status(StatementStatus::RePrepare), 0);
}

/// How far a statement narrows what it reads: the columns that a step of its plan looks up.
fn looked_up(step: &str) -> &str {
    step.split_once('(').map_or("", |(_, columns)| columns.trim_end_matches(')'))
}

#[test]
fn no_statement_reads_a_table_or_a_partition_from_end_to_end() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    for (name, sql) in statements() {
        for step in plan(&storage, &sql) {
            // Only lists, walks and results are scanned; they have these names.
            let scanned = step.strip_prefix("SCAN ").map(|scan| scan.split(' ').next());
            let small = |name: &str| {
                [
                    "wanted",
                    "json_each",
                    "p",
                    "planned",
                    "passed",
                    "summed",
                    "h",
                    "v",
                    "sqlite_sequence",
                ]
                .contains(&name)
                    || name.starts_with("(subquery-")
            };
            assert!(scanned.flatten().is_none_or(small), "{name}: {step}");
            assert_ne!(looked_up(&step), "partition=?", "{name}: {step}");
        }
    }
}

#[test]
fn only_merged_results_are_sorted() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    let sorts = |sql: &String| {
        let plan = plan(&storage, sql);
        plan.iter().filter(|step| step.contains("TEMP B-TREE FOR ORDER BY")).count()
    };
    let sorted: Vec<(String, usize)> = statements()
        .into_iter()
        .map(|(name, sql)| (name, sorts(&sql)))
        .filter(|(_, sorts)| *sorts > 0)
        .collect();
    let names = [
        "claim_executions",
        "plan_groups",
        "read_ancestry",
        "read_feed",
        "read_grants",
        "read_inputs",
        "scan_overdue",
        "unhandled_failure",
    ];
    assert_eq!(sorted, names.map(|name| (name.to_owned(), 1)));
}

#[test]
fn statistics_do_not_change_a_plan() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    let plans =
        || -> Vec<Vec<String>> { statements().values().map(|sql| plan(&storage, sql)).collect() };
    let before = plans();
    // As if measured on a database of one busy partition and few flows.
    spoil(&storage, "analyze");
    let measured = storage.with_connection(|connection| {
        connection.execute_batch(
            "delete from sqlite_stat1;
            insert into sqlite_stat1 (tbl, idx, stat)
            select
              m.tbl_name,
              m.name,
              iif(m.sql is null, '1000000 1000000 1', '1000000 1000000 500000 500000 1 1 1')
            from sqlite_schema as m
            where m.type = 'index';
            insert into sqlite_stat1 (tbl, idx, stat)
            values ('sluicegate_edge', 'sluicegate_edge', '1000000 1000000 2 1'),
                ('sluicegate_edge_group', 'sluicegate_edge_group', '500000 500000 1'),
                ('sluicegate_flow', 'sluicegate_flow', '10 10 1');
            analyze sqlite_schema",
        )
    });
    measured.unwrap().unwrap();
    assert_eq!(plans(), before);
}
