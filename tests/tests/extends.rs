//! Extensions of a flow on a real SQLite database: what may be added, what is decided on the spot,
//! and what is refused by name.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{Additions, EdgeSpec, FlowBuilder, FlowSpec, Limits};
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::extend::Extended;
use sluicegate::operations::report::Report;
use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
use sluicegate::state::{Cause, ClosePolicy, PublicState};
use sluicegate::storage::Scope;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError, Settings};

const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };

struct Scene {
    engine: Engine<SqliteStorage, SystemEnvironment>,
    flow: FlowKey,
}

impl Scene {
    async fn of(spec: FlowBuilder) -> Self {
        Self::within(spec, Limits::default()).await
    }

    async fn within(spec: FlowBuilder, limits: Limits) -> Self {
        let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
        let settings = Settings { limits, ..Settings::default() };
        let engine = Engine::new(storage, SystemEnvironment::new(), settings);
        let flow = engine.submit(spec.build()).await.expect("the flow is valid").flow();
        Self { engine, flow }
    }

    async fn try_extend(&self, additions: Additions) -> Result<Extended, EngineError> {
        self.engine.extend(self.flow.id, additions, None, self.engine.request_id()).await
    }

    async fn extend(&self, additions: Additions) -> u64 {
        self.try_extend(additions).await.expect("the flow may grow").revision
    }

    /// The message of a refusal, which must have changed nothing.
    async fn refuses(&self, additions: Additions) -> String {
        let before = self.engine.describe_flow(self.flow.id).await.expect("the flow exists");
        let refused = self.try_extend(additions).await.expect_err("the flow may not grow so");
        let after = self.engine.describe_flow(self.flow.id).await.expect("the flow exists");
        assert_eq!(before, after, "{refused}");
        refused.to_string()
    }

    /// Claims everything and ends it, until nothing is left; `fails` fail for good.
    async fn run(&self, fails: &[&str]) {
        loop {
            let request = ClaimRequest {
                limit: 100,
                lease: Duration::from_mins(1),
                ..ClaimRequest::new(self.engine.request_id(), "worker")
            };
            let grants = self.engine.claim(request).await.expect("the claim succeeds");
            for grant in &grants {
                let result: Arc<[u8]> = Arc::from(*b"{}");
                let report = match fails.contains(&&*grant.definition.name) {
                    true => Report::FailFatal(result),
                    false => Report::Complete(result),
                };
                self.engine.report(grant.token(), report).await.expect("the lease is held");
            }
            self.engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
            self.engine.sibling_tick(&Scope::default()).await.expect("the tick succeeds");
            if grants.is_empty() {
                self.engine.summary_tick(&Scope::default()).await.expect("the tick succeeds");
                return;
            }
        }
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
        self.engine.flow_summary(self.flow.id).await.expect("the flow exists").status
    }
}

fn chain() -> FlowBuilder {
    FlowSpec::builder().execution("a").execution("b").edge("a", "b")
}

#[tokio::test]
async fn a_branch_is_added_beside_a_running_flow() {
    let scene = Scene::of(chain()).await;
    let branch =
        Additions::new().execution("c").execution("d").edge("a", "c").edge("c", "d").edge("c", "b");
    assert_eq!(scene.extend(branch).await, 1);
    scene.is("c", PublicState::WaitingChildren).await;
    scene.run(&["c"]).await;
    scene.is("a", PublicState::Completed).await;
    scene.is("c", PublicState::Failed).await;
    scene.is("d", PublicState::Skipped).await;
    scene.is("b", PublicState::Skipped).await;
}

#[tokio::test]
async fn edges_of_what_has_ended_are_resolved_on_the_spot() {
    let scene = Scene::of(chain().execution("f")).await;
    scene.run(&["f"]).await;
    assert_eq!(scene.status().await, FlowStatus::Failed);
    let more = Additions::new()
        .execution("ready")
        .execution("skipped")
        .execution("below")
        .execution("handles")
        .edge("a", "ready")
        .edge("b", "ready")
        .edge("f", "skipped")
        .edge("skipped", "below")
        .edge_spec(EdgeSpec::new("f", "handles").accepts(AcceptSet::ON_FAILURE));
    scene.extend(more).await;
    scene.is("ready", PublicState::Waiting).await;
    scene.is("handles", PublicState::Waiting).await;
    assert_eq!(scene.state("skipped").await, (PublicState::Skipped, Some(Cause::Unsatisfiable)));
    scene.is("below", PublicState::Skipped).await;
    assert_eq!(scene.status().await, FlowStatus::Open, "what was over is open again");
    scene.run(&[]).await;
    assert_eq!(scene.status().await, FlowStatus::Completed, "the failure is handled now");
}

#[tokio::test]
async fn a_race_that_is_decided_at_birth_asks_for_its_losers() {
    let scene = Scene::of(FlowSpec::builder().execution("won").execution("lost")).await;
    scene.run(&[]).await;
    let race = Additions::new()
        .execution("slow")
        .execution("end")
        .edge("won", "end")
        .edge("slow", "end")
        .join("end", RACE);
    scene.extend(race).await;
    scene.is("end", PublicState::Waiting).await;
    scene.engine.sibling_tick(&Scope::default()).await.expect("the tick succeeds");
    assert_eq!(scene.state("slow").await, (PublicState::Cancelled, Some(Cause::Sibling)));
}

#[tokio::test]
async fn a_repetition_finds_its_effect_and_other_content_is_a_conflict() {
    let scene = Scene::of(chain()).await;
    let (engine, flow) = (&scene.engine, scene.flow.id);
    let request = engine.request_id();
    let more = || Additions::new().execution("c").edge("a", "c");
    let first = engine.extend(flow, more(), Some(0), request).await;
    assert_eq!(first, Ok(Extended { flow: scene.flow, revision: 1 }));
    assert_eq!(engine.extend(flow, more(), Some(0), request).await, first);
    let other = engine.extend(flow, more().execution("d"), Some(0), request).await;
    assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
    let late = engine.extend(flow, Additions::new().execution("d"), Some(0), engine.request_id());
    let late = late.await.expect_err("the flow has grown").to_string();
    assert!(late.contains("revision 1, not 0"), "{late}");
    let described = engine.describe_flow(flow).await.expect("the flow exists");
    assert_eq!((described.revision, described.executions.len()), (1, 3));
    let cancelled = engine.cancel_flow(flow, ClosePolicy::FlowOnly, engine.request_id()).await;
    cancelled.expect("the cancel succeeds");
    assert_eq!(engine.extend(flow, more(), Some(0), request).await, first, "closed since");
}

#[tokio::test]
async fn what_may_not_be_added_is_refused_by_name() {
    let scene = Scene::of(chain().execution("c").edge("b", "c")).await;
    let says = async |additions: Additions, words: &[&str]| {
        let said = scene.refuses(additions).await;
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    let new = || Additions::new().execution("x");
    says(Additions::new(), &["nothing to add"]).await;
    says(Additions::new().execution("b"), &["`b` exists in the flow already"]).await;
    says(new().edge("gone", "x"), &["names `gone`"]).await;
    says(new().edge("x", "gone"), &["names `gone`"]).await;
    says(new().edge("x", "x"), &["`x` has an edge to itself"]).await;
    says(Additions::new().edge("a", "b"), &["`a` -> `b` exists in the flow already"]).await;
    says(Additions::new().edge("b", "b"), &["`b` has an edge to itself"]).await;
    says(new().edge("x", "a"), &["`a` takes no new inbound edge", "waits for nothing"]).await;
    says(Additions::new().edge("c", "b"), &["cycle b -> c -> b"]).await;
    says(new().edge("c", "x").edge("x", "b"), &["cycle", "x -> b", "c -> x"]).await;
    says(new().join("b", RACE), &["group `b` is not added here", "set_edge_group_policy"]).await;
    says(new().join("x", RACE), &["`x` joins by any_of but has no inbound edge"]).await;
    scene.run(&[]).await;
    says(new().edge("x", "b"), &["`b` takes no new inbound edge", "no longer blocked"]).await;
    let nobody = sluicegate::identity::FlowId::from_parts(1, [7; 10]);
    let missing = scene.engine.extend(nobody, new(), None, scene.engine.request_id()).await;
    assert_eq!(missing, Err(EngineError::FlowNotFound(nobody)));
}

#[tokio::test]
async fn a_flow_that_was_closed_does_not_grow() {
    for policy in ClosePolicy::ALL {
        let scene = Scene::of(chain()).await;
        let request = scene.engine.request_id();
        scene.engine.cancel_flow(scene.flow.id, policy, request).await.expect("it succeeds");
        let said = scene.refuses(Additions::new().execution("x")).await;
        assert!(said.contains(policy.name()), "{said}");
    }
}

#[tokio::test]
async fn inputs_of_a_join_that_grows_keep_their_names() {
    let named = EdgeSpec::new("a", "b").passes_as("left");
    let spec = FlowSpec::builder().execution("a").execution("b").edge_spec(named);
    let scene = Scene::of(spec).await;
    let more = |name: &str| {
        Additions::new().execution("x").edge_spec(EdgeSpec::new("x", "b").passes_as(name))
    };
    let said = scene.refuses(more("left")).await;
    assert!(said.contains("2 edges into `b` pass their result as `left`"), "{said}");
    scene.extend(more("right")).await;
}

#[tokio::test]
async fn limits_are_those_of_the_whole_flow() {
    let limits = Limits { executions_max: 4, edges_max: 2, in_degree_max: 2, ..Limits::default() };
    let scene = Scene::within(chain(), limits).await;
    let nodes =
        |names: &[&str]| names.iter().fold(Additions::new(), |all, name| all.execution(*name));
    let cases = [
        (nodes(&["x", "y", "z"]), "5 executions, the limit is 4"),
        (nodes(&["x"]).edge("a", "x").edge("b", "x"), "3 edges, the limit is 2"),
        (nodes(&["x", "y"]).edge("x", "b").edge("y", "b"), "3 inbound edges, the limit is 2"),
    ];
    for (additions, words) in cases {
        let refused = scene.try_extend(additions).await;
        let Err(EngineError::LimitExceeded(said)) = refused else { panic!("{refused:?}") };
        assert!(said.contains(words), "{said}");
    }
    scene.extend(nodes(&["x", "y"]).edge("x", "b")).await;
}

#[test]
fn additions_have_a_json_form() {
    let more = Additions::new().execution("x").edge("a", "x").edge("b", "x").join("x", RACE);
    let text = serde_json::to_string(&more).expect("additions serialize");
    let expected = concat!(
        r#"{"executions":[{"name":"x"}],"#,
        r#""edges":[{"from":"a","to":"x"},{"from":"b","to":"x"}],"#,
        r#""groups":{"x":{"join":"any_of","on_satisfied":"cancel_remaining"}}}"#,
    );
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Additions>(&text).expect("it reads back"), more);
    assert!(serde_json::from_str::<Additions>(r#"{"nodes":[]}"#).is_err());
}
