//! The limit of a result, as a service meets it: what is larger is refused whole, and the lease
//! goes on.

use std::sync::Arc;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{FlowSpec, Limits};
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::report::Report;
use sluicegate::state::{Outcome, PublicState};
use sluicegate::storage::Reported;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};

type Service = Engine<SqliteStorage, SystemEnvironment>;

const LARGE: [u8; 9] = *b"\"1234567\"";
const ALLOWED: [u8; 8] = *b"\"123456\"";

struct Home {
    directory: tempfile::TempDir,
    engine: Service,
    flow: FlowKey,
    tokens: Vec<LeaseToken>,
}

impl Home {
    /// Two executions that a worker holds and a third, where a result has at most eight bytes.
    async fn held() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options = SqliteOptions::file(directory.path().join("flows.db"));
        let storage = SqliteStorage::open(options).expect("it opens");
        let limits = Limits { result_max_bytes: 8, ..Limits::default() };
        let settings = Settings { limits, ..Settings::default() };
        let engine = Engine::new(storage, SystemEnvironment::new(), settings);
        let spec = FlowSpec::builder().execution("a").execution("b").execution("c").build();
        let flow = engine.submit(spec).await.expect("the flow is valid").flow();
        let request = ClaimRequest { limit: 2, ..ClaimRequest::new(engine.request_id(), "w") };
        let grants = engine.claim(request).await.expect("the claim succeeds");
        let tokens = grants.iter().map(|grant| grant.token()).collect();
        Self { directory, engine, flow, tokens }
    }

    async fn states(&self) -> Vec<PublicState> {
        let described = self.engine.describe_flow(self.flow.id).await.expect("it exists");
        let mut states: Vec<PublicState> =
            described.executions.iter().map(|one| one.state).collect();
        states.sort_unstable_by_key(|state| *state == PublicState::Waiting);
        states
    }
}

fn large(token: LeaseToken) -> EngineError {
    let id = token.execution;
    let reason = "has 9 bytes, the limit is 8 (`result_max_bytes`)";
    EngineError::LimitExceeded(format!("result of execution {id} {reason}"))
}

#[tokio::test]
async fn a_result_beyond_the_limit_is_refused_and_nothing_changes() {
    let home = Home::held().await;
    let (engine, first, second) = (&home.engine, home.tokens[0], home.tokens[1]);
    let untouched = [PublicState::Active, PublicState::Active, PublicState::Waiting];
    let bytes: Arc<[u8]> = Arc::from(LARGE);
    for report in [Report::Complete, Report::FailFatal, Report::FailRetryable] {
        assert_eq!(engine.report(first, report(bytes.clone())).await, Err(large(first)));
    }
    let fine = Report::Complete(Arc::from(ALLOWED));
    let reports = vec![(first, fine.clone()), (second, Report::Complete(bytes.clone()))];
    assert_eq!(engine.report_all(reports.clone()).await, Err(large(second)));
    let request = ClaimRequest::new(engine.request_id(), "w");
    let turned_over = engine.complete_and_claim(reports, request).await;
    assert_eq!(turned_over, Err(large(second)), "nor is anything claimed");
    let mut other = rusqlite::Connection::open(home.directory.path().join("flows.db"))
        .expect("the file is there");
    let transaction = other.transaction().expect("it begins");
    assert_eq!(engine.complete_in(&transaction, first, bytes), Err(large(first)));
    transaction.commit().expect("it commits");
    assert_eq!(home.states().await, untouched);
    let done = engine.report(first, fine).await;
    assert_eq!(done, Ok(Reported::Finished(Outcome::Succeeded)), "the lease has lived on");
}
