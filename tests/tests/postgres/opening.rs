//! Opening a database: what is applied, and what is refused with which words.

use sluicegate::identity::PartitionCount;
use sluicegate::storage::StorageError;
use sluicegate::storage::postgres::{
    MIGRATIONS, Migrations, OpenError, PostgresOptions, PostgresStorage, SCHEMA_VERSION,
};
use sluicegate_sim::postgres::shared;

use crate::{at, by_hand, fresh, run};

/// Processes that open one new database at once.
const PROCESSES: usize = 8;

async fn refusal(options: PostgresOptions) -> OpenError {
    match PostgresStorage::open(options).await {
        Ok(_) => panic!("the database was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn pending_lists_what_opening_applies_and_makes_nothing() {
    let options = fresh();
    assert_eq!(PostgresStorage::pending(&options).await.unwrap(), MIGRATIONS);
    let refused = refusal(options.clone().migrations(Migrations::Refuse)).await;
    assert!(refused.to_string().contains("lacks migration 1"), "{refused}");
    assert_eq!(PostgresStorage::pending(&options).await.unwrap(), MIGRATIONS);
    PostgresStorage::open(options.clone()).await.unwrap();
    assert_eq!(PostgresStorage::pending(&options).await.unwrap(), []);
    PostgresStorage::open(options.migrations(Migrations::Refuse)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_that_open_a_new_database_at_once_one_migrates_and_all_go_on() {
    let options = fresh();
    let opening: Vec<_> =
        (0..PROCESSES).map(|_| tokio::spawn(PostgresStorage::open(options.clone()))).collect();
    for one in opening {
        one.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_dump_makes_the_schema_that_opening_makes() {
    let options = fresh();
    let mut connection = by_hand(&shared().url()).await;
    run(&mut connection, &PostgresStorage::sql_dump(&options)).await;
    PostgresStorage::open(options.migrations(Migrations::Refuse)).await.unwrap();
}

#[tokio::test]
async fn a_schema_that_admits_only_newer_engines_is_refused() {
    let options = fresh().schema("from_the_future");
    PostgresStorage::open(options.clone()).await.unwrap();
    let newer = SCHEMA_VERSION + 7;
    let mut connection = by_hand(&shared().url()).await;
    let row = format!("insert into from_the_future.sluicegate_schema values ({newer}, {newer}, 0)");
    run(&mut connection, &row).await;
    let refused = refusal(options).await.to_string();
    assert!(refused.contains(&format!("admits engines from version {newer}")), "{refused}");
}

#[tokio::test]
async fn another_partition_count_is_refused() {
    let options = fresh();
    PostgresStorage::open(options.clone()).await.unwrap();
    let other = PartitionCount::new(7).unwrap();
    let refused = refusal(options.partitions(other)).await;
    assert!(refused.to_string().contains("256 partitions, not 7"), "{refused}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_unreachable() {
    let nowhere = at("postgres://postgres@%2Fno%2Fsuch%2Fdirectory/postgres");
    let error = refusal(nowhere).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    let url = shared().url();
    let error = refusal(at(&url.replace("/postgres", "/nowhere"))).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn a_role_that_may_not_make_a_schema_is_told_so() {
    let mut connection = by_hand(&shared().url()).await;
    run(&mut connection, "create role guest login").await;
    let url = shared().url().replace("postgres@", "guest@");
    let error = refusal(at(&url).schema("guest_schema")).await;
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
    // What somebody else made may not be read either.
    let options = fresh().schema("not_for_guests");
    PostgresStorage::open(options).await.unwrap();
    let error = refusal(at(&url).schema("not_for_guests")).await;
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
}

#[tokio::test]
async fn a_read_only_server_is_refused_when_it_is_opened_and_told_apart_later() {
    let error = refusal(fresh().setting("default_transaction_read_only", "on")).await;
    assert_eq!(error, OpenError::ReadOnly);
}

#[tokio::test]
async fn settings_that_do_not_hold_show_a_pooler() {
    // What a pooler that drops settings leaves of them.
    let error = refusal(fresh().setting("plan_cache_mode", "auto")).await;
    assert!(matches!(error, OpenError::Pooler { .. }), "{error}");
}

#[tokio::test]
async fn a_schema_that_somebody_emptied_is_corrupt_and_left_alone() {
    let options = fresh().schema("emptied");
    PostgresStorage::open(options.clone()).await.unwrap();
    let mut connection = by_hand(&shared().url()).await;
    run(&mut connection, "delete from emptied.sluicegate_schema").await;
    let error = refusal(options).await;
    assert!(matches!(error, OpenError::Storage(StorageError::Corrupt(_))), "{error}");
}
