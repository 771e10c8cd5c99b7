//! Keeps one lease alive while its work runs: renews it, notices when it is lost or has run out on
//! the monotonic clock, and tells of a handler that blocks. Never touches the work.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use tracing::instrument::WithSubscriber;

use crate::EngineError;
use crate::environment::Host;
use crate::measure;
use crate::operations::claim::LeaseToken;
use crate::operations::inputs::Claimed;
use crate::pace::Pace;
use crate::signal::Signal;
use crate::storage::Storage;
use crate::worker::busy::Busy;
use crate::worker::station::Station;

/// The part of a lease after which it is renewed.
const RENEWED_AFTER: u32 = 3;
/// The part of a lease that a renewal waits before it is tried again.
const REPEATED_AFTER: u32 = 20;
/// How often a keeper looks whether the handler blocks.
const LOOKS_EVERY: Duration = Duration::from_millis(500);
/// How long a handler may hold its thread before a log tells of it; then twice as long each time.
pub const BLOCKED_AFTER: Duration = Duration::from_secs(1);

/// How a lease was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// The storage said so: whatever is reported is refused.
    Taken,
    /// It may have been reaped, counted from when it was asked for; only a report can tell.
    RanOut,
}

/// A lease that is being kept; letting go of this ends that.
pub(super) struct Kept {
    loss: Signal<Loss>,
    _released: tokio::sync::oneshot::Sender<()>,
}

impl Kept {
    /// How the lease was lost; `None` as long as it is held.
    pub(super) fn loss(&self) -> Option<Loss> {
        self.loss.get()
    }

    /// Waits until the lease is lost.
    pub(super) async fn lost(&self) -> Loss {
        self.loss.given().await
    }
}

/// Keeps a lease that was asked for at that time of the monotonic clock, where its handler cannot
/// hold that up.
pub(super) fn keep<S: Storage, H: Host>(
    station: &Arc<Station<S, H>>,
    grant: &Claimed,
    sent_at: Duration,
    busy: &Busy,
) -> Kept {
    let loss = Signal::new();
    let (sender, released) = tokio::sync::oneshot::channel();
    let keeper = Keeper {
        station: Arc::clone(station),
        token: grant.token(),
        kind: Arc::clone(&grant.definition.kind),
        busy: busy.clone(),
        told_at: BLOCKED_AFTER,
        sent_at,
        ends_at: sent_at + station.settings.lease,
        loss: loss.clone(),
    };
    station.host().keep(keeper.run(released).in_current_span().with_current_subscriber());
    Kept { loss, _released: sender }
}

struct Keeper<S, H> {
    station: Arc<Station<S, H>>,
    token: LeaseToken,
    kind: Arc<str>,
    busy: Busy,
    /// How long the handler holds its thread before that is told next.
    told_at: Duration,
    /// When the last answered request was sent.
    sent_at: Duration,
    /// When the lease runs out, on the same clock.
    ends_at: Duration,
    loss: Signal<Loss>,
}

impl<S: Storage, H: Host> Keeper<S, H> {
    /// A renewal that was sent is waited for even when the work is done, since a call that is
    /// dropped costs its connection.
    async fn run(mut self, mut released: tokio::sync::oneshot::Receiver<()>) {
        let lease = self.station.settings.lease;
        let mut pace = Pace::new(lease / REPEATED_AFTER, lease / RENEWED_AFTER);
        let mut renews_at = self.sent_at + lease / RENEWED_AFTER;
        loop {
            let due_at = renews_at.min(self.ends_at);
            tokio::select! {
                biased;
                _ = &mut released => return,
                () = self.wait(due_at) => {}
            }
            if self.until(self.ends_at).is_zero() {
                return self.loss.give(Loss::RanOut);
            }
            match self.renew().await {
                Renewal::Done => {
                    pace.reset();
                    renews_at = self.sent_at + lease / RENEWED_AFTER;
                }
                Renewal::Failed => {
                    let host = self.station.host();
                    renews_at = host.monotonic() + pace.next(host.random());
                }
                Renewal::Lost => return,
            }
        }
    }

    /// Waits until that moment, and looks meanwhile what the handler does.
    async fn wait(&mut self, until: Duration) {
        loop {
            self.look();
            let left = self.until(until);
            if left.is_zero() {
                return;
            }
            self.station.host().sleep(left.min(LOOKS_EVERY)).await;
        }
    }

    /// Tells of a handler that holds its thread, ever more seldom: all else on that thread waits.
    fn look(&mut self) {
        match self.busy.holds(self.station.host().monotonic()) {
            None => self.told_at = BLOCKED_AFTER,
            Some(held) if held < self.told_at => {}
            Some(held) => {
                self.told_at = held * 2;
                measure::blocked(&self.kind);
                tracing::warn!(
                    kind = &*self.kind,
                    execution = %self.token.execution,
                    ?held,
                    "a handler blocks its thread; what blocks belongs into `spawn_blocking`"
                );
            }
        }
    }

    /// The time from now to a moment; zero once it has passed.
    fn until(&self, moment: Duration) -> Duration {
        moment.saturating_sub(self.station.host().monotonic())
    }

    async fn renew(&mut self) -> Renewal {
        let sent_at = self.station.host().monotonic();
        let lease = self.station.settings.lease;
        let mut call = std::pin::pin!(self.station.renewals.renew(self.token, lease));
        let answer = tokio::select! {
            biased;
            answer = &mut call => answer,
            () = self.station.host().sleep(self.until(self.ends_at)) => {
                self.loss.give(Loss::RanOut);
                // What it answers now is too late, and the work was told.
                drop(call.await);
                return Renewal::Lost;
            }
        };
        match answer {
            Ok(left) => {
                self.sent_at = sent_at;
                self.ends_at = self.ends_at.max(sent_at + left);
                Renewal::Done
            }
            Err(EngineError::LeaseLost(_) | EngineError::ExecutionNotFound(_)) => {
                self.loss.give(Loss::Taken);
                Renewal::Lost
            }
            Err(error) => {
                self.station.failed("renew", &error);
                Renewal::Failed
            }
        }
    }
}

/// What a renewal led to.
enum Renewal {
    Done,
    Failed,
    Lost,
}
