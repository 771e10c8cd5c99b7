//! Replays on a real SQLite database and a real Postgres: what starts again, what stays, what is
//! decided on the spot, and what is refused by name.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowBuilder, FlowSpec};
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::inputs::Claimed;
use sluicegate::operations::replay::Replayed;
use sluicegate::operations::report::Report;
use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
use sluicegate::replay::ReplayScope;
use sluicegate::state::{Cause, ClosePolicy, PublicState};
use sluicegate::storage::Scope;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::shared;

const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };

struct Scene {
    engine: Engine<BoxStorage, SystemEnvironment>,
    flow: FlowKey,
}

impl Scene {
    async fn of(spec: FlowBuilder) -> Self {
        let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
        Self::on(BoxStorage::new(storage), spec).await
    }

    async fn on(storage: BoxStorage, spec: FlowBuilder) -> Self {
        let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
        let flow = engine.submit(spec.build()).await.expect("the flow is valid").flow();
        Self { engine, flow }
    }

    async fn claim(&self) -> Vec<Claimed> {
        let request = ClaimRequest {
            limit: 100,
            lease: Duration::from_mins(1),
            ..ClaimRequest::new(self.engine.request_id(), "worker")
        };
        self.engine.claim(request).await.expect("the claim succeeds")
    }

    async fn settle(&self) {
        self.engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
        self.engine.sibling_tick(&Scope::default()).await.expect("the tick succeeds");
        self.engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
        self.engine.summary_tick(&Scope::default()).await.expect("the tick succeeds");
    }

    async fn end(&self, grant: &Claimed, fails: &[&str]) {
        let result: Arc<[u8]> = Arc::from(*b"{}");
        let report = match fails.contains(&&*grant.definition.name) {
            true => Report::FailFatal(result),
            false => Report::Complete(result),
        };
        self.engine.report(grant.token(), report).await.expect("the lease is held");
    }

    /// Claims everything and ends it, until nothing is left; `fails` fail for good. Returns the
    /// names of what ran, in order.
    async fn run(&self, fails: &[&str]) -> Vec<String> {
        let mut ran = Vec::new();
        loop {
            let mut grants = self.claim().await;
            grants.sort_by(|left, right| left.definition.name.cmp(&right.definition.name));
            for grant in &grants {
                self.end(grant, fails).await;
                ran.push(grant.definition.name.to_string());
            }
            self.settle().await;
            if grants.is_empty() {
                return ran;
            }
        }
    }

    fn from(&self, name: &str) -> ReplayScope {
        ReplayScope::From(self.flow.execution(name))
    }

    async fn try_replay(&self, scope: ReplayScope) -> Result<Replayed, EngineError> {
        self.engine.replay(self.flow.id, scope, self.engine.request_id()).await
    }

    /// The names of what a replay starts again, which a preview has named just before.
    async fn replay(&self, scope: ReplayScope) -> Vec<String> {
        let preview = self.engine.preview_replay(self.flow.id, scope).await;
        let preview = preview.expect("the scope is of the flow");
        let replayed = self.try_replay(scope).await.expect("nothing runs");
        let ids: Vec<_> = preview.members.iter().map(|one| one.id).collect();
        assert_eq!(replayed.members, ids, "the preview named something else");
        let mut names: Vec<String> =
            preview.members.iter().map(|one| one.name.to_string()).collect();
        names.sort_unstable();
        names
    }

    async fn state(&self, name: &str) -> (PublicState, Option<Cause>) {
        let described = self.engine.describe_flow(self.flow.id).await.expect("the flow exists");
        let one = described.executions.iter().find(|one| &*one.name == name);
        let one = one.unwrap_or_else(|| panic!("{name} exists"));
        (one.state, one.cause)
    }

    async fn is(&self, name: &str, state: PublicState) {
        assert_eq!(self.state(name).await.0, state, "{name}");
    }

    async fn status(&self) -> FlowStatus {
        self.settle().await;
        self.engine.flow_summary(self.flow.id).await.expect("the flow exists").status
    }
}

fn chain() -> FlowBuilder {
    FlowSpec::builder().execution("a").execution("b").execution("c").edge("a", "b").edge("b", "c")
}

async fn a_failed_flow_is_replayed_and_completes(storage: BoxStorage) {
    let scene = Scene::on(storage, chain()).await;
    assert_eq!(scene.run(&["b"]).await, ["a", "b"]);
    assert_eq!(scene.status().await, FlowStatus::Failed);
    assert_eq!(scene.replay(ReplayScope::Failed).await, ["b", "c"]);
    assert_ne!(scene.status().await, FlowStatus::Failed, "the flow is open again");
    scene.is("a", PublicState::Completed).await;
    scene.is("b", PublicState::Waiting).await;
    scene.is("c", PublicState::WaitingChildren).await;
    assert_eq!(scene.run(&[]).await, ["b", "c"]);
    assert_eq!(scene.status().await, FlowStatus::Completed);
    assert_eq!(scene.replay(scene.from("b")).await, ["b", "c"]);
    assert_eq!(scene.run(&[]).await, ["b", "c"]);
    assert_eq!(scene.replay(ReplayScope::All).await, ["a", "b", "c"]);
    assert_eq!(scene.run(&[]).await, ["a", "b", "c"]);
    assert_eq!(scene.status().await, FlowStatus::Completed);
}

#[tokio::test]
async fn on_sqlite_a_failed_flow_is_replayed_and_completes() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    a_failed_flow_is_replayed_and_completes(BoxStorage::new(storage)).await;
}

#[tokio::test]
async fn on_postgres_a_failed_flow_is_replayed_and_completes() {
    let options = PostgresOptions::new(&shared().url()).expect("the cluster's URL is one");
    let storage = PostgresStorage::open(options.schema("replays")).await.expect("it opens");
    a_failed_flow_is_replayed_and_completes(BoxStorage::new(storage)).await;
}

#[tokio::test]
async fn a_repeated_replay_answers_the_same_and_another_question_is_refused() {
    let scene = Scene::of(chain()).await;
    scene.run(&["a"]).await;
    let (flow, request) = (scene.flow.id, scene.engine.request_id());
    let first = scene.engine.replay(flow, ReplayScope::Failed, request).await.expect("it replays");
    assert_eq!(first.members.len(), 3);
    let again = scene.engine.replay(flow, ReplayScope::Failed, request).await;
    assert_eq!(again.as_ref(), Ok(&first));
    // Kept over a replay, and whatever came of it.
    scene.run(&[]).await;
    scene.replay(ReplayScope::All).await;
    assert_eq!(scene.engine.replay(flow, ReplayScope::Failed, request).await, Ok(first));
    let other = scene.engine.replay(flow, ReplayScope::All, request).await;
    assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
}

#[tokio::test]
async fn what_runs_is_named_and_nothing_is_replayed() {
    let scene = Scene::of(chain()).await;
    let grants = scene.claim().await;
    let before = scene.engine.describe_flow(scene.flow.id).await.expect("the flow exists");
    let preview = scene.engine.preview_replay(scene.flow.id, ReplayScope::All).await;
    let preview = preview.expect("the flow exists");
    let in_the_way: Vec<&str> =
        preview.members.iter().filter(|one| one.is_in_the_way()).map(|one| &*one.name).collect();
    assert_eq!(in_the_way, ["a"]);
    let refused = scene.try_replay(ReplayScope::All).await.expect_err("a runs");
    let EngineError::Running { execution, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(execution, scene.flow.execution("a"));
    let after = scene.engine.describe_flow(scene.flow.id).await.expect("the flow exists");
    assert_eq!(before, after);
    assert_eq!(scene.replay(scene.from("b")).await, ["b", "c"], "what waits may start again");
    scene.end(&grants[0], &[]).await;
    scene.settle().await;
    assert_eq!(scene.run(&[]).await, ["b", "c"]);
}

#[tokio::test]
async fn what_is_no_part_of_the_flow_is_named() {
    let scene = Scene::of(chain()).await;
    let missing = scene.try_replay(scene.from("x")).await;
    assert_eq!(missing, Err(EngineError::ExecutionNotFound(scene.flow.execution("x"))));
    let missing = scene.engine.preview_replay(scene.flow.id, scene.from("x")).await;
    assert_eq!(missing, Err(EngineError::ExecutionNotFound(scene.flow.execution("x"))));
    let nobody = sluicegate::identity::FlowId::from_parts(1, [7; 10]);
    let request = scene.engine.request_id();
    let missing = scene.engine.replay(nobody, ReplayScope::All, request).await;
    assert_eq!(missing, Err(EngineError::FlowNotFound(nobody)));
    let missing = scene.engine.preview_replay(nobody, ReplayScope::All).await;
    assert_eq!(missing, Err(EngineError::FlowNotFound(nobody)));
}

#[tokio::test]
async fn a_flow_without_a_failure_stays_as_it_is() {
    let scene = Scene::of(chain()).await;
    scene.run(&[]).await;
    let before = scene.engine.describe_flow(scene.flow.id).await.expect("the flow exists");
    assert!(scene.replay(ReplayScope::Failed).await.is_empty());
    let after = scene.engine.describe_flow(scene.flow.id).await.expect("the flow exists");
    assert_eq!(before, after);
    assert_eq!(scene.status().await, FlowStatus::Completed);
}

#[tokio::test]
async fn a_join_is_decided_anew_at_once_from_upstreams_that_have_ended() {
    let spec = FlowSpec::builder()
        .execution("done")
        .execution("bad")
        .execution("any")
        .execution("all")
        .edge("done", "any")
        .edge("bad", "any")
        .edge("done", "all")
        .edge("bad", "all")
        .join("any", JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun });
    let scene = Scene::of(spec).await;
    scene.run(&["bad", "any"]).await;
    scene.is("all", PublicState::Skipped).await;
    // Its upstreams have ended: it may start again, and waits for nothing.
    assert_eq!(scene.replay(scene.from("any")).await, ["any"]);
    scene.is("any", PublicState::Waiting).await;
    assert_eq!(scene.run(&[]).await, ["any"]);
    // What can not run again is skipped again.
    assert_eq!(scene.replay(scene.from("all")).await, ["all"]);
    scene.is("all", PublicState::Skipped).await;
    assert_eq!(scene.status().await, FlowStatus::Failed);
    assert_eq!(scene.replay(ReplayScope::Failed).await, ["all", "bad"]);
    assert_eq!(scene.run(&[]).await, ["all", "bad"].into_iter().rev().collect::<Vec<_>>());
    assert_eq!(scene.status().await, FlowStatus::Completed);
}

#[tokio::test]
async fn a_join_outside_keeps_what_it_has_of_an_execution_that_starts_again() {
    let failure = EdgeSpec { accepts: AcceptSet::ON_FAILURE, ..EdgeSpec::new("bad", "handler") };
    let spec = FlowSpec::builder().execution("bad").execution("handler").edge_spec(failure);
    let scene = Scene::of(spec).await;
    assert_eq!(scene.run(&["bad"]).await, ["bad", "handler"]);
    assert_eq!(scene.replay(ReplayScope::Failed).await, ["bad"]);
    assert_eq!(scene.run(&[]).await, ["bad"]);
    scene.is("handler", PublicState::Completed).await;
    assert_eq!(scene.status().await, FlowStatus::Completed);
}

#[tokio::test]
async fn a_race_is_run_again_with_its_losers() {
    let spec = FlowSpec::builder()
        .execution("fast")
        .execution("slow")
        .execution("join")
        .edge("fast", "join")
        .edge("slow", "join")
        .join("join", RACE);
    let scene = Scene::of(spec).await;
    let grants = scene.claim().await;
    let fast = grants.iter().find(|grant| &*grant.definition.name == "fast").expect("it is ready");
    scene.end(fast, &[]).await;
    scene.settle().await;
    assert_eq!(scene.state("slow").await, (PublicState::Cancelled, Some(Cause::Sibling)));
    assert_eq!(scene.run(&["join"]).await, ["join"]);
    // The winner has succeeded and stays; the join is satisfied by it, and the loser loses again.
    assert_eq!(scene.replay(ReplayScope::Failed).await, ["join", "slow"]);
    scene.settle().await;
    assert_eq!(scene.state("slow").await, (PublicState::Cancelled, Some(Cause::Sibling)));
    assert_eq!(scene.run(&[]).await, ["join"]);
    assert_eq!(scene.status().await, FlowStatus::Completed);
}

#[tokio::test]
async fn a_flow_that_was_cancelled_is_open_again() {
    for policy in ClosePolicy::ALL {
        let scene = Scene::of(chain()).await;
        let request = scene.engine.request_id();
        scene.engine.cancel_flow(scene.flow.id, policy, request).await.expect("it succeeds");
        let scope =
            if policy == ClosePolicy::FlowOnly { ReplayScope::All } else { ReplayScope::Failed };
        assert_eq!(scene.replay(scope).await, ["a", "b", "c"]);
        assert_eq!(scene.run(&[]).await, ["a", "b", "c"]);
        assert_eq!(scene.status().await, FlowStatus::Completed);
        scene.engine.cancel_backlog_tick(&Scope::default()).await.expect("the tick succeeds");
        let described = scene.engine.describe_flow(scene.flow.id).await.expect("the flow exists");
        assert_eq!(described.counts.get(&PublicState::Completed), Some(&3));
    }
}

#[tokio::test]
async fn a_late_report_of_an_earlier_life_is_refused() {
    let scene = Scene::of(FlowSpec::builder().execution("a")).await;
    let grants = scene.claim().await;
    let old: LeaseToken = grants[0].token();
    scene.end(&grants[0], &["a"]).await;
    scene.settle().await;
    scene.replay(ReplayScope::Failed).await;
    let grants = scene.claim().await;
    assert_eq!((grants[0].execution.incarnation, grants[0].execution.attempt), (1, 1));
    let late = scene.engine.report(old, Report::Complete(Arc::from(*b"{}"))).await;
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
    scene.end(&grants[0], &[]).await;
    assert_eq!(scene.status().await, FlowStatus::Completed);
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_lifted() {
    let late = ExecutionSpec { deadline_ms: Some(1), ..ExecutionSpec::new("late") };
    let ahead = ExecutionSpec { deadline_ms: Some(3_600_000), ..ExecutionSpec::new("ahead") };
    let spec = FlowSpec::builder().execution_spec(late).execution_spec(ahead);
    let scene = Scene::of(spec).await;
    while scene.state("late").await.0 != PublicState::Expired {
        scene.engine.reaper_tick(&Scope::default()).await.expect("the tick succeeds");
    }
    scene.run(&["ahead"]).await;
    assert_eq!(scene.replay(ReplayScope::Failed).await, ["ahead", "late"]);
    scene.engine.reaper_tick(&Scope::default()).await.expect("the tick succeeds");
    let grants = scene.claim().await;
    let deadline = |name: &str| {
        let grant = grants.iter().find(|grant| &*grant.definition.name == name);
        grant.expect("it is ready").execution.deadline
    };
    assert_eq!(deadline("late"), None);
    assert!(deadline("ahead").is_some());
}
