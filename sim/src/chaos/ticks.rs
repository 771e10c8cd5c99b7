//! What reconcilers say of their ticks: each that has ended leaves a line in a file of its process,
//! with its start on the storage's clock, and so does a long one now and then while it is answered.
//! Each line is read once. Never judges.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluicegate::reconcile::Reconciler;
use sluicegate::time::{Timestamp, micros};

use super::ledger::{self, Lines};

/// How a file of ticks ends: whoever waits for an answer of the storage reads none of them.
const EXTENSION: &str = "ticks";

tokio::task_local! {
    /// How many statements of the tick that the task is at were answered.
    static ANSWERS: Arc<AtomicU64>;
}

/// A statement of the task was answered.
pub(super) fn answered() {
    let _ = ANSWERS.try_with(|answers| answers.fetch_add(1, Ordering::Relaxed));
}

/// The answers of a tick that is run by a task.
#[derive(Debug, Default)]
pub(super) struct Answers {
    count: Arc<AtomicU64>,
    seen: u64,
}

impl Answers {
    /// Counts what is answered to that.
    pub(super) fn of<F: Future>(&self, tick: F) -> impl Future<Output = F::Output> + use<F> {
        ANSWERS.scope(Arc::clone(&self.count), tick)
    }

    /// True if something was answered since the last call.
    pub(super) fn are_more(&mut self) -> bool {
        let before = std::mem::replace(&mut self.seen, self.count.load(Ordering::Relaxed));
        self.seen > before
    }
}

/// A tick of whichever process: one that has ended, or how far one has come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Tick {
    reconciler: String,
    /// Shown by the storage's clock before the tick looked at anything: the wall clocks of
    /// processes are off.
    pub(super) began_at: Timestamp,
    lasted_us: i64,
    /// Rows that failed, or were left alone because they had failed before.
    errors: u64,
    /// It has not ended, and is answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    goes_on: bool,
}

impl Tick {
    pub(super) fn new(
        reconciler: Reconciler,
        began_at: Timestamp,
        lasted: Duration,
        errors: u64,
    ) -> Self {
        let (reconciler, lasted_us) = (reconciler.name().to_owned(), micros(lasted));
        Self { reconciler, began_at, lasted_us, errors, goes_on: false }
    }

    /// A tick that has come so far.
    pub(super) fn going(reconciler: Reconciler, began_at: Timestamp, lasted: Duration) -> Self {
        Self { goes_on: true, ..Self::new(reconciler, began_at, lasted, 0) }
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.goes_on
    }

    pub(super) fn is_of(&self, reconciler: Reconciler) -> bool {
        self.reconciler == reconciler.name()
    }

    /// It has brought on everything that it was to bring on.
    pub(super) fn is_whole(&self) -> bool {
        self.has_ended() && self.errors == 0
    }

    pub(super) fn lasted(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.lasted_us).unwrap_or(0))
    }

    /// When it ended, or had come so far.
    pub(super) fn ended_at(&self) -> Timestamp {
        self.began_at + self.lasted()
    }
}

/// Where a process writes its ticks.
pub(super) fn begin(directory: &Path, name: &str) -> Result<Lines, String> {
    Lines::begin(directory, name, EXTENSION)
}

/// The files of all processes, and how far each has been read.
#[derive(Debug)]
pub(super) struct Logs {
    directory: PathBuf,
    read: BTreeMap<PathBuf, u64>,
}

impl Logs {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), read: BTreeMap::new() }
    }

    /// The ticks that were written since the last call. What is read from the database afterwards
    /// shows everything that those did which have ended.
    pub(super) fn read_on(&mut self) -> Result<Vec<Tick>, String> {
        let say = |error: std::io::Error| format!("{}: {error}", self.directory.display());
        let mut ticks = Vec::new();
        for file in fs::read_dir(&self.directory).map_err(say)? {
            let path = file.map_err(say)?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let name = path.display().to_string();
                let from = self.read.entry(path.clone()).or_default();
                let mut text = String::new();
                let mut file = File::open(path).map_err(say)?;
                file.seek(SeekFrom::Start(*from)).map_err(say)?;
                file.read_to_string(&mut text).map_err(say)?;
                let whole = text.rfind('\n').map_or(0, |end| end + 1);
                let lines = ledger::lines(&text[..whole]);
                ticks.extend(lines.map_err(|why| format!("{name}: {why}"))?);
                *from += whole as u64;
            }
        }
        Ok(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_read_once_and_only_when_its_line_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let tick = |second: i64| {
            let began_at = Timestamp(second * 1_000_000);
            Tick::new(Reconciler::Reaper, began_at, Duration::from_millis(5), 0)
        };
        let log = begin(directory.path(), "one").unwrap();
        let mut logs = Logs::new(directory.path());
        assert_eq!(logs.read_on(), Ok(Vec::new()));
        log.write(&tick(1));
        assert_eq!(logs.read_on(), Ok(vec![tick(1)]));
        let line = format!("{}\n", serde_json::to_string(&tick(2)).unwrap());
        let (torn, rest) = line.split_at(9);
        log.append(torn.as_bytes());
        assert_eq!(logs.read_on(), Ok(Vec::new()));
        log.append(rest.as_bytes());
        begin(directory.path(), "two").unwrap().write(&tick(3));
        let mut read = logs.read_on().unwrap();
        read.sort_by_key(|tick| tick.began_at);
        assert_eq!(read, [tick(2), tick(3)]);
    }

    #[tokio::test]
    async fn answers_are_counted_for_the_tick_that_they_are_of() {
        let (mut mine, mut others) = (Answers::default(), Answers::default());
        answered();
        mine.of(async { answered() }).await;
        assert!(mine.are_more() && !others.are_more());
        assert!(!mine.are_more(), "nothing since");
    }

    #[test]
    fn a_tick_knows_whose_it_is_when_it_ended_and_whether_it_left_something() {
        let began_at = Timestamp(7);
        let tick = Tick::new(Reconciler::Dependency, began_at, Duration::from_micros(4), 1);
        assert!(tick.is_of(Reconciler::Dependency) && !tick.is_of(Reconciler::Reaper));
        assert_eq!((tick.ended_at(), tick.is_whole()), (Timestamp(11), false));
    }
}
