//! Plans are made once, on empty tables, and must stay right while the tables grow and nobody
//! gathers statistics: no statement reads a table or a partition for the sake of a few keys.

use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{Additions, FlowSpec};
use sluicegate::identity::{FlowId, PartitionCount};
use sluicegate::operations::give_up::GivenUp;
use sluicegate::operations::list::{Direction, ExecutionFilter, FlowFilter};
use sluicegate::operations::report::Report;
use sluicegate::state::PublicState;
use sluicegate::storage::postgres::PostgresStorage;
use sluicegate::storage::{Scope, Storage, Transaction};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, Settings};
use sluicegate_sim::postgres::shared;
use sqlx::{PgConnection, Row};

use crate::{at, by_hand, claim_of, run};

type Service = Engine<PostgresStorage, SystemEnvironment>;

const LAYERS: usize = 5;
const WIDTH: usize = 6;
const LAST: usize = LAYERS - 1;
/// The lattice and one more.
const EXECUTIONS: usize = LAYERS * WIDTH + 1;
/// Their events: each has its end, and the lease of one was given back.
const EVENTS: u64 = EXECUTIONS as u64 + 1;
/// Executions of other flows in the same partition, each with a group and four edges.
const OTHERS: u32 = 20_000;
/// When their events will have occurred, and where they stand in the feed: behind all of ours.
const AHEAD: i64 = 1 << 52;
/// Looks for a session that is about to end; each is a round trip.
const LOOKS_MAX: u32 = 50_000;
/// Entries of indexes that one execution of the flow may cost from submit to its last hop. A
/// statement that reads the partition once costs [`OTHERS`] more.
const ENTRIES_PER_EXECUTION_MAX: i64 = 200;

fn lattice() -> FlowSpec {
    let name = |layer: usize, node: usize| format!("{layer}.{node}");
    let mut flow = FlowSpec::builder();
    for layer in 0..LAYERS {
        for node in 0..WIDTH {
            flow = flow.execution(name(layer, node));
            for upstream in (0..WIDTH).filter(|_| layer > 0) {
                flow = flow.edge(name(layer - 1, upstream), name(layer, node));
            }
        }
    }
    flow.build()
}

async fn drain(engine: &Service) {
    let flow = engine.submit(lattice()).await.expect("the server answers").flow();
    // One more, between the first layer and the last.
    let more =
        Additions::new().execution("more").edge("0.0", "more").edge("more", format!("{LAST}.0"));
    engine.extend(flow.id, more, Some(0), engine.request_id()).await.expect("the flow may grow");
    let released = engine.claim(claim_of(engine, 1)).await.expect("the server answers");
    engine.report(released[0].token(), Report::Release).await.expect("the server answers");
    for _ in 0..=LAYERS {
        for grant in engine.claim(claim_of(engine, 100)).await.expect("the server answers") {
            let half = (*b"half").into();
            engine.progress(grant.token(), 1, half).await.expect("the server answers");
            engine
                .report(grant.token(), Report::Complete((*b"{}").into()))
                .await
                .expect("the server answers");
        }
        engine.dispatch_pass(&Scope::default()).await.expect("the server answers");
    }
    engine.dependency_tick(&Scope::default()).await.expect("the server answers");
    engine.reaper_tick(&Scope::default()).await.expect("the server answers");
    let counts = engine.describe_flow(flow.id).await.expect("the server answers").counts;
    assert_eq!(counts[&PublicState::Completed], EXECUTIONS as u64);
    read(engine, flow.id).await;
    prune(engine).await;
}

/// Gives up what leads into a join, and the join: the rows of neither can be read.
async fn give_up(engine: &Service, connection: &mut PgConnection, schema: &str) {
    let flow = FlowSpec::builder().execution("a").execution("b").edge("a", "b").build();
    let flow = engine.submit(flow).await.expect("the server answers").flow();
    for (table, column, change, name) in [
        ("execution", "id", "backoff = 9", "a"),
        ("edge_group", "downstream", "policy = 9, on_satisfied = 1", "b"),
    ] {
        let id = flow.execution(name);
        let key = format!("partition = {} and {column} = '{}'", id.partition.0, id.uuid);
        run(connection, &format!("update {schema}.{table} set {change} where {key}")).await;
        let given_up = engine.give_up(id, "spoilt", engine.request_id()).await;
        assert_eq!(given_up, Ok(GivenUp::Failed));
    }
}

/// Takes the flow away, with its events.
async fn prune(engine: &Service) {
    let placed = engine.sequencer_tick(&Scope::default()).await.expect("the server answers");
    assert_eq!(placed.reconciled, EVENTS);
    let pruned = engine.retention_tick(&Scope::default()).await.expect("the server answers");
    assert_eq!((pruned.reconciled, pruned.errors), (EVENTS + 1, 0));
}

/// Everything that readers ask of one flow.
async fn read(engine: &Service, flow: FlowId) {
    let ticked = engine.summary_tick(&Scope::default()).await.expect("the server answers");
    assert_eq!((ticked.scanned, ticked.reconciled), (1, 1));
    let stored = engine.flow_summary(flow).await.expect("the server answers");
    assert_eq!(stored, engine.count_flow(flow).await.expect("the server answers"));
    assert_eq!(stored.status, FlowStatus::Completed);
    let flows = FlowFilter { statuses: vec![FlowStatus::Completed], ..FlowFilter::default() };
    let flows = engine.list_flows(&flows, None, 1).await.expect("the server answers");
    assert_eq!(flows.rows.len(), 1);
    let filter = ExecutionFilter { flow: Some(flow), ..ExecutionFilter::default() };
    let listed = engine.list_executions(&filter, None, 1_000).await.expect("the server answers");
    assert_eq!((listed.rows.len(), listed.next_cursor), (EXECUTIONS, None));
    let first = listed.rows.iter().find(|row| &*row.name == "1.0").expect("it was submitted").id;
    for direction in [Direction::Incoming, Direction::Outgoing] {
        let edges = engine.list_edges(first, direction, None, 1_000).await;
        assert_eq!(edges.expect("the server answers").rows.len(), WIDTH);
    }
}

/// Other flows of the only partition, all of them over.
async fn crowd(connection: &mut PgConnection, schema: &str) {
    let sql = format!(
        "create temporary table crowd as
         select
           gen_random_uuid() as id,
           gen_random_uuid() as flow,
           lead(gen_random_uuid()) over () as other,
           i
         from generate_series(1, {OTHERS}) as i;
         insert into {schema}.execution (
           partition, id, flow, state, cause, incarnation, propagated, has_in, has_inputs,
           has_out, not_before, attempt, charged, give_backs, epoch, finished_at, max_attempts,
           backoff, backoff_delay_ms, name, kind, lane, priority, namespace, payload
         )
         select 0, id, flow, 4, 1, 0, true, true, false, true, 0, 1, 1, 0, 2, 0, 4, 1, 0,
           'n', 'k', 'default', 0, 'default', ''
         from crowd;
         insert into {schema}.edge_group (
           partition, downstream, flow, policy, edges, satisfied, unsatisfied, decision
         )
         select 0, id, flow, 1, 4, 4, 0, 1 from crowd;
         insert into {schema}.edge (
           partition, downstream, upstream, accepts, resolution, upstream_incarnation
         )
         select 0, id, gen_random_uuid(), 1, 1, 0 from crowd, generate_series(1, 4);
         insert into {schema}.attempt (
           partition, execution, incarnation, attempt, epoch, nonce, ending, reported,
           reported_value, payload_hash, granted_at, ended_at
         )
         select 0, id, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0 from crowd;
         insert into {schema}.event (
           partition, execution, flow, incarnation, lease_attempt, lease_change, lease_expires_at,
           outcome, occurred_at, namespace, position
         )
         select 0, id, flow, 0, 0, 0, 0, 0, {AHEAD}, 'default', {AHEAD} + i from crowd;
         drop table crowd"
    );
    run(connection, &sql).await;
}

/// What the statements of this schema have read so far: rows of whole tables, entries of indexes.
async fn read_so_far(connection: &mut PgConnection, schema: &str) -> (i64, i64) {
    let sql = "select
        (select coalesce(sum(seq_tup_read), 0)::int8
         from pg_stat_user_tables where schemaname = $1),
        (select coalesce(sum(idx_tup_read), 0)::int8
         from pg_stat_user_indexes where schemaname = $1)";
    let row =
        sqlx::query(sql).bind(schema).fetch_one(connection).await.expect("the server answers");
    (row.get(0), row.get(1))
}

/// Rows of whole tables and entries of indexes that one lattice costs in a crowded partition, with
/// every plan made while the tables were empty. A trap is one more full index of executions.
async fn cost(schema: &str, trap: Option<&str>) -> (i64, i64) {
    let one = PartitionCount::new(1).expect("the server answers");
    let options = at(&shared().url()).schema(schema).partitions(one).connections_max(1);
    let mut connection = by_hand(&shared().url()).await;
    let storage = PostgresStorage::open(options).await.expect("the server answers");
    for table in ["flow", "execution", "edge_group", "edge", "attempt", "event"] {
        let quiet = format!("alter table {schema}.{table} set (autovacuum_enabled = off)");
        run(&mut connection, &quiet).await;
    }
    if let Some(columns) = trap {
        let index = format!("create index trap on {schema}.execution ({columns})");
        run(&mut connection, &index).await;
    }
    let keep = Some(Duration::ZERO);
    let settings = Settings { partitions: one, keep, ..Settings::default() };
    let engine = Engine::new(storage.clone(), SystemEnvironment::new(), settings);
    drain(&engine).await;
    crowd(&mut connection, schema).await;
    drain(&engine).await;
    give_up(&engine, &mut connection, schema).await;
    // A session tells what it has read when it ends, at the latest.
    let pid = {
        let transaction = storage.begin().await.expect("the server answers");
        let pid = transaction.backend_pid();
        transaction.rollback().await;
        pid
    };
    storage.close().await;
    for _ in 0..LOOKS_MAX {
        let left = sqlx::query("select 1 from pg_stat_activity where pid = $1").bind(pid);
        if left.fetch_optional(&mut connection).await.expect("the server answers").is_none() {
            return read_so_far(&mut connection, schema).await;
        }
    }
    panic!("the session has not ended");
}

fn bound() -> i64 {
    let executions = i64::try_from(2 * EXECUTIONS).expect("the server answers");
    ENTRIES_PER_EXECUTION_MAX * executions
}

#[tokio::test]
async fn plans_made_on_empty_tables_stay_right_while_the_tables_grow() {
    let (rows, entries) = cost("plans", None).await;
    assert_eq!(rows, 0, "a statement reads a table from end to end");
    assert!(entries > 0 && entries <= bound(), "{entries} entries, more than {}", bound());
}

#[tokio::test]
async fn a_plan_that_reads_a_partition_for_a_few_keys_is_seen() {
    let (_, entries) = cost("plans_trapped", Some("partition, flow")).await;
    assert!(entries > bound(), "{entries} entries, at most {}", bound());
}
