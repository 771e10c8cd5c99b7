//! A consumer of the feed whose cursor is stored: writes down what it is handed, leaves now and
//! then what it has not acknowledged, and comes again. Never judges.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::feed::{Consumer, FeedFilter, Wanted};
use sluicegate::storage::Scope;
use sluicegate::storage::boxed::BoxStorage;

use super::desk::Desk;
use super::ledger::{Entry, Ledger};
use super::worker::Skewed;
use crate::observed::Observed;

/// The name under which the cursor is stored.
const NAME: &str = "chaos";
/// The name of a consumer that is behind whenever something is taken away.
const LAGGARD: &str = "chaos_laggard";
/// How often the laggard tries to go on.
const LAGGARD_MAX: u32 = 40;
/// The reader acknowledges after so many events.
const ACKNOWLEDGED_AFTER: u32 = 20;
/// After so many events it opens its consumer anew: some of them were not acknowledged.
const HANDED_MAX: u32 = 150;
/// Consumers that one round opens at most.
const OPENED_MAX: u32 = 1_000;
/// Failures in a row after which a consumer is opened anew.
const FAILURES_MAX: u32 = 20;
/// The wait before it looks again.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Reads the feed.
pub(super) struct Reader {
    desk: Desk,
}

/// What an opened consumer came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Followed {
    /// There may be more.
    ForAWhile,
    /// Everything that had happened when it was told to stop was handed over.
    ToTheEnd,
}

/// What a consumer was told that came again after a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lagged {
    /// The place up to which it had acknowledged.
    pub(super) stored: u64,
    /// Its cursor was expired, and this one was the oldest.
    pub(super) expired: Option<u64>,
    /// The place of the event that it was handed then, if there was any.
    pub(super) next: Option<u64>,
}

impl Reader {
    pub(super) fn new(storage: &BoxStorage, ledgers: &Path) -> Result<Self, String> {
        Ok(Self { desk: Desk::new(storage, ledgers, "reader", 0)? })
    }

    /// Reads until it is told to stop, and has seen everything by then.
    pub(super) async fn read(&self, stop: &AtomicBool) {
        for _ in 0..OPENED_MAX {
            let filter = FeedFilter { scope: Scope::default(), wanted: Wanted::Everything };
            match self.desk.engine().consumer(NAME, filter).await {
                Ok(mut consumer) => {
                    self.desk.write(&Entry::Opened);
                    if self.follow(&mut consumer, stop).await == Followed::ToTheEnd {
                        return;
                    }
                }
                Err(error) => self.failed("consumer", &error).await,
            }
        }
    }

    /// Has the laggard go on by one event, from where the feed says that it can.
    pub(super) async fn lag(&self) -> Result<Lagged, String> {
        let mut told = String::new();
        for _ in 0..LAGGARD_MAX {
            match self.lag_once().await {
                Ok(lagged) => return Ok(lagged),
                Err(error) => {
                    self.failed("laggard", &error).await;
                    told = error.to_string();
                }
            }
        }
        Err(format!("a consumer that lags behind cannot go on: {told}"))
    }

    async fn lag_once(&self) -> Result<Lagged, EngineError> {
        let filter = FeedFilter { scope: Scope::default(), wanted: Wanted::Everything };
        let mut consumer = self.desk.engine().consumer(LAGGARD, filter).await?;
        let stored = consumer.cursor().position.0;
        let (event, expired) = match consumer.try_next().await {
            Err(EngineError::CursorExpired { oldest, .. }) => {
                consumer.skip_to(oldest);
                (consumer.try_next().await?, Some(oldest.position.0))
            }
            told => (told?, None),
        };
        consumer.acknowledge().await?;
        let next = event.map(|event| event.cursor.position.0);
        Ok(Lagged { stored, expired, next })
    }

    async fn follow(
        &self,
        consumer: &mut Consumer<Observed<BoxStorage, Ledger>, Skewed>,
        stop: &AtomicBool,
    ) -> Followed {
        let (mut handed, mut failures, mut numbered) = (0, 0, false);
        while handed < HANDED_MAX && failures < FAILURES_MAX {
            match consumer.try_next().await {
                Ok(Some(event)) => {
                    (handed, failures) = (handed + 1, 0);
                    self.desk.write(&Entry::handed(&event));
                    if handed % ACKNOWLEDGED_AFTER == 0
                        && let Err(error) = self.acknowledge(consumer).await
                    {
                        self.failed("acknowledge", &error).await;
                    }
                }
                // What is not acknowledged may go before it is seen again.
                Ok(None) if numbered => match self.acknowledge(consumer).await {
                    Ok(()) => return Followed::ToTheEnd,
                    Err(error) => {
                        failures += 1;
                        self.failed("acknowledge", &error).await;
                    }
                },
                Ok(None) if stop.load(Ordering::SeqCst) => {
                    // Whatever has happened gets its place before the last look.
                    match self.desk.engine().sequencer_tick(&Scope::default()).await {
                        Ok(_) => numbered = true,
                        Err(error) => {
                            failures += 1;
                            self.failed("sequencer_tick", &error).await;
                        }
                    }
                }
                Ok(None) => self.desk.pause(LOOK_AFTER).await,
                Err(error) => {
                    failures += 1;
                    self.failed("next", &error).await;
                }
            }
        }
        Followed::ForAWhile
    }

    async fn acknowledge(
        &self,
        consumer: &Consumer<Observed<BoxStorage, Ledger>, Skewed>,
    ) -> Result<(), EngineError> {
        consumer.acknowledge().await?;
        let position = consumer.cursor().position.0;
        self.desk.write(&Entry::Acknowledged { position });
        Ok(())
    }

    async fn failed(&self, call: &str, error: &EngineError) {
        if !error.is_transient() {
            let (call, error) = (call.to_owned(), error.to_string());
            self.desk.write(&Entry::Erred { flow: None, call, error, unreadable: None });
        }
        self.desk.pause(LOOK_AFTER).await;
    }
}
