//! One arm a storage; every arm runs every case.

use std::sync::Arc;

use sluicegate::storage::conformance::{Quiet, Subject, cases, run_all};

use crate::subjects::{Boxed, GranularModel, Injected, Model, Postgres, SqliteFiles, SqliteMemory};

/// The cases that there were when the suite was last looked through; none of them goes away unseen.
const CASES_MIN: usize = 188;

async fn keeps_the_contract<S: Subject>(arm: &str, subject: S) {
    let report = run_all(&subject).await;
    println!("{arm}: {} cases of the storage contract", report.ran);
    report.assert_kept();
    assert_eq!(report.ran, cases::<S>().len(), "{arm} left cases out");
    assert!(report.ran >= CASES_MIN, "{arm} ran {} cases of {CASES_MIN}", report.ran);
}

#[tokio::test]
async fn the_simulated_postgres_keeps_the_contract() {
    keeps_the_contract("model", Model).await;
}

#[tokio::test]
async fn the_simulated_postgres_keeps_the_contract_row_lock_by_row_lock() {
    keeps_the_contract("model, granular", GranularModel).await;
}

#[tokio::test]
async fn sqlite_in_memory_keeps_the_contract() {
    keeps_the_contract("SQLite memory", SqliteMemory).await;
}

#[tokio::test]
async fn sqlite_in_a_file_keeps_the_contract() {
    keeps_the_contract("SQLite file", SqliteFiles::waiting()).await;
}

#[tokio::test]
async fn sqlite_that_answers_busy_keeps_the_contract() {
    keeps_the_contract("SQLite file, busy", SqliteFiles::busy()).await;
}

#[tokio::test]
async fn postgres_keeps_the_contract() {
    keeps_the_contract("Postgres", Postgres::shared()).await;
}

#[tokio::test]
async fn the_boxed_twins_keep_the_contract() {
    keeps_the_contract("boxed model", Boxed(Model)).await;
    keeps_the_contract("boxed SQLite memory", Boxed(SqliteMemory)).await;
}

#[tokio::test]
async fn fault_injection_without_faults_keeps_the_contract() {
    let faults = Arc::new(Quiet);
    keeps_the_contract(
        "fault injection over model",
        Injected { inner: Model, faults: Arc::clone(&faults) },
    )
    .await;
    keeps_the_contract(
        "fault injection over SQLite memory",
        Injected { inner: SqliteMemory, faults },
    )
    .await;
}

#[test]
fn cases_have_names_of_their_own_and_sentences() {
    let cases = cases::<Model>();
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "names that stand twice: {twice:?}");
    let mute: Vec<_> = cases.iter().filter(|case| !case.sentence.ends_with('.')).collect();
    assert!(mute.is_empty(), "{} cases without a sentence", mute.len());
}
