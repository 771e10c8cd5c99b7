//! Notices between the processes of one database, over NOTIFY and LISTEN. Hints only: whatever is
//! lost here is found by polling.

use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};

use super::pool::Session;
use super::{OpenError, PostgresOptions};
use crate::environment::{Notice, Relay};

/// The longest pause between two tries to open a connection.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);
/// The first of those pauses.
const RECONNECT_PAUSE_BASE: Duration = Duration::from_millis(100);
/// Partitions that one message names; beyond it the message means all of them. A message may have
/// 8000 bytes.
const PARTITIONS_NAMED_MAX: usize = 1_000;

/// Tells and listens until it is dropped.
pub(super) async fn relay<R: Relay>(options: &PostgresOptions, process: &R) {
    let teller = AtomicU32::new(0);
    let telling = again(|| tell(options, process, &teller));
    let listening = again(|| listen(options, process, &teller));
    tokio::join!(telling, listening);
}

/// Runs the work whenever it fails, after growing pauses.
async fn again<F: Future<Output = Result<Infallible, Failure>>>(work: impl Fn() -> F) {
    let mut pause = RECONNECT_PAUSE_BASE;
    loop {
        let Err(failure) = work().await;
        tracing::debug!(error = %failure.error, "the connection for notices was lost");
        pause = match failure.worked {
            true => RECONNECT_PAUSE_BASE,
            false => (pause * 2).min(RECONNECT_PAUSE_MAX),
        };
        tokio::time::sleep(pause).await;
    }
}

/// Why a connection ended, and whether it was of use before.
struct Failure {
    error: OpenError,
    worked: bool,
}

impl Failure {
    fn of(error: &sqlx::Error, worked: bool) -> Self {
        Self { error: super::error::of_open(error), worked }
    }
}

/// Tells what the process has to tell; `teller` is the server process that does so.
async fn tell<R: Relay>(
    options: &PostgresOptions,
    process: &R,
    teller: &AtomicU32,
) -> Result<Infallible, Failure> {
    let session = Session::open(options).await;
    let mut session = session.map_err(|error| Failure { error, worked: false })?;
    teller.store(session.pid().unsigned_abs(), Ordering::Relaxed);
    loop {
        let notices = process.outgoing().await;
        let told = sqlx::query("select pg_notify($1, $2)")
            .bind(channel(options))
            .bind(message(notices.iter()))
            .execute(session.connection())
            .await;
        told.map_err(|e| Failure::of(&e, true))?;
    }
}

/// Wakes the process by what others tell; it has woken itself by what it tells.
async fn listen<R: Relay>(
    options: &PostgresOptions,
    process: &R,
    teller: &AtomicU32,
) -> Result<Infallible, Failure> {
    let lazy = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .acquire_timeout(options.acquire_timeout)
        .connect_lazy_with(options.session());
    let listener = PgListener::connect_with(&lazy).await;
    let mut listener = listener.map_err(|e| Failure::of(&e, false))?;
    listener.eager_reconnect(false);
    let listening = listener.listen(&channel(options)).await;
    listening.map_err(|e| Failure::of(&e, false))?;
    // Whoever told something before this connection listened has not been heard.
    process.incoming();
    loop {
        match listener.try_recv().await {
            Ok(Some(notice)) if notice.process_id() == teller.load(Ordering::Relaxed) => {}
            Ok(Some(_)) => process.incoming(),
            Ok(None) => {
                let gone = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
                return Err(Failure::of(&gone, true));
            }
            Err(error) => return Err(Failure::of(&error, true)),
        }
    }
}

/// The channel of the schema; the server cuts names at the same length.
fn channel(options: &PostgresOptions) -> String {
    options.schema.to_string()
}

/// The partitions, separated by commas; nothing stands for all of them.
fn message<'a>(notices: impl ExactSizeIterator<Item = &'a Notice>) -> String {
    if notices.len() > PARTITIONS_NAMED_MAX {
        return String::new();
    }
    let partitions: Vec<String> = notices.map(|notice| notice.partition.0.to_string()).collect();
    partitions.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Partition;

    #[test]
    fn a_message_names_its_partitions_and_never_exceeds_what_the_server_takes() {
        let notices = |count: u16| -> Vec<Notice> {
            (0..count).map(|partition| Notice { partition: Partition(partition) }).collect()
        };
        assert_eq!(message(notices(3).iter()), "0,1,2");
        assert!(message(notices(1_000).iter()).len() < 8_000);
        assert_eq!(message(notices(1_001).iter()), "");
    }
}
