//! The calls of a worker, each repeated under its ids until it is answered or the worker is at its
//! end. Never runs a handler.

use std::sync::Arc;
use std::time::Duration;

use crate::EngineError;
use crate::environment::Host;
use crate::identity::RequestId;
use crate::measure;
use crate::operations::claim::{ClaimRequest, LeaseToken, Sent};
use crate::operations::inputs::Claimed;
use crate::operations::report::Report;
use crate::pace::Pace;
use crate::storage::{Reported, Storage};
use crate::worker::station::Station;

/// The first pause before a call is repeated.
const REPEAT_LEAST: Duration = Duration::from_millis(50);
/// The longest of those pauses.
const REPEAT_MOST: Duration = Duration::from_secs(2);

/// A lease as granted, and when it was asked for on the monotonic clock.
pub(super) struct Leased {
    pub(super) grant: Claimed,
    pub(super) sent_at: Duration,
}

/// A claim on its way, perhaps for more than one time.
struct Calling {
    request: ClaimRequest,
    /// When the first call was sent that may have taken effect.
    sent_at: Duration,
    /// A commit of an earlier call may have been applied.
    uncertain: bool,
}

impl Calling {
    fn new(request: ClaimRequest) -> Self {
        Self { request, sent_at: Duration::ZERO, uncertain: false }
    }

    /// The request as it goes out now.
    ///
    /// What an earlier call was granted, if anything, is over once a lease has passed; from then on
    /// it is another claim, whose lease counts from now.
    fn send(&mut self, now: Duration, fresh: impl FnOnce() -> RequestId) -> ClaimRequest {
        if self.uncertain && now.saturating_sub(self.sent_at) >= self.request.lease {
            self.request.request = fresh();
            self.request.sent = Sent::First;
            self.uncertain = false;
        }
        if !self.uncertain {
            self.sent_at = now;
        }
        self.request.clone()
    }

    fn failed(&mut self, error: &EngineError) {
        if *error == EngineError::Unknown {
            self.uncertain = true;
            self.request.sent = Sent::Again;
        }
    }

    fn leased(&self, grants: Vec<Claimed>) -> Vec<Leased> {
        grants.into_iter().map(|grant| Leased { grant, sent_at: self.sent_at }).collect()
    }
}

impl<S: Storage, H: Host> Station<S, H> {
    fn request(&self, limit: u32) -> ClaimRequest {
        let settings = &self.settings;
        ClaimRequest {
            request: self.engine.request_id(),
            sent: Sent::First,
            worker: Arc::clone(&settings.name),
            instance: Arc::clone(&settings.instance),
            namespace: settings.namespace.clone(),
            partitions: settings.partitions.clone(),
            lanes: settings.lanes.clone(),
            kinds: self.handlers.keys().cloned().collect(),
            limit,
            lease: settings.lease,
        }
    }

    fn sends(&self, calling: &mut Calling) -> ClaimRequest {
        calling.send(self.host().monotonic(), || self.engine.request_id())
    }

    /// Claims at most so many leases. A worker that closes goes on only as long as it may have been
    /// granted some that it does not know of.
    pub(super) async fn claim(&self, limit: u32) -> Vec<Leased> {
        let mut calling = Calling::new(self.request(limit));
        let mut pace = Pace::new(REPEAT_LEAST, REPEAT_MOST);
        loop {
            let request = self.sends(&mut calling);
            match self.engine.claim(request).await {
                Ok(grants) => return self.granted(calling.leased(grants)),
                Err(error) => {
                    self.failed("claim", &error);
                    calling.failed(&error);
                }
            }
            if (self.closing.get().is_some() && !calling.uncertain) || !self.pause(&mut pace).await
            {
                return Vec::new();
            }
        }
    }

    /// Reports an attempt and claims one lease in its place; a worker that closes only reports.
    pub(super) async fn turn_over(&self, token: LeaseToken, report: Report) -> Option<Leased> {
        let mut calling = Calling::new(self.request(1));
        let mut pace = Pace::new(REPEAT_LEAST, REPEAT_MOST);
        while self.closing.get().is_none() || calling.uncertain {
            let request = self.sends(&mut calling);
            let reports = vec![(token, report.clone())];
            match self.engine.complete_and_claim(reports, request).await {
                Ok((replies, grants)) => {
                    for reply in replies {
                        self.replied(token, reply);
                    }
                    return self.granted(calling.leased(grants)).pop();
                }
                Err(error) => {
                    self.failed("complete_and_claim", &error);
                    calling.failed(&error);
                    if !error.is_transient() {
                        // The claim may be what cannot be served; the report still may.
                        break;
                    }
                }
            }
            if !self.pause(&mut pace).await {
                return None;
            }
        }
        self.report(token, report).await;
        None
    }

    /// Reports an attempt.
    async fn report(&self, token: LeaseToken, report: Report) {
        let mut pace = Pace::new(REPEAT_LEAST, REPEAT_MOST);
        loop {
            match self.engine.report(token, report.clone()).await {
                Err(error) if error.is_transient() => self.failed("report", &error),
                reply => return self.replied(token, reply),
            }
            if !self.pause(&mut pace).await {
                return;
            }
        }
    }

    fn granted(&self, leased: Vec<Leased>) -> Vec<Leased> {
        measure::claimed(&self.settings.name, leased.len());
        self.count(|totals| totals.granted += leased.len() as u64);
        leased
    }

    fn replied(&self, token: LeaseToken, reply: Result<Reported, EngineError>) {
        let execution = token.execution;
        match reply {
            Ok(reported) => {
                tracing::debug!(%execution, attempt = token.attempt, ?reported, "reported");
                self.count(|totals| totals.reported += 1);
            }
            Err(error) => {
                tracing::warn!(%execution, attempt = token.attempt, %error, "report refused");
                self.count(|totals| totals.refused += 1);
            }
        }
    }

    /// Notes a call that failed.
    pub(super) fn failed(&self, call: &'static str, error: &EngineError) {
        measure::call_failed(&self.settings.name, call);
        match error.is_transient() {
            true => tracing::debug!(call, %error, "call failed"),
            false => tracing::error!(call, %error, "call failed"),
        }
    }

    /// Waits before a call is repeated; false once the worker is at its end.
    async fn pause(&self, pace: &mut Pace) -> bool {
        let pause = pace.next(self.host().random());
        tokio::select! {
            biased;
            () = self.end.given() => false,
            () = self.host().sleep(pause) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const LEASE: Duration = Duration::from_secs(10);

    fn calling() -> Calling {
        Calling::new(ClaimRequest {
            request: RequestId(Uuid::from_u128(1)),
            sent: Sent::First,
            worker: "w".into(),
            instance: "i".into(),
            namespace: None,
            partitions: 0..1,
            lanes: vec!["default".into()],
            kinds: Vec::new(),
            limit: 1,
            lease: LEASE,
        })
    }

    fn fresh() -> RequestId {
        RequestId(Uuid::from_u128(2))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_counts_from_the_first_call_that_may_have_taken_effect() {
        let mut calling = calling();
        calling.send(at(1), fresh);
        calling.failed(&EngineError::Unavailable("gone".into()));
        assert_eq!(calling.send(at(2), fresh).sent, Sent::First, "nothing was committed");
        calling.failed(&EngineError::Unknown);
        let again = calling.send(at(3), fresh);
        assert_eq!((again.sent, again.request.0.as_u128()), (Sent::Again, 1));
        calling.failed(&EngineError::Unavailable("gone".into()));
        calling.send(at(4), fresh);
        assert_eq!(calling.sent_at, at(2));
    }

    #[test]
    fn a_claim_whose_leases_are_over_becomes_another_claim() {
        let mut calling = calling();
        calling.send(at(1), fresh);
        calling.failed(&EngineError::Unknown);
        assert_eq!(calling.send(at(10), fresh).request.0.as_u128(), 1);
        let other = calling.send(at(11), fresh);
        assert_eq!((other.sent, other.request.0.as_u128()), (Sent::First, 2));
        assert_eq!(calling.sent_at, at(11));
    }
}
