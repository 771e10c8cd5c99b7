//! Several transactions, readers and threads on one database.

use super::super::offload::Effort;
use super::*;
use crate::storage::boxed::BoxStorage;
use crate::storage::{Contention, Inserted, StorageError, Verb};

const BUSY: StorageError = StorageError::Contention(Contention::Busy);

#[test]
fn a_second_writer_is_busy_at_once_without_a_timeout() {
    on_each(|storage| {
        let first = begin(storage);
        assert_eq!(ready(storage.begin()).err(), Some(BUSY));
        commit(first);
        assert!(ready(storage.begin()).is_ok());
    });
}

#[test]
fn a_writer_of_another_handle_is_busy_too() {
    let directory = TempDir::new().unwrap();
    let [one, two] = [(); 2].map(|()| SqliteStorage::open(in_file(&directory)).unwrap());
    let first = begin(&one);
    assert_eq!(ready(two.begin()).err(), Some(BUSY));
    drop(first);
    assert!(ready(two.begin()).is_ok());
}

#[test]
fn a_snapshot_sees_one_instant_while_writers_commit() {
    on_each(|storage| {
        submit(storage, &flow(1), &[], &[], &[]);
        let mut snapshot = ready(storage.snapshot(Consistency::Snapshot)).unwrap();
        let mut statement = reader(storage);
        submit(storage, &flow(2), &[], &[], &[]);
        let second = flow_key(2);
        assert_eq!(ready(snapshot.describe_flow(&second)), Ok(None));
        assert_eq!(ready(statement.describe_flow(&second)), Ok(Some(flow(2))));
        submit(storage, &flow(3), &[], &[], &[]);
        assert_eq!(ready(snapshot.describe_flow(&flow_key(3))), Ok(None));
        assert_eq!(ready(snapshot.describe_flow(&flow_key(1))), Ok(Some(flow(1))));
        assert_eq!(ready(statement.describe_flow(&flow_key(3))), Ok(Some(flow(3))));
        drop(snapshot);
        let mut later = ready(storage.snapshot(Consistency::Snapshot)).unwrap();
        assert_eq!(ready(later.describe_flow(&second)), Ok(Some(flow(2))));
    });
}

#[test]
fn readers_of_a_file_see_what_is_committed_beside_an_open_transaction() {
    let directory = TempDir::new().unwrap();
    let storage = SqliteStorage::open(in_file(&directory)).unwrap();
    let row = flow(1);
    let mut transaction = begin(&storage);
    ready(transaction.insert_flow(&row)).unwrap();
    for consistency in [Consistency::Statement, Consistency::Snapshot] {
        let mut reader = ready(storage.snapshot(consistency)).unwrap();
        assert_eq!(ready(reader.describe_flow(&row.key)), Ok(None));
    }
    commit(transaction);
    assert_eq!(ready(reader(&storage).describe_flow(&row.key)), Ok(Some(row)));
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let directory = TempDir::new().unwrap();
    let storage = SqliteStorage::open(in_file(&directory)).unwrap();
    submit(&storage, &flow(1), &[], &[], &[]);
    drop(storage);
    let storage = SqliteStorage::open(in_file(&directory)).unwrap();
    assert_eq!(ready(reader(&storage).describe_flow(&flow_key(1))), Ok(Some(flow(1))));
}

#[test]
fn a_boxed_handle_does_the_same() {
    on_each(|storage| {
        let boxed = BoxStorage::new(storage.clone());
        let row = flow(1);
        let mut transaction = ready(boxed.begin()).unwrap();
        assert_eq!(ready(transaction.insert_flow(&row)), Ok(Inserted::New));
        ready(transaction.commit()).unwrap();
        let mut snapshot = ready(boxed.snapshot(Consistency::Snapshot)).unwrap();
        assert_eq!(ready(snapshot.describe_flow(&row.key)), Ok(Some(row)));
    });
}

#[test]
fn connections_are_reused_and_bounded() {
    let directory = TempDir::new().unwrap();
    let storage = SqliteStorage::open(in_file(&directory).connections_max(2)).unwrap();
    let open = || ready(storage.snapshot(Consistency::Snapshot));
    let held = [open().unwrap(), open().unwrap()];
    assert_eq!(open().err(), Some(BUSY));
    drop(held);
    assert!(open().is_ok());
}

/// Twenty tasks insert a flow each through one storage; all of them commit.
fn check_blocking_pool(runtime: &tokio::runtime::Runtime, options: SqliteOptions) {
    let storage = SqliteStorage::open(options.clock(Arc::new(|| NOW))).unwrap();
    let insert = |number: u8| {
        let storage = storage.clone();
        async move {
            let mut transaction = storage.begin().await.unwrap();
            let inserted = transaction.insert_flow(&flow(number)).await.unwrap();
            transaction.commit().await.unwrap();
            let mut reader = storage.snapshot(Consistency::Snapshot).await.unwrap();
            assert!(reader.describe_flow(&flow_key(number)).await.unwrap().is_some());
            inserted
        }
    };
    let tasks: Vec<_> = (0..20).map(|number| runtime.spawn(insert(number))).collect();
    for task in tasks {
        assert_eq!(runtime.block_on(task).unwrap(), Inserted::New);
    }
    assert_eq!(value::<i64>(&storage, "select count(*) from sluicegate_flow"), 20);
}

#[test]
fn on_the_blocking_pool_writers_queue_and_all_of_them_commit() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    check_blocking_pool(&runtime, SqliteOptions::memory());
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("flows.db");
    check_blocking_pool(&runtime, SqliteOptions::file(path));
}

#[test]
fn a_verb_dropped_on_the_blocking_pool_gives_its_connection_back_rolled_back() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let options = SqliteOptions::memory().offload(Offload::Everything);
    let storage = SqliteStorage::open(options).unwrap();
    runtime.block_on(async {
        let mut transaction = storage.begin().await.unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        // The only thread of the pool is busy, so the verb cannot have run when it is dropped.
        let busy = tokio::task::spawn_blocking(move || released.recv().is_err());
        {
            let row = flow(1);
            let mut verb = pin!(transaction.insert_flow(&row));
            let first = verb.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(first.is_pending());
        }
        drop(transaction);
        drop(release);
        assert!(busy.await.unwrap());
        let mut next = storage.begin().await.unwrap();
        assert_eq!(next.read_flow(&flow_key(1)).await, Ok(None));
    });
}

#[test]
fn only_what_may_take_long_leaves_the_thread_that_polls() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let storage = SqliteStorage::open(SqliteOptions::memory()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    runtime.block_on(async {
        // The only thread of the pool is busy: whatever is ready now ran on this one.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || released.recv().is_err());
        let mut begin = pin!(storage.begin());
        let Poll::Ready(begun) = begin.as_mut().poll(&mut context) else { panic!("it is brief") };
        let mut transaction = begun.unwrap();
        let row = flow(1);
        assert!(pin!(transaction.insert_flow(&row)).poll(&mut context).is_ready());
        let many: Vec<_> = (1..100).map(flow_key).collect();
        assert!(pin!(transaction.insert_flow_changes(&many[..1])).poll(&mut context).is_ready());
        let mut commit = pin!(transaction.commit());
        assert!(commit.as_mut().poll(&mut context).is_pending());
        drop(release);
        assert!(busy.await.unwrap());
        assert_eq!(commit.await, Ok(()));
        let mut reader = reader(&storage);
        assert_eq!(reader.describe_flow(&flow_key(1)).await, Ok(Some(row)));
    });
    assert_eq!(Effort::of(Verb::InsertFlowChanges, 1), Effort::Brief);
    assert_eq!(Effort::of(Verb::InsertFlowChanges, 100), Effort::Long);
    assert_eq!(Effort::of(Verb::PendingEdges, 1), Effort::Long);
}

#[test]
fn a_writer_waits_for_one_of_another_handle_where_it_holds_nobody_up() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("flows.db");
    let open = || SqliteStorage::open(SqliteOptions::file(&path)).unwrap();
    let (one, two) = (open(), open());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut first = one.begin().await.unwrap();
        let mut second = pin!(two.begin());
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        first.insert_flow(&flow(1)).await.unwrap();
        first.commit().await.unwrap();
        let mut second = second.await.unwrap();
        assert_eq!(second.read_flow(&flow_key(1)).await, Ok(Some(flow(1))));
    });
}

#[test]
fn without_a_runtime_the_blocking_pool_is_this_thread() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).unwrap();
    submit(&storage, &flow(1), &[], &[], &[]);
    assert_eq!(ready(reader(&storage).describe_flow(&flow_key(1))), Ok(Some(flow(1))));
}

#[test]
fn of_several_that_open_a_new_file_at_once_one_migrates_and_all_go_on() {
    for _ in 0..10 {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("flows.db");
        let opened: Vec<_> = std::thread::scope(|scope| {
            let open = || SqliteStorage::open(SqliteOptions::file(&path)).err();
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(opened, vec![None; 6]);
        let storage = SqliteStorage::open(in_file(&directory)).unwrap();
        assert_eq!(value::<i64>(&storage, "select count(*) from sluicegate_schema"), 1);
    }
}
