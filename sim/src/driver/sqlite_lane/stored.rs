//! What the file holds, compared with what the judge knows. After trouble with the disk it is not
//! known whether a commit whose answer failed has been applied: the next transaction finds out.
//! Never writes.

use sluicegate::identity::FlowKey;
use sluicegate::storage::sqlite::SqliteStorage;
use sluicegate::storage::{
    AttemptKey, Consistency, RequestKey, Result, Snapshot, Storage, SubmissionKey, Transaction,
    all_readable,
};

use super::{Backend, Reader, SqliteLane, now, settle_before_read};
use crate::disk::hushed;
use crate::driver::tally::Sometimes;
use crate::driver::world::{World, world};
use crate::history::{ActorId, Change, Commit};
use crate::invariants::Violation;
use crate::mirror::Mirror;

/// What is not known of the file.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Commits whose answer failed, in order. Each was made on the state that the judge knows: at
    /// most one of them is applied, and none once another commit has taken its place in the log.
    commits: Vec<(ActorId, Commit)>,
    /// Somebody has died, so that what was unseen may be seen, and what was seen may be lost.
    pub(crate) recovers: bool,
}

impl Doubts {
    pub(crate) fn clear(&mut self) {
        self.commits.clear();
        self.recovers = false;
    }

    /// A commit that failed may have been applied.
    pub(super) fn add(&mut self, actor: ActorId, commit: Commit) {
        self.commits.push((actor, commit));
    }

    /// A commit was applied: no earlier one will be.
    pub(super) fn overtaken(&mut self) {
        self.commits.clear();
    }

    pub(super) fn are_open(&self) -> bool {
        self.recovers || !self.commits.is_empty()
    }
}

/// Rows by their table.
type Counts = Vec<(&'static str, usize)>;

/// What the file holds.
struct Stored {
    mirror: Mirror,
    counts: Counts,
}

/// The keys under which rows are asked for.
struct Keys {
    flows: Vec<FlowKey>,
    attempts: Vec<AttemptKey>,
    submissions: Vec<SubmissionKey>,
    requests: Vec<RequestKey>,
    tables: Vec<&'static str>,
}

impl Keys {
    fn of(mirror: &Mirror, doubts: &Doubts) -> Self {
        let doubted = || doubts.commits.iter().map(|(_, commit)| commit);
        let flows = doubted().flat_map(|commit| &commit.flows);
        let flows = flows.filter_map(|change| change.after.as_ref().map(|row| row.key));
        let mut flows: Vec<FlowKey> =
            mirror.flows().iter().map(|row| row.key).chain(flows).collect();
        flows.sort_unstable();
        flows.dedup();
        let attempts = doubted().flat_map(|commit| &commit.attempts);
        let mut attempts: Vec<AttemptKey> =
            mirror.attempts().iter().chain(attempts).map(|row| row.key).collect();
        attempts.sort_unstable();
        attempts.dedup();
        let submissions = doubted().flat_map(|commit| &commit.submissions);
        let mut submissions: Vec<SubmissionKey> =
            mirror.submissions().iter().chain(submissions).map(|row| row.key.clone()).collect();
        submissions.sort_unstable();
        submissions.dedup();
        let requests = doubted().flat_map(|commit| &commit.requests);
        let requests = requests.filter_map(|change| change.after.as_ref().map(|row| row.key));
        let known = flows.iter().flat_map(|flow| mirror.requests_of(*flow)).map(|row| row.key);
        let mut requests: Vec<RequestKey> = known.chain(requests).collect();
        requests.sort_unstable();
        requests.dedup();
        let tables = mirror.counts().iter().map(|(table, _)| *table).collect();
        Self { flows, attempts, submissions, requests, tables }
    }
}

impl Stored {
    fn read(storage: &SqliteStorage, transaction: &mut Backend, keys: &Keys) -> Result<Self> {
        let mut rows = Commit::default();
        let mut reader = now(storage.snapshot(Consistency::Snapshot))?;
        for flow in &keys.flows {
            read_flow(&mut reader, *flow, &mut rows)?;
        }
        drop(reader);
        for key in &keys.attempts {
            rows.attempts.extend(now(transaction.read_attempt(key))?);
        }
        for key in &keys.submissions {
            rows.submissions.extend(now(transaction.read_submission(key))?);
        }
        for key in &keys.requests {
            let row = now(transaction.read_request(key))?;
            rows.requests.extend(row.map(new));
        }
        let counts = storage.with_connection(|connection| count(connection, &keys.tables))?;
        let counts = counts.expect("the tables are there");
        Ok(Self { mirror: Mirror::of(&rows), counts })
    }

    /// In what it differs from what is known; a table may also hold rows that nobody knows, as when
    /// a flow leaves some behind.
    fn differs_from(&self, mirror: &Mirror) -> Option<String> {
        let known = mirror.counts();
        let count = || {
            let mut pairs = known.iter().zip(&self.counts);
            let unlike = pairs.find(|(known, stored)| known.1 != stored.1);
            unlike.map(|((table, known), (_, stored))| {
                format!("{table}: {known} rows known, {stored} stored")
            })
        };
        mirror.differs(&self.mirror).or_else(count)
    }
}

impl SqliteLane {
    /// Finds out which of the commits whose answer failed has been applied, if there are such.
    pub(crate) fn settle_doubts(&self) {
        if let Ok(storage) = self.looked_at() {
            world(|world| settle_before_read(world, &storage));
        }
    }

    /// Reads the file back and compares it with what the judge knows.
    pub(crate) fn differs_from_mirror(&self) -> Option<String> {
        let keys = world(|world| Keys::of(world.judge.mirror(), &world.doubts));
        let read = || {
            let storage = self.looked_at()?;
            let mut transaction = now(storage.begin())?;
            world(|world| settle(world, &storage, &mut transaction));
            let stored = Stored::read(&storage, &mut transaction, &keys);
            now(transaction.rollback());
            stored
        };
        match hushed(read) {
            Err(error) => Some(format!("it cannot be read back: {error}")),
            Ok(stored) => world(|world| stored.differs_from(world.judge.mirror())),
        }
    }
}

/// Reads a file back that somebody has just opened, and compares it with a mirror.
pub(super) fn differs(storage: &SqliteStorage, mirror: &Mirror) -> Option<String> {
    let keys = Keys::of(mirror, &Doubts::default());
    let read = || {
        let mut transaction = now(storage.begin())?;
        let stored = Stored::read(storage, &mut transaction, &keys);
        now(transaction.rollback());
        stored
    };
    match read() {
        Err(error) => Some(format!("it cannot be read back: {error}")),
        Ok(stored) => stored.differs_from(mirror),
    }
}

/// Finds out in an open transaction which of the commits whose answer failed has been applied, and
/// whether everything else is as the judge knows it.
pub(super) fn settle(world: &mut World, storage: &SqliteStorage, transaction: &mut Backend) {
    if !world.doubts.are_open() {
        return;
    }
    let recovers = std::mem::take(&mut world.doubts.recovers);
    let keys = Keys::of(world.judge.mirror(), &world.doubts);
    let stored = match hushed(|| Stored::read(storage, transaction, &keys)) {
        Ok(stored) => stored,
        Err(error) => {
            return world.lost(format!("what was acknowledged cannot be read back: {error}"));
        }
    };
    let Some(differs) = stored.differs_from(world.judge.mirror()) else {
        return world.recovered(recovers);
    };
    let applied = world.doubts.commits.iter().position(|(_, commit)| {
        let mut mirror = world.judge.mirror().clone();
        mirror.apply(commit);
        stored.differs_from(&mirror).is_none()
    });
    let Some(applied) = applied else { return world.lost(differs) };
    let (actor, commit) = world.doubts.commits.swap_remove(applied);
    world.doubts.clear();
    world.commit = commit;
    world.tally.sometimes(Sometimes::FailedCommitApplied);
    world.committed(actor);
    world.recovered(recovers);
}

impl World {
    fn lost(&mut self, message: String) {
        self.doubts.clear();
        self.violation.get_or_insert(Violation { invariant: "I19", message });
    }

    /// The file holds what the judge knows; so it must hold all that actors were told.
    fn recovered(&mut self, crashed: bool) {
        if crashed {
            let told = self.judge.recovered(self.judge.mirror().clone());
            self.violation = self.violation.take().or_else(|| told.err());
        }
    }
}

/// Counts the rows of tables, in one statement.
fn count(connection: &rusqlite::Connection, tables: &[&'static str]) -> rusqlite::Result<Counts> {
    let each: Vec<String> =
        tables.iter().map(|table| format!("(select count(*) from sluicegate_{table})")).collect();
    let mut statement = connection.prepare_cached(&["select ", &each.join(", ")].concat())?;
    statement.query_row([], |row| {
        let count =
            |(at, table): (usize, &&'static str)| Ok((*table, row.get::<_, u32>(at)? as usize));
        tables.iter().enumerate().map(count).collect()
    })
}

fn new<T>(after: T) -> Change<T> {
    Change { before: None, after: Some(after) }
}

fn read_flow(reader: &mut Reader, flow: FlowKey, rows: &mut Commit) -> Result<()> {
    rows.flows.extend(now(reader.describe_flow(&flow))?.map(new));
    rows.summaries.extend(now(reader.describe_summary(&flow))?.map(new));
    let views = all_readable(now(reader.describe_executions(&flow))?)?;
    rows.executions.extend(views.into_iter().map(|view| new(view.execution)));
    let groups = all_readable(now(reader.describe_groups(&flow))?)?;
    rows.groups.extend(groups.into_iter().map(new));
    let edges = all_readable(now(reader.describe_edges(&flow))?)?;
    rows.edges.extend(edges.into_iter().map(new));
    Ok(())
}
