//! The faults, one row each in the table of their lane, and those that strike the processes of the
//! workers whatever the database is. Never judges.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tokio::time::sleep;

use super::database::Database;
use super::desk::Desk;
use super::disk::Disk;
use super::fleet::Fleet;
use super::ledger::{self, Book, Entry};
use super::proxy::Proxy;
use super::{LEASE, TICK, counts, postgres, spoil, sqlite};
use crate::postgres::Provided;
use crate::real_lane::RealLane;

/// What a strike does: how often it struck, or why it could not.
pub(super) type Strike<'a> = Pin<Box<dyn Future<Output = Result<u64, String>> + Send + 'a>>;

/// How a fault comes about.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Something does it, now and then.
    Struck(for<'a> fn(&'a mut Field) -> Strike<'a>),
    /// It is there all the time, and counts what was acknowledged under it.
    Ambient(fn(&[Book]) -> u64),
}

/// A fault.
pub(super) struct Fault {
    /// Its name in reports.
    pub(super) id: &'static str,
    /// What happens.
    pub(super) title: &'static str,
    /// How.
    pub(super) kind: Kind,
    /// Why it cannot happen here, if it cannot.
    pub(super) unavailable: fn(&Field) -> Option<String>,
}

/// What faults strike.
pub(super) struct Field {
    pub(super) database: Database,
    pub(super) provided: Option<Provided>,
    pub(super) disk: Result<Disk, String>,
    pub(super) fleet: Fleet,
    pub(super) client: Option<Proxy>,
    /// Who gives up what cannot be read.
    pub(super) operator: Desk,
    pub(super) seed: u64,
    pub(super) random: ChaCha8Rng,
    pub(super) ledgers: PathBuf,
    pub(super) round: u32,
    pub(super) namespace: String,
}

const KILL: Fault = Fault {
    id: "kill",
    title: "kill -9 of a worker process",
    kind: Kind::Struck(|field| Box::pin(kill(field))),
    unavailable: |_| None,
};

const PAUSE: Fault = Fault {
    id: "pause",
    title: "a worker process with leases stopped for longer than a lease",
    kind: Kind::Struck(|field| Box::pin(pause(field))),
    unavailable: |_| None,
};

const SKEW: Fault = Fault {
    id: "clock_skew",
    title: "acknowledged to a process whose wall clock is an hour off",
    kind: Kind::Ambient(acknowledged_under_skew),
    unavailable: |_| None,
};

static POSTGRES: &[Fault] = &[
    KILL,
    PAUSE,
    SKEW,
    spoil::SPOILT,
    postgres::TERMINATE,
    postgres::RESTART,
    postgres::CUT,
    postgres::LOCK_HOLDER,
    postgres::DEADLOCK,
    postgres::SERVER_FULL,
    postgres::IDLE,
    postgres::DISK_FULL,
];

static SQLITE: &[Fault] =
    &[KILL, PAUSE, SKEW, spoil::SPOILT, sqlite::LOCK_HOLDER, sqlite::DISK_FULL];

/// The faults of a lane.
pub(super) fn table(lane: RealLane) -> &'static [Fault] {
    match lane {
        RealLane::Postgres => POSTGRES,
        RealLane::Sqlite => SQLITE,
    }
}

/// Pauses that look for a worker with leases.
const LOOKS_MAX: u32 = 40;
/// The wait between two looks.
const LOOK_AFTER: Duration = Duration::from_millis(25);

impl Field {
    /// A number below `end`.
    pub(super) fn draw(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.random.next_u64() % end).unwrap_or(0)
    }

    /// How often the storage has answered an engine with this error.
    pub(super) fn answered(&self, error: &str) -> Result<u64, String> {
        let books = ledger::read_all(&self.ledgers)?;
        Ok(ledger::answers(&books).get(error).copied().unwrap_or(0))
    }

    /// Waits until the storage has answered an engine with this error more often than before.
    pub(super) async fn answers_since(
        &self,
        error: &str,
        before: u64,
        patience: Duration,
    ) -> Result<u64, String> {
        let looks = patience.as_millis() / LOOK_AFTER.as_millis();
        for _ in 0..looks {
            let after = self.answered(error)?;
            if after > before {
                return Ok(after - before);
            }
            sleep(LOOK_AFTER).await;
        }
        Ok(0)
    }
}

async fn kill(field: &mut Field) -> Result<u64, String> {
    let mut killed = 0;
    for _ in 0..2 {
        let berth = field.draw(field.fleet.count());
        killed += u64::from(field.fleet.kill(berth));
        let pause = field.draw(150);
        sleep(Duration::from_millis(50 + pause as u64)).await;
        field.fleet.tend()?;
        sleep(LEASE / 4).await;
    }
    Ok(killed)
}

async fn pause(field: &mut Field) -> Result<u64, String> {
    for _ in 0..LOOKS_MAX {
        let berth = field.draw(field.fleet.count());
        let Some(name) = field.fleet.name(berth).map(str::to_owned) else { continue };
        let paused = field.fleet.pause(berth)?;
        sleep(LOOK_AFTER).await;
        if counts::leases(&field.database, &name).await.unwrap_or(0) == 0 {
            drop(paused);
            sleep(LOOK_AFTER).await;
            continue;
        }
        sleep(LEASE + TICK * 3).await;
        drop(paused);
        return Ok(1);
    }
    Ok(0)
}

fn acknowledged_under_skew(books: &[Book]) -> u64 {
    let skewed = books.iter().filter(|book| book.skew_s() != 0);
    let told = skewed.flat_map(|book| &book.entries).filter(|entry| {
        matches!(entry, Entry::Submitted { .. } | Entry::Granted { .. } | Entry::Reported { .. })
    });
    told.count() as u64
}
