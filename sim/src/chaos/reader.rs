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
                    if handed % ACKNOWLEDGED_AFTER == 0 {
                        self.acknowledge(consumer).await;
                    }
                }
                Ok(None) if numbered => {
                    self.acknowledge(consumer).await;
                    return Followed::ToTheEnd;
                }
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

    async fn acknowledge(&self, consumer: &Consumer<Observed<BoxStorage, Ledger>, Skewed>) {
        match consumer.acknowledge().await {
            Ok(()) => {
                let position = consumer.cursor().position.0;
                self.desk.write(&Entry::Acknowledged { position });
            }
            Err(error) => self.failed("acknowledge", &error).await,
        }
    }

    async fn failed(&self, call: &str, error: &EngineError) {
        if !error.is_transient() {
            let (call, error) = (call.to_owned(), error.to_string());
            self.desk.write(&Entry::Erred { flow: None, call, error });
        }
        self.desk.pause(LOOK_AFTER).await;
    }
}
