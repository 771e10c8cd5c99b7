//! What retention has left, all of one instant, read with plain SQL: the feed from its horizon on,
//! and rows whose flow is not whole. Never judges.

use sqlx::{Connection, Row};

use super::database::{Database, PostgresPlace, SqlitePlace};

/// What is left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Remains {
    /// Events up to there are gone.
    pub(super) horizon: u64,
    /// The places of the events that are left, in order.
    pub(super) places: Vec<u64>,
    /// Events that have no place yet.
    pub(super) unplaced: u64,
    /// Flows whose summary does not say that they have ended, and moves that it does not know of.
    pub(super) unsettled: u64,
    /// How many rows of each kind should not stand alone.
    pub(super) alone: Vec<(&'static str, u64)>,
}

/// Tables of which each row belongs to a flow, and what of it must be there.
const OF_FLOWS: [&str; 9] = [
    "submission",
    "execution",
    "edge_group",
    "event",
    "flow_change",
    "flow_summary",
    "sibling_request",
    "request",
    "cancel_backlog",
];
/// Tables of which each row belongs to an execution, and the column that names it.
const OF_EXECUTIONS: [(&str, &str); 4] = [
    ("edge_group", "downstream"),
    ("edge", "downstream"),
    ("attempt", "execution"),
    ("event", "execution"),
];
/// Tables of which each flow has a row.
const BY_FLOW: [&str; 3] = ["submission", "execution", "flow_summary"];

/// Reads what is left of every tenant.
pub(super) async fn read(database: &Database) -> Result<Remains, String> {
    match database {
        Database::Postgres(place) => read_postgres(place).await.map_err(|error| error.to_string()),
        Database::Sqlite(place) => read_sqlite(place).map_err(|error| error.to_string()),
    }
}

async fn read_postgres(place: &PostgresPlace) -> Result<Remains, sqlx::Error> {
    let mut session = place.session(&[("statement_timeout", "30000")]).await?;
    let begin = "begin isolation level repeatable read read only";
    sqlx::query(begin).execute(&mut session).await?;
    let prefix = format!("\"{}\".", place.schema);
    let mut answers = Vec::new();
    for query in queries("position") {
        let sql = sqlx::AssertSqlSafe(query.replace("{}", &prefix));
        let rows = sqlx::query(sql).fetch_all(&mut session).await?;
        let numbers = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>();
        answers.push(numbers?);
    }
    session.close().await?;
    Ok(remains(&answers))
}

fn read_sqlite(place: &SqlitePlace) -> rusqlite::Result<Remains> {
    let connection = rusqlite::Connection::open(&place.file)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch("begin")?;
    let mut answers = Vec::new();
    // There the number of an event is its place.
    for query in queries("id") {
        let mut statement = connection.prepare(&query.replace("{}", "sluicegate_"))?;
        let numbers = statement.query_map([], |row| row.get(0))?;
        answers.push(numbers.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    connection.execute_batch("rollback")?;
    Ok(remains(&answers))
}

/// Queries for numbers: horizon, places, unplaced, unsettled, and a count for each kind of row that
/// should not stand alone. `{}` stands before each name of a table.
fn queries(place: &str) -> Vec<String> {
    let mut queries = vec![
        "select horizon from {}stream_head where stream = 0".to_owned(),
        format!("select {place} from {{}}event where {place} is not null order by {place}"),
        format!("select count(*) from {{}}event where {place} is null"),
        "select (select count(*) from {}flow_summary where ended_at is null) \
         + (select count(*) from {}flow_change)"
            .to_owned(),
    ];
    queries.extend(OF_FLOWS.iter().map(|table| {
        format!(
            "select count(*) from {{}}{table} as t where not exists (select 1 from {{}}flow as f \
             where f.partition = t.partition and f.id = t.flow)"
        )
    }));
    queries.extend(OF_EXECUTIONS.iter().map(|(table, column)| {
        format!(
            "select count(*) from {{}}{table} as t where not exists (select 1 from \
             {{}}execution as x where x.partition = t.partition and x.id = t.{column})"
        )
    }));
    queries.extend(BY_FLOW.iter().map(|table| {
        format!(
            "select count(*) from {{}}flow as f where not exists (select 1 from {{}}{table} as t \
             where t.partition = f.partition and t.flow = f.id)"
        )
    }));
    queries
}

fn remains(answers: &[Vec<i64>]) -> Remains {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let of_flows = OF_FLOWS.iter().chain(OF_EXECUTIONS.iter().map(|(table, _)| table));
    let alone = of_flows.chain(&["a part of a flow"; BY_FLOW.len()]);
    let first = |at: usize| answers.get(at).and_then(|found| found.first().copied());
    let counts = (4..).map_while(first).map(number);
    Remains {
        horizon: first(0).map_or(0, number),
        places: answers.get(1).into_iter().flatten().copied().map(number).collect(),
        unplaced: first(2).map_or(0, number),
        unsettled: first(3).map_or(0, number),
        alone: alone.copied().zip(counts).filter(|(_, count)| *count > 0).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_whose_flow_is_gone_is_counted_in_every_table() {
        let directory = tempfile::tempdir().unwrap();
        let place = SqlitePlace { file: directory.path().join("one.sqlite") };
        drop(sluicegate::storage::sqlite::SqliteStorage::open(place.options()).unwrap());
        assert_eq!(read_sqlite(&place), Ok(Remains::default()));
        let connection = rusqlite::Connection::open(&place.file).unwrap();
        let id = "x'00000000000000000000000000000001'";
        for (table, columns, values) in [
            ("cancel_backlog", "partition, flow", format!("0, {id}")),
            ("flow_change", "partition, flow", format!("0, {id}")),
            ("sibling_request", "partition, downstream, flow", format!("0, {id}, {id}")),
        ] {
            let sql = format!("insert into sluicegate_{table} ({columns}) values ({values})");
            connection.execute(&sql, []).unwrap();
            let remains = read_sqlite(&place).unwrap();
            assert_eq!(remains.alone, [(table, 1)]);
            connection.execute(&format!("delete from sluicegate_{table}"), []).unwrap();
        }
    }

    #[test]
    fn every_count_has_its_kind_of_row() {
        let kinds = OF_FLOWS.len() + OF_EXECUTIONS.len() + BY_FLOW.len();
        assert_eq!(queries("id").len(), 4 + kinds);
        let mut answers = vec![vec![5], vec![6, 7], vec![1], vec![2]];
        answers.extend((1..).take(kinds).map(|count| vec![count]));
        let remains = remains(&answers);
        assert_eq!((remains.horizon, remains.places, remains.unplaced), (5, vec![6, 7], 1));
        assert_eq!((remains.unsettled, remains.alone.len()), (2, kinds));
        assert_eq!(remains.alone.last(), Some(&("a part of a flow", kinds as u64)));
    }
}
