//! Opening a database: what is refused, what is migrated, and what damage and illegal rows give.

use std::fs;

use super::super::{MIGRATIONS, Migrations, SCHEMA_VERSION};
use super::*;
use crate::storage::{StorageError, all_readable};

fn refusal(options: SqliteOptions) -> String {
    match SqliteStorage::open(options) {
        Err(StorageError::Unsupported(reason)) => reason.into_owned(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the database was opened"),
    }
}

/// Makes a database say that it has the next schema, admitting engines from `least`.
fn make_newer(directory: &TempDir, least: u32) {
    let storage = SqliteStorage::open(in_file(directory)).unwrap();
    submit(&storage, &flow(1), &[], &[], &[]);
    let version = SCHEMA_VERSION + 1;
    spoil(&storage, &format!("insert into sluicegate_schema values ({version}, {least}, 0)"));
}

/// Every file of the directory with its bytes; shared memory aside, which is no data.
fn contents(directory: &TempDir) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .filter(|(name, bytes)| !name.ends_with("-shm") && !bytes.is_empty())
        .collect();
    files.sort();
    files
}

#[test]
fn a_newer_schema_is_refused_by_both_versions_and_left_untouched() {
    let directory = TempDir::new().unwrap();
    make_newer(&directory, SCHEMA_VERSION + 1);
    let before = contents(&directory);
    let reason = refusal(in_file(&directory));
    let (newer, ours) = (SCHEMA_VERSION + 1, SCHEMA_VERSION);
    assert!(reason.contains(&format!("schema version {newer}")), "{reason}");
    assert!(reason.contains(&format!("built for version {ours}")), "{reason}");
    assert!(SqliteStorage::pending(&in_file(&directory)).is_err());
    assert_eq!(contents(&directory), before);
}

#[test]
fn a_newer_schema_is_left_untouched_even_with_commits_in_its_log_or_without_a_log() {
    for journal in ["wal", "delete"] {
        let directory = TempDir::new().unwrap();
        make_newer(&directory, SCHEMA_VERSION + 1);
        let path = directory.path().join("flows.db");
        let other = rusqlite::Connection::open(&path).unwrap();
        let mode = format!("pragma journal_mode = {journal}");
        other.query_row(&mode, [], |_| Ok(())).unwrap();
        // A writer that died: its commit stands in the log only.
        other
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .unwrap();
        other.execute_batch("update sluicegate_flow set revision = revision + 1").unwrap();
        drop(other);
        let before = contents(&directory);
        assert_eq!(before.len(), if journal == "wal" { 2 } else { 1 });
        refusal(in_file(&directory));
        assert_eq!(contents(&directory), before, "{journal}");
    }
}

#[test]
fn a_newer_schema_that_admits_this_engine_is_used() {
    let directory = TempDir::new().unwrap();
    make_newer(&directory, SCHEMA_VERSION);
    let storage = SqliteStorage::open(in_file(&directory)).unwrap();
    assert_eq!(ready(reader(&storage).describe_flow(&flow_key(1))), Ok(Some(flow(1))));
    assert_eq!(SqliteStorage::pending(&in_file(&directory)), Ok(vec![]));
}

#[test]
fn the_partition_count_of_a_database_is_fixed() {
    let directory = TempDir::new().unwrap();
    let with = |count| in_file(&directory).partitions(PartitionCount::new(count).unwrap());
    let storage = SqliteStorage::open(with(8)).unwrap();
    assert_eq!(storage.partitions().get(), 8);
    drop(storage);
    let reason = refusal(with(16));
    assert!(reason.contains("8 partitions, not 16"), "{reason}");
    assert!(SqliteStorage::open(with(8)).is_ok());
}

#[test]
fn pending_lists_what_opening_applies_and_creates_nothing() {
    let directory = TempDir::new().unwrap();
    let pending = || SqliteStorage::pending(&in_file(&directory)).unwrap();
    assert_eq!(pending(), MIGRATIONS);
    assert_eq!(contents(&directory), []);
    let reason = refusal(in_file(&directory).migrations(Migrations::Refuse));
    assert!(reason.contains("lacks migration 1 (initial)"), "{reason}");
    assert_eq!(pending(), MIGRATIONS);
    SqliteStorage::open(in_file(&directory)).unwrap();
    assert_eq!(pending(), []);
    SqliteStorage::open(in_file(&directory).migrations(Migrations::Refuse)).unwrap();
    let applied = SqliteStorage::open(in_file(&directory)).unwrap();
    let row = "select version || ' ' || least_engine_version || ' ' || applied_at
        from sluicegate_schema";
    assert_eq!(value::<String>(&applied, row), format!("1 1 {}", NOW.0));
}

#[test]
fn migrations_are_numbered_without_gaps_and_admit_no_engine_of_the_future() {
    for (version, migration) in (1..).zip(MIGRATIONS) {
        assert_eq!(migration.version, version);
        assert!((1..=version).contains(&migration.least_engine_version));
        assert!(migration.sql.starts_with("-- "), "{}", migration.name);
    }
}

#[test]
fn a_file_that_is_no_database_is_corrupt() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("flows.db"), [7; 4096]).unwrap();
    let refused = SqliteStorage::open(in_file(&directory)).err();
    assert!(matches!(refused, Some(StorageError::Corrupt(_))), "{refused:?}");
}

/// Spoils the one execution, group, edge or flow and expects an error with these words.
fn check_damage(change: &str, words: &str) {
    on_each(|storage| {
        let flow = flow(1);
        let id = flow.key.execution("a");
        submit(
            storage,
            &flow,
            &[execution(flow.key, "a", State::Blocked), execution(flow.key, "b", FAILED)],
            &[group(flow.key, "a", JoinPolicy::AllOf, 1)],
            &[edge(flow.key, "b", "a", AcceptSet::ON_SUCCESS)],
        );
        spoil(storage, change);
        let mut reader = reader(storage);
        let read = [
            ready(reader.describe_flow(&flow.key)).err(),
            ready(reader.describe_execution(&id)).err(),
            ready(reader.describe_groups(&flow.key)).and_then(all_readable).err(),
            ready(reader.describe_edges(&flow.key)).and_then(all_readable).err(),
        ];
        let errors: Vec<StorageError> = read.into_iter().flatten().collect();
        assert_eq!(errors.len(), 1, "{change}: {errors:?}");
        let named = matches!(errors[0], StorageError::Corrupt(_) | StorageError::Unreadable(..));
        assert!(named, "{errors:?}");
        assert!(errors[0].to_string().contains(words), "{}", errors[0]);
    });
}

#[test]
fn an_unreadable_value_is_named_with_its_table_and_column() {
    for (change, words) in [
        ("update sluicegate_execution set state = 42", "execution.state holds 42"),
        ("update sluicegate_execution set cause = 9", "execution.cause holds 9"),
        ("update sluicegate_execution set attempt = -1", "execution.attempt holds -1"),
        ("update sluicegate_execution set propagated = 2", "execution.propagated holds 2"),
        ("update sluicegate_execution set nonce = 5", "part of a lease in state blocked"),
        ("update sluicegate_execution set state = 2", "part of a lease in state active"),
        (
            "update sluicegate_execution set flow = x'0102'",
            "execution.flow holds [01, 02] of 2 bytes",
        ),
        (
            "update sluicegate_execution set backoff_cap_ms = null",
            "execution.(backoff, backoff_factor",
        ),
        (
            "update sluicegate_execution set kind = cast(x'ff' as text)",
            "execution.kind holds [ff] of 1",
        ),
        ("update sluicegate_edge_group set policy = 3", "edge_group.(policy, k, on_satisfied)"),
        ("update sluicegate_edge_group set decision = 3", "edge_group.decision holds 3"),
        ("update sluicegate_edge_group set satisfied = 4294967296", "satisfied holds 4294967296"),
        ("update sluicegate_edge set accepts = 0", "edge.accepts holds 0"),
        ("update sluicegate_edge set accepts = 32", "edge.accepts holds 32"),
        ("update sluicegate_edge set resolution = -3", "edge.resolution holds -3"),
        ("update sluicegate_flow set closing = 4", "flow.closing holds 4"),
        ("update sluicegate_flow set content_hash = x''", "flow.content_hash holds [] of 0 bytes"),
    ] {
        let one = if change.starts_with("update sluicegate_execution") {
            " where name = 'a'"
        } else {
            ""
        };
        check_damage(&format!("{change}{one}"), words);
    }
}

#[test]
fn the_schema_refuses_rows_that_no_engine_writes() {
    on_each(|storage| {
        let flow = flow(1);
        submit(
            storage,
            &flow,
            &[execution(flow.key, "a", State::Blocked), execution(flow.key, "b", FAILED)],
            &[group(flow.key, "a", JoinPolicy::AllOf, 1)],
            &[edge(flow.key, "b", "a", AcceptSet::ON_SUCCESS)],
        );
        for change in [
            "update sluicegate_execution set state = 9",
            "update sluicegate_execution set state = -1",
            "update sluicegate_execution set state = 2",
            "update sluicegate_execution set nonce = 1",
            "update sluicegate_execution set worker = 'w'",
            "update sluicegate_execution set expires_at = 1",
            "update sluicegate_execution set finished_at = 1 where state = 0",
            "update sluicegate_execution set finished_at = null where state = 5",
            "update sluicegate_execution set cause = null where state = 5",
            "update sluicegate_execution set cause = 8",
            "update sluicegate_execution set propagated = 1 where state = 0",
            "update sluicegate_execution set charged = -1",
            "update sluicegate_execution set attempt = -1",
            "update sluicegate_execution set give_backs = -1",
            "update sluicegate_execution set id = x'00'",
            "update sluicegate_execution set backoff_factor = null",
            "update sluicegate_execution set epoch = 'one'",
            "update sluicegate_execution set payload = 'text'",
            "update sluicegate_edge_group set satisfied = 2",
            "update sluicegate_edge_group set satisfied = 1, unsatisfied = 1",
            "update sluicegate_edge_group set unsatisfied = -1",
            "update sluicegate_edge_group set policy = 3",
            "update sluicegate_edge_group set on_satisfied = 1",
            "update sluicegate_edge_group set decision = 3",
            "update sluicegate_edge set accepts = 0",
            "update sluicegate_edge set resolution = 1",
            "update sluicegate_edge set upstream_incarnation = 1",
            "update sluicegate_edge set upstream = downstream",
            "update sluicegate_flow set closing = 0",
            "update sluicegate_flow set revision = -1",
            "update sluicegate_partitions set one = 2",
            "update sluicegate_schema set least_engine_version = 2",
        ] {
            let refused =
                storage.with_connection(|connection| connection.execute(change, [])).unwrap();
            let code = refused.expect_err(change).sqlite_error_code();
            assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{change}");
        }
    });
}

#[test]
fn a_log_is_written_back_from_as_many_pages_on_as_the_options_say() {
    let directory = TempDir::new().unwrap();
    let pages = |options: SqliteOptions| -> u32 {
        value(&SqliteStorage::open(options).unwrap(), "pragma wal_autocheckpoint")
    };
    assert_eq!(pages(in_file(&directory)), 1_000);
    assert_eq!(pages(in_file(&directory).checkpoint_pages(7)), 7);
}
