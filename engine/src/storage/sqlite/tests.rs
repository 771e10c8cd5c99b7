//! What every test of this backend stands on: databases in memory and in a file, and rows to fill
//! them with. The tests are in the files below, one a topic.

mod claim;
mod opening;
mod place;
mod plan;
mod scan;
mod sharing;
mod statements;
mod verbs;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tempfile::TempDir;

use super::{Offload, SqliteOptions, SqliteStorage, SqliteTransaction};
use crate::identity::{ExecutionId, FlowId, FlowKey, PartitionCount, RequestId};
use crate::policy::{AcceptSet, Decision, JoinPolicy};
use crate::retry::RetryPolicy;
use crate::state::{Cause, Outcome, State};
use crate::storage::{
    ClaimQuery, Consistency, Definition, Edge, EdgeKey, Execution, Flow, Grant, Group,
    NewExecution, Resolution, Snapshot, Storage, Transaction,
};
use crate::time::Timestamp;

/// What the injected clock says.
const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

/// Inline, every future is ready at its first poll.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future waits although all work is inline"),
    }
}

fn inline(options: SqliteOptions) -> SqliteOptions {
    options.offload(Offload::Inline).busy_timeout(Duration::ZERO).clock(Arc::new(|| NOW))
}

fn in_file(directory: &TempDir) -> SqliteOptions {
    inline(SqliteOptions::file(directory.path().join("flows.db")))
}

/// Runs a test on an empty database in memory, and on one in a file.
fn on_each(test: impl Fn(&SqliteStorage)) {
    test(&SqliteStorage::open(inline(SqliteOptions::memory())).unwrap());
    let directory = TempDir::new().unwrap();
    test(&SqliteStorage::open(in_file(&directory)).unwrap());
}

fn begin(storage: &SqliteStorage) -> SqliteTransaction {
    ready(storage.begin()).unwrap()
}

fn commit(transaction: SqliteTransaction) {
    ready(transaction.commit()).unwrap();
}

fn reader(storage: &SqliteStorage) -> super::SqliteSnapshot {
    ready(storage.snapshot(Consistency::Statement)).unwrap()
}

/// The first value of a query's first row.
fn value<T: rusqlite::types::FromSql>(storage: &SqliteStorage, sql: &str) -> T {
    storage
        .with_connection(|connection| connection.query_row(sql, [], |row| row.get(0)))
        .unwrap()
        .unwrap()
}

/// Changes rows behind the engine's back, checks and all ignored.
fn spoil(storage: &SqliteStorage, sql: &str) {
    let batch = format!(
        "pragma ignore_check_constraints = on; {sql}; pragma ignore_check_constraints = off"
    );
    storage.with_connection(|connection| connection.execute_batch(&batch)).unwrap().unwrap();
}

fn flow_key(number: u8) -> FlowKey {
    PartitionCount::default().key(FlowId::from_parts(1, [number; 10]))
}

fn request(number: u128) -> RequestId {
    RequestId(uuid::Uuid::from_u128(number))
}

fn flow(number: u8) -> Flow {
    Flow {
        key: flow_key(number),
        namespace: "tenant".into(),
        instance_tag: Some("region=north".into()),
        closing: None,
        closed_by: None,
        revision: 3,
        tags: crate::storage::Tags::default(),
        content_hash: [number; 32],
        request: request(7),
        created_at: Timestamp(5),
    }
}

fn execution(flow: FlowKey, name: &str, state: State) -> NewExecution {
    let ended = state.is_terminal();
    NewExecution {
        execution: Execution {
            id: flow.execution(name),
            flow: flow.id,
            state,
            cause: ended.then_some(Cause::Handler),
            incarnation: 0,
            propagated: false,
            has_in: state == State::Blocked,
            has_inputs: false,
            has_out: true,
            not_before: Timestamp(1_000),
            deadline: None,
            attempt: 0,
            charged: 0,
            give_backs: 0,
            resumed: None,
            progress: None,
            epoch: 0,
            lease: None,
            finished_at: ended.then_some(Timestamp(2_000)),
            retry: RetryPolicy::default(),
        },
        definition: Definition {
            name: name.into(),
            kind: "copy".into(),
            lane: "main".into(),
            priority: 0,
            namespace: "tenant".into(),
            instance_tag: Some("region=north".into()),
            payload: Arc::from(name.as_bytes()),
        },
    }
}

fn edge(flow: FlowKey, upstream: &str, downstream: &str, accepts: AcceptSet) -> Edge {
    Edge {
        key: EdgeKey { downstream: flow.execution(downstream), upstream: flow.execution(upstream) },
        accepts,
        resolution: Resolution::Pending,
        upstream_incarnation: None,
        input: None,
        passes_as: None,
    }
}

fn group(flow: FlowKey, downstream: &str, policy: JoinPolicy, edges: u32) -> Group {
    Group {
        downstream: flow.execution(downstream),
        flow: flow.id,
        policy,
        edges,
        satisfied: 0,
        unsatisfied: 0,
        decision: Decision::Undecided,
    }
}

/// Writes a flow with these members.
fn submit(
    storage: &SqliteStorage,
    flow: &Flow,
    executions: &[NewExecution],
    groups: &[Group],
    edges: &[Edge],
) {
    let mut transaction = begin(storage);
    ready(transaction.insert_flow(flow)).unwrap();
    ready(transaction.insert_executions(executions)).unwrap();
    ready(transaction.insert_groups(groups)).unwrap();
    ready(transaction.insert_edges(edges)).unwrap();
    commit(transaction);
}

fn claim_query(lanes: &[&str], limit: u32) -> ClaimQuery {
    ClaimQuery {
        request: request(99),
        worker: "worker".into(),
        instance: "instance".into(),
        namespace: None,
        partitions: 0..u16::MAX,
        lanes: lanes.iter().map(|lane| Arc::from(*lane)).collect(),
        kinds: Vec::new(),
        except: Vec::new(),
        limit,
        now: NOW,
        lease: Duration::from_secs(30),
        nonce: u64::MAX - 5,
        charge: 1,
    }
}

fn claim(storage: &SqliteStorage, query: &ClaimQuery) -> Vec<Grant> {
    let mut transaction = begin(storage);
    let grants = ready(transaction.claim_executions(query)).unwrap();
    commit(transaction);
    grants
}

fn stored(storage: &SqliteStorage, id: ExecutionId) -> Execution {
    ready(reader(storage).describe_execution(&id)).unwrap().unwrap().execution
}

const SUCCEEDED: State = State::Terminal(Outcome::Succeeded);
const FAILED: State = State::Terminal(Outcome::Failed);
