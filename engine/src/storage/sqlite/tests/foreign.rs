//! Files of an application: refused as they are, or shared because it was asked for.

use std::fs;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::super::{MIGRATIONS, Sharing};
use super::*;
use crate::storage::StorageError;

/// Tables with names that an application has a right to.
const OWN: &str = "create table event (id integer primary key, what text);
    create table request (id integer primary key);
    create table flow (id integer primary key, of_money integer);
    create index event_by_what on event (what);
    insert into event (what) values ('ours'), ('too');";

/// What an application's file may be like when we come upon it.
const STATES: [&str; 7] =
    ["journal", "log", "log with commits", "index gone", "in use", "only an id", "only a version"];

/// A file in that state, with the connection of an application that has it open.
fn foreign(directory: &TempDir, state: &str) -> Option<Connection> {
    let path = directory.path().join("flows.db");
    let connection = Connection::open(&path).unwrap();
    match state {
        "only an id" => connection.execute_batch("pragma application_id = 7").unwrap(),
        "only a version" => connection.execute_batch("pragma user_version = 7").unwrap(),
        "journal" => connection.execute_batch(OWN).unwrap(),
        _ => {
            let mode: rusqlite::Result<String> =
                connection.query_row("pragma journal_mode = wal", [], |row| row.get(0));
            assert_eq!(mode.as_deref(), Ok("wal"));
            connection.execute_batch(OWN).unwrap();
        }
    }
    if ["log with commits", "index gone"].contains(&state) {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    }
    if state == "in use" {
        return Some(connection);
    }
    drop(connection);
    if state == "index gone" {
        fs::remove_file(directory.path().join("flows.db-shm")).unwrap();
    }
    None
}

/// Every file of the directory with its bytes; of an index in shared memory, which is no data, only
/// that it is there.
fn files(directory: &TempDir) -> Vec<(String, Vec<u8>)> {
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let index = name.ends_with("-shm");
        (name, if index { Vec::new() } else { fs::read(entry.path()).unwrap() })
    };
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut files: Vec<_> = entries.map(|entry| file(entry.unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_file_of_an_application_is_refused_in_a_line_and_stays_as_it_is() {
    for state in STATES {
        let directory = TempDir::new().unwrap();
        let _in_use = foreign(&directory, state);
        let before = files(&directory);
        for options in
            [in_file(&directory), in_file(&directory).busy_timeout(Duration::from_secs(1))]
        {
            let refusals = [
                SqliteStorage::open(options.clone()).err(),
                SqliteStorage::pending(&options).err(),
            ];
            for refused in refusals {
                let Some(StorageError::Unsupported(words)) = refused else {
                    panic!("{state}: {refused:?}")
                };
                assert!(words.contains("belongs to another application"), "{state}: {words}");
                assert!(words.len() < 250 && !words.contains('\n'), "{state}: {words}");
            }
        }
        assert_eq!(files(&directory), before, "{state}");
    }
}

#[test]
fn a_file_of_an_application_is_shared_where_that_is_asked_for() {
    for state in STATES {
        let directory = TempDir::new().unwrap();
        let _in_use = foreign(&directory, state);
        let shared = || in_file(&directory).sharing(Sharing::WithApplication);
        assert_eq!(SqliteStorage::pending(&shared()), Ok(MIGRATIONS.to_vec()));
        let storage = SqliteStorage::open(shared()).unwrap();
        submit(&storage, &flow(1), &[], &[], &[]);
        assert_eq!(ready(reader(&storage).describe_flow(&flow_key(1))), Ok(Some(flow(1))));
        if state.starts_with("only") {
            let kept = "select application_id + user_version from pragma_application_id
                join pragma_user_version";
            assert_eq!(value::<i64>(&storage, kept), 7);
        } else {
            assert_eq!(value::<i64>(&storage, "select count(*) from event"), 2);
            assert_eq!(value::<i64>(&storage, "select count(*) from flow"), 0);
        }
        drop(storage);
        // What it holds of ours was put there on purpose, and says enough.
        let storage = SqliteStorage::open(in_file(&directory)).unwrap();
        assert_eq!(ready(reader(&storage).describe_flow(&flow_key(1))), Ok(Some(flow(1))));
    }
}

#[test]
fn a_file_of_ours_says_so_and_takes_the_tables_of_an_application() {
    let directory = TempDir::new().unwrap();
    let storage = SqliteStorage::open(in_file(&directory)).unwrap();
    let id = "select application_id from pragma_application_id";
    assert_eq!(value::<i64>(&storage, id), 0x536C_6774);
    let application = Connection::open(directory.path().join("flows.db")).unwrap();
    application.execute_batch(OWN).unwrap();
    submit(&storage, &flow(1), &[], &[], &[]);
    drop(storage);
    let storage = SqliteStorage::open(in_file(&directory)).unwrap();
    assert_eq!(ready(reader(&storage).describe_flow(&flow_key(1))), Ok(Some(flow(1))));
}

#[test]
fn a_refused_file_of_ours_is_left_without_a_log_too() {
    let directory = TempDir::new().unwrap();
    let with = |count| in_file(&directory).partitions(PartitionCount::new(count).unwrap());
    drop(SqliteStorage::open(with(8)).unwrap());
    let before = files(&directory);
    assert_eq!(before.len(), 1);
    let refused = SqliteStorage::open(with(16)).err();
    assert!(matches!(refused, Some(StorageError::Unsupported(_))), "{refused:?}");
    assert_eq!(SqliteStorage::pending(&with(8)), Ok(vec![]));
    assert_eq!(files(&directory), before);
}

#[test]
fn a_file_that_is_no_database_stays_as_it_is() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("flows.db"), "a letter").unwrap();
    let before = files(&directory);
    let refused = SqliteStorage::open(in_file(&directory)).err();
    assert!(matches!(refused, Some(StorageError::Corrupt(_))), "{refused:?}");
    assert_eq!(files(&directory), before);
}
