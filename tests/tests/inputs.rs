//! Inputs by name, on a real SQLite database and a real Postgres: what a lease carries, that every
//! attempt is passed the same, and pages of what is too large.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{Additions, EdgeSpec, ExecutionSpec, FlowBuilder, FlowSpec, Limits};
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, Sent};
use sluicegate::operations::inputs::{Claimed, Inputs};
use sluicegate::operations::report::Report;
use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
use sluicegate::replay::ReplayScope;
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::state::Outcome;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Input, Scope};
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::shared;

const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };

struct Scene {
    engine: Engine<BoxStorage, SystemEnvironment>,
    flow: FlowKey,
}

/// A name, how it ended, and what it returned.
type Told = (String, Outcome, Option<String>);

fn told(inputs: &[Input]) -> Vec<Told> {
    let text = |bytes: &Arc<[u8]>| String::from_utf8_lossy(bytes).into_owned();
    let mut told: Vec<Told> = inputs
        .iter()
        .map(|input| (input.name.to_string(), input.outcome, input.result.as_ref().map(text)))
        .collect();
    told.sort();
    told
}

fn success(name: &str, of: &str) -> Told {
    (name.into(), Outcome::Succeeded, Some(format!("\"by {of}\"")))
}

impl Scene {
    async fn on(storage: BoxStorage, settings: &Settings, spec: FlowBuilder) -> Self {
        let engine = Engine::new(storage, SystemEnvironment::new(), *settings);
        let flow = engine.submit(spec.build()).await.expect("the flow is valid").flow();
        Self { engine, flow }
    }

    fn request(&self) -> ClaimRequest {
        ClaimRequest {
            limit: 100,
            lease: Duration::from_mins(1),
            ..ClaimRequest::new(self.engine.request_id(), "worker")
        }
    }

    async fn claim(&self) -> Vec<Claimed> {
        self.engine.claim(self.request()).await.expect("the claim succeeds")
    }

    async fn settle(&self) {
        self.engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
    }

    /// Each of these ends, with its name in its result.
    async fn end(&self, grants: &[Claimed], name: &str, outcome: Outcome) {
        let grant = grants.iter().find(|grant| &*grant.definition.name == name);
        let result = format!("\"by {name}\"").into_bytes().into();
        let report = match outcome {
            Outcome::Succeeded => Report::Complete(result),
            Outcome::Skipped => Report::Skip,
            _ => Report::FailFatal(result),
        };
        let token = grant.expect("it was claimed").token();
        self.engine.report(token, report).await.expect("the lease is held");
        self.settle().await;
    }

    async fn retry(&self, grant: &Claimed) -> Claimed {
        let report = Report::FailRetryable([].into());
        self.engine.report(grant.token(), report).await.expect("the lease is held");
        self.one().await
    }

    async fn one(&self) -> Claimed {
        let mut claimed = self.claim().await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }
}

fn sent(claimed: &Claimed) -> Vec<Told> {
    told(claimed.inputs.sent().expect("they are small"))
}

/// Runs a test on both backends.
async fn on_both<F: AsyncFn(BoxStorage)>(schema: &str, test: F) {
    let sqlite = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    test(BoxStorage::new(sqlite)).await;
    let options = PostgresOptions::new(&shared().url()).expect("the address reads");
    let options = options.schema(&format!("inputs_{schema}")).connections_max(2);
    let postgres = PostgresStorage::open(options).await.expect("the server answers");
    test(BoxStorage::new(postgres.clone())).await;
    postgres.close().await;
}

/// An execution that is tried again at once.
fn retried(name: &str) -> ExecutionSpec {
    let backoff = Backoff::Fixed { delay_ms: 0 };
    ExecutionSpec::new(name).retry(RetryPolicy { backoff, ..RetryPolicy::default() })
}

/// `c` waits for `a` and `b`, each of which it is passed, and retries at once.
fn join(policy: JoinPolicy) -> FlowBuilder {
    FlowSpec::builder()
        .execution("a")
        .execution("b")
        .execution_spec(retried("c"))
        .join("c", policy)
        .edge_spec(EdgeSpec::new("a", "c").accepts(AcceptSet::ON_DONE).passes_as("left"))
        .edge_spec(EdgeSpec::new("b", "c").accepts(AcceptSet::ON_DONE).passes_as("right"))
}

#[tokio::test]
async fn a_lease_carries_what_satisfied_the_join_and_a_repetition_carries_the_same() {
    on_both("carries", async |storage| {
        let scene = Scene::on(storage, &Settings::default(), join(JoinPolicy::AllOf)).await;
        let first = scene.claim().await;
        assert!(first.iter().all(|one| one.inputs == Inputs::Sent(Vec::new())), "{first:?}");
        scene.end(&first, "a", Outcome::Succeeded).await;
        scene.end(&first, "b", Outcome::Failed).await;
        let request = scene.request();
        let claimed = scene.engine.claim(request.clone()).await.expect("the claim succeeds");
        let expected = [success("left", "a"), ("right".into(), Outcome::Failed, None)];
        assert_eq!(sent(&claimed[0]), expected);
        let again = ClaimRequest { sent: Sent::Again, ..request };
        assert_eq!(scene.engine.claim(again).await, Ok(claimed.clone()));
        assert_eq!(sent(&scene.retry(&claimed[0]).await), expected);
    })
    .await;
}

#[tokio::test]
async fn what_comes_after_the_decision_is_passed_to_no_attempt() {
    on_both("late", async |storage| {
        let scene = Scene::on(storage, &Settings::default(), join(RACE)).await;
        let first = scene.claim().await;
        scene.end(&first, "a", Outcome::Succeeded).await;
        let claimed = scene.one().await;
        assert_eq!(sent(&claimed), [success("left", "a")]);
        scene.end(&first, "b", Outcome::Succeeded).await;
        let second = scene.retry(&claimed).await;
        assert_eq!((second.execution.attempt, sent(&second)), (2, vec![success("left", "a")]));
        scene.end(&[second], "c", Outcome::Failed).await;
        // Another incarnation, another decision: both have ended by then.
        let scope = ReplayScope::From(scene.flow.execution("c"));
        let request = scene.engine.request_id();
        scene.engine.replay(scene.flow.id, scope, request).await.expect("nothing runs");
        let both = [success("left", "a"), success("right", "b")];
        assert_eq!(sent(&scene.one().await), both);
    })
    .await;
}

#[tokio::test]
async fn an_upstream_that_is_replayed_changes_nothing_for_a_join_that_is_not() {
    on_both("replayed", async |storage| {
        let scene = Scene::on(storage, &Settings::default(), join(RACE)).await;
        let first = scene.claim().await;
        scene.end(&first, "a", Outcome::Failed).await;
        let failure = [("left".to_owned(), Outcome::Failed, None)];
        let claimed = scene.one().await;
        assert_eq!(sent(&claimed), failure);
        let request = scene.engine.request_id();
        let scope = ReplayScope::Failed;
        let replayed = scene.engine.replay(scene.flow.id, scope, request).await;
        let replayed = replayed.expect("what failed does not run").members;
        assert_eq!(replayed, [scene.flow.execution("a")]);
        let again = scene.claim().await;
        scene.end(&again, "a", Outcome::Succeeded).await;
        assert_eq!(sent(&scene.retry(&claimed).await), failure);
    })
    .await;
}

#[tokio::test]
async fn an_extension_may_pass_something_on_to_what_is_there() {
    on_both("extended", async |storage| {
        let spec = FlowSpec::builder().execution("a").execution("b").execution("c").edge("a", "c");
        let scene = Scene::on(storage, &Settings::default(), spec).await;
        let first = scene.claim().await;
        scene.end(&first, "b", Outcome::Succeeded).await;
        let passes = |name| EdgeSpec::new("b", name).passes_as("extra");
        let additions = Additions::new().execution("d").edge_spec(passes("c"));
        let additions = additions.edge_spec(passes("d"));
        let request = scene.engine.request_id();
        let extended = scene.engine.extend(scene.flow.id, additions, None, request).await;
        extended.expect("the flow takes it");
        assert_eq!(sent(&scene.one().await), [success("extra", "b")]);
        scene.end(&first, "a", Outcome::Succeeded).await;
        assert_eq!(sent(&scene.one().await), [success("extra", "b")]);
    })
    .await;
}

#[tokio::test]
async fn what_is_too_large_for_a_lease_is_read_in_pages_under_it() {
    on_both("paged", async |storage| {
        let names = ["a", "b", "c", "d", "e"];
        let mut spec = FlowSpec::builder().execution_spec(retried("sum"));
        for name in names {
            spec = spec.execution(name).edge_spec(EdgeSpec::new(name, "sum").passes_as(name));
        }
        // Two results of six bytes fit.
        let limits = Limits { inputs_max_bytes: 13, ..Limits::default() };
        let scene = Scene::on(storage, &Settings { limits, ..Settings::default() }, spec).await;
        let first = scene.claim().await;
        for name in names {
            scene.end(&first, name, Outcome::Succeeded).await;
        }
        let claimed = scene.one().await;
        assert_eq!(claimed.inputs, Inputs::Paged);
        let (token, engine) = (claimed.token(), &scene.engine);
        let (mut inputs, mut after, mut pages) = (Vec::new(), None, Vec::new());
        loop {
            let page = engine.read_inputs(token, after, 1_000).await.expect("the lease is held");
            pages.push(page.inputs.len());
            inputs.extend(page.inputs);
            after = page.next_cursor;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, [2, 2, 1]);
        assert_eq!(told(&inputs), names.map(|name| success(name, name)));
        let one = engine.read_inputs(token, None, 1).await.expect("the lease is held");
        assert_eq!((one.inputs.len(), one.next_cursor), (1, Some(inputs[0].key.upstream)));
        let none = engine.read_inputs(token, None, 0).await.expect("the lease is held");
        assert_eq!((none.inputs.len(), none.next_cursor), (0, None));
        let second = scene.retry(&claimed).await;
        assert_eq!(second.inputs, Inputs::Paged);
        let lost = engine.read_inputs(token, None, 1).await;
        assert!(matches!(lost, Err(EngineError::LeaseLost(_))), "{lost:?}");
    })
    .await;
}
