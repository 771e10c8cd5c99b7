//! Every verb on a large database: with and without statistics, with few flows and with many, a
//! call reads what it needs and no table, partition or flow besides.

use sluicegate::identity::PartitionCount;
use sluicegate::storage::Verb;
use sluicegate::storage::postgres::{PLANNING, PostgresStorage};
use sluicegate::with_verbs;
use sluicegate_sim::postgres::shared;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::plan_cases::{CASES, Case};
use crate::{at, by_hand, run};

const ROWS: u32 = 200_000;

macro_rules! texts {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        /// The statement of a verb; begin, commit and rollback have none.
        fn text(verb: Verb) -> &'static str {
            match verb {
                Verb::Begin | Verb::Commit | Verb::Rollback => "",
                $(Verb::$tv => statement!($tm),)*
                $(Verb::$sv => statement!($sm),)*
            }
        }
    };
}

macro_rules! statement {
    ($method:ident) => {
        include_str!(concat!(
            "../../../engine/src/storage/postgres/sql/",
            stringify!($method),
            ".sql"
        ))
    };
}
with_verbs!(texts);

/// When statistics are gathered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Analyzed {
    Never,
    Before,
    WhilePrepared,
}

/// A hundred rows of each kind, as temporary tables that a case names.
fn picked(schema: &str) -> String {
    let some = |name: &str, table: &str, key: &str, which: &str| {
        format!(
            "create temporary table {name} as
             select *
             from {schema}.{table}
             where {which}
             order by md5({key}::text)
             limit 100;
             "
        )
    };
    let mut sql = String::new();
    for (name, which) in [
        ("ready", "state = 1"),
        ("blocked", "state = 0"),
        ("active", "state = 2"),
        ("over", "state = 4"),
    ] {
        sql += &some(name, "execution", "id", which);
    }
    sql += &some("joined", "edge_group", "downstream", "decision = 0");
    sql += &some("placed", "event", "execution", "position is not null");
    sql += &some("edges", "edge", "(downstream, upstream)", "resolution = 0");
    sql += "create temporary table pending as
            select *, 0 as zero, true as guarded
            from edges;
            create temporary table fresh as
            select
              r.*, md5(r.id::text)::uuid as fresh, r.id as upstream, 1 as policy, null as k,
              null as on_satisfied, 1 as edges, 0 as satisfied, 0 as unsatisfied, 0 as decision,
              1 as accepts, 0 as resolution, null as upstream_incarnation, null as input,
              null as passes_as
            from ready as r;
            update fresh
            set id = fresh;";
    sql
}

/// The schema with its rows.
async fn load(connection: &mut PgConnection, schema: &str, flows: u32) {
    let partitions = PartitionCount::new(256).expect("it is a count");
    let options = at(&shared().url()).schema(schema).partitions(partitions).connections_max(1);
    let storage = PostgresStorage::open(options).await.expect("the server answers");
    storage.close().await;
    let tables = format!("select tablename::text from pg_tables where schemaname = '{schema}'");
    let tables =
        sqlx::query(AssertSqlSafe(tables)).persistent(false).fetch_all(&mut *connection).await;
    for table in tables.expect("the server answers") {
        let table: String = table.get(0);
        let quiet = "set (autovacuum_enabled = off)";
        run(connection, &format!("alter table {schema}.{table} {quiet}")).await;
        run(connection, &format!("alter table {schema}.{table} set unlogged")).await;
    }
    let rows = include_str!("plans_load.sql")
        .replace("sluicegate.", &format!("{schema}."))
        .replace(":rows", &ROWS.to_string())
        .replace(":flows", &flows.to_string());
    run(connection, &rows).await;
    run(connection, &picked(schema)).await;
    for (name, value) in PLANNING {
        run(connection, &format!("set {name} = {value}")).await;
    }
}

/// An argument of a case as SQL.
fn expression(argument: &str, schema: &str) -> String {
    let named = argument
        .replace("{schema}", schema)
        .replace("@flow", "'00000000-0001-7000-8000-000000000000'::uuid")
        .replace("@first", "'00000000-0001-0000-0000-000000000000'::uuid")
        .replace("@last", "'00000000-0001-ffff-ffff-ffffffffffff'::uuid")
        .replace("@member", "'00000000-0001-8000-8000-000000007bbc'::uuid");
    match named.strip_prefix('@').and_then(|rest| rest.split_once('.')) {
        Some((rows, column)) => {
            let key = if rows == "fresh" { "upstream" } else { "ctid" };
            format!("(select array_agg({column} order by {key}) from {rows})")
        }
        None => named,
    }
}

/// The values of the arguments as literals: a prepared statement takes no subqueries.
async fn literals(connection: &mut PgConnection, case: &Case, schema: &str) -> String {
    if case.arguments.is_empty() {
        return String::new();
    }
    let values = case.arguments.iter().map(|argument| {
        let expression = expression(argument, schema);
        format!("quote_nullable(({expression})::text)")
    });
    let sql = format!("select array[{}]", values.collect::<Vec<_>>().join(", "));
    let row = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch_one(connection).await;
    let row = row.unwrap_or_else(|error| panic!("{:?}: {error}", case.verb));
    format!("({})", row.get::<Vec<String>, _>(0).join(", "))
}

/// The buffers that a prepared statement touches, and its plan.
async fn touched(connection: &mut PgConnection, name: &str, values: &str) -> (u64, String) {
    run(connection, "begin").await;
    let sql = format!("explain (analyze, buffers, timing off) execute {name}{values}");
    let lines = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch_all(&mut *connection).await;
    let lines = lines.unwrap_or_else(|error| panic!("{name}: {error}"));
    run(connection, "rollback").await;
    let lines: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
    let top = lines.iter().find(|line| line.trim_start().starts_with("Buffers:"));
    let blocks = |kind: &str| {
        let shared = top.and_then(|line| line.split("temp").next()?.split_once(kind));
        let number = shared.and_then(|(_, rest)| rest.split([' ', ',']).next()?.parse().ok());
        number.unwrap_or(0_u64)
    };
    (blocks("hit=") + blocks("read="), lines.join("\n"))
}

/// What is wrong with the plans of all verbs in such a database.
async fn check(connection: &mut PgConnection, schema: &str, analyzed: Analyzed) -> Vec<String> {
    run(connection, "deallocate all").await;
    let mut prepared = Vec::new();
    if analyzed == Analyzed::Before {
        run(connection, "analyze").await;
    }
    for case in CASES {
        let name = case.verb.descriptor().name;
        let text = text(case.verb).replace("sluicegate.", &format!("{schema}."));
        run(connection, &format!("prepare {name} as {text}")).await;
        let values = literals(connection, case, schema).await;
        if analyzed == Analyzed::WhilePrepared {
            touched(connection, name, &values).await;
        }
        prepared.push((case, name, values));
    }
    if analyzed == Analyzed::WhilePrepared {
        run(connection, "analyze").await;
    }
    let mut found = Vec::new();
    for (case, name, values) in prepared {
        let (buffers, plan) = touched(connection, name, &values).await;
        if buffers > case.buffers_max {
            let most = case.buffers_max;
            found.push(format!(
                "{schema} {analyzed:?}: {name} touches {buffers} buffers, more than {most}\n{plan}"
            ));
        }
    }
    found
}

/// In a database of so many flows, whatever statistics there are.
async fn hold(flows: u32) {
    let schema = format!("verb_plans_{flows}");
    let mut connection = by_hand(&shared().url()).await;
    load(&mut connection, &schema, flows).await;
    let mut found = check(&mut connection, &schema, Analyzed::Never).await;
    found.extend(check(&mut connection, &schema, Analyzed::WhilePrepared).await);
    found.extend(check(&mut connection, &schema, Analyzed::Before).await);
    run(&mut connection, &format!("drop schema {schema} cascade")).await;
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn every_verb_that_has_a_statement_has_a_plan_to_hold() {
    for verb in Verb::ALL {
        let cases = CASES.iter().filter(|case| case.verb == *verb).count();
        assert_eq!(cases, usize::from(!text(*verb).is_empty()), "{verb:?}");
    }
}

#[tokio::test]
async fn plans_hold_in_a_database_of_one_large_flow() {
    hold(1).await;
}

#[tokio::test]
async fn plans_hold_in_a_database_of_many_flows() {
    hold(5_000).await;
}
