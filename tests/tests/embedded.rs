//! The engine as a service embeds it: a real SQLite file, a real runtime with threads, and several
//! workers, dispatchers and reconcilers at once.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::operations::claim::{ClaimRequest, Sent};
use sluicegate::operations::describe::Explanation;
use sluicegate::operations::inputs::Claimed;
use sluicegate::operations::report::Report;
use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
use sluicegate::state::{Outcome, PublicState};
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Reported, Scope, Storage};
use sluicegate::{Engine, EngineError, Settings};

type Service<S> = Engine<S, SystemEnvironment>;

/// Turns after which a flow that has not drained is called stuck.
const TURNS_MAX: u32 = 2_000;

fn claim_of<S: Storage>(engine: &Service<S>, worker: &str) -> ClaimRequest {
    ClaimRequest { limit: 4, ..ClaimRequest::new(engine.request_id(), worker) }
}

/// Claims and reports until the flow has ended: executions of kind `fails` fail for good.
async fn work<S: Storage>(engine: Service<S>, name: String, flow: sluicegate::identity::FlowId) {
    for _ in 0..TURNS_MAX {
        let grants = match engine.claim(claim_of(&engine, &name)).await {
            Ok(grants) => grants,
            Err(EngineError::Contention(_)) => continue,
            Err(error) => panic!("{name}: {error}"),
        };
        for grant in &grants {
            let result: Arc<[u8]> = Arc::from(*b"{}");
            let report = match &*grant.definition.kind {
                "fails" => Report::FailFatal(result),
                _ => Report::Complete(result),
            };
            engine.report(grant.token(), report).await.expect("the lease is held");
        }
        if grants.is_empty() && has_ended(&engine, flow).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{name}: the flow has not drained");
}

async fn has_ended<S: Storage>(engine: &Service<S>, flow: sluicegate::identity::FlowId) -> bool {
    let open = [
        PublicState::Waiting,
        PublicState::Delayed,
        PublicState::WaitingChildren,
        PublicState::Active,
        PublicState::Suspended,
    ];
    let counts = engine.describe_flow(flow).await.expect("the flow exists").counts;
    open.iter().all(|state| !counts.contains_key(state))
}

async fn dispatch<S: Storage>(engine: Service<S>, environment: SystemEnvironment) {
    loop {
        environment.noticed(Duration::from_millis(20)).await;
        if let Err(error) = engine.dispatch_pass(&Scope::default()).await {
            assert!(matches!(error, EngineError::Contention(_)), "{error}");
        }
    }
}

/// Drains a flow with three workers and two dispatchers, and returns how it ended.
async fn drain<S: Storage>(storage: S, spec: FlowSpec) -> Vec<(String, PublicState)> {
    let environment = SystemEnvironment::new();
    let engine = Engine::new(storage, environment.clone(), Settings::default());
    let flow = engine.submit(spec).await.expect("the flow is valid").flow();
    let dispatchers: Vec<_> =
        (0..2).map(|_| tokio::spawn(dispatch(engine.clone(), environment.clone()))).collect();
    let workers: Vec<_> = (0..3)
        .map(|nth| tokio::spawn(work(engine.clone(), format!("worker-{nth}"), flow.id)))
        .collect();
    for worker in workers {
        worker.await.expect("the worker drains the flow");
    }
    dispatchers.iter().for_each(tokio::task::JoinHandle::abort);
    let ticked = engine.dependency_tick(&Scope::default()).await.expect("the tick succeeds");
    assert_eq!(ticked.errors, 0);
    let described = engine.describe_flow(flow.id).await.expect("the flow exists");
    described.executions.into_iter().map(|one| (one.name.to_string(), one.state)).collect()
}

fn wide() -> FlowSpec {
    let mut flow = FlowSpec::builder().execution("first").execution("last");
    for nth in 0..60 {
        let name = format!("middle-{nth:02}");
        flow = flow.execution(name.as_str()).edge("first", name.as_str()).edge(name, "last");
    }
    flow.build()
}

fn handled_failure() -> FlowSpec {
    FlowSpec::builder()
        .execution_spec(ExecutionSpec::new("build").kind("fails"))
        .execution("deploy")
        .execution("announce")
        .execution("clean-up")
        .execution("any")
        .edge("build", "deploy")
        .edge("deploy", "announce")
        .edge_spec(EdgeSpec::new("build", "clean-up").accepts(AcceptSet::ON_FAILURE))
        .edge("announce", "any")
        .edge("clean-up", "any")
        .join("any", JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun })
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wide_flow_drains_on_a_file_with_many_actors() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = SqliteOptions::file(directory.path().join("flows.db"));
    let storage = SqliteStorage::open(options).expect("the file opens");
    let ended = drain(storage, wide()).await;
    assert_eq!(ended.len(), 62);
    assert!(ended.iter().all(|(_, state)| *state == PublicState::Completed), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_skips_what_needs_success_and_runs_what_handles_it() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let ended = drain(BoxStorage::new(storage), handled_failure()).await;
    let expected = [
        ("announce", PublicState::Skipped),
        ("any", PublicState::Completed),
        ("build", PublicState::Failed),
        ("clean-up", PublicState::Completed),
        ("deploy", PublicState::Skipped),
    ];
    let expected: Vec<(String, PublicState)> =
        expected.into_iter().map(|(name, state)| (name.to_owned(), state)).collect();
    assert_eq!(ended, expected);
}

#[tokio::test]
async fn a_key_stands_for_one_flow_and_says_so() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let spec = |name: &str| FlowSpec::builder().idempotency_key("order-1").execution(name).build();
    let first = engine.submit(spec("a")).await.expect("the flow is valid");
    let again = engine.submit(spec("a")).await.expect("the flow is valid");
    assert_eq!(first.flow(), again.flow());
    assert_ne!(first, again, "the second is a duplicate");
    let other = engine.submit(spec("b")).await.expect_err("the content differs");
    let expected = format!(
        "idempotency key `order-1` already stands for flow {} with different content",
        first.flow().id
    );
    assert_eq!(other.to_string(), expected);
    let id = first.flow().execution("a");
    let explained = engine.explain(id).await.expect("the execution exists");
    assert!(matches!(explained, Explanation::Claimable { .. }), "{explained}");
    let grants = engine.claim(claim_of(&engine, "w")).await.expect("the claim succeeds");
    let done = Report::Complete(Arc::from(*b"{}"));
    engine.report(grants[0].token(), done).await.expect("the lease is held");
    let explained = engine.explain(id).await.expect("the execution exists");
    assert!(
        matches!(explained, Explanation::Ended { outcome: Outcome::Succeeded, .. }),
        "{explained}"
    );
}

#[tokio::test]
async fn a_report_and_a_claim_are_one_call_that_may_be_repeated() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let flow = FlowSpec::builder().execution("a").execution("b").execution("c").build();
    let flow = engine.submit(flow).await.expect("the flow is valid").flow();
    let claim = || ClaimRequest { limit: 1, ..claim_of(&engine, "w") };
    let first = engine.claim(claim()).await.expect("the claim succeeds");
    let done = |grants: &[Claimed]| {
        let tokens = grants.iter().map(|grant| grant.token());
        tokens.map(|token| (token, Report::Complete(Arc::from(*b"{}")))).collect::<Vec<_>>()
    };
    let request = claim();
    let called = engine.complete_and_claim(done(&first), request.clone()).await;
    let (replies, second) = called.expect("the call succeeds");
    assert_eq!(replies, [Ok(Reported::Finished(Outcome::Succeeded))]);
    assert_eq!(second.len(), 1);
    // Its answer may have been lost: both effects are found, and nothing is done twice.
    let again = ClaimRequest { sent: Sent::Again, ..request };
    let called = engine.complete_and_claim(done(&first), again).await.expect("the call succeeds");
    assert_eq!(called, (replies, second.clone()));
    // A lost lease concerns the report alone: the claim is served.
    engine.report(second[0].token(), Report::Release).await.expect("it is held");
    let called = engine.complete_and_claim(done(&second), claim()).await;
    let (replies, third) = called.expect("the call succeeds");
    assert!(matches!(replies[0], Err(EngineError::LeaseLost(_))), "{:?}", replies[0]);
    let called = engine.complete_and_claim(done(&third), claim()).await.expect("it is held");
    let last = ClaimRequest { limit: 0, ..claim() };
    let called = engine.complete_and_claim(done(&called.1), last).await.expect("it is held");
    assert_eq!(called, (vec![Ok(Reported::Finished(Outcome::Succeeded))], Vec::new()));
    let none = ClaimRequest { lanes: Vec::new(), ..claim() };
    let refused = engine.complete_and_claim(Vec::new(), none).await.expect_err("no lane");
    assert!(refused.to_string().contains("at least one lane"), "{refused}");
    let counts = engine.describe_flow(flow.id).await.expect("the flow exists").counts;
    assert_eq!(counts[&PublicState::Completed], 3);
}

#[tokio::test]
async fn a_snooze_puts_off_and_a_skip_is_no_failure() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let flow = FlowSpec::builder().execution("a").execution("b").execution("c").edge("b", "c");
    let flow = engine.submit(flow.build()).await.expect("the flow is valid").flow();
    let grants = engine.claim(claim_of(&engine, "w")).await.expect("the claim succeeds");
    let token = |name: &str| {
        let named = |grant: &&Claimed| &*grant.definition.name == name;
        grants.iter().find(named).expect("it was ready").token()
    };
    let hour = Duration::from_hours(1);
    let put_off = engine.report(token("a"), Report::Snooze(hour)).await;
    assert_eq!(put_off, Ok(Reported::Requeued { delay_us: 3_600_000_000 }));
    assert_eq!(engine.report(token("a"), Report::Snooze(hour)).await, put_off);
    let other = engine.report(token("a"), Report::Snooze(hour * 2)).await;
    assert!(matches!(other, Err(EngineError::LeaseLost(_))), "{other:?}");
    let skipped = engine.report(token("b"), Report::Skip).await;
    assert_eq!(skipped, Ok(Reported::Finished(Outcome::Skipped)));
    engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
    let described = engine.describe_flow(flow.id).await.expect("the flow exists");
    assert_eq!(described.counts[&PublicState::Delayed], 1);
    assert_eq!(described.counts[&PublicState::Skipped], 2);
    assert_eq!(engine.claim(claim_of(&engine, "w")).await, Ok(Vec::new()));
}

#[tokio::test]
async fn several_reports_are_one_call_and_a_lost_lease_concerns_only_its_own() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let flow = FlowSpec::builder().execution("a").execution("b").execution("c").build();
    let flow = engine.submit(flow).await.expect("the flow is valid").flow();
    let grants = engine.claim(claim_of(&engine, "w")).await.expect("the claim succeeds");
    let done = || Report::Complete(Arc::from(*b"{}"));
    let tokens: Vec<_> = grants.iter().map(|grant| grant.token()).collect();
    engine.report(tokens[1], Report::FailFatal(Arc::from(*b"{}"))).await.expect("it is held");
    let all: Vec<_> = tokens.iter().rev().map(|token| (*token, done())).collect();
    let replies = engine.report_all(all.clone()).await.expect("the call succeeds");
    let succeeded = Ok(Reported::Finished(Outcome::Succeeded));
    assert_eq!(replies[0], succeeded);
    assert!(matches!(replies[1], Err(EngineError::LeaseLost(_))), "{:?}", replies[1]);
    assert_eq!(replies[2], succeeded);
    assert_eq!(engine.report_all(all).await.expect("the call succeeds"), replies);
    let twice = vec![(tokens[0], done()), (tokens[0], Report::Release)];
    let refused = engine.report_all(twice).await.expect_err("one execution, two reports");
    assert!(refused.to_string().contains("is reported twice"), "{refused}");
    assert_eq!(engine.report_all(Vec::new()).await, Ok(Vec::new()));
    let counts = engine.describe_flow(flow.id).await.expect("the flow exists").counts;
    assert_eq!((counts[&PublicState::Completed], counts[&PublicState::Failed]), (2, 1));
}

/// Works off a flow of its own with so many executions, and numbers their events.
async fn events<S: Storage>(engine: &Service<S>, namespace: &str, executions: u32) {
    let mut flow = FlowSpec::builder().namespace(namespace);
    for nth in 0..executions {
        flow = flow.execution(format!("one-{nth}"));
    }
    engine.submit(flow.build()).await.expect("the flow is valid");
    loop {
        let grants = engine.claim(claim_of(engine, "w")).await.expect("the claim succeeds");
        if grants.is_empty() {
            break;
        }
        for grant in grants {
            let done = Report::Complete(Arc::from(*b"{}"));
            engine.report(grant.token(), done).await.expect("the lease is held");
        }
    }
    engine.sequencer_tick(&Scope::default()).await.expect("the tick succeeds");
}

fn of_namespace(namespace: &str) -> Scope {
    Scope { namespace: Some(namespace.into()), ..Scope::default() }
}

#[tokio::test]
async fn a_subscription_sees_what_matches_and_goes_on_from_its_cursor() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let oldest = engine.cursor_oldest().await.expect("the feed has a head");
    assert_eq!(engine.cursor_now().await, Ok(oldest));
    events(&engine, "north", 3).await;
    events(&engine, "south", 2).await;
    let page = engine.read_feed(oldest, &Scope::default(), 4).await.expect("a page");
    assert_eq!(page.events.len(), 4);
    assert_eq!(page.next_cursor, page.events[3].cursor);
    let rest = engine.read_feed(page.next_cursor, &Scope::default(), 4).await.expect("a page");
    assert_eq!(rest.events.len(), 1);
    let south = engine.read_feed(oldest, &of_namespace("south"), 9).await.expect("a page");
    assert_eq!(south.events, [page.events[3].clone(), rest.events[0].clone()]);
    // Nothing else matches: the next page begins behind everything that does not.
    let none = engine.read_feed(oldest, &of_namespace("west"), 9).await.expect("a page");
    assert_eq!((none.events.len(), Ok(none.next_cursor)), (0, engine.cursor_now().await));
    let none = engine.read_feed(oldest, &Scope::default(), 0).await.expect("a page");
    assert_eq!((none.events.len(), none.next_cursor), (0, oldest));
    let mut subscriber = engine.subscribe(page.events[1].cursor, of_namespace("north"));
    let event = subscriber.next().await.expect("an event");
    assert_eq!(event, page.events[2]);
    assert_eq!(subscriber.try_next().await, Ok(None));
    assert_eq!(Ok(subscriber.cursor()), engine.cursor_now().await);
}

#[tokio::test]
async fn a_cursor_that_the_feed_cannot_go_on_from_is_refused() {
    let open = || SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(open(), SystemEnvironment::new(), Settings::default());
    let other = Engine::new(open(), SystemEnvironment::new(), Settings::default());
    events(&engine, "north", 2).await;
    events(&other, "north", 3).await;
    let everything = Scope::default();
    let far = engine.cursor_now().await.expect("the feed has a head");
    let lost = other.read_feed(far, &everything, 9).await.expect_err("another timeline");
    assert!(matches!(lost, EngineError::CursorLost { cursor, .. } if cursor == far), "{lost}");
    let beyond = sluicegate::storage::Position(far.position.0 + 1);
    let beyond = sluicegate::feed::Cursor { position: beyond, ..far };
    let lost = engine.read_feed(beyond, &everything, 9).await.expect_err("a lost tail");
    assert!(matches!(lost, EngineError::CursorLost { newest, .. } if newest == far), "{lost}");
    let mut consumer = engine.consumer("one", everything.clone()).await.expect("it opens");
    consumer.skip_to(beyond);
    assert!(matches!(consumer.next().await, Err(EngineError::CursorLost { .. })));
    consumer.skip_to(far);
    assert_eq!(consumer.try_next().await, Ok(None));
    assert!(matches!(engine.consumer("", everything).await, Err(EngineError::Invalid(_))));
}

#[tokio::test]
async fn a_consumer_gets_again_what_it_has_not_acknowledged() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    events(&engine, "north", 3).await;
    let open = async || engine.consumer("billing", Scope::default()).await.expect("it opens");
    let mut first = open().await;
    let one = first.next().await.expect("an event");
    first.acknowledge().await.expect("it is stored");
    let two = first.next().await.expect("an event");
    let mut second = open().await;
    assert_eq!(second.cursor(), one.cursor);
    assert_eq!(second.next().await, Ok(two));
    second.next().await.expect("an event");
    second.acknowledge().await.expect("it is stored");
    // Another instance that stands further back moves nothing.
    first.acknowledge().await.expect("it is behind");
    let mut third = open().await;
    assert_eq!(third.try_next().await, Ok(None));
    let other = engine.consumer("other", Scope::default()).await.expect("it opens");
    assert_eq!(Ok(other.cursor()), engine.cursor_oldest().await);
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken_when_work_ends() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let mut settings = Settings::default();
    settings.feed.poll = Duration::from_hours(1);
    let engine = Engine::new(storage, SystemEnvironment::new(), settings);
    let now = engine.cursor_now().await.expect("the feed has a head");
    let mut subscriber = engine.subscribe(now, Scope::default());
    let waiting = tokio::spawn(async move { subscriber.next().await });
    tokio::task::yield_now().await;
    events(&engine, "north", 1).await;
    let event = waiting.await.expect("nothing panics").expect("an event");
    assert_eq!(&*event.namespace, "north");
}
