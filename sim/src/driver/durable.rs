//! What of the simulated Postgres is on its disk: everything that has committed, or, under
//! asynchronous commit, all but a tail. A crash of the database ends every session and leaves what
//! is on the disk. Never decides when one strikes.

use sluicegate::storage::EventId;

use crate::database::Database;
use crate::driver::tally::Sometimes;
use crate::driver::world::{Answer, World};
use crate::invariants::Judge;
use crate::plan::Commits;
use crate::tape::{Chance, Site};

/// A server writes its log at the latest this long after an asynchronous commit: three times the
/// default `wal_writer_delay` of Postgres, as its manual promises.
const FLUSHED_AFTER_US: i64 = 600_000;
/// How long a server takes to come back.
const RECOVERY_US: i64 = 250_000;

/// The disk while it lags behind.
#[derive(Debug)]
pub(crate) struct Lagging {
    database: Database,
    judge: Judge,
    since: i64,
}

impl World {
    /// A transaction is about to commit: where commits are asynchronous, it may stay off the disk
    /// for a while, and so do those that follow it.
    pub(crate) fn before_commit(&mut self) {
        let relaxed = self.commits == Commits::Asynchronous || self.database.commits_in_memory();
        if !relaxed || !self.faults_on {
            return;
        }
        self.flush_in_time();
        if self.lagging.is_none() && self.tape.draw(Site::Detail, 2, Chance::Of(8_000)) == 1 {
            let (database, judge) = (self.database.clone(), self.judge.clone());
            self.lagging = Some(Box::new(Lagging { database, judge, since: self.now }));
        }
    }

    fn flush_in_time(&mut self) {
        let since = self.lagging.as_ref().map(|lagging| lagging.since);
        if since.is_some_and(|since| since + FLUSHED_AFTER_US <= self.now) {
            self.lagging = None;
        }
    }

    /// The database crashes, with every session, and recovers what is on its disk.
    ///
    /// Where commits are said to be asynchronous, the judge forgets what was lost along with what
    /// actors were told of it: nothing else was promised to them.
    pub(crate) fn crash_database(&mut self) {
        self.flush_in_time();
        self.lingering.clear();
        let forgets = self.lagging.is_some() && self.commits == Commits::Asynchronous;
        for slot in &mut self.slots {
            if forgets && slot.session.is_some() {
                slot.answer = Answer::MayBeLost;
            }
            slot.session = None;
        }
        if let Some(lagging) = self.lagging.take() {
            self.tally.sometimes(Sometimes::TailLost);
            let counters = self.database.counters;
            self.database = lagging.database;
            self.database.counters = counters;
            self.event_highest = EventId(0);
            let recovered = match self.commits {
                Commits::Asynchronous => {
                    let lost = std::mem::replace(&mut self.judge, lagging.judge);
                    self.judge.recall_asked(&lost);
                    Ok(())
                }
                Commits::Synchronous => self.judge.recovered(lagging.judge.mirror().clone()),
            };
            self.violation = self.violation.take().or_else(|| recovered.err());
        }
        self.database.abort_all();
        let mirror = self.judge.mirror();
        self.told_flow = self.told_flow.filter(|flow| mirror.labels(*flow).is_some());
        self.news.of_recovery();
        self.moved_at = self.now;
        self.pass(RECOVERY_US);
    }
}
