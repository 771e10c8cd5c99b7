//! A socket between an engine and its server that knows just enough of Postgres' protocol to cut a
//! connection after COMMIT was forwarded and before its answer is. Never alters a message.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};

/// The name of a server's socket, as clients look for it.
const SOCKET: &str = ".s.PGSQL.5432";
/// Codes of requests for encryption, which come instead of a startup packet.
const ENCRYPTION: [u32; 2] = [80_877_103, 80_877_104];
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1_024;
/// Length of the longest message that is waited for as a whole.
const MESSAGE_BYTES_MAX: usize = 256 * 1_024 * 1_024;

/// Where the server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Upstream {
    Socket(PathBuf),
    Host(String, u16),
}

#[derive(Debug)]
struct Shared {
    upstream: Upstream,
    /// Commits that are still to be cut.
    armed: AtomicU32,
    /// Commits that the server made and whose answer nobody got.
    cut: AtomicU64,
    /// Server processes of the open connections.
    pids: Mutex<BTreeSet<i32>>,
}

/// A listening proxy; its task ends with the runtime.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    shared: Arc<Shared>,
    directory: PathBuf,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Proxy {
    /// Listens in a directory, which it makes, for clients of the server at that URL.
    pub(super) fn listen(directory: &Path, url: &str) -> Result<Self, String> {
        let say = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
        let options = PgConnectOptions::from_str(url).map_err(|error| say(&error))?;
        let port = options.get_port();
        let host = options.get_host();
        let upstream = match options.get_socket() {
            Some(socket) => Upstream::Socket(socket.join(format!(".s.PGSQL.{port}"))),
            None if host.starts_with('/') => {
                Upstream::Socket(Path::new(host).join(format!(".s.PGSQL.{port}")))
            }
            None => Upstream::Host(host.to_owned(), port),
        };
        std::fs::create_dir_all(directory).map_err(|error| say(&error))?;
        let listener = UnixListener::bind(directory.join(SOCKET)).map_err(|error| say(&error))?;
        let shared = Arc::new(Shared {
            upstream,
            armed: AtomicU32::new(0),
            cut: AtomicU64::new(0),
            pids: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            // Ends when the listener does, with the runtime.
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&accepting);
                tokio::spawn(async move { serve(&shared, client).await });
            }
        });
        Ok(Self { shared, directory: directory.to_owned() })
    }

    /// Where it listens.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Cuts as many of the next commits.
    pub(super) fn arm(&self, commits: u32) {
        self.shared.armed.store(commits, Ordering::SeqCst);
    }

    /// Commits that the server made and whose answer nobody got.
    pub(super) fn cut(&self) -> u64 {
        self.shared.cut.load(Ordering::SeqCst)
    }

    /// Server processes of the open connections.
    pub(super) fn pids(&self) -> BTreeSet<i32> {
        self.shared.pids().clone()
    }
}

impl Shared {
    fn pids(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_cut(&self) -> bool {
        let less = |armed: u32| armed.checked_sub(1);
        self.armed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

async fn connect(upstream: &Upstream) -> std::io::Result<Box<dyn Stream>> {
    match upstream {
        Upstream::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Upstream::Host(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }
}

async fn serve(shared: &Shared, client: UnixStream) {
    let server = connect(&shared.upstream).await;
    let Ok(server) = server else { return };
    let mut line = Line::new(shared, client, server);
    // Whichever end goes takes the other one along.
    let _ = line.run().await;
    if let Some(pid) = line.pid {
        shared.pids().remove(&pid);
    }
}

/// What a connection does with the server's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answers {
    Forwarded,
    Swallowed,
}

/// What a look at a message leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Forward,
    Hold,
    Cut,
}

struct Line<'a> {
    shared: &'a Shared,
    client: UnixStream,
    server: Box<dyn Stream>,
    answers: Answers,
    started: bool,
    pid: Option<i32>,
}

impl<'a> Line<'a> {
    fn new(shared: &'a Shared, client: UnixStream, server: Box<dyn Stream>) -> Self {
        let answers = Answers::Forwarded;
        Self { shared, client, server, answers, started: false, pid: None }
    }

    async fn run(&mut self) -> std::io::Result<()> {
        let mut asked = Vec::with_capacity(READ_BYTES);
        let mut answered = Vec::with_capacity(READ_BYTES);
        loop {
            tokio::select! {
                read = self.client.read_buf(&mut asked) => {
                    if read? == 0 || !self.ask(&mut asked).await? {
                        return Ok(());
                    }
                }
                read = self.server.read_buf(&mut answered) => {
                    if read? == 0 || !self.answer(&mut answered).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Passes on what is whole of the client's bytes; false at the end.
    async fn ask(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
        // In one piece: a message at a time would wait for the acknowledgement of the last one.
        let mut passed = Vec::with_capacity(bytes.len());
        while let Some(length) = length(bytes, usize::from(self.started))? {
            let message: Vec<u8> = bytes.drain(..length).collect();
            if !self.started {
                let code = message.get(4..8).map_or(0, number);
                if ENCRYPTION.contains(&code) {
                    self.client.write_all(b"N").await?;
                    continue;
                }
                self.started = true;
            } else if is_commit(&message) && self.shared.take_cut() {
                self.answers = Answers::Swallowed;
            }
            passed.extend(message);
        }
        self.server.write_all(&passed).await?;
        Ok(true)
    }

    /// Passes on what is whole of the server's bytes; false once the connection is to be cut.
    async fn answer(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
        let mut whole = 0;
        while let Some(length) = length(&bytes[whole..], 1)? {
            let message = &bytes[whole..whole + length];
            if let (b'K', Some(pid)) = (message[0], message.get(5..9)) {
                let pid = number(pid).cast_signed();
                self.pid = Some(pid);
                self.shared.pids().insert(pid);
            }
            match look(self.answers, message) {
                Look::Forward => {}
                Look::Hold => {
                    bytes.drain(whole..whole + length);
                    continue;
                }
                Look::Cut => {
                    if is_committed(message) {
                        self.shared.cut.fetch_add(1, Ordering::SeqCst);
                    }
                    return Ok(false);
                }
            }
            whole += length;
        }
        let passed: Vec<u8> = bytes.drain(..whole).collect();
        self.client.write_all(&passed).await?;
        Ok(true)
    }
}

/// The commit's own answer, or the end of its reply, is what ends a connection that is cut.
fn look(answers: Answers, message: &[u8]) -> Look {
    match (answers, message[0]) {
        (Answers::Forwarded, _) => Look::Forward,
        (Answers::Swallowed, b'C' | b'E' | b'Z') => Look::Cut,
        (Answers::Swallowed, _) => Look::Hold,
    }
}

fn is_commit(message: &[u8]) -> bool {
    let text = message.get(5..).unwrap_or_default();
    let text = text.strip_suffix(&[0]).unwrap_or(text).trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    message[0] == b'Q' && text.eq_ignore_ascii_case(b"commit")
}

/// A transaction that had failed is answered `ROLLBACK`.
fn is_committed(message: &[u8]) -> bool {
    message[0] == b'C' && message.get(5..).is_some_and(|tag| tag == b"COMMIT\0")
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The length of the first message, if it is whole; `lead` bytes stand before its own count.
fn length(bytes: &[u8], lead: usize) -> std::io::Result<Option<usize>> {
    let Some(count) = bytes.get(lead..lead + 4) else { return Ok(None) };
    let length = lead + number(count) as usize;
    if length < lead + 4 || length > MESSAGE_BYTES_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    Ok((bytes.len() >= length).then_some(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let count = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind][..], &count, body].concat()
    }

    #[test]
    fn only_a_simple_query_that_is_commit_is_one() {
        assert!(is_commit(&message(b'Q', b"commit\0")));
        assert!(is_commit(&message(b'Q', b" COMMIT; \0".trim_ascii())));
        assert!(!is_commit(&message(b'Q', b"commit prepared 'x'\0")));
        assert!(!is_commit(&message(b'P', b"commit\0")));
    }

    #[test]
    fn a_commit_counts_only_if_the_server_says_commit() {
        assert!(is_committed(&message(b'C', b"COMMIT\0")));
        assert!(!is_committed(&message(b'C', b"ROLLBACK\0")));
        assert!(!is_committed(&message(b'E', b"COMMIT\0")));
        assert_eq!(look(Answers::Swallowed, &message(b'N', b"notice\0")), Look::Hold);
        assert_eq!(look(Answers::Forwarded, &message(b'C', b"COMMIT\0")), Look::Forward);
    }

    #[test]
    fn a_message_is_taken_whole_or_not_at_all() {
        let whole = message(b'Q', b"commit\0");
        for cut in 0..whole.len() {
            assert_eq!(length(&whole[..cut], 1).unwrap(), None);
        }
        assert_eq!(length(&whole, 1).unwrap(), Some(whole.len()));
        assert!(length(&[b'Q', 0, 0, 0, 3], 1).is_err());
    }

    #[tokio::test]
    async fn an_armed_proxy_swallows_the_answer_of_one_commit_and_closes_both_ends() {
        let directory = tempfile::tempdir().unwrap();
        let server = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let host = directory.path().to_string_lossy().replace('/', "%2F");
        let url = format!("postgres://me@{host}/db");
        let proxy = Proxy::listen(&directory.path().join("proxy"), &url).unwrap();
        proxy.arm(1);
        let mut client = UnixStream::connect(proxy.directory().join(SOCKET)).await.unwrap();
        let (mut behind, _) = server.accept().await.unwrap();
        client.write_all(&[0, 0, 0, 8, 0, 3, 0, 0]).await.unwrap();
        client.write_all(&message(b'Q', b"commit\0")).await.unwrap();
        let mut asked = [0; 20];
        behind.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked[8..], message(b'Q', b"commit\0"));
        behind.write_all(&message(b'C', b"COMMIT\0")).await.unwrap();
        assert_eq!(client.read(&mut [0; 8]).await.unwrap_or(0), 0, "nothing reaches the client");
        assert_eq!(proxy.cut(), 1);
    }
}
