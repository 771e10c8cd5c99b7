//! Attempts that are given back: a snooze is never charged, a release up to a bound that the result
//! names once it has ended an execution.

use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::failure::Failure;
use sluicegate::flow::{ExecutionSpec, FlowSpec, Limits};
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::describe::ExecutionDetails;
use sluicegate::operations::report::Report;
use sluicegate::retry::RetryPolicy;
use sluicegate::state::{Cause, Outcome, PublicState};
use sluicegate::storage::Reported;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, Settings};

const READY: Reported = Reported::Requeued { delay_us: 0 };

struct Home {
    engine: Engine<SqliteStorage, SystemEnvironment>,
    flow: FlowKey,
}

impl Home {
    /// A flow of one execution that may be tried once.
    async fn new(limits: Limits) -> Self {
        let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
        let settings = Settings { limits, ..Settings::default() };
        let engine = Engine::new(storage, SystemEnvironment::new(), settings);
        let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        let once = ExecutionSpec::new("a").retry(retry);
        let spec = FlowSpec::builder().execution_spec(once).build();
        let flow = engine.submit(spec).await.expect("the flow is valid").flow();
        Self { engine, flow }
    }

    /// Claims the execution and reports that of it.
    async fn tried(&self, report: Report) -> Reported {
        let request = ClaimRequest::new(self.engine.request_id(), "w");
        let grants = self.engine.claim(request).await.expect("the claim succeeds");
        let token = grants.first().expect("it may be claimed").token();
        self.engine.report(token, report).await.expect("the lease is held")
    }

    async fn details(&self) -> ExecutionDetails {
        let execution = self.flow.execution("a");
        self.engine.describe_execution(execution).await.expect("it exists")
    }
}

#[tokio::test]
async fn snoozing_never_ends_an_execution_and_is_never_charged() {
    let limits = Limits { give_backs_max: 3, ..Limits::default() };
    let home = Home::new(limits).await;
    for _ in 0..limits.give_backs_max + 101 {
        assert_eq!(home.tried(Report::Snooze(Duration::ZERO)).await, READY);
    }
    assert_eq!(home.details().await.charged, 0);
    for _ in 0..limits.give_backs_max {
        assert_eq!(home.tried(Report::Release).await, READY, "no snooze was a release");
    }
    let done = home.tried(Report::Complete([].into())).await;
    assert_eq!(done, Reported::Finished(Outcome::Succeeded));
    assert_eq!(home.details().await.description.attempt, 3 + 101 + 3 + 1);
}

#[tokio::test]
async fn an_execution_that_fails_by_its_releases_says_so_and_names_their_bound() {
    let home = Home::new(Limits { give_backs_max: 2, ..Limits::default() }).await;
    assert_eq!(home.tried(Report::Release).await, READY);
    assert_eq!(home.tried(Report::Release).await, READY);
    assert_eq!(home.details().await.charged, 0);
    let ended = home.tried(Report::Release).await;
    assert_eq!(ended, Reported::Finished(Outcome::Failed));
    let details = home.details().await;
    assert_eq!(details.description.state, PublicState::Failed);
    assert_eq!(details.description.cause, Some(Cause::AttemptsExhausted));
    let result = details.result.expect("a failure has a result");
    let failure: Failure = serde_json::from_slice(&result).expect("it is one");
    let expected = "released more than 2 times (`give_backs_max`), and no attempt is left";
    assert_eq!(failure.error, expected);
}
