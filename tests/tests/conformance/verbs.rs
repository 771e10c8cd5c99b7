//! No verb without a case, and the fault injection that counts them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sluicegate::identity::{FlowId, FlowKey, PartitionCount, RequestId};
use sluicegate::storage::conformance::{
    FaultInjecting, Faults, Quiet, Subject, cases, run_all, run_some,
};
use sluicegate::storage::{
    CommitError, Consistency, Contention, Result, Snapshot, Storage, StorageError, Transaction,
    Verb,
};

use crate::subjects::{Injected, Model};

/// Counts the statements of each verb.
#[derive(Default)]
struct Counting(Mutex<BTreeMap<Verb, u64>>);

impl Faults for Counting {
    fn before(&self, verb: Verb) -> Result<()> {
        *self.0.lock().expect("nothing panics while it counts").entry(verb).or_default() += 1;
        Ok(())
    }
}

impl Counting {
    fn missing(&self) -> Vec<Verb> {
        let seen = self.0.lock().expect("nothing panics while it counts");
        Verb::ALL.iter().copied().filter(|verb| !seen.contains_key(verb)).collect()
    }
}

#[tokio::test]
async fn every_verb_has_a_case() {
    let faults = Arc::new(Counting::default());
    let subject = Injected { inner: Model, faults: Arc::clone(&faults) };
    run_all(&subject).await.assert_kept();
    assert_eq!(faults.missing(), [], "verbs that no case asks");
}

#[tokio::test]
async fn a_verb_without_a_case_is_seen() {
    let faults = Arc::new(Counting::default());
    let subject = Injected { inner: Model, faults: Arc::clone(&faults) };
    let report = run_some(&subject, |case| case.area == "submissions").await;
    assert!(report.ran > 0);
    let missing = faults.missing();
    assert!(missing.contains(&Verb::PlanGroups) && !missing.contains(&Verb::ReadSubmission));
    assert!(cases::<Model>().len() > report.ran);
}

/// Fails one verb, before or after.
struct Failing {
    verb: Verb,
    applied: bool,
}

const FAULT: StorageError = StorageError::Contention(Contention::Serialization);

impl Faults for Failing {
    fn before(&self, verb: Verb) -> Result<()> {
        if verb == self.verb && !self.applied { Err(FAULT) } else { Ok(()) }
    }

    fn after(&self, verb: Verb) -> Result<()> {
        if verb == self.verb && self.applied { Err(FAULT) } else { Ok(()) }
    }
}

fn key() -> FlowKey {
    PartitionCount::default().key(FlowId::from_parts(1, [1; 10]))
}

fn flow() -> sluicegate::storage::Flow {
    sluicegate::storage::Flow {
        key: key(),
        namespace: "tenant".into(),
        instance_tag: None,
        closing: None,
        closed_by: None,
        revision: 0,
        tags: sluicegate::storage::Tags::default(),
        content_hash: [0; 32],
        request: RequestId(key().id.0),
        created_at: sluicegate::time::Timestamp(0),
    }
}

/// Adds a flow under a fault; returns how the commit ended and whether the flow is there.
async fn added(verb: Verb, applied: bool) -> (Result<(), CommitError>, bool) {
    let inner = Model.fresh().await;
    let storage = FaultInjecting::new(inner.clone(), Failing { verb, applied });
    let ended = async {
        let mut transaction = storage.begin().await?;
        let inserted = transaction.insert_flow(&flow()).await;
        if inserted.is_err() {
            let after = transaction.clock().await;
            assert!(matches!(after, Err(StorageError::Unavailable(_))), "{after:?}");
        }
        inserted?;
        transaction.commit().await
    };
    let ended = ended.await;
    let mut reader = inner.snapshot(Consistency::Statement).await.expect("nothing fails here");
    let there = reader.describe_flow(&key()).await.expect("nothing fails here").is_some();
    let mut second = inner.begin().await.expect("nothing fails here");
    second.insert_flow(&flow()).await.expect("nothing fails here");
    (ended, there)
}

#[tokio::test]
async fn an_injected_fault_ends_the_transaction_and_leaves_nothing() {
    for verb in [Verb::Begin, Verb::InsertFlow] {
        for applied in [false, true] {
            assert_eq!(added(verb, applied).await, (Err(FAULT.into()), false), "{verb:?}");
        }
    }
}

#[tokio::test]
async fn a_fault_after_a_commit_leaves_it_applied_and_unknown() {
    assert_eq!(added(Verb::Commit, false).await, (Err(FAULT.into()), false));
    assert_eq!(added(Verb::Commit, true).await, (Err(CommitError::Unknown), true));
    let quiet = FaultInjecting::new(Model.fresh().await, Quiet);
    quiet.begin().await.expect("nothing fails here").commit().await.expect("nothing fails here");
}

#[tokio::test]
async fn a_fault_of_a_reader_is_answered_by_it() {
    for applied in [false, true] {
        let faults = Failing { verb: Verb::DescribeFlow, applied };
        let storage = FaultInjecting::new(Model.fresh().await, faults);
        let mut reader = storage.snapshot(Consistency::Snapshot).await.expect("nothing fails here");
        assert_eq!(reader.describe_flow(&key()).await, Err(FAULT));
        assert!(reader.read_clock().await.is_ok());
    }
}
