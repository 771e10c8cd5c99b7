//! Keeps one lease alive while its work runs: renews it, and notices when it is lost or has run out
//! on the monotonic clock. Never touches the work.

use std::sync::Arc;
use std::time::Duration;

use crate::EngineError;
use crate::environment::Host;
use crate::operations::claim::LeaseToken;
use crate::pace::Pace;
use crate::signal::Signal;
use crate::storage::Storage;
use crate::worker::station::Station;

/// The part of a lease after which it is renewed.
const RENEWED_AFTER: u32 = 3;
/// The part of a lease that a renewal waits before it is tried again.
const REPEATED_AFTER: u32 = 20;

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

/// Keeps a lease, in a task of its own, that was asked for at that time of the monotonic clock.
pub(super) fn keep<S: Storage, H: Host>(
    station: &Arc<Station<S, H>>,
    token: LeaseToken,
    sent_at: Duration,
) -> Kept {
    let loss = Signal::new();
    let (sender, released) = tokio::sync::oneshot::channel();
    let keeper = Keeper {
        station: Arc::clone(station),
        token,
        sent_at,
        ends_at: sent_at + station.settings.lease,
        loss: loss.clone(),
    };
    tokio::spawn(keeper.run(released));
    Kept { loss, _released: sender }
}

struct Keeper<S, H> {
    station: Arc<Station<S, H>>,
    token: LeaseToken,
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
        let mut pause = self.until(self.sent_at + lease / RENEWED_AFTER);
        loop {
            let pausing = pause.min(self.until(self.ends_at));
            tokio::select! {
                biased;
                _ = &mut released => return,
                () = self.station.host().sleep(pausing) => {}
            }
            if self.until(self.ends_at).is_zero() {
                return self.loss.give(Loss::RanOut);
            }
            match self.renew().await {
                Renewal::Done => {
                    pace.reset();
                    pause = self.until(self.sent_at + lease / RENEWED_AFTER);
                }
                Renewal::Failed => pause = pace.next(self.station.host().random()),
                Renewal::Lost => return,
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
