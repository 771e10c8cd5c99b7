mod attempts;
mod calls;
mod feed;
mod replays;
mod retired;
mod waits;

use sluicegate::identity::{ExecutionId, FlowId, PartitionCount, RequestId};
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy};
use sluicegate::retry::RetryPolicy;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{
    Attempt, AttemptEnd, AttemptKey, Edge, EdgeKey, EventId, EventKind, Execution, Group, Lease,
    LeaseChange, LeaseEvent, NewEvent, Reported, Resolution, codes,
};
use sluicegate::time::Timestamp;

use super::super::ledger::{self, Entry, Handed};
use super::super::work;
use super::*;

/// Seeds that are tried for one of which both executions complete at once.
const SEEDS_MAX: u64 = 1_000;
const NOW: Timestamp = Timestamp(100_000_000);

fn key() -> sluicegate::identity::FlowKey {
    PartitionCount::default().key(FlowId::from_parts(1, [7; 10]))
}

fn id(name: &str) -> ExecutionId {
    key().execution(name)
}

/// A seed under which `a` and `b` complete at the first attempt of two lives, and `a` reports
/// progress.
fn seed() -> u64 {
    let fate = |seed, name, incarnation| work::fate(seed, id(name), incarnation, 1);
    let completes = |seed, name, incarnation| {
        fate(seed, name, incarnation).report.end() == AttemptEnd::Completed
    };
    let both = |seed, name| completes(seed, name, 0) && completes(seed, name, 1);
    let fits = |seed| both(seed, "a") && both(seed, "b") && fate(seed, "a", 0).progress >= 2;
    (0..SEEDS_MAX).find(|seed| fits(*seed)).unwrap()
}

fn ended(name: &str) -> Execution {
    Execution {
        id: id(name),
        flow: key().id,
        state: State::Terminal(Outcome::Succeeded),
        cause: Some(Cause::Handler),
        incarnation: 0,
        propagated: true,
        has_in: name == "b",
        has_inputs: false,
        has_out: name == "a",
        not_before: Timestamp(1),
        deadline: None,
        attempt: 1,
        charged: 1,
        give_backs: 0,
        resumed: None,
        progress: None,
        epoch: 2,
        lease: None,
        finished_at: Some(Timestamp(20)),
        retry: RetryPolicy::default(),
    }
}

fn attempt(name: &str) -> Attempt {
    Attempt {
        key: AttemptKey { execution: id(name), incarnation: 0, attempt: 1 },
        epoch: 1,
        nonce: 77,
        end: AttemptEnd::Completed,
        reported: Reported::Finished(Outcome::Succeeded),
        payload_hash: 0,
        granted_at: Timestamp(10),
        ended_at: Timestamp(20),
    }
}

fn event(number: u64, name: &str) -> (EventId, NewEvent) {
    let event = NewEvent {
        execution: id(name),
        flow: key().id,
        incarnation: 0,
        kind: EventKind::Completed { outcome: Outcome::Succeeded },
        occurred_at: Timestamp(20),
    };
    (EventId(number), event)
}

/// `a` before `b`, drained: what every check must let pass.
fn sound() -> Rows {
    let mut rows = Rows {
        now: NOW,
        flows: vec![FlowRow { id: key().id, revision: 0, tags: BTreeMap::new() }],
        executions: vec![ended("a"), ended("b")],
        groups: vec![Group {
            downstream: id("b"),
            flow: key().id,
            policy: JoinPolicy::AllOf,
            edges: 1,
            satisfied: 1,
            unsatisfied: 0,
            decision: Decision::Satisfied,
        }],
        edges: vec![Edge {
            key: EdgeKey { downstream: id("b"), upstream: id("a") },
            accepts: AcceptSet::ON_SUCCESS,
            resolution: Resolution::Satisfied,
            upstream_incarnation: Some(0),
            input: Some(Outcome::Succeeded),
            passes_as: None,
        }],
        attempts: vec![attempt("a"), attempt("b")],
        events: vec![event(1, "a"), event(2, "b")],
        lease_events: Vec::new(),
        names: [(id("a"), "a".to_owned()), (id("b"), "b".to_owned())].into(),
        progress: BTreeMap::new(),
    };
    rows.executions.sort_by_key(|row| row.id);
    rows.attempts.sort_by_key(|row| row.key);
    rows
}

fn lease(name: &str) -> ledger::Lease {
    ledger::Lease { execution: id(name), incarnation: 0, attempt: 1, epoch: 1, nonce: 77 }
}

fn told() -> Vec<Entry> {
    let reported = Reported::Finished(Outcome::Succeeded);
    vec![
        Entry::Submitted { flow: key().id, executions: 2, edges: 1 },
        Entry::Granted { lease: lease("a") },
        Entry::reported(lease("a"), AttemptEnd::Completed, reported),
    ]
}

/// What a consumer is handed that misses nothing: each event at the place of its number.
fn handed(rows: &Rows) -> Vec<Entry> {
    let mut events: Vec<_> = rows.events.iter().chain(&rows.lease_events).collect();
    events.sort_by_key(|(id, _)| *id);
    let entries = events.into_iter().map(|(id, event)| handed_at(id.0, event));
    [Entry::Opened].into_iter().chain(entries).collect()
}

fn handed_at(position: u64, event: &NewEvent) -> Entry {
    let NewEvent { flow, execution, incarnation, .. } = *event;
    let lease = event.lease().map(|lease| {
        let stored = codes::lease_event(Some(lease));
        (stored.attempt, stored.change, stored.expires_at)
    });
    let (outcome, occurred_at) = (event.outcome().map(codes::outcome), event.occurred_at.0);
    let event = Handed { position, flow, execution, incarnation, lease, outcome, occurred_at };
    Entry::Handed(event)
}

/// The lease of the first attempt of an execution has ended so, and it was told.
fn tell(rows: &mut Rows, number: u64, name: &str, change: LeaseChange) {
    let lease = LeaseEvent { attempt: 1, change, expires_at: Timestamp(25) };
    let (_, event) = event(number, name);
    let occurred_at = first(rows, name).ended_at;
    let event = NewEvent { kind: EventKind::Lease(lease), occurred_at, ..event };
    rows.lease_events.push((EventId(number), event));
}

fn judge(rows: &Rows, entries: Vec<Entry>) -> Vec<Violation> {
    judge_read(rows, entries, handed(rows))
}

fn judge_read(rows: &Rows, entries: Vec<Entry>, read: Vec<Entry>) -> Vec<Violation> {
    let books = [
        Book { name: "worker".to_owned(), entries },
        Book { name: "reader".to_owned(), entries: read },
    ];
    let healed = waits::healed(rows.now);
    let evidence = Evidence::new(rows, &books, seed(), Some(&healed));
    [evidence.judge(When::Always), evidence.judge(When::Drained)].concat()
}

#[track_caller]
fn check(invariant: &str, tamper: impl Fn(&mut Rows)) {
    let mut rows = sound();
    tamper(&mut rows);
    let violations = judge(&rows, told());
    let seen: Vec<&str> = violations.iter().map(|violation| violation.invariant).collect();
    assert!(seen.contains(&invariant), "{invariant} is not among {violations:?}");
}

#[track_caller]
fn check_told(invariant: &str, entry: Entry) {
    check_told_of(&sound(), invariant, entry);
}

#[track_caller]
fn check_told_of(rows: &Rows, invariant: &str, entry: Entry) {
    let violations = judge(rows, vec![entry]);
    let seen: Vec<&str> = violations.iter().map(|violation| violation.invariant).collect();
    assert_eq!(seen, [invariant], "{violations:?}");
}

fn of<'r>(rows: &'r mut Rows, name: &str) -> &'r mut Execution {
    rows.executions.iter_mut().find(|row| row.id == id(name)).unwrap()
}

fn first<'r>(rows: &'r mut Rows, name: &str) -> &'r mut Attempt {
    rows.attempts.iter_mut().find(|row| row.key.execution == id(name)).unwrap()
}

#[test]
fn sound_rows_pass_every_check() {
    assert_eq!(judge(&sound(), told()), []);
}

#[test]
fn an_end_without_its_one_event_is_seen() {
    check("I1", |rows| rows.events.truncate(1));
    check("I1", |rows| rows.events.push(event(3, "b")));
    check("I1", |rows| rows.events[0].1.kind = EventKind::Completed { outcome: Outcome::Failed });
    check("I1", |rows| rows.events.push(event(3, "nobody")));
    check("I1", |rows| of(rows, "b").state = State::Ready);
}

#[test]
fn counters_and_edges_that_disagree_are_seen() {
    check("I3", |rows| rows.groups[0].satisfied = 2);
    check("I3", |rows| rows.groups[0].edges = 2);
    check("I3", |rows| rows.edges[0].accepts = AcceptSet::ON_FAILURE);
    check("I3", |rows| rows.edges[0].upstream_incarnation = Some(1));
    check("I3", |rows| of(rows, "a").state = State::Terminal(Outcome::Failed));
    check("I3", |rows| of(rows, "a").state = State::Active);
}

#[test]
fn a_decision_that_is_not_the_policys_is_seen() {
    check("I4", |rows| rows.groups[0].decision = Decision::Impossible);
    check("I4", |rows| rows.groups[0].decision = Decision::Undecided);
}

#[test]
fn inputs_that_are_not_those_of_the_decision_are_seen() {
    let mut rows = sound();
    rows.edges[0].passes_as = Some("from_a".into());
    let passed = |outcome: Outcome, bytes: u64| Entry::Passed {
        lease: lease("b"),
        inputs: vec![(id("a"), codes::outcome(outcome), bytes)],
    };
    assert_eq!(judge(&rows, vec![passed(Outcome::Succeeded, 3)]), []);
    check_told_of(&rows, "I4", passed(Outcome::Failed, 3));
    check_told_of(&rows, "I4", Entry::Passed { lease: lease("b"), inputs: Vec::new() });
    let twice = vec![passed(Outcome::Succeeded, 3), passed(Outcome::Succeeded, 4)];
    let seen: Vec<&str> = judge(&rows, twice).iter().map(|one| one.invariant).collect();
    assert_eq!(seen, ["I4"], "another attempt was passed something else");
}

#[test]
fn a_start_without_its_group_is_seen() {
    check("I5", |rows| rows.groups[0].decision = Decision::Undecided);
}

#[test]
fn a_skip_that_nothing_calls_for_is_seen() {
    check("I6", |rows| {
        let row = of(rows, "b");
        (row.state, row.cause) = (State::Terminal(Outcome::Skipped), Some(Cause::Unsatisfiable));
    });
    check("I6", |rows| of(rows, "b").cause = Some(Cause::Unsatisfiable));
    check("I6", |rows| {
        let row = of(rows, "b");
        (row.state, row.cause) = (State::Terminal(Outcome::Skipped), Some(Cause::Handler));
    });
}

#[test]
fn leases_that_do_not_follow_each_other_are_seen() {
    check("I7", |rows| of(rows, "a").epoch = 1);
    check("I7", |rows| {
        let again = AttemptKey { attempt: 2, ..first(rows, "a").key };
        let twice = Attempt { key: again, epoch: 3, ..*first(rows, "a") };
        rows.attempts.push(twice);
    });
    check("I7", |rows| {
        let again = AttemptKey { attempt: 2, ..first(rows, "a").key };
        let stale = Attempt { key: again, nonce: 78, ..*first(rows, "a") };
        rows.attempts.push(stale);
    });
}

#[test]
fn columns_that_disagree_with_the_state_are_seen() {
    check("I9", |rows| of(rows, "a").finished_at = None);
    check("I9", |rows| of(rows, "a").cause = None);
    check("I9", |rows| of(rows, "a").has_out = false);
    check("I9", |rows| of(rows, "a").has_in = true);
    check("I9", |rows| of(rows, "a").state = State::Blocked);
    check("I9", |rows| {
        let (nonce, request) = (1, RequestId(uuid::Uuid::nil()));
        let (granted_at, expires_at) = (NOW, NOW);
        of(rows, "a").lease = Some(Lease { nonce, request, granted_at, expires_at });
    });
}

#[test]
fn miscounted_attempts_are_seen() {
    check("I11", |rows| of(rows, "a").charged = 0);
    check("I11", |rows| of(rows, "a").attempt = 2);
    check("I11", |rows| of(rows, "a").give_backs = 1);
    check("I11", |rows| of(rows, "a").retry.max_attempts = 0);
    check("I11", |rows| rows.attempts.clear());
    check("I11", |rows| first(rows, "a").ended_at = Timestamp(9));
}

#[test]
fn a_retry_that_did_not_wait_is_seen() {
    let retried = |waited: i64| {
        move |rows: &mut Rows| {
            let delay = RetryPolicy::default().backoff.delay(id("a"), 1);
            let past = first(rows, "a");
            (past.end, past.reported) =
                (AttemptEnd::FailedRetryable, Reported::Requeued { delay_us: 1 });
            let granted_at = Timestamp((past.ended_at + delay).0 + waited);
            let key = AttemptKey { attempt: 2, ..past.key };
            let (ended_at, epoch, nonce) = (granted_at, 3, 78);
            let next = Attempt { key, epoch, nonce, granted_at, ended_at, ..attempt("a") };
            rows.attempts.push(next);
            tell(rows, 0, "a", LeaseChange::Released);
            let row = of(rows, "a");
            (row.attempt, row.charged, row.epoch) = (2, 2, 4);
        }
    };
    check("I11", retried(-1));
    let mut rows = sound();
    retried(0)(&mut rows);
    let evidence = Evidence::new(&rows, &[], seed(), None);
    assert_eq!(evidence.judge(When::Always), []);
}

#[test]
fn a_lost_lease_that_its_holder_ended_is_seen() {
    check_told("I16", Entry::Lost { lease: lease("a") });
}

#[test]
fn whatever_was_acknowledged_and_is_not_there_is_seen() {
    let other = FlowId::from_parts(2, [8; 10]);
    check_told("I19", Entry::Submitted { flow: other, executions: 2, edges: 1 });
    check_told("I19", Entry::FlowCancelled { flow: key().id, cancelled: vec![id("a")] });
    check_told("I19", Entry::Submitted { flow: key().id, executions: 3, edges: 1 });
    check_told("I19", Entry::Submitted { flow: key().id, executions: 2, edges: 2 });
    let forged = |tamper: fn(&mut ledger::Lease)| {
        let mut lease = lease("a");
        tamper(&mut lease);
        lease
    };
    let tampers: [fn(&mut ledger::Lease); 3] =
        [|lease| lease.nonce = 1, |lease| lease.epoch = 5, |lease| lease.attempt = 2];
    for tamper in tampers {
        check_told("I19", Entry::Granted { lease: forged(tamper) });
    }
    let reported = Reported::Requeued { delay_us: 5 };
    check("I19", |rows| first(rows, "a").end = AttemptEnd::FailedFatal);
    check_told("I19", Entry::reported(lease("a"), AttemptEnd::Completed, reported));
}

#[test]
fn a_propagated_execution_with_a_pending_edge_is_seen() {
    check("I21", |rows| rows.edges[0].resolution = Resolution::Pending);
    check("I21", |rows| rows.executions.retain(|row| row.id != id("b")));
}

fn unend(row: &mut Execution, state: State) {
    (row.state, row.cause, row.finished_at, row.propagated) = (state, None, None, false);
}

#[test]
fn what_has_not_ended_is_seen() {
    check("I8", |rows| {
        let row = of(rows, "b");
        (row.state, row.finished_at, row.cause) = (State::Ready, None, None);
    });
}

#[test]
fn ends_that_the_seed_or_the_evaluator_does_not_know_are_seen() {
    check("I18", |rows| first(rows, "a").end = AttemptEnd::FailedFatal);
    check("I18", |rows| {
        let row = of(rows, "b");
        (row.state, row.cause) = (State::Terminal(Outcome::Failed), Some(Cause::Handler));
    });
}

#[test]
fn every_row_of_the_table_is_named_and_has_a_sentence() {
    assert!(TABLE.iter().all(|check| check.id.starts_with('I') && !check.title.is_empty()));
    let late = Evidence::new(&sound(), &[], seed(), None).judge(When::Always);
    assert_eq!(late, []);
}
