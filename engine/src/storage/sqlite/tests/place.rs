//! A file that is deleted, moved or replaced while a storage has it open.

use std::fs;
use std::path::Path;

use super::*;
use crate::storage::{CommitError, StorageError};

const CONSISTENCIES: [Consistency; 2] = [Consistency::Statement, Consistency::Snapshot];

/// Expects that nothing is written or read any more, and that the error says these words.
fn check_lost(storage: &SqliteStorage, words: &str) {
    let said = |error: StorageError| match error {
        StorageError::Unavailable(said) => assert!(said.contains(words), "{said}"),
        other => panic!("{other:?}"),
    };
    // Twice: the second time no connection is left of those that had the file open.
    for _ in 0..2 {
        said(ready(storage.begin()).err().expect("nothing is written to a file that is gone"));
        for consistency in CONSISTENCIES {
            let read = ready(storage.snapshot(consistency))
                .and_then(|mut reader| ready(reader.describe_flow(&flow_key(1))));
            said(read.expect_err("nothing is read from a file that is gone"));
        }
    }
}

/// Expects that the flow can be read, and that another one can be written.
fn check_in_use(storage: &SqliteStorage, written: u8) {
    for consistency in CONSISTENCIES {
        let mut reader = ready(storage.snapshot(consistency)).unwrap();
        assert_eq!(ready(reader.describe_flow(&flow_key(1))), Ok(Some(flow(1))));
    }
    submit(storage, &flow(written), &[], &[], &[]);
}

fn opened(directory: &TempDir) -> SqliteStorage {
    let storage = SqliteStorage::open(in_file(directory)).unwrap();
    submit(&storage, &flow(1), &[], &[], &[]);
    check_in_use(&storage, 2);
    storage
}

/// Moves a database with what belongs to it.
fn move_to(from: &Path, to: &Path) {
    for end in ["", "-wal", "-shm"] {
        let with = |path: &Path| [path.to_str().unwrap(), end].concat();
        if Path::new(&with(from)).exists() {
            fs::rename(with(from), with(to)).unwrap();
        }
    }
}

#[test]
fn a_deleted_file_is_noticed_by_writers_and_readers_and_is_not_made_again() {
    let directory = TempDir::new().unwrap();
    let storage = opened(&directory);
    let path = directory.path().join("flows.db");
    fs::remove_file(&path).unwrap();
    check_lost(&storage, "flows.db was deleted or moved away");
    assert!(!path.exists());
}

#[test]
fn a_file_that_another_one_replaces_is_noticed_and_the_other_is_left_alone() {
    let [directory, elsewhere] = [(); 2].map(|()| TempDir::new().unwrap());
    let storage = opened(&directory);
    let path = directory.path().join("flows.db");
    // The other one has a log, as that of another service that has it open.
    let other = SqliteStorage::open(in_file(&elsewhere)).unwrap();
    submit(&other, &flow(7), &[], &[], &[]);
    move_to(&elsewhere.path().join("flows.db"), &path);
    let files = || {
        let read = |end| fs::read(directory.path().join(["flows.db", end].concat())).unwrap();
        ["", "-wal"].map(read)
    };
    let before = files();
    check_lost(&storage, "another file has taken the place of");
    drop(storage);
    assert_eq!(files(), before);
}

#[test]
fn a_commit_into_a_file_that_is_gone_is_not_acknowledged() {
    let directory = TempDir::new().unwrap();
    let storage = opened(&directory);
    let mut transaction = begin(&storage);
    ready(transaction.insert_flow(&flow(3))).unwrap();
    fs::remove_file(directory.path().join("flows.db")).unwrap();
    assert_eq!(ready(transaction.commit()), Err(CommitError::Unknown));
}

#[test]
fn a_file_that_comes_back_is_in_use_again() {
    let directory = TempDir::new().unwrap();
    let storage = opened(&directory);
    let [path, away] = ["flows.db", "away.db"].map(|name| directory.path().join(name));
    move_to(&path, &away);
    check_lost(&storage, "was deleted or moved away");
    move_to(&away, &path);
    check_in_use(&storage, 3);
}

#[test]
fn a_missing_file_that_may_not_be_migrated_is_not_made() {
    let directory = TempDir::new().unwrap();
    let options = in_file(&directory).migrations(crate::storage::schema::Migrations::Refuse);
    let refused = SqliteStorage::open(options).err();
    assert!(matches!(refused, Some(StorageError::Unsupported(_))), "{refused:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
