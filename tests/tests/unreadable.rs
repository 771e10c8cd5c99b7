//! What cannot be read, on a real SQLite database and a real Postgres: lists show the others and
//! name it; given up it fails, what depends on it goes on, and nothing else is touched.

use std::sync::Arc;

use sluicegate::draw::GraphFormat;
use sluicegate::environment::SystemEnvironment;
use sluicegate::feed::{EventKind, LeaseChange, Wanted};
use sluicegate::flow::{EdgeSpec, FlowSpec};
use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::describe::Explanation;
use sluicegate::operations::give_up::GivenUp;
use sluicegate::operations::list::{Direction, ExecutionFilter, FlowFilter};
use sluicegate::operations::report::Report;
use sluicegate::policy::AcceptSet;
use sluicegate::state::{Cause, Outcome, PublicState};
use sluicegate::storage::Scope;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::shared;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection};
use uuid::Uuid;

/// Someone who writes into a database by hand.
enum Hand {
    Sqlite(SqliteStorage),
    Postgres(Box<PgConnection>, &'static str),
}

struct Home {
    engine: Engine<BoxStorage, SystemEnvironment>,
    hand: Hand,
    flow: FlowKey,
}

impl Home {
    /// A flow in which a and b lead into c, on SQLite, or in that schema of a Postgres.
    async fn new(schema: Option<&'static str>) -> Self {
        let (storage, hand) = match schema {
            None => {
                let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
                (BoxStorage::new(storage.clone()), Hand::Sqlite(storage))
            }
            Some(schema) => {
                let url = shared().url();
                let options = PostgresOptions::new(&url).expect("it is a URL").schema(schema);
                let storage = PostgresStorage::open(options).await.expect("the server answers");
                let options: sqlx::postgres::PgConnectOptions = url.parse().expect("it is a URL");
                let connection = options.connect().await.expect("the cluster answers");
                (BoxStorage::new(storage), Hand::Postgres(Box::new(connection), schema))
            }
        };
        let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
        let spec = FlowSpec::builder().execution("a").execution("b").execution("c");
        let spec = spec.edge("a", "c").edge("b", "c").build();
        let flow = engine.submit(spec).await.expect("the flow is valid").flow();
        Self { engine, hand, flow }
    }

    fn id(&self, name: &str) -> ExecutionId {
        self.flow.execution(name)
    }

    /// Spoils the row of that execution, of its group or of the edges into it, by an
    /// `update .. set` or a `delete from`.
    async fn spoil(&mut self, table: &str, change: &str, name: &str) {
        let column = if table == "execution" { "id" } else { "downstream" };
        self.spoil_row(table, column, self.id(name).uuid, change).await;
    }

    async fn spoil_row(&mut self, table: &str, column: &str, id: Uuid, change: &str) {
        let id = id.simple().to_string();
        let statement = |table: &str, id: &str| match change {
            "delete" => format!("delete from {table} where {column} = {id}"),
            set => format!("update {table} set {set} where {column} = {id}"),
        };
        match &mut self.hand {
            Hand::Sqlite(storage) => {
                let sql = format!(
                    "pragma ignore_check_constraints = on; {}; \
                     pragma ignore_check_constraints = off;",
                    statement(&format!("sluicegate_{table}"), &format!("x'{id}'"))
                );
                let done = storage.with_connection(|connection| connection.execute_batch(&sql));
                done.expect("nobody uses it").expect("the statement is valid");
            }
            Hand::Postgres(connection, schema) => {
                let sql = statement(&format!("{schema}.{table}"), &format!("'{id}'::uuid"));
                connection.execute(AssertSqlSafe(sql)).await.expect("the statement is valid");
            }
        }
    }

    async fn give_up(&self, name: &str) -> Result<GivenUp, EngineError> {
        self.engine.give_up(self.id(name), "spoilt", self.engine.request_id()).await
    }

    async fn claim(&self) -> Vec<LeaseToken> {
        let request = ClaimRequest { limit: 9, ..ClaimRequest::new(self.engine.request_id(), "w") };
        let granted = self.engine.claim(request).await.expect("what can be read is granted");
        granted.iter().map(|one| one.token()).collect()
    }

    async fn complete(&self, token: LeaseToken) {
        let done = Report::Complete([].into());
        self.engine.report(token, done).await.expect("the lease is held");
    }

    async fn dispatch(&self) {
        let pass = self.engine.dispatch_pass(&Scope::default()).await.expect("the pass goes on");
        assert_eq!(pass.errors, 0, "{pass:?}");
    }

    async fn stands(&self, name: &str) -> (PublicState, Option<Cause>) {
        let details = self.engine.describe_execution(self.id(name)).await;
        let described = details.expect("it can be read").description;
        (described.state, described.cause)
    }

    async fn progress(&self, name: &str) -> Option<Arc<[u8]>> {
        let details = self.engine.describe_execution(self.id(name)).await;
        details.expect("it can be read").progress
    }

    /// The status that is stored once the projector has caught up.
    async fn summary(&self) -> FlowStatus {
        self.engine.summary_tick(&Scope::default()).await.expect("the tick succeeds");
        self.engine.flow_summary(self.flow.id).await.expect("the flow has one").status
    }

    /// What the feed tells of an execution.
    async fn told(&self, name: &str) -> Vec<EventKind> {
        self.engine.sequencer_tick(&Scope::default()).await.expect("the tick succeeds");
        let oldest = self.engine.cursor_oldest().await.expect("the feed has a head");
        let page = self.engine.read_feed(oldest, Wanted::Everything, 99).await.expect("a page");
        let own = page.events.iter().filter(|event| event.execution == self.id(name));
        own.map(|event| event.what).collect()
    }
}

const FAILED: (PublicState, Option<Cause>) = (PublicState::Failed, Some(Cause::Unreadable));
const SKIPPED: (PublicState, Option<Cause>) = (PublicState::Skipped, Some(Cause::Unsatisfiable));

fn completed(outcome: Outcome) -> EventKind {
    EventKind::Completed { outcome }
}

async fn what_waits_fails(mut home: Home) {
    home.spoil("execution", "backoff = 9", "a").await;
    let described = home.engine.describe_flow(home.flow.id).await.expect("the others can be read");
    assert_eq!(described.unreadable[0].key, home.id("a"));
    let request = home.engine.request_id();
    let give_up = async || home.engine.give_up(home.id("a"), "spoilt", request).await;
    assert_eq!(give_up().await, Ok(GivenUp::Failed));
    assert_eq!(give_up().await, Ok(GivenUp::Failed), "a repetition");
    assert_eq!(home.stands("a").await, FAILED);
    assert_eq!(home.told("a").await, [completed(Outcome::Failed)]);
    home.dispatch().await;
    assert_eq!(home.stands("c").await, SKIPPED);
    let again = home.give_up("a").await;
    assert!(matches!(again, Err(EngineError::Refused(_))), "{again:?}");
    assert_eq!(home.claim().await.len(), 1, "b runs all the same");
}

async fn the_lease_of_what_runs_is_revoked(mut home: Home) {
    let tokens = home.claim().await;
    let token = *tokens.iter().find(|token| token.execution == home.id("a")).expect("it runs");
    home.spoil("execution", "backoff = 9", "a").await;
    assert_eq!(home.give_up("a").await, Ok(GivenUp::Failed));
    let late = home.engine.report(token, Report::Complete([].into())).await;
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
    let told = home.told("a").await;
    assert!(
        matches!(told[0], EventKind::Lease(lease) if lease.change == LeaseChange::Revoked),
        "{told:?}"
    );
    assert_eq!(told[1..], [completed(Outcome::Failed)]);
}

async fn a_join_is_written_anew(mut home: Home, change: &str) {
    let tokens = home.claim().await;
    home.complete(tokens[0]).await;
    home.dispatch().await;
    home.spoil("edge_group", change, "c").await;
    assert_eq!(home.give_up("c").await, Ok(GivenUp::Failed));
    assert_eq!(home.stands("c").await, FAILED);
    home.complete(tokens[1]).await;
    home.dispatch().await;
    let described = home.engine.describe_flow(home.flow.id).await.expect("it can be read");
    let group = &described.groups[0];
    assert_eq!((group.satisfied, group.unsatisfied, group.edges), (2, 0, 2));
}

async fn what_has_ended_keeps_how(mut home: Home) {
    let tokens = home.claim().await;
    let b = tokens.iter().find(|token| token.execution == home.id("b")).expect("it runs");
    let a = tokens.iter().find(|token| token.execution == home.id("a")).expect("it runs");
    for token in [*a, *b] {
        let half = home.engine.progress(token, 7, (*b"half").into()).await;
        half.expect("the lease is held");
        home.complete(token).await;
    }
    home.spoil("execution", "backoff = 9", "a").await;
    assert_eq!(home.give_up("a").await, Ok(GivenUp::Kept(Outcome::Succeeded)));
    assert_eq!(home.progress("a").await, Some((*b"half").into()), "it can be read");
    home.spoil("execution", "progress_sequence = null", "b").await;
    assert_eq!(home.give_up("b").await, Ok(GivenUp::Kept(Outcome::Succeeded)));
    assert_eq!(home.progress("b").await, None, "nobody can tell which report it was");
    assert_eq!(home.stands("a").await, (PublicState::Completed, Some(Cause::Handler)));
    assert_eq!(home.told("a").await, [completed(Outcome::Succeeded)]);
    home.dispatch().await;
    assert_eq!(home.stands("c").await.0, PublicState::Waiting);
}

/// A failure is handled as long as the group of the edge that accepts it is there.
async fn the_summary_follows(mut home: Home) {
    let accepts = EdgeSpec::new("a", "c").accepts(AcceptSet::ON_FAILURE);
    let spec = FlowSpec::builder().execution("a").execution("c").edge_spec(accepts).build();
    home.flow = home.engine.submit(spec).await.expect("the flow is valid").flow();
    let a = home.id("a");
    let tokens = home.claim().await;
    let token = tokens.into_iter().find(|token| token.execution == a).expect("it is granted");
    let failed = Report::FailFatal([].into());
    home.engine.report(token, failed).await.expect("the lease is held");
    let request = home.engine.request_id();
    let cancelled = home.engine.cancel_execution(home.id("c"), "no", request).await;
    cancelled.expect("it has not ended");
    home.spoil("edge_group", "delete", "c").await;
    assert_eq!(home.summary().await, FlowStatus::Failed);
    assert_eq!(home.give_up("c").await, Ok(GivenUp::Kept(Outcome::Cancelled)));
    assert_eq!(home.summary().await, FlowStatus::Cancelled);
}

async fn what_nobody_can_tell_is_left(mut home: Home) {
    let readable = home.give_up("a").await;
    assert!(matches!(readable, Err(EngineError::Refused(_))), "{readable:?}");
    let tokens = home.claim().await;
    for token in tokens {
        home.complete(token).await;
    }
    home.spoil("execution", "state = 9", "a").await;
    let a = home.id("a");
    let lost = home.give_up("a").await;
    assert!(
        matches!(&lost, Err(EngineError::Unreadable { execution, .. }) if *execution == a),
        "{lost:?}"
    );
}

/// The rows of a list and those that cannot be read, page by page.
async fn listed(home: &Home) -> (Vec<ExecutionId>, Vec<ExecutionId>) {
    let filter = ExecutionFilter { flow: Some(home.flow.id), ..ExecutionFilter::default() };
    let (mut rows, mut unreadable, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let page = home.engine.list_executions(&filter, cursor, 1).await;
        let page = page.expect("each row is read by itself");
        assert_eq!(page.rows.len() + page.unreadable.len(), 1, "{page:?}");
        rows.extend(page.rows.into_iter().map(|row| row.id));
        unreadable.extend(page.unreadable.into_iter().map(|row| row.key));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return (rows, unreadable);
        }
    }
}

async fn lists_show_the_others(mut home: Home) {
    home.spoil("execution", "backoff = 9", "a").await;
    home.spoil("edge_group", "policy = 9, on_satisfied = 1", "c").await;
    let described = home.engine.describe_flow(home.flow.id).await.expect("the others can be read");
    let names: Vec<&str> = described.executions.iter().map(|one| &*one.name).collect();
    assert_eq!((names, described.groups), (vec!["b", "c"], vec![]));
    assert_eq!(described.counts.values().sum::<u64>(), 2);
    let [spoilt] = &described.unreadable[..] else { panic!("{:?}", described.unreadable) };
    assert_eq!(spoilt.key, home.id("a"));
    assert!(spoilt.reason.starts_with("execution."), "{spoilt:?}");
    let [spoilt] = &described.unreadable_groups[..] else { panic!("one group is spoilt") };
    assert_eq!(spoilt.key, home.id("c"));
    assert!(spoilt.reason.starts_with("edge_group."), "{spoilt:?}");
    let mut others = [home.id("b"), home.id("c")];
    others.sort_unstable();
    assert_eq!(listed(&home).await, (others.to_vec(), vec![home.id("a")]));
    let drawn = home.engine.graph(home.flow.id, GraphFormat::Dot).await.expect("it is drawn");
    assert!(drawn.contains(&format!("{}\\nunreadable", home.id("a").uuid)), "{drawn}");
    assert_eq!(drawn.matches("->").count(), 2, "{drawn}");
    let explained = home.engine.explain(home.id("c")).await.expect("it is named");
    let named =
        Explanation::Quarantined { execution: home.id("c"), found: spoilt.reason.to_string() };
    assert_eq!(explained, named);
}

async fn explain_names_what_is_waited_for(mut home: Home) {
    home.spoil("execution", "backoff = 9", "a").await;
    let explained = home.engine.explain(home.id("c")).await.expect("it is named");
    let named = |explained: &Explanation, name| {
        let id = home.flow.execution(name);
        matches!(explained, Explanation::Quarantined { execution, .. } if *execution == id)
    };
    assert!(named(&explained, "a"), "{explained:?}");
    let explained = home.engine.explain(home.id("b")).await.expect("it is named");
    assert!(matches!(explained, Explanation::Claimable { .. }), "{explained:?}");
    home.spoil("edge", "accepts = 99", "c").await;
    let explained = home.engine.explain(home.id("c")).await.expect("it is named");
    assert!(matches!(explained, Explanation::Quarantined { .. }), "{explained:?}");
}

async fn edges_and_flows_are_listed_without_the_spoilt(mut home: Home) {
    let (flow, c) = (home.flow, home.id("c"));
    home.spoil("edge", "accepts = 99", "c").await;
    let edges = home.engine.list_edges(c, Direction::Incoming, None, 9).await.expect("a page");
    let mut ends: Vec<ExecutionId> = edges.unreadable.iter().map(|row| row.key).collect();
    ends.sort_unstable();
    let mut expected = [home.id("a"), home.id("b")];
    expected.sort_unstable();
    assert_eq!((edges.rows, ends), (vec![], expected.to_vec()));
    let edges = home.engine.list_edges(home.id("a"), Direction::Outgoing, None, 9).await;
    assert_eq!(edges.expect("a page").unreadable[0].key, c);
    let drawn = home.engine.graph(flow.id, GraphFormat::Mermaid).await.expect("it is drawn");
    assert_eq!(drawn.matches("-.-o").count(), 2, "{drawn}");
    let other = FlowSpec::builder().execution("a").build();
    let other = home.engine.submit(other).await.expect("the flow is valid").flow();
    home.spoil_row("flow", "id", flow.id.0, "closing = 9, closed_by = id").await;
    let flows = home.engine.list_flows(&FlowFilter::default(), None, 9).await.expect("a page");
    let rows: Vec<FlowKey> = flows.rows.iter().map(|row| row.key).collect();
    assert_eq!((rows, flows.unreadable[0].key), (vec![other], flow));
}

macro_rules! on_both {
    ($($sqlite:ident, $postgres:ident: $check:expr;)*) => { $(
        #[tokio::test]
        async fn $sqlite() {
            let check = $check;
            check(Home::new(None).await).await;
        }

        #[tokio::test]
        async fn $postgres() {
            let check = $check;
            check(Home::new(Some(stringify!($postgres))).await).await;
        }
    )* };
}

on_both! {
    waiting_on_sqlite, waiting_on_postgres: what_waits_fails;
    running_on_sqlite, running_on_postgres: the_lease_of_what_runs_is_revoked;
    a_join_on_sqlite, a_join_on_postgres: async |home| {
        a_join_is_written_anew(home, "policy = 9, on_satisfied = 1").await;
    };
    a_lost_join_on_sqlite, a_lost_join_on_postgres: async |home| {
        a_join_is_written_anew(home, "delete").await;
    };
    ended_on_sqlite, ended_on_postgres: what_has_ended_keeps_how;
    summed_on_sqlite, summed_on_postgres: the_summary_follows;
    untold_on_sqlite, untold_on_postgres: what_nobody_can_tell_is_left;
    lists_on_sqlite, lists_on_postgres: lists_show_the_others;
    explained_on_sqlite, explained_on_postgres: explain_names_what_is_waited_for;
    others_on_sqlite, others_on_postgres: edges_and_flows_are_listed_without_the_spoilt;
}
