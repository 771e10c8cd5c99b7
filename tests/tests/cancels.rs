//! Cancels on a real SQLite database: the worked examples that pin the rule of sibling
//! cancellation, the three policies of a cancelled flow, one execution, and joins that change their
//! policy before it matters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{Additions, FlowBuilder, FlowSpec};
use sluicegate::identity::FlowKey;
use sluicegate::operations::cancel::{CancelReport, CancelledExecution, Cancelling};
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::report::Report;
use sluicegate::operations::set_policy::PolicySet;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::replay::ReplayScope;
use sluicegate::state::{Cause, ClosePolicy, Outcome, PublicState};
use sluicegate::storage::Scope;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};

const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };
const LET_RUN: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };

const ALL: ClosePolicy = ClosePolicy::CancelAll;
const PENDING: ClosePolicy = ClosePolicy::CancelPending;

/// A flow whose ready executions are all claimed as soon as they are.
struct Scene {
    engine: Engine<SqliteStorage, SystemEnvironment>,
    flow: FlowKey,
    leases: BTreeMap<String, LeaseToken>,
}

impl Scene {
    async fn of(spec: FlowSpec, cancel_batch: u32) -> Self {
        let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
        let settings = Settings { cancel_batch, ..Settings::default() };
        let engine = Engine::new(storage, SystemEnvironment::new(), settings);
        let flow = engine.submit(spec).await.expect("the flow is valid").flow();
        Self { engine, flow, leases: BTreeMap::new() }
    }

    async fn claim(&mut self) {
        let request = ClaimRequest {
            limit: 100,
            lease: Duration::from_mins(1),
            ..ClaimRequest::new(self.engine.request_id(), "worker")
        };
        for grant in self.engine.claim(request).await.expect("the claim succeeds") {
            self.leases.insert(grant.definition.name.to_string(), grant.token());
        }
    }

    /// Ends an execution, lets the cascade run out and claims what became ready.
    async fn ends(&mut self, name: &str, report: Report) {
        let token = self.leases[name];
        self.engine.report(token, report).await.expect("the lease is held");
        self.settle().await;
    }

    async fn succeeds(&mut self, name: &str) {
        self.ends(name, Report::Complete(Arc::from(*b"{}"))).await;
    }

    async fn fails(&mut self, name: &str) {
        self.ends(name, Report::FailFatal(Arc::from(*b"{}"))).await;
    }

    async fn settle(&mut self) {
        let scope = Scope::default();
        loop {
            let hopped = self.engine.dispatch_pass(&scope).await.expect("the pass succeeds");
            let drained = self.engine.sibling_tick(&scope).await.expect("the tick succeeds");
            assert_eq!(hopped.errors + drained.errors, 0);
            if hopped.reconciled + drained.reconciled == 0 {
                break;
            }
        }
        self.claim().await;
    }

    async fn state(&self, name: &str) -> (PublicState, Option<Cause>) {
        let described = self.engine.describe_flow(self.flow.id).await.expect("the flow exists");
        let one = described.executions.iter().find(|one| &*one.name == name);
        let one = one.unwrap_or_else(|| panic!("{name} exists"));
        (one.state, one.cause)
    }

    async fn is_lost(&self, name: &str) {
        let state = self.state(name).await;
        assert_eq!(state, (PublicState::Cancelled, Some(Cause::Sibling)), "{name}");
    }

    async fn is_running(&self, name: &str) {
        assert_eq!(self.state(name).await.0, PublicState::Active, "{name}");
    }

    async fn cancel(&self, policy: ClosePolicy) -> CancelReport {
        let request = self.engine.request_id();
        let report = self.engine.cancel_flow(self.flow.id, policy, request).await;
        report.expect("the cancel succeeds")
    }

    fn names(&self, report: &CancelReport) -> Vec<&'static str> {
        let known = ["a", "b", "c", "d", "e"];
        let name = |id| known.into_iter().find(|name| self.flow.execution(name) == id);
        let mut names: Vec<&str> =
            report.cancelled.iter().map(|id| name(*id).expect("a member")).collect();
        names.sort_unstable();
        names
    }
}

async fn started(spec: FlowBuilder) -> Scene {
    let mut scene = Scene::of(spec.build(), 1_000).await;
    scene.claim().await;
    scene
}

fn nodes(names: &[&str]) -> FlowBuilder {
    names.iter().fold(FlowSpec::builder(), |flow, name| flow.execution(*name))
}

/// b feeds a race of a and b, and a join of b and c with that policy.
fn shared(right: JoinPolicy) -> FlowBuilder {
    nodes(&["a", "b", "c", "left", "right"])
        .edge("a", "left")
        .edge("b", "left")
        .edge("b", "right")
        .edge("c", "right")
        .join("left", RACE)
        .join("right", right)
}

#[tokio::test]
async fn an_extension_in_between_protects_the_loser_until_its_join_decides() {
    let race = nodes(&["a", "b", "c", "end"]).edge("a", "end").edge("b", "end").join("end", RACE);
    let mut scene = started(race).await;
    // The race is decided, and asks for its loser; before anybody serves it, another join needs it.
    let token = scene.leases["a"];
    let done = scene.engine.report(token, Report::Complete(Arc::from(*b"{}"))).await;
    done.expect("the lease is held");
    scene.engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
    let more = Additions::new().execution("both").edge("b", "both").edge("c", "both");
    let request = scene.engine.request_id();
    scene.engine.extend(scene.flow.id, more, None, request).await.expect("the flow may grow");
    scene.settle().await;
    scene.is_running("b").await;
    scene.fails("c").await;
    assert_eq!(scene.state("both").await.0, PublicState::Skipped);
    scene.is_lost("b").await;
}

#[tokio::test]
async fn a_replay_in_between_takes_the_request_back_until_the_race_is_decided_anew() {
    let race = nodes(&["a", "b", "end"]).edge("a", "end").edge("b", "end").join("end", RACE);
    let mut scene = started(race).await;
    // The race is decided, and asks for its loser; before anybody serves it, it is run again.
    let token = scene.leases["a"];
    let done = scene.engine.report(token, Report::Complete(Arc::from(*b"{}"))).await;
    done.expect("the lease is held");
    scene.engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
    let (again, request) = (scene.flow.execution("a"), scene.engine.request_id());
    let scope = ReplayScope::From(again);
    scene.engine.replay(scene.flow.id, scope, request).await.expect("nothing of it runs");
    scene.settle().await;
    scene.is_running("b").await;
    assert_eq!(scene.state("end").await.0, PublicState::WaitingChildren);
    scene.succeeds("a").await;
    scene.is_lost("b").await;
    scene.is_running("end").await;
}

#[tokio::test]
async fn the_loser_of_a_race_is_cancelled_and_its_worker_told() {
    let race = nodes(&["a", "b", "end"]).edge("a", "end").edge("b", "end").join("end", RACE);
    let mut scene = started(race).await;
    scene.succeeds("a").await;
    scene.is_lost("b").await;
    scene.is_running("end").await;
    let late = scene.engine.report(scene.leases["b"], Report::Complete(Arc::from(*b"{}"))).await;
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
}

#[tokio::test]
async fn a_shared_loser_is_cancelled_only_when_nothing_needs_it_any_more() {
    let mut scene = started(shared(RACE)).await;
    scene.succeeds("a").await;
    scene.is_running("b").await;
    scene.succeeds("c").await;
    scene.is_lost("b").await;
}

#[tokio::test]
async fn a_join_that_lets_run_protects_what_it_shares() {
    let mut scene = started(shared(LET_RUN)).await;
    scene.succeeds("a").await;
    scene.succeeds("c").await;
    scene.is_running("b").await;
    scene.succeeds("b").await;
}

#[tokio::test]
async fn a_quorum_out_of_reach_cancels_what_is_left() {
    let k = 2;
    let quorum = JoinPolicy::Quorum { k, on_satisfied: OnSatisfied::CancelRemaining };
    let vote = nodes(&["a", "b", "c", "end"])
        .edge("a", "end")
        .edge("b", "end")
        .edge("c", "end")
        .join("end", quorum);
    let mut scene = started(vote).await;
    scene.fails("a").await;
    scene.is_running("c").await;
    scene.fails("b").await;
    scene.is_lost("c").await;
    assert_eq!(scene.state("end").await, (PublicState::Skipped, Some(Cause::Unsatisfiable)));
}

#[tokio::test]
async fn a_loser_that_is_a_join_itself_is_cancelled_and_its_upstreams_run_on() {
    // The rule is not transitive: nobody asked for the upstreams of the loser.
    let nested = nodes(&["a", "x", "y", "inner", "end"])
        .edge("x", "inner")
        .edge("y", "inner")
        .edge("inner", "end")
        .edge("a", "end")
        .join("end", RACE);
    let mut scene = started(nested).await;
    scene.succeeds("a").await;
    scene.is_lost("inner").await;
    scene.is_running("x").await;
    scene.succeeds("x").await;
    scene.succeeds("y").await;
    scene.is_lost("inner").await;
}

#[tokio::test]
async fn two_decisions_at_once_cancel_what_both_share() {
    let mut scene = started(shared(RACE)).await;
    for name in ["a", "c"] {
        let done = Report::Complete(Arc::from(*b"{}"));
        scene.engine.report(scene.leases[name], done).await.expect("the lease is held");
    }
    scene.settle().await;
    scene.is_lost("b").await;
}

#[tokio::test]
async fn a_blocked_loser_never_starts() {
    let blocked = nodes(&["a", "gate", "b", "end"])
        .edge("gate", "b")
        .edge("a", "end")
        .edge("b", "end")
        .join("end", RACE);
    let mut scene = started(blocked).await;
    scene.succeeds("a").await;
    scene.is_lost("b").await;
    scene.succeeds("gate").await;
    scene.is_lost("b").await;
}

/// a runs, and b waits for it.
async fn busy(cancel_batch: u32) -> Scene {
    let spec = nodes(&["a", "b"]).edge("a", "b").build();
    let mut scene = Scene::of(spec, cancel_batch).await;
    scene.claim().await;
    scene
}

#[tokio::test]
async fn cancel_pending_lets_run_what_runs_and_starts_nothing() {
    let mut scene = busy(1_000).await;
    let report = scene.cancel(PENDING).await;
    assert_eq!(scene.names(&report), ["b"]);
    assert_eq!(report.progress, Cancelling::Done);
    scene.is_running("a").await;
    assert_eq!(scene.state("b").await, (PublicState::Cancelled, Some(Cause::Flow)));
    // What would become ready again is cancelled instead.
    let token = scene.leases["a"];
    let retried = scene.engine.report(token, Report::FailRetryable(Arc::from(*b"{}"))).await;
    let finished = sluicegate::storage::Reported::Finished(Outcome::Cancelled);
    assert_eq!(retried, Ok(finished));
    scene.settle().await;
    let ticked = scene.engine.cancel_backlog_tick(&Scope::default()).await.expect("it succeeds");
    assert_eq!((ticked.scanned, ticked.errors), (1, 0));
    let again = scene.engine.cancel_backlog_tick(&Scope::default()).await.expect("it succeeds");
    assert_eq!(again.scanned, 0, "a flow without open members is off the list");
}

#[tokio::test]
async fn cancel_all_revokes_leases_and_leaves_what_has_ended() {
    let mut scene = busy(1_000).await;
    scene.succeeds("a").await;
    let report = scene.cancel(ALL).await;
    assert_eq!(scene.names(&report), ["b"]);
    assert_eq!(scene.state("a").await, (PublicState::Completed, Some(Cause::Handler)));
    let late = scene.engine.report(scene.leases["b"], Report::Release).await;
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
}

#[tokio::test]
async fn a_mere_close_cancels_nobody() {
    let mut scene = busy(1_000).await;
    let report = scene.cancel(ClosePolicy::FlowOnly).await;
    assert_eq!((scene.names(&report), report.progress), (vec![], Cancelling::Done));
    scene.succeeds("a").await;
    scene.succeeds("b").await;
    assert_eq!(scene.state("b").await.0, PublicState::Completed);
}

#[tokio::test]
async fn the_same_and_a_weaker_policy_answer_what_was_done_and_a_stronger_one_escalates() {
    let scene = busy(1_000).await;
    let first = scene.cancel(PENDING).await;
    assert_eq!(scene.cancel(PENDING).await, first);
    assert_eq!(scene.cancel(ClosePolicy::FlowOnly).await, first);
    let stronger = scene.cancel(ALL).await;
    assert_eq!(scene.names(&stronger), ["a"]);
    assert_eq!(scene.cancel(PENDING).await, stronger);
}

#[tokio::test]
async fn a_repeated_cancel_answers_the_same_and_another_question_is_refused() {
    let scene = busy(1_000).await;
    let request = scene.engine.request_id();
    let first = scene.engine.cancel_flow(scene.flow.id, PENDING, request).await;
    assert_eq!(scene.engine.cancel_flow(scene.flow.id, PENDING, request).await, first);
    let other = scene.engine.cancel_flow(scene.flow.id, ALL, request).await;
    assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
    let mut missing = scene.flow.id;
    missing.0 = uuid::Uuid::from_u128(7);
    let none = scene.engine.cancel_flow(missing, ALL, scene.engine.request_id()).await;
    assert_eq!(none, Err(EngineError::FlowNotFound(missing)));
}

#[tokio::test]
async fn a_large_flow_is_cancelled_in_batches_and_the_reply_names_each_member_once() {
    let names: Vec<String> = (0..23).map(|number| format!("n{number:02}")).collect();
    let spec = names.iter().fold(FlowSpec::builder(), |flow, name| flow.execution(name.as_str()));
    let scene = Scene::of(spec.build(), 5).await;
    let request = scene.engine.request_id();
    let first = scene.engine.cancel_flow(scene.flow.id, ALL, request).await.expect("it succeeds");
    assert_eq!(first.cancelled.len(), 5);
    assert_eq!(first.progress, Cancelling::InProgress { remaining: 18 });
    let report = scene.engine.cancel_flow_and_wait(scene.flow.id, ALL, request).await;
    let report = report.expect("it succeeds");
    assert_eq!(report.progress, Cancelling::Done);
    assert!(report.cancelled.starts_with(&first.cancelled));
    let mut cancelled = report.cancelled;
    cancelled.sort_unstable();
    let mut all: Vec<_> = names.iter().map(|name| scene.flow.execution(name)).collect();
    all.sort_unstable();
    assert_eq!(cancelled, all);
}

#[tokio::test]
async fn a_replay_ends_the_wait_for_a_cancel_and_leaves_its_record() {
    let names: Vec<String> = (0..23).map(|number| format!("n{number:02}")).collect();
    let spec = names.iter().fold(FlowSpec::builder(), |flow, name| flow.execution(name.as_str()));
    let scene = Scene::of(spec.build(), 5).await;
    let request = scene.engine.request_id();
    let first = scene.engine.cancel_flow(scene.flow.id, ALL, request).await.expect("it succeeds");
    assert_eq!(first.progress, Cancelling::InProgress { remaining: 18 });
    let replay = scene.engine.request_id();
    let replayed = scene.engine.replay(scene.flow.id, ReplayScope::Failed, replay).await;
    assert_eq!(replayed.expect("nothing runs").members, first.cancelled);
    let waited = scene.engine.cancel_flow_and_wait(scene.flow.id, ALL, request).await;
    assert_eq!(waited, Ok(first.clone()), "the flow is open, and nobody goes on");
    // What a weaker cancel has done since says nothing of it.
    assert_eq!(scene.cancel(ClosePolicy::FlowOnly).await.progress, Cancelling::Done);
    let repeated = scene.engine.cancel_flow(scene.flow.id, ALL, request).await;
    assert_eq!(repeated, Ok(first));
}

#[tokio::test]
async fn one_execution_is_cancelled_once_and_what_waited_for_it_is_skipped() {
    let mut scene = busy(1_000).await;
    let id = scene.flow.execution("a");
    let request = scene.engine.request_id();
    for _ in 0..2 {
        let done = scene.engine.cancel_execution(id, "not wanted", request).await;
        assert_eq!(done, Ok(CancelledExecution::Cancelled));
    }
    assert_eq!(scene.state("a").await, (PublicState::Cancelled, Some(Cause::Operator)));
    let other = scene.engine.cancel_execution(id, "another reason", request).await;
    assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
    let again = scene.engine.cancel_execution(id, "again", scene.engine.request_id()).await;
    assert_eq!(again, Ok(CancelledExecution::AlreadyEnded(Outcome::Cancelled)));
    scene.settle().await;
    assert_eq!(scene.state("b").await, (PublicState::Skipped, Some(Cause::Unsatisfiable)));
    let nowhere = scene.flow.execution("nowhere");
    let none = scene.engine.cancel_execution(nowhere, "", scene.engine.request_id()).await;
    assert_eq!(none, Err(EngineError::ExecutionNotFound(nowhere)));
}

#[tokio::test]
async fn a_join_takes_another_policy_until_the_first_edge_is_resolved() {
    let race = nodes(&["a", "b", "end"]).edge("a", "end").edge("b", "end");
    let mut scene = started(race).await;
    let end = scene.flow.execution("end");
    let set = async |scene: &Scene, policy, request| {
        scene.engine.set_edge_group_policy(scene.flow.id, end, policy, request).await
    };
    let request = scene.engine.request_id();
    assert_eq!(set(&scene, RACE, request).await, Ok(PolicySet::Set));
    assert_eq!(set(&scene, RACE, request).await, Ok(PolicySet::Set), "the call is repeated");
    let other = set(&scene, LET_RUN, request).await;
    assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
    let fresh = scene.engine.request_id();
    assert_eq!(set(&scene, RACE, fresh).await, Ok(PolicySet::AlreadySet));
    for k in [0, 3, 1 << 31, u32::MAX] {
        let quorum = JoinPolicy::Quorum { k, on_satisfied: OnSatisfied::LetRun };
        let refused = set(&scene, quorum, fresh).await.expect_err("it does not fit");
        assert!(refused.to_string().contains("which has 2 edges"), "{refused}");
    }
    scene.succeeds("a").await;
    scene.is_lost("b").await;
    scene.is_running("end").await;
    let late = set(&scene, LET_RUN, fresh).await.expect_err("it has decided");
    assert!(matches!(late, EngineError::Refused(_)), "{late}");
    let root = scene.flow.execution("a");
    let none = scene.engine.set_edge_group_policy(scene.flow.id, root, RACE, fresh).await;
    assert_eq!(none, Err(EngineError::ExecutionNotFound(root)));
}
