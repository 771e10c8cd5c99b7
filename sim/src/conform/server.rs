//! Postgres' side of a schedule: sessions that each run one statement at a time, seen from a
//! control connection. Never judges what it sees.

use std::collections::BTreeSet;
use std::time::Duration;

use sluicegate::identity::PartitionCount;
use sluicegate::storage::postgres::{
    Migrations, PostgresOptions, PostgresSnapshot, PostgresStorage, PostgresTransaction,
};
use sluicegate::storage::{
    Consistency, EventId, EventKey, Storage, StreamHead, Transaction, codes,
};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::calls::{Call, Place, place};
use super::committed;
use super::outcome::{Answer, Failure, Outcome};
use super::words::Control;
use crate::report::progress::Stopwatch;

/// Partitions of the database: schedules that it takes before it has to be made anew.
pub const PARTITIONS_MAX: u16 = 65_535;
/// How long a fresh wait is left alone, so that its one search for a deadlock is over.
const PAUSE: Duration = Duration::from_millis(3);
/// How long a statement that need not wait may run before anybody asks whether it does.
const PROMPT: Duration = Duration::from_millis(50);
/// How long what is seen may differ from everything that is expected before it counts.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a statement may neither answer nor wait.
const SILENCE: Duration = Duration::from_secs(20);
/// The shortest sleep between two looks.
const TICK: Duration = Duration::from_millis(1);
/// Looks at a statement that is expected to wait before the first sleep between them.
const LOOKS_AT_ONCE: u32 = 3;

/// Where the server is.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its URL.
    pub url: String,
    /// The schema, which this command makes and drops.
    pub schema: String,
}

/// Limits on the waits of a session's statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitLimits {
    /// Milliseconds for each lock.
    pub lock_ms: Option<u64>,
    /// Milliseconds for a statement.
    pub statement_ms: Option<u64>,
}

impl WaitLimits {
    /// How a statement that waits ends by itself, if it does.
    pub fn expiry(self) -> Option<Failure> {
        match (self.lock_ms, self.statement_ms) {
            (None, None) => None,
            (Some(lock), Some(statement)) if statement < lock => Some(Failure::StatementTimeout),
            (Some(_), _) => Some(Failure::LockTimeout),
            (None, Some(_)) => Some(Failure::StatementTimeout),
        }
    }
}

/// What can go wrong with the server itself.
pub type Trouble<T> = Result<T, String>;

fn trouble(error: impl std::fmt::Display) -> String {
    format!("postgres: {error}")
}

/// The options of a session with these limits.
pub fn options(address: &Address, limits: WaitLimits) -> Trouble<PostgresOptions> {
    // No limit of its own ends a wait while a loaded machine is still looking.
    let limit = |ms: Option<u64>| ms.map_or(Duration::from_mins(1), Duration::from_millis);
    let count = PartitionCount::new(PARTITIONS_MAX).expect("it is not zero");
    Ok(PostgresOptions::new(&address.url)
        .map_err(trouble)?
        .schema(&address.schema)
        .partitions(count)
        .connections_max(16)
        .migrations(Migrations::Apply)
        .lock_timeout(limit(limits.lock_ms))
        .statement_timeout(limit(limits.statement_ms))
        .idle_in_transaction_timeout(Duration::from_mins(1))
        .setting("deadlock_timeout", "1ms")
        .setting("synchronous_commit", "off"))
}

enum Order {
    Begin,
    Read(Consistency),
    Call(Call),
    Commit,
    Rollback,
    Drop,
}

struct Told {
    answer: Answer,
    /// The server process of a transaction that has just begun.
    pid: Option<i32>,
}

struct Line {
    orders: UnboundedSender<Order>,
    told: UnboundedReceiver<Told>,
    pid: Option<i32>,
    waits: bool,
}

/// A few sessions and the control connection.
pub struct Server {
    control: PgConnection,
    committed: String,
    event_id: String,
    make_stream: String,
    lines: Vec<Line>,
}

impl Server {
    /// Connects; one session for each of the limits.
    pub async fn open(address: &Address, limits: &[WaitLimits]) -> Trouble<Self> {
        let control = PgConnection::connect(&address.url).await.map_err(trouble)?;
        let mut storages: Vec<(WaitLimits, PostgresStorage)> = Vec::new();
        let mut lines = Vec::new();
        for limit in limits {
            let known = storages.iter().find(|(known, _)| known == limit);
            let storage = match known {
                Some((_, storage)) => storage.clone(),
                None => {
                    let opened = PostgresStorage::open(options(address, *limit)?).await;
                    storages.push((*limit, opened.map_err(trouble)?));
                    storages[storages.len() - 1].1.clone()
                }
            };
            lines.push(Line::open(storage));
        }
        let schema = &address.schema;
        Ok(Self {
            control,
            committed: committed::sql(schema),
            event_id: format!(
                "select id from {schema}.event \
                 where partition = $1 and execution = $2 and incarnation = $3 \
                 and lease_attempt = $4 and lease_change = $5 and lease_expires_at = $6"
            ),
            make_stream: format!(
                "insert into {schema}.stream_head (stream, timeline, last_position, horizon) \
                 values ($1, $2, $3, $4) on conflict (stream) do nothing"
            ),
            lines,
        })
    }

    /// Makes the stream of a schedule, as the migration makes that of a database.
    pub async fn make_stream(&mut self, head: StreamHead) -> Trouble<()> {
        let position = |position: u64| i64::try_from(position).map_err(trouble);
        sqlx::query(AssertSqlSafe(self.make_stream.clone()))
            .bind(i64::from(head.stream.0))
            .bind(head.timeline.0)
            .bind(position(head.last.0)?)
            .bind(position(head.horizon.0)?)
            .execute(&mut self.control)
            .await
            .map_err(trouble)?;
        Ok(())
    }

    /// The number of a committed event; one that is never given out if there is none.
    pub async fn event_id(&mut self, key: EventKey) -> Trouble<EventId> {
        let lease = codes::lease_event(key.lease);
        let row = sqlx::query(AssertSqlSafe(self.event_id.clone()))
            .bind(i32::from(key.execution.partition.0))
            .bind(key.execution.uuid)
            .bind(i64::from(key.incarnation))
            .bind(lease.attempt)
            .bind(lease.change)
            .bind(lease.expires_at)
            .fetch_optional(&mut self.control)
            .await
            .map_err(trouble)?;
        let id = row.map_or(i64::MAX, |row| row.get::<i64, _>(0));
        Ok(EventId(u64::try_from(id).map_err(trouble)?))
    }

    /// The committed rows of a partition, as lines.
    pub async fn committed(&mut self, partition: u16) -> Trouble<Vec<String>> {
        let rows = sqlx::query(AssertSqlSafe(self.committed.clone()))
            .bind(i32::from(partition))
            .fetch_all(&mut self.control)
            .await
            .map_err(trouble)?;
        let mut lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        lines.sort();
        Ok(lines)
    }

    /// Takes one step and looks until everything stands still, as one of the expected outcomes if
    /// it ever does.
    pub async fn take(
        &mut self,
        seat: usize,
        what: Result<Call, Control>,
        expected: &[&Outcome],
    ) -> Trouble<Outcome> {
        let mut seen = Outcome::default();
        let may_wait = expected.iter().any(|outcome| !outcome.answers.contains_key(&seat));
        match what {
            Ok(call) => self.lines[seat].send(Order::Call(call)),
            Err(control) => self.control(seat, control).await?,
        }
        match self.observe(seat, may_wait).await? {
            Some(told) => self.note(seat, told, &mut seen).await?,
            None => {
                self.lines[seat].waits = true;
                sleep(PAUSE).await;
            }
        }
        let patience = Stopwatch::start();
        loop {
            self.look_at_waiters(&mut seen).await?;
            seen.waiting = self.waiting();
            if expected.contains(&&seen) || patience.elapsed() > PATIENCE {
                break;
            }
            sleep(TICK).await;
        }
        Ok(seen)
    }

    fn waiting(&self) -> BTreeSet<usize> {
        let lines = self.lines.iter().enumerate();
        lines.filter(|(_, line)| line.waits).map(|(seat, _)| seat).collect()
    }

    /// Looks at everybody who waits until a whole round brings no news.
    async fn look_at_waiters(&mut self, seen: &mut Outcome) -> Trouble<()> {
        loop {
            let mut news = false;
            for seat in self.waiting() {
                if let Some(told) = self.observe(seat, true).await? {
                    self.note(seat, told, seen).await?;
                    news = true;
                }
            }
            if !news {
                return Ok(());
            }
        }
    }

    async fn note(&mut self, seat: usize, told: Told, seen: &mut Outcome) -> Trouble<()> {
        let line = &mut self.lines[seat];
        line.waits = false;
        line.pid = told.pid.or(line.pid);
        if let (Answer::Failed(_), Some(pid)) = (&told.answer, line.pid) {
            self.until_over(pid).await?;
        }
        seen.answers.insert(seat, told.answer);
        Ok(())
    }

    /// Waits until a failed transaction is over on the server too: the client that refuses a reply
    /// hangs up, which the server notices a little later.
    async fn until_over(&mut self, pid: i32) -> Trouble<()> {
        let open = "select count(*) from pg_stat_activity where pid = $1 and state <> 'idle'";
        self.until_none(open, pid).await
    }

    /// What the session was told; nothing if it is seen waiting.
    async fn observe(&mut self, seat: usize, may_wait: bool) -> Trouble<Option<Told>> {
        let gone = || Some(Told { answer: Answer::Failed(Failure::Unavailable), pid: None });
        if !may_wait && let Ok(told) = timeout(PROMPT, self.lines[seat].told.recv()).await {
            return Ok(told.or_else(gone));
        }
        let watch = Stopwatch::start();
        let mut looks = 0;
        while watch.elapsed() < SILENCE {
            if let Ok(told) = self.lines[seat].told.try_recv() {
                return Ok(Some(told));
            }
            // An answer that came meanwhile wins.
            if self.is_blocked(seat).await? {
                return Ok(self.lines[seat].told.try_recv().ok());
            }
            looks += 1;
            if looks > LOOKS_AT_ONCE
                && let Ok(told) = timeout(TICK, self.lines[seat].told.recv()).await
            {
                return Ok(told.or_else(gone));
            }
        }
        Ok(Some(Told { answer: Answer::Failed(Failure::Silent), pid: None }))
    }

    async fn is_blocked(&mut self, seat: usize) -> Trouble<bool> {
        let Some(pid) = self.lines[seat].pid else { return Ok(false) };
        let pids: Vec<i32> = self.lines.iter().filter_map(|line| line.pid).collect();
        let row = sqlx::query("select pg_isolation_test_session_is_blocked($1, $2)")
            .bind(pid)
            .bind(pids)
            .fetch_one(&mut self.control)
            .await
            .map_err(trouble)?;
        Ok(row.get(0))
    }

    async fn control(&mut self, seat: usize, control: Control) -> Trouble<()> {
        let line = &mut self.lines[seat];
        let pid = line.pid;
        match control {
            Control::Begin => line.send(Order::Begin),
            Control::Statement => line.send(Order::Read(Consistency::Statement)),
            Control::Snapshot => line.send(Order::Read(Consistency::Snapshot)),
            Control::Commit => line.send(Order::Commit),
            Control::Rollback => line.send(Order::Rollback),
            Control::Close => line.send(Order::Drop),
            Control::Drop => {
                line.send(Order::Drop);
                self.until_gone(pid).await?;
            }
            Control::Terminate => {
                let waits = line.waits;
                sqlx::query("select pg_terminate_backend($1)")
                    .bind(pid)
                    .execute(&mut self.control)
                    .await
                    .map_err(trouble)?;
                self.until_gone(pid).await?;
                if !waits {
                    self.lines[seat].send(Order::Drop);
                }
            }
        }
        Ok(())
    }

    /// Waits until a server process is no more, and its locks with it.
    async fn until_gone(&mut self, pid: Option<i32>) -> Trouble<()> {
        let Some(pid) = pid else { return Ok(()) };
        self.until_none("select count(*) from pg_stat_activity where pid = $1", pid).await
    }

    async fn until_none(&mut self, count: &'static str, pid: i32) -> Trouble<()> {
        let watch = Stopwatch::start();
        while watch.elapsed() < SILENCE {
            let row = sqlx::query(count).bind(pid).fetch_one(&mut self.control).await;
            if row.map_err(trouble)?.get::<i64, _>(0) == 0 {
                return Ok(());
            }
            sleep(TICK).await;
        }
        Err(format!("postgres: the transaction of process {pid} does not end"))
    }
}

impl Line {
    fn open(storage: PostgresStorage) -> Self {
        let (orders, received) = unbounded_channel();
        let (tell, told) = unbounded_channel();
        tokio::spawn(serve(storage, received, tell));
        Self { orders, told, pid: None, waits: false }
    }

    fn send(&self, order: Order) {
        // A session that is gone shows by its silence.
        let _ = self.orders.send(order);
    }
}

/// What a session has open.
enum Held {
    Nothing,
    Transaction(PostgresTransaction),
    Reader(PostgresSnapshot),
}

async fn serve(
    storage: PostgresStorage,
    mut orders: UnboundedReceiver<Order>,
    tell: UnboundedSender<Told>,
) {
    let mut held = Held::Nothing;
    while let Some(order) = orders.recv().await {
        let (next, told) = obey(&storage, held, order).await;
        held = next;
        if tell.send(told).is_err() {
            return;
        }
    }
}

async fn obey(storage: &PostgresStorage, held: Held, order: Order) -> (Held, Told) {
    let done = || Told { answer: Answer::Done, pid: None };
    let failed = |failure| Told { answer: Answer::Failed(failure), pid: None };
    match (order, held) {
        (Order::Begin, _) => match storage.begin().await {
            Ok(transaction) => {
                let pid = Some(transaction.backend_pid());
                (Held::Transaction(transaction), Told { answer: Answer::Done, pid })
            }
            Err(error) => (Held::Nothing, failed(Failure::from(&error))),
        },
        (Order::Read(consistency), _) => match storage.snapshot(consistency).await {
            Ok(reader) => (Held::Reader(reader), done()),
            Err(error) => (Held::Nothing, failed(Failure::from(&error))),
        },
        (Order::Commit, Held::Transaction(transaction)) => match transaction.commit().await {
            Ok(()) => (Held::Nothing, done()),
            Err(error) => (Held::Nothing, failed(Failure::from(&error))),
        },
        (Order::Rollback, Held::Transaction(transaction)) => {
            transaction.rollback().await;
            (Held::Nothing, done())
        }
        (Order::Call(call), held) => call_on(held, call).await,
        (_, held) => {
            drop(held);
            (Held::Nothing, done())
        }
    }
}

async fn call_on(held: Held, call: Call) -> (Held, Told) {
    let (held, result) = match held {
        Held::Transaction(mut transaction) => {
            let result = call.send(&mut transaction).await;
            match result {
                Ok(reply) => (Held::Transaction(transaction), Ok(reply)),
                Err(error) => {
                    transaction.rollback().await;
                    (Held::Nothing, Err(error))
                }
            }
        }
        Held::Reader(mut reader) => {
            assert_eq!(place(call.verb()), Some(Place::Snapshot), "a reader reads");
            let result = call.read(&mut reader).await;
            (Held::Reader(reader), result)
        }
        Held::Nothing => unreachable!("the step was prepared"),
    };
    let answer = match result {
        Ok(reply) => Answer::Reply(Box::new(reply.comparable())),
        Err(error) => Answer::Failed(Failure::from(&error)),
    };
    (held, Told { answer, pid: None })
}
