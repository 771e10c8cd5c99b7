//! A throwaway cluster: made, started, stopped and removed, whatever becomes of the process that
//! wanted it.
//!
//! Beside the server runs a guard, a shell whose input is a pipe that only this process holds. When
//! the process ends, by an exit, a panic, Ctrl-C or `kill -9`, the pipe closes, and the guard stops
//! the server and removes its directory.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::ServerError;
use super::binaries;

/// Lines of a log that an error shows.
const LOG_LINES_SHOWN: usize = 12;
/// Settings of every cluster; later ones win. What it holds is worth nothing after a crash of the
/// machine, so nothing is forced to the disk unless a caller measures or breaks just that.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "''"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("max_connections", "100"),
    ("shared_buffers", "128MB"),
    ("unix_socket_permissions", "0777"),
];
/// What the guard runs: `$1` the programs, `$2` the directory.
const GUARD: &str =
    r#"read -r _; "$1/pg_ctl" -D "$2/data" -m immediate -w stop >/dev/null 2>&1; rm -rf "$2""#;

/// Who runs the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum User {
    /// Whoever runs this process.
    Same,
    /// Somebody else, because this process runs as root.
    Other { uid: u32, gid: u32 },
}

/// A running cluster of its own; stopped and removed when dropped.
#[derive(Debug)]
pub struct Cluster {
    bin: PathBuf,
    directory: PathBuf,
    user: User,
    guard: Child,
}

impl Cluster {
    /// Makes a cluster in a temporary directory and starts it on a private socket, with these
    /// settings besides its own; takes about a second.
    ///
    /// Errors: `Missing` says what to install; a server that does not start shows its log.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self, ServerError> {
        let bin = binaries::find().ok_or(ServerError::Missing)?;
        let user = user()?;
        let directory = tempfile::Builder::new().prefix("sluicegate-").tempdir();
        let directory = directory.map_err(system("making a directory for a server"))?.keep();
        if let User::Other { uid, gid } = user {
            std::os::unix::fs::chown(&directory, Some(uid), Some(gid))
                .map_err(system("handing the directory to the server's user"))?;
        }
        // From here on the guard cleans up, whatever fails.
        let mut guard = command(user, Path::new("sh"), &directory);
        guard.args(["-c", GUARD, "guard"]).arg(&bin).arg(&directory);
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.spawn().map_err(system("starting the guard of a server"))?;
        let cluster = Self { bin, directory, user, guard };
        cluster.initialise(settings)?;
        cluster.start_server()?;
        Ok(cluster)
    }

    fn initialise(&self, settings: &[(&str, &str)]) -> Result<(), ServerError> {
        let data = self.data();
        let mut initdb = command(self.user, &self.bin.join("initdb"), &self.directory);
        initdb.arg("-D").arg(&data);
        initdb.args(["--auth=trust", "--no-sync", "--username=postgres", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-instructions"]);
        run("initdb", initdb)?;
        let directory = self.directory.display();
        let mut lines = format!("unix_socket_directories = '{directory}'\n");
        for (name, value) in SETTINGS.iter().chain(settings) {
            writeln!(lines, "{name} = {value}").expect("a string takes every text");
        }
        let configuration = data.join("postgresql.conf");
        let file = fs::OpenOptions::new().append(true).open(configuration);
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .map_err(system("writing the settings of a server"))
    }

    fn start_server(&self) -> Result<(), ServerError> {
        let log = self.directory.join("log");
        let mut start = self.pg_ctl();
        start.arg("-l").arg(&log).args(["-w", "-t", "60", "start"]);
        // The server would keep a pipe of ours open for as long as it runs.
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = start.status().map_err(system("starting pg_ctl"))?;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        Err(ServerError::Program {
            program: "pg_ctl",
            status: status.to_string(),
            output: tail(&said),
        })
    }

    fn pg_ctl(&self) -> Command {
        let mut command = command(self.user, &self.bin.join("pg_ctl"), &self.directory);
        command.arg("-D").arg(self.data());
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Its directory, which also holds the socket and the log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of the server's programs.
    pub fn programs(&self) -> &Path {
        &self.bin
    }

    /// Its URL, as the superuser.
    pub fn url(&self) -> String {
        let socket = self.directory.to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@{socket}/postgres")
    }

    /// Stops the server as a crash would: without a checkpoint, every session cut off.
    pub fn stop_immediate(&self) -> Result<(), ServerError> {
        let mut stop = self.pg_ctl();
        stop.args(["-m", "immediate", "-w", "stop"]);
        run("pg_ctl", stop)
    }

    /// Starts a stopped server, which recovers first.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.start_server()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // It ends by itself; there is nobody to tell if it does not.
        drop(self.guard.wait());
    }
}

fn user() -> Result<User, ServerError> {
    if id(&["-u"]) != Some(0) {
        return Ok(User::Same);
    }
    match (id(&["-u", "postgres"]), id(&["-g", "postgres"])) {
        (Some(uid), Some(gid)) => Ok(User::Other { uid, gid }),
        _ => Err(ServerError::NoUser),
    }
}

fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// A command of the server's user, in a directory that it may enter.
fn command(user: User, program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    if let User::Other { uid, gid } = user {
        command.uid(uid).gid(gid);
    }
    command
}

fn run(program: &'static str, mut command: Command) -> Result<(), ServerError> {
    let output = command.stdin(Stdio::null()).output().map_err(system("starting a program"))?;
    if output.status.success() {
        return Ok(());
    }
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ServerError::Program { program, status: output.status.to_string(), output: tail(&said) })
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> ServerError {
    move |error| ServerError::System { doing, error }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;

    /// Set in a copy of this process that holds a cluster until it is killed.
    const HOLDER: &str = "SLUICEGATE_TEST_HOLDS_A_CLUSTER";
    /// Looks at a directory that is about to go; each starts a program, which takes its time.
    const LOOKS_MAX: u32 = 20_000;

    fn still_there(directory: &str) -> bool {
        let look = || Command::new("test").args(["-e", directory]).status();
        (0..LOOKS_MAX).all(|_| look().is_ok_and(|status| status.success()))
    }

    fn answers(cluster: &Cluster) -> bool {
        let mut status = cluster.pg_ctl();
        status.arg("status");
        run("pg_ctl", status).is_ok()
    }

    #[test]
    fn a_cluster_is_gone_with_its_directory_when_it_is_dropped() {
        let cluster = Cluster::start(&[]).unwrap();
        let directory = cluster.directory().to_owned();
        assert!(answers(&cluster) && directory.exists());
        cluster.stop_immediate().unwrap();
        assert!(!answers(&cluster));
        cluster.restart().unwrap();
        assert!(answers(&cluster));
        drop(cluster);
        assert!(!directory.exists());
    }

    #[test]
    fn a_cluster_is_gone_when_its_process_is_killed() {
        if std::env::var_os(HOLDER).is_some() {
            let cluster = Cluster::start(&[]).unwrap();
            println!("\nholds {}", cluster.directory().display());
            // Until this process is killed: nobody writes to its input.
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            panic!("nobody killed this process");
        }
        let name = "postgres::cluster::tests::a_cluster_is_gone_when_its_process_is_killed";
        let mut holder = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(HOLDER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let held = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("holds ").map(ToOwned::to_owned));
        let directory = held.expect("the copy holds a cluster");
        assert!(Path::new(&directory).join("data/postmaster.pid").exists());
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(!still_there(&directory), "{directory} is left behind");
    }

    #[test]
    fn a_server_that_does_not_start_shows_its_log() {
        let error = Cluster::start(&[("no_such_setting", "1")]).unwrap_err().to_string();
        assert!(error.contains("no_such_setting"), "{error}");
    }
}
