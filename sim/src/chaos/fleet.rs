//! The worker processes: started, killed, stopped for a while, and started again. None of them
//! outlives this process, whatever becomes of it. Never looks into the database.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use sluicegate::time::Timestamp;

use super::database::{Database, PostgresPlace};
use super::proxy::Proxy;
use super::worker::{Orders, PANICKED};

/// The hidden command that a worker process runs.
pub(crate) const COMMAND: &str = "chaos-worker";
/// Seconds by which the wall clocks of the workers are off, in turn.
const SKEWS_S: [i64; 3] = [0, 3_600, -3_600];
/// Stops a process until its input ends, so that a stopped process goes on, and ends, once nobody
/// is left who would have told it to.
const PAUSE: &str = r#"kill -STOP "$1"; read -r _; kill -CONT "$1""#;

/// What every worker of a run is told alike.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) database: Database,
    pub(super) seed: u64,
    pub(super) mutant: Option<String>,
    pub(super) directory: PathBuf,
}

/// A running worker.
#[derive(Debug)]
struct Worker {
    child: Child,
    /// Its input: closed with this process, which ends the worker.
    input: ChildStdin,
    name: String,
}

/// The place of one worker after another.
#[derive(Debug)]
struct Berth {
    worker: Option<Worker>,
    proxy: Option<Proxy>,
    started: u32,
}

/// All worker processes of a run.
#[derive(Debug)]
pub(super) struct Fleet {
    common: Common,
    berths: Vec<Berth>,
    /// What workers take away had happened by then.
    retire_by: Option<Timestamp>,
    /// What ended without having been killed.
    pub(super) accidents: Vec<String>,
}

/// A stopped worker; goes on when this is dropped.
#[derive(Debug)]
pub(super) struct Paused {
    shell: Child,
}

impl Drop for Paused {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It ends by itself; there is nobody to tell if it does not.
        drop(self.shell.wait());
    }
}

impl Fleet {
    /// Starts so many workers; must be called on a runtime that lasts.
    pub(super) fn start(common: Common, count: usize) -> Result<Self, String> {
        let mut fleet = Self { common, berths: Vec::new(), retire_by: None, accidents: Vec::new() };
        for number in 0..count {
            let proxy = match &fleet.common.database {
                Database::Postgres(place) => {
                    let directory = fleet.common.directory.join(format!("proxy{number}"));
                    Some(Proxy::listen(&directory, &place.url)?)
                }
                Database::Sqlite(_) => None,
            };
            fleet.berths.push(Berth { worker: None, proxy, started: 0 });
            fleet.launch(number)?;
        }
        Ok(fleet)
    }

    pub(super) fn count(&self) -> usize {
        self.berths.len()
    }

    /// The name under which the present worker of a berth claims.
    pub(super) fn name(&self, berth: usize) -> Option<&str> {
        self.berths[berth].worker.as_ref().map(|worker| worker.name.as_str())
    }

    /// The sockets between workers and server; none with a file.
    pub(super) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.berths.iter().filter_map(|berth| berth.proxy.as_ref())
    }

    /// The socket of a berth.
    pub(super) fn proxy(&self, berth: usize) -> Option<&Proxy> {
        self.berths[berth].proxy.as_ref()
    }

    /// Starts again what has ended. A worker that ended by itself is an accident if it panicked.
    pub(super) fn tend(&mut self) -> Result<(), String> {
        for number in 0..self.berths.len() {
            let worker = &mut self.berths[number].worker;
            let ended = match worker {
                Some(worker) => worker.child.try_wait().map_err(|error| error.to_string())?,
                None => None,
            };
            if let Some(status) = ended {
                let name = worker.take().map(|worker| worker.name).unwrap_or_default();
                if status.code() == Some(PANICKED) {
                    let log = self.common.directory.join(format!("{name}.log"));
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    let panic = said.lines().skip_while(|line| !line.contains("panicked"));
                    let panic: Vec<&str> = panic.take(3).collect();
                    self.accidents.push(format!("worker {name} panicked: {}", panic.join(" ")));
                }
            }
            if self.berths[number].worker.is_none() {
                self.launch(number)?;
            }
        }
        Ok(())
    }

    /// Has every worker, and each that is started from now on, take away what had happened by then.
    pub(super) fn retire(&mut self, by: Timestamp) {
        self.retire_by = Some(by);
        let line = format!("{}\n", by.0);
        for worker in self.berths.iter_mut().filter_map(|berth| berth.worker.as_mut()) {
            // One that has ended is started again, and told so then.
            let _ = worker.input.write_all(line.as_bytes());
        }
    }

    /// Ends a worker as `kill -9` does; false if none was running.
    pub(super) fn kill(&mut self, berth: usize) -> bool {
        let Some(mut worker) = self.berths[berth].worker.take() else { return false };
        let running = matches!(worker.child.try_wait(), Ok(None));
        let killed = running && worker.child.kill().is_ok();
        drop(worker.child.wait());
        killed
    }

    /// Stops a worker where it stands.
    pub(super) fn pause(&self, berth: usize) -> Result<Paused, String> {
        let worker = self.berths[berth].worker.as_ref().ok_or("no worker to stop")?;
        let mut shell = Command::new("sh");
        shell.args(["-c", PAUSE, "pause"]).arg(worker.child.id().to_string());
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = shell.spawn().map_err(|error| format!("stopping a worker: {error}"))?;
        Ok(Paused { shell })
    }

    fn launch(&mut self, number: usize) -> Result<(), String> {
        let berth = &mut self.berths[number];
        let name = format!("worker{number}-{}", berth.started);
        berth.started += 1;
        let database = match (&self.common.database, &berth.proxy) {
            (Database::Postgres(place), Some(proxy)) => Database::Postgres(through(place, proxy)?),
            (database, _) => database.clone(),
        };
        let orders = Orders {
            database,
            seed: self.common.seed,
            name: name.clone(),
            skew_s: SKEWS_S[number % SKEWS_S.len()],
            mutant: self.common.mutant.clone(),
            ledgers: self.common.directory.clone(),
            retire_by: self.retire_by,
        };
        let child = spawn(&orders).map_err(|error| format!("starting a worker: {error}"))?;
        let (child, input) = child;
        berth.worker = Some(Worker { child, input, name });
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for berth in 0..self.berths.len() {
            self.kill(berth);
        }
    }
}

/// A database behind a proxy.
pub(super) fn through(place: &PostgresPlace, proxy: &Proxy) -> Result<PostgresPlace, String> {
    place.through(proxy.directory()).map_err(|error| error.to_string())
}

fn spawn(orders: &Orders) -> std::io::Result<(Child, ChildStdin)> {
    let log = orders.ledgers.join(format!("{}.log", orders.name));
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut worker = Command::new(std::env::current_exe()?);
    worker.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    let mut child = worker.spawn()?;
    let mut input = child.stdin.take().expect("the input was asked for");
    // Orders may hold a password: they go where no list of processes shows them.
    let mut line = serde_json::to_vec(orders)?;
    line.push(b'\n');
    input.write_all(&line)?;
    Ok((child, input))
}
