//! The worker process: claims, works, reports, dispatches and reconciles until it is killed or its
//! coordinator is gone. Logs what it was told; never injects a fault and never judges.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluicegate::environment::{Environment, Notice, SystemEnvironment};
use sluicegate::identity::ExecutionId;
use sluicegate::mutants::Mutant;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken, Sent};
use sluicegate::operations::inputs::{Claimed, Inputs};
use sluicegate::operations::report;
use sluicegate::reconcile::{Reconciler, Report};
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::PostgresStorage;
use sluicegate::storage::sqlite::SqliteStorage;
use sluicegate::storage::{
    AttemptEnd, Consistency, Input, ProgressMark, Reported, Scope, Snapshot, Storage, StorageError,
};
use sluicegate::time::Timestamp;
use sluicegate::{Engine, EngineError, Settings};
use tokio::sync::watch;

use super::database::Database;
use super::ledger::{Entry, Ledger, Lines};
use super::pinned::Pinned;
use super::ticks::{self, Answers, Tick};
use super::work::{self, Fate, Renewal, fate};
use super::{LEASE, POLL, TICK, engine_settings};
use crate::observed::Observed;

/// Claim loops of one process.
pub(super) const SLOTS: u32 = 3;
/// The loop that reports and claims in one call.
const TURNS_OVER: u32 = 2;
/// Exit code of a process that panicked.
pub(super) const PANICKED: i32 = 101;
/// Exit code of a process that never got a database.
const NO_DATABASE: i32 = 5;
/// So often a tick says that it goes on, if it does.
const GOES_ON_AFTER: Duration = Duration::from_secs(1);
/// How often one call is repeated under its request id before the worker gives it up.
const CALLS_MAX: u32 = 20;
/// Pages of inputs that are asked for under one lease, answered or not.
const READS_MAX: u32 = 20;
/// Inputs of one page.
const INPUT_ROWS: u32 = 2;
/// How often progress is reported before the worker goes on without an answer.
const PROGRESS_CALLS_MAX: u32 = 2;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How often a process tries to open its database.
const OPENINGS_MAX: u32 = 300;
/// Threads of the runtime.
const THREADS: usize = 2;

/// What a worker process is told on its standard input, as one line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) database: Database,
    pub(super) seed: u64,
    pub(super) name: String,
    pub(super) skew_s: i64,
    pub(super) mutant: Option<String>,
    pub(super) ledgers: PathBuf,
    /// What had happened by then is taken away; a later line on the input says a later time.
    pub(super) retire_by: Option<Timestamp>,
}

/// The system's environment with another wall clock.
#[derive(Clone, Debug)]
pub(super) struct Skewed {
    inner: SystemEnvironment,
    skew_s: i64,
}

impl Skewed {
    pub(super) fn new(skew_s: i64) -> Self {
        Self { inner: SystemEnvironment::new(), skew_s }
    }
}

impl Environment for Skewed {
    fn wall_clock(&self) -> Timestamp {
        Timestamp(self.inner.wall_clock().0 + self.skew_s * 1_000_000)
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }
}

/// The engine of a process under chaos.
pub(super) type ChaosEngine = Engine<Observed<BoxStorage, Ledger>, Skewed>;

struct Station {
    engine: ChaosEngine,
    environment: Skewed,
    ledger: Arc<Ledger>,
    ticks: Lines,
    /// What the engine works on, asked for nothing but its clock.
    storage: BoxStorage,
    retire_by: watch::Receiver<Option<Timestamp>>,
    orders: Orders,
}

/// Runs until the standard input ends.
pub(crate) fn main() -> ! {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        std::process::exit(PANICKED);
    }));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("a worker is given its orders");
    let orders: Orders = serde_json::from_str(&line).expect("orders are one line of JSON");
    let mutant = orders
        .mutant
        .as_deref()
        .and_then(|id| Mutant::ALL.iter().copied().find(|mutant| mutant.id() == id));
    activate(mutant);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .on_thread_start(move || activate(mutant))
        .enable_all()
        .build()
        .expect("the system gives threads");
    let (retire, retire_by) = watch::channel(orders.retire_by);
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for by in lines.filter_map(|line| line.parse().ok()) {
            retire.send_replace(Some(Timestamp(by)));
        }
        // The end of the input is the end of the coordinator.
        std::process::exit(0);
    });
    runtime.block_on(run(orders, retire_by))
}

#[cfg(feature = "mutants")]
fn activate(mutant: Option<Mutant>) {
    sluicegate::mutants::activate(mutant);
}

#[cfg(not(feature = "mutants"))]
fn activate(mutant: Option<Mutant>) {
    assert!(mutant.is_none(), "this build holds no planted bugs");
}

async fn run(orders: Orders, retire_by: watch::Receiver<Option<Timestamp>>) -> ! {
    let ledger = Ledger::begin(&orders.ledgers, &orders.name, orders.skew_s);
    let ledger = Arc::new(ledger.expect("the coordinator made the directory of ledgers"));
    let ticks = ticks::begin(&orders.ledgers, &orders.name);
    let ticks = ticks.expect("the coordinator made the directory of ledgers");
    let environment = Skewed::new(orders.skew_s);
    let mut told = String::new();
    for _ in 0..OPENINGS_MAX {
        match open(&orders.database, &environment.inner).await {
            Ok(storage) => {
                let observed = Observed::new(storage.clone(), Arc::clone(&ledger));
                let engine = Engine::new(observed, environment.clone(), engine_settings());
                let station =
                    Station { engine, environment, ledger, ticks, storage, retire_by, orders };
                live(Arc::new(station)).await;
            }
            Err(why) => told = why,
        }
        environment.sleep(REPEAT_AFTER).await;
    }
    eprintln!("no database: {told}");
    std::process::exit(NO_DATABASE)
}

async fn open(database: &Database, environment: &SystemEnvironment) -> Result<BoxStorage, String> {
    match database {
        Database::Postgres(place) => {
            let options = place.options().map_err(|error| error.to_string())?;
            let opened = PostgresStorage::open(options).await.map_err(|e| e.to_string())?;
            let (storage, environment) = (opened.clone(), environment.clone());
            tokio::spawn(async move { storage.relay(&environment).await });
            Ok(BoxStorage::new(opened))
        }
        Database::Sqlite(place) => {
            let opened = SqliteStorage::open(place.options()).map_err(|e| e.to_string())?;
            Ok(BoxStorage::new(opened))
        }
    }
}

async fn live(station: Arc<Station>) -> ! {
    for slot in 0..SLOTS {
        let station = Arc::clone(&station);
        tokio::spawn(async move { claim_and_work(&station, slot).await });
    }
    for reconciler in Reconciler::ALL {
        let station = Arc::clone(&station);
        tokio::spawn(async move {
            loop {
                station.pause(TICK).await;
                tell(reconciler.name(), station.tick(*reconciler).await);
            }
        });
    }
    loop {
        station.environment.inner.noticed(POLL * 5).await;
        tell("dispatcher", station.engine.dispatch_pass(&Scope::default()).await);
    }
}

fn tell<T>(who: &str, done: Result<T, EngineError>) {
    if let Err(error) = done {
        eprintln!("{who}: {error}");
    }
}

async fn claim_and_work(station: &Station, slot: u32) -> ! {
    let mut grants = VecDeque::new();
    loop {
        let Some(grant) = grants.pop_front() else {
            grants.extend(station.claim(slot).await);
            if grants.is_empty() {
                station.pause(POLL).await;
            }
            continue;
        };
        grants.extend(station.handle(slot, &grant).await);
    }
}

impl Station {
    /// Somewhat more or less than a time, so that processes do not march in step.
    async fn pause(&self, about: Duration) {
        let percent = 75 + u32::try_from(self.environment.random() % 50).unwrap_or(0);
        self.environment.sleep(about * percent / 100).await;
    }

    /// One tick, which is written down if it comes to its end and the storage has told its start.
    async fn tick(&self, reconciler: Reconciler) -> Result<(), EngineError> {
        let began_at = self.storage_clock().await;
        let began = self.environment.monotonic();
        let retire_by = *self.retire_by.borrow();
        let mut answers = Answers::default();
        let mut ticked = pin!(answers.of(async {
            match (reconciler, retire_by) {
                (Reconciler::Retention, Some(by)) => self.retire(by).await,
                _ => reconciler.tick(&self.engine, &Scope::default()).await,
            }
        }));
        let lasted = || self.environment.monotonic().saturating_sub(began);
        let report = loop {
            tokio::select! {
                report = &mut ticked => break report?,
                () = self.environment.sleep(GOES_ON_AFTER) => {
                    if answers.are_more()
                        && let Ok(began_at) = began_at
                    {
                        self.ticks.write(&Tick::going(reconciler, began_at, lasted()));
                    }
                }
            }
        };
        if let Ok(began_at) = began_at {
            self.ticks.write(&Tick::new(reconciler, began_at, lasted(), report.errors));
        }
        Ok(())
    }

    /// A tick of retention that takes away whatever had happened by then, and nothing that happens
    /// while this process is stopped.
    async fn retire(&self, by: Timestamp) -> Result<Report, EngineError> {
        let storage = Observed::new(self.storage.clone(), Arc::clone(&self.ledger));
        let settings = Settings { keep: Some(Duration::ZERO), ..engine_settings() };
        let engine = Engine::new(Pinned::new(storage, by), self.environment.clone(), settings);
        engine.retention_tick(&Scope::default()).await
    }

    async fn storage_clock(&self) -> Result<Timestamp, StorageError> {
        let mut reader = self.storage.snapshot(Consistency::Statement).await?;
        reader.read_clock().await
    }

    fn request(&self, slot: u32) -> ClaimRequest {
        ClaimRequest {
            request: self.engine.request_id(),
            sent: Sent::First,
            worker: "worker".into(),
            instance: self.orders.name.as_str().into(),
            namespace: None,
            partitions: 0..u16::MAX,
            lanes: vec!["default".into()],
            kinds: Vec::new(),
            limit: 1 + slot % 2,
            lease: LEASE,
        }
    }

    async fn claim(&self, slot: u32) -> Vec<Claimed> {
        let mut request = self.request(slot);
        for _ in 0..CALLS_MAX {
            match self.engine.claim(request.clone()).await {
                Ok(grants) => {
                    self.granted(&grants);
                    return grants;
                }
                Err(error) => eprintln!("claim: {error}"),
            }
            request.sent = Sent::Again;
            self.pause(REPEAT_AFTER).await;
        }
        Vec::new()
    }

    fn granted(&self, grants: &[Claimed]) {
        for grant in grants {
            self.ledger.write(&Entry::Granted { lease: grant.token().into() });
        }
    }

    /// Works on a grant and says what became of it; returns what it was granted in the same call.
    async fn handle(&self, slot: u32, grant: &Claimed) -> Vec<Claimed> {
        let token = grant.token();
        let fate = fate(self.orders.seed, token.execution, token.incarnation, token.attempt);
        self.take_inputs(grant).await;
        if !self.work(grant, &fate).await {
            return Vec::new();
        }
        if slot == TURNS_OVER {
            return self.turn_over(slot, token, fate.report).await;
        }
        let end = fate.report.end();
        for _ in 0..CALLS_MAX {
            let reply = self.engine.report(token, fate.report.clone()).await;
            if self.replied(token, end, reply).await {
                break;
            }
            self.pause(REPEAT_AFTER).await;
        }
        Vec::new()
    }

    /// Writes down what is passed to an execution, once all of it is there.
    async fn take_inputs(&self, grant: &Claimed) {
        if !grant.execution.has_inputs {
            return;
        }
        let token = grant.token();
        let inputs = match &grant.inputs {
            Inputs::Sent(inputs) => Some(inputs.clone()),
            Inputs::Paged => self.read_inputs(token).await,
        };
        if let Some(inputs) = inputs {
            self.ledger.write(&Entry::passed(token.into(), &inputs));
        }
    }

    /// Reads inputs in pages; nothing if the lease is lost, or calls are not answered.
    async fn read_inputs(&self, token: LeaseToken) -> Option<Vec<Input>> {
        let (mut inputs, mut after) = (Vec::new(), None);
        for _ in 0..READS_MAX {
            match self.engine.read_inputs(token, after, INPUT_ROWS).await {
                Ok(page) => {
                    inputs.extend(page.inputs);
                    after = page.next_cursor;
                    if after.is_none() {
                        return Some(inputs);
                    }
                }
                Err(EngineError::LeaseLost(_)) => return None,
                Err(error) => eprintln!("read_inputs: {error}"),
            }
        }
        None
    }

    /// Reports and claims in one call, repeated under one request id until there is an answer.
    async fn turn_over(
        &self,
        slot: u32,
        token: LeaseToken,
        report: report::Report,
    ) -> Vec<Claimed> {
        let mut request = self.request(slot);
        for _ in 0..CALLS_MAX {
            let reports = vec![(token, report.clone())];
            match self.engine.complete_and_claim(reports, request.clone()).await {
                Ok((replies, grants)) => {
                    self.granted(&grants);
                    let reply = replies.into_iter().next().expect("one report has one reply");
                    if reply.is_ok() {
                        let granted = grants.iter().map(|grant| grant.token().into()).collect();
                        self.ledger.write(&Entry::TurnedOver { lease: token.into(), granted });
                    }
                    self.replied(token, report.end(), reply).await;
                    return grants;
                }
                Err(error) => eprintln!("turn-over: {error}"),
            }
            request.sent = Sent::Again;
            self.pause(REPEAT_AFTER).await;
        }
        Vec::new()
    }

    /// Takes the reply to a report; false if that was none.
    async fn replied(
        &self,
        token: LeaseToken,
        end: AttemptEnd,
        reply: Result<Reported, EngineError>,
    ) -> bool {
        match reply {
            Ok(reported) => {
                self.ledger.write(&Entry::reported(token.into(), end, reported));
                if let Reported::Suspended { epoch } = reported
                    && token.nonce.is_multiple_of(2)
                {
                    // The client resumes whatever is suspended: of two that do, one does it.
                    self.resume(token.execution, epoch).await;
                }
                true
            }
            Err(EngineError::LeaseLost(_)) => {
                self.ledger.write(&Entry::Lost { lease: token.into() });
                true
            }
            Err(error) => {
                eprintln!("report: {error}");
                false
            }
        }
    }

    async fn resume(&self, execution: ExecutionId, epoch: u64) {
        for _ in 0..CALLS_MAX {
            self.pause(REPEAT_AFTER).await;
            match self.engine.resume(execution, epoch).await {
                Ok(reported) => {
                    return self.ledger.write(&Entry::resumed(execution, epoch, reported));
                }
                Err(EngineError::Refused(_)) => return,
                Err(error) => eprintln!("resume: {error}"),
            }
        }
    }

    /// Lets the work take its time; false if the lease was lost meanwhile.
    async fn work(&self, grant: &Claimed, fate: &Fate) -> bool {
        let token = grant.token();
        if fate.progress > 0 && !self.progress(token, 1).await {
            return false;
        }
        let mut left = fate.work;
        loop {
            let part = match fate.renewal {
                Renewal::Kept => left.min(LEASE / 2),
                Renewal::Forgotten => left,
            };
            self.environment.sleep(part).await;
            left -= part;
            if left.is_zero() {
                break;
            }
            if let Err(EngineError::LeaseLost(_)) = self.engine.renew(token, LEASE).await {
                return false;
            }
        }
        // The first one again, as if the network had kept it: it takes nothing back.
        let again = (fate.progress > 1).then_some([fate.progress, 1]);
        for sequence in again.into_iter().flatten() {
            if !self.progress(token, sequence).await {
                return false;
            }
        }
        true
    }

    /// Reports progress, twice if the first has no answer; false if the lease is lost.
    async fn progress(&self, token: LeaseToken, sequence: u64) -> bool {
        let mark = ProgressMark { attempt: token.attempt, sequence };
        let value = work::progress(self.orders.seed, token.execution, token.incarnation, mark);
        for _ in 0..PROGRESS_CALLS_MAX {
            match self.engine.progress(token, sequence, value.as_slice().into()).await {
                Ok(()) => {
                    self.ledger.write(&Entry::Progressed { lease: token.into(), sequence });
                    return true;
                }
                Err(EngineError::LeaseLost(_)) => {
                    self.ledger.write(&Entry::Lost { lease: token.into() });
                    return false;
                }
                Err(error) => eprintln!("progress: {error}"),
            }
        }
        true
    }
}
