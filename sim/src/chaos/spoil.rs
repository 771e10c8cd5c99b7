//! A row that cannot be read: a value that no engine writes is put into an execution of a flow that
//! nobody else changes, engines meet it, and an operator gives the execution up. Never judges.

use std::time::Duration;

use rusqlite::Connection as File;
use sluicegate::flow::Limits;
use sluicegate::identity::ExecutionId;
use sqlx::{AssertSqlSafe, Connection};
use tokio::time::sleep;

use super::database::{Database, PostgresPlace, SqlitePlace};
use super::faults::{Fault, Field, Kind};
use super::ledger::Entry;
use super::{counts, work};

/// Flows of one strike.
const FLOWS: u32 = 3;
/// The numbers of such flows: beyond those of the client.
const NUMBERS_FROM: u32 = 1_000_000;
/// How long engines have to come upon the row: it may be one that waits for others.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long such a flow has to drain: passes leave what failed alone for longer each time.
const DRAINED_WITHIN: Duration = Duration::from_secs(30);
/// The wait between two looks at what is left of it.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// How long the saboteur waits for the row or the file, in milliseconds.
const WAIT_MS: u64 = 4_000;
/// What stands for a kind of backoff that no engine knows.
const UNKNOWN: u32 = 9;

pub(super) const SPOILT: Fault = Fault {
    id: "spoilt_row",
    title: "an execution whose row nobody could read, given up by an operator",
    kind: Kind::Struck(|field| Box::pin(spoil_all(field))),
    unavailable: |_| None,
};

async fn spoil_all(field: &mut Field) -> Result<u64, String> {
    let mut given_up = 0;
    for number in NUMBERS_FROM..NUMBERS_FROM + FLOWS {
        given_up += u64::from(spoil(field, number).await?);
    }
    Ok(given_up)
}

/// Submits a flow, spoils an execution of it, and gives that up once it was met, or nobody came.
async fn spoil(field: &mut Field, number: u32) -> Result<bool, String> {
    let drawn = work::flow(field.seed, field.round, number).validate(&Limits::default());
    let flow = drawn.expect("drawn flows are valid");
    let Some(id) = field.operator.submit(&flow).await else {
        return Err("the flow to be spoilt was not acknowledged".to_owned());
    };
    let executions = &flow.spec().executions;
    let name = &executions[field.draw(executions.len())].name;
    let execution = field.operator.execution(id, name);
    let met = field.answered("corrupt")?;
    // Whoever meets it is not to be blamed, from the moment on from which it may be there.
    field.operator.write(&Entry::Spoilt { execution });
    match &field.database {
        Database::Postgres(place) => {
            on_server(place, execution).await.map_err(|error| error.to_string())?;
        }
        Database::Sqlite(place) => in_file(place, execution).map_err(|error| error.to_string())?,
    }
    field.answers_since("corrupt", met, PATIENCE).await?;
    let given_up = field.operator.give_up(id, execution).await;
    // Passes have left it alone: the bounds of the round know of no such pause.
    for _ in 0..DRAINED_WITHIN.as_millis() / LOOK_AFTER.as_millis() {
        if counts::undrained_of(&field.database, id).await == Ok(0) {
            return Ok(given_up);
        }
        sleep(LOOK_AFTER).await;
    }
    Err(format!("flow {id} had not drained {DRAINED_WITHIN:?} after its row was given up"))
}

async fn on_server(place: &PostgresPlace, id: ExecutionId) -> Result<(), sqlx::Error> {
    let mut session = place.session(&[("lock_timeout", &WAIT_MS.to_string())]).await?;
    let sql = format!(
        "update \"{}\".execution set backoff = {UNKNOWN} where partition = {} and id = '{}'",
        place.schema, id.partition.0, id.uuid
    );
    sqlx::query(AssertSqlSafe(sql)).execute(&mut session).await?;
    session.close().await
}

fn in_file(place: &SqlitePlace, id: ExecutionId) -> rusqlite::Result<()> {
    let file = File::open(&place.file)?;
    file.busy_timeout(Duration::from_millis(WAIT_MS))?;
    let (partition, id) = (id.partition.0, id.uuid.simple());
    file.execute_batch(&format!(
        "pragma ignore_check_constraints = on; \
         update sluicegate_execution set backoff = {UNKNOWN} \
         where partition = {partition} and id = x'{id}'"
    ))
}
