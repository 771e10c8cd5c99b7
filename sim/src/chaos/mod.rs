//! `chaos`: the whole engine on a real Postgres or a real file, with real processes, threads and
//! faults, held to the same invariants. The seed decides the plan, workload and order of faults;
//! the interleaving is the machine's, so that nothing here replays, and every report says so.

mod client;
mod counts;
mod database;
mod desk;
mod disk;
mod faults;
mod fleet;
mod judge;
mod ledger;
mod pinned;
mod postgres;
mod proxy;
mod reader;
mod remains;
mod report;
mod retire;
mod round;
mod rows;
mod spoil;
mod sqlite;
mod ticks;
mod visit;
mod work;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sluicegate::Settings;
use sluicegate::flow::Limits;
use sluicegate::mutants::Mutant;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::PostgresStorage;
use sluicegate::storage::sqlite::SqliteStorage;
use sqlx::{AssertSqlSafe, Connection};

pub(crate) use fleet::COMMAND as WORKER_COMMAND;
pub(crate) use worker::main as work_until_orphaned;

use crate::exit::Exit;
use crate::postgres::{Provided, Server};
use crate::real_lane::RealLane;
use crate::report::progress::Stopwatch;
use crate::report::{complain, json, print, reproduction};
use client::Client;
use database::{Database, PostgresPlace, SqlitePlace};
use desk::Desk;
use disk::{Disk, Home};
use faults::Field;
use fleet::{Common, Fleet};
use judge::Past;
use proxy::Proxy;
use reader::Reader;
use report::Report;
use round::Scene;
use ticks::Logs;

/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(2);
/// How long a worker that found nothing waits before it asks again.
const POLL: Duration = Duration::from_millis(20);
/// The wait between two ticks of a reconciler.
const TICK: Duration = Duration::from_millis(300);
/// The longest from the start of one tick to the end of the next that L2 reckons with; L1 goes by
/// the ticks that have come.
const TICK_LONGEST: Duration = Duration::from_secs(3);
/// How long an execution has ended before a reconciler takes it.
const SIGMA: Duration = Duration::from_millis(200);
/// Worker processes.
const WORKERS: usize = 3;
/// Settings of a cluster that is crashed: what it acknowledged must be on the disk.
const SERVER: &[(&str, &str)] =
    &[("fsync", "on"), ("full_page_writes", "on"), ("max_connections", "60")];
/// The tablespace on the small disk.
const TABLESPACE: &str = "sluicegate_chaos";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// On what.
    pub lane: RealLane,
    /// On which server.
    pub server: Server,
    /// For how long; one round at least.
    pub budget: Duration,
    /// What decides the plan.
    pub seed: u64,
    /// A planted bug that is on in every worker.
    pub mutant: Option<Mutant>,
    /// Where the report for programs goes.
    pub json: Option<PathBuf>,
    /// Where the rows of offending flows go.
    pub failures: PathBuf,
}

impl Request {
    /// The line that runs the same plan.
    pub fn command(&self) -> String {
        let budget_ms = self.budget.as_millis();
        let mut line = format!(
            "cargo sim chaos --lane {} --seed {} --budget {budget_ms}ms",
            self.lane.name(),
            self.seed
        );
        if self.lane == RealLane::Postgres {
            line.extend([format!(" --postgres {}", self.server)]);
        }
        if let Some(mutant) = self.mutant {
            line.extend([" --mutant ", mutant.id()]);
        }
        line
    }
}

/// Bytes of results that a lease carries.
const INPUTS_MAX_BYTES: u64 = 24;
/// Members that one transaction of a cancel looks at.
const CANCEL_BATCH: u32 = 2;

/// What an engine under chaos is told to do differently.
fn engine_settings() -> Settings {
    // Small limits, so that small flows reach what lies beyond them: the backlog of cancels, and
    // inputs that are read in pages.
    let limits = Limits { inputs_max_bytes: INPUTS_MAX_BYTES, ..Limits::default() };
    Settings { stale: SIGMA, cancel_batch: CANCEL_BATCH, limits, ..Settings::default() }
}

/// Runs rounds until the budget is spent, and says what they came to.
pub fn run(request: &Request) -> Exit {
    let command = request.command();
    print(&reproduction(&command));
    print(report::NOT_REPLAYABLE);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(rounds(request)),
        Err(error) => Err(error.to_string()),
    };
    let report = match done {
        Ok(report) => report,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Exit::Environment;
        }
    };
    print(&report.text());
    let mut exits = report.exits();
    if let Some(path) = &request.json
        && let Err(why) = json::write(path, &report.to_json(&command))
    {
        complain(&format!("error: {why}"));
        exits.push(Exit::Environment);
    }
    print(&reproduction(&command));
    Exit::first_of(&exits)
}

async fn rounds(request: &Request) -> Result<Report, String> {
    let clock = Stopwatch::start();
    let home = Home::make()?;
    let mut scene = scene(request, &home).await?;
    let mut report = Report::new(request, &scene.field);
    let mut longest = Duration::ZERO;
    // A round takes its time: another one starts only if half of it fits.
    for round in 1.. {
        let began = clock.elapsed();
        let mut say = |line: &str| {
            print(&format!("{:>4} s{line}\n", clock.elapsed().as_secs()));
        };
        let outcome = scene.round(round, &mut say).await?;
        say(&report::line(round, &outcome));
        let failed = !outcome.violations.is_empty();
        report.add(round, outcome);
        longest = longest.max(clock.elapsed().saturating_sub(began));
        if failed || clock.elapsed() + longest / 2 > request.budget {
            break;
        }
    }
    report.finish(&ledger::read_all(&scene.field.ledgers)?, clock.elapsed());
    // Workers go first, so that nobody works on what is taken away.
    drop(scene);
    Ok(report)
}

async fn scene(request: &Request, home: &Home) -> Result<Scene, String> {
    let directory = home.directory();
    let disk = Disk::mount(home);
    let (provided, database) = match request.lane {
        RealLane::Postgres => {
            let provided = request.server.provide("chaos", SERVER).map_err(|e| e.to_string())?;
            let database = Database::Postgres(postgres_place(&provided, &disk).await?);
            (Some(provided), database)
        }
        RealLane::Sqlite => {
            let place = disk.as_ref().map_or(directory, Disk::directory);
            (None, Database::Sqlite(SqlitePlace { file: place.join("chaos.sqlite") }))
        }
    };
    let disk = match (&database, disk) {
        (Database::Postgres(PostgresPlace { tablespace: None, .. }), Ok(_)) => {
            Err("the disk of a server that runs already is not filled".to_owned())
        }
        (_, disk) => disk,
    };
    let client = match &database {
        Database::Postgres(place) => Some(Proxy::listen(&directory.join("client"), &place.url)?),
        Database::Sqlite(_) => None,
    };
    let storage = open(&database, client.as_ref()).await?;
    let common = Common {
        database: database.clone(),
        seed: request.seed,
        mutant: request.mutant.map(|mutant| mutant.id().to_owned()),
        directory: directory.to_owned(),
    };
    let fleet = Fleet::start(common, WORKERS)?;
    let operator = Desk::new(&storage, directory, "operator", 0)?;
    let submitter = Client::new(&storage, database.clone(), request.seed, directory)?;
    Ok(Scene {
        lane: request.lane,
        seed: request.seed,
        client: Arc::new(submitter),
        reader: Arc::new(Reader::new(&storage, directory)?),
        ticks: Logs::new(directory),
        past: Past::default(),
        storage,
        failures: request.failures.clone(),
        field: Field {
            database,
            provided,
            disk,
            fleet,
            client,
            operator,
            seed: request.seed,
            random: ChaCha8Rng::seed_from_u64(request.seed),
            ledgers: directory.to_owned(),
            round: 0,
            namespace: String::new(),
        },
    })
}

/// Where the tables go: on a cluster of our own, onto the small disk if there is one.
async fn postgres_place(
    provided: &Provided,
    disk: &Result<Disk, String>,
) -> Result<PostgresPlace, String> {
    let mut place = PostgresPlace {
        url: provided.url().to_owned(),
        schema: provided.schema().to_owned(),
        tablespace: None,
    };
    if let (Some(cluster), Ok(disk)) = (provided.cluster(), disk) {
        let made = disk.directory_like("space", cluster.directory()).map_err(|e| e.to_string())?;
        let sql = format!("create tablespace {TABLESPACE} location '{}'", made.display());
        let mut session = place.session(&[]).await.map_err(|error| error.to_string())?;
        let made = sqlx::query(AssertSqlSafe(sql)).execute(&mut session).await;
        made.map_err(|error| error.to_string())?;
        session.close().await.map_err(|error| error.to_string())?;
        place.tablespace = Some(TABLESPACE.to_owned());
    }
    Ok(place)
}

async fn open(database: &Database, client: Option<&Proxy>) -> Result<BoxStorage, String> {
    match (database, client) {
        (Database::Postgres(place), Some(proxy)) => {
            // The schema is made beside the proxy, which only calls of the engine pass.
            let made = PostgresStorage::open(place.options().map_err(|e| e.to_string())?).await;
            made.map_err(|error| error.to_string())?.close().await;
            let place = fleet::through(place, proxy)?;
            let options = place.options().map_err(|error| error.to_string())?;
            let opened = PostgresStorage::open(options).await.map_err(|e| e.to_string())?;
            Ok(BoxStorage::new(opened))
        }
        (Database::Postgres(_), None) => Err("a server is reached through a proxy".to_owned()),
        (Database::Sqlite(place), _) => {
            let opened = SqliteStorage::open(place.options()).map_err(|e| e.to_string())?;
            Ok(BoxStorage::new(opened))
        }
    }
}
