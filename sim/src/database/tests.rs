//! Tests of the simulated Postgres: a fixture of one flow, and one file a topic.

mod commits;
mod feed;
mod inserts;
mod locks;
mod planted;
mod reads;
mod retention;
mod summaries;
mod takes;
mod writes;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::identity::{ExecutionId, FlowId, FlowKey, Partition, RequestId};
#[cfg(feature = "mutants")]
use sluicegate::mutants;
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy};
use sluicegate::retry::RetryPolicy;
use sluicegate::state::{Outcome, State};
use sluicegate::storage::{
    ClaimQuery, Definition, Edge, EdgeFlip, EdgeKey, EventKind, Execution, ExecutionWrite, Flow,
    Group, Guarded, NewEvent, NewExecution, Resolution, Result, ResultChange,
};
use sluicegate::time::Timestamp;
use sluicegate::with_verbs;
use uuid::Uuid;

use super::{Cursor, Database, SessionId, Step};
use crate::history::{Change, Commit};

const FLOW: FlowKey = FlowKey { partition: Partition(1), id: FlowId(Uuid::from_u128(1)) };
const NOW: Timestamp = Timestamp(1_000_000);
const DONE: State = State::Terminal(Outcome::Succeeded);

fn id(number: u16) -> ExecutionId {
    ExecutionId { partition: FLOW.partition, uuid: Uuid::from_u128(u128::from(number)) }
}

fn ids(numbers: &[u16]) -> Vec<ExecutionId> {
    numbers.iter().map(|number| id(*number)).collect()
}

fn request(number: u16) -> RequestId {
    RequestId(Uuid::from_u128(u128::from(number)))
}

fn flow() -> Flow {
    Flow {
        key: FLOW,
        namespace: "tenant".into(),
        instance_tag: Some("env=test".into()),
        closing: None,
        closed_by: None,
        revision: 0,
        tags: sluicegate::storage::Tags::default(),
        content_hash: [0; 32],
        request: request(1),
        created_at: Timestamp(0),
    }
}

fn member(number: u16, state: State) -> NewExecution {
    NewExecution {
        execution: Execution {
            id: id(number),
            flow: FLOW.id,
            state,
            cause: None,
            incarnation: 0,
            propagated: false,
            has_in: false,
            has_inputs: false,
            has_out: false,
            not_before: Timestamp(0),
            deadline: None,
            attempt: 0,
            charged: 0,
            give_backs: 0,
            resumed: None,
            progress: None,
            epoch: 0,
            lease: None,
            finished_at: state.is_terminal().then_some(NOW),
            retry: RetryPolicy::default(),
        },
        definition: Definition {
            name: number.to_string().into(),
            kind: "build".into(),
            lane: "default".into(),
            priority: 0,
            namespace: "tenant".into(),
            instance_tag: Some("env=test".into()),
            payload: Arc::from([]),
        },
    }
}

fn group(downstream: u16, edges: u32) -> Group {
    Group {
        downstream: id(downstream),
        flow: FLOW.id,
        policy: JoinPolicy::AllOf,
        edges,
        satisfied: 0,
        unsatisfied: 0,
        decision: Decision::Undecided,
    }
}

fn edge_key(upstream: u16, downstream: u16) -> EdgeKey {
    EdgeKey { downstream: id(downstream), upstream: id(upstream) }
}

fn edge(upstream: u16, downstream: u16) -> Edge {
    Edge {
        key: edge_key(upstream, downstream),
        accepts: AcceptSet::ON_SUCCESS,
        resolution: Resolution::Pending,
        upstream_incarnation: None,
        input: None,
        passes_as: None,
    }
}

fn flip(upstream: u16, downstream: u16) -> EdgeFlip {
    EdgeFlip {
        key: edge_key(upstream, downstream),
        resolution: Resolution::Satisfied,
        upstream_incarnation: 0,
        input: None,
        guarded: Guarded::Yes,
    }
}

fn event(number: u16) -> NewEvent {
    NewEvent {
        execution: id(number),
        flow: FLOW.id,
        incarnation: 0,
        kind: EventKind::Completed { outcome: Outcome::Succeeded },
        occurred_at: NOW,
    }
}

fn claim(limit: u32) -> ClaimQuery {
    ClaimQuery {
        request: request(7),
        worker: "worker".into(),
        instance: "1".into(),
        namespace: None,
        partitions: 0..u16::MAX,
        lanes: vec!["default".into()],
        kinds: vec![],
        except: Vec::new(),
        limit,
        now: NOW,
        lease: Duration::from_secs(10),
        nonce: 99,
        charge: 1,
    }
}

/// A database in which this flow is committed.
fn seeded(members: &[NewExecution], edges: &[Edge]) -> Database {
    let mut db = Database::new();
    db.storage_now = NOW;
    let session = db.open_session(0);
    let mut groups: Vec<Group> = Vec::new();
    for edge in edges {
        match groups.iter_mut().find(|group| group.downstream == edge.key.downstream) {
            Some(group) => group.edges += 1,
            None => groups.push(Group { downstream: edge.key.downstream, ..group(0, 1) }),
        }
    }
    done(db.insert_flow(session, &mut Cursor::default(), &flow()));
    done(db.insert_executions(session, &mut Cursor::default(), members));
    done(db.insert_groups(session, &mut Cursor::default(), &groups));
    done(db.insert_edges(session, &mut Cursor::default(), edges));
    assert!(db.commit(session, &mut Commit::default()));
    db
}

/// Upstreams 1 and 2 have succeeded; groups 3 and 4 wait for both.
fn two_joins() -> Database {
    let members =
        [member(1, DONE), member(2, DONE), member(3, State::Blocked), member(4, State::Blocked)];
    seeded(&members, &[edge(1, 3), edge(2, 3), edge(1, 4), edge(2, 4)])
}

/// Executions 1 to `last`, all of them ready.
fn ready_to(last: u16) -> Database {
    let members: Vec<NewExecution> =
        (1..=last).map(|number| member(number, State::Ready)).collect();
    seeded(&members, &[])
}

#[track_caller]
fn done<T: Debug>(step: Step<Result<T>>) -> T {
    match step {
        Step::Done(Ok(value)) => value,
        other => panic!("the statement is not done: {other:?}"),
    }
}

/// Locks executions in one step.
#[track_caller]
fn lock(db: &mut Database, session: SessionId, numbers: &[u16]) -> Vec<Execution> {
    done(db.lock_executions(session, &mut Cursor::default(), &ids(numbers)))
}

/// Locks groups in one step.
#[track_caller]
fn lock_groups(db: &mut Database, session: SessionId, numbers: &[u16]) -> Vec<Group> {
    done(db.lock_groups(session, &mut Cursor::default(), &ids(numbers)))
}

fn to_state(before: &Execution, state: State) -> ExecutionWrite {
    let lease = before.lease.filter(|_| state == State::Active);
    let after = Execution { state, lease, epoch: before.epoch + 1, ..*before };
    ExecutionWrite { guard: before.guard(), after, result: ResultChange::Keep }
}

/// Locks an execution and moves it on.
#[track_caller]
fn move_to(db: &mut Database, session: SessionId, number: u16, state: State) -> Execution {
    let before = lock(db, session, &[number])[0];
    let write = to_state(&before, state);
    let written =
        done(db.write_executions(session, &mut Cursor::default(), std::slice::from_ref(&write)));
    assert_eq!(written, [id(number)]);
    write.after
}

fn commit(db: &mut Database, session: SessionId) -> Commit {
    let mut commit = Commit::default();
    db.commit(session, &mut commit);
    commit
}

fn state_of(db: &Database, number: u16) -> State {
    db.execution(id(number)).expect("the execution is committed").state
}

/// Turns a planted bug on for one test, so that assertions on the rules yield.
#[cfg(feature = "mutants")]
struct Planted;

#[cfg(feature = "mutants")]
impl Planted {
    fn any() -> Self {
        mutants::activate(Some(mutants::Mutant::P07));
        Self
    }
}

#[cfg(feature = "mutants")]
impl Drop for Planted {
    fn drop(&mut self) {
        mutants::activate(None);
    }
}

macro_rules! every_verb_has_a_method {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        #[test]
        fn every_verb_has_a_method_of_its_name_and_types() {
            let verbs = [
                $({
                    let _: fn(
                        &mut Database, SessionId, &mut Cursor $(, &$tty)?
                    ) -> Step<Result<$tr>> =
                        Database::$tm;
                    stringify!($tm)
                },)*
                $({
                    let _: fn(&Database $(, &$sty)?) -> Result<$sr> = Database::$sm;
                    stringify!($sm)
                },)*
            ];
            assert_eq!(verbs.len() + 3, sluicegate::storage::Verb::ALL.len());
        }
    };
}
with_verbs!(every_verb_has_a_method);
