//! Whether the storage's clock has stepped forward, as the monotonic clock of this process shows:
//! every lease would seem to be over at once, although its holder is alive.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::{Timestamp, micros};

/// A reading of the storage's clock, and the moments between which it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    /// When it was asked for, on the monotonic clock.
    pub asked_at: Duration,
    /// What the storage's clock showed.
    pub shown: Timestamp,
    /// When the answer came, on the monotonic clock.
    pub answered_at: Duration,
}

#[derive(Clone, Copy, Default, Debug)]
struct Watched {
    last: Option<Reading>,
    /// Leases are let go on until then, on the monotonic clock.
    grace_until: Duration,
}

/// Compares readings of the storage's clock with the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    watched: Mutex<Watched>,
}

impl ClockWatch {
    /// Takes a reading in; true if leases are to be let go on, because the clock has stepped
    /// forward by more than `step_max` less than `grace` ago.
    ///
    /// Only what must have been a step counts: a slow answer is none. The first reading of a
    /// process is compared with nothing.
    pub(crate) fn grants_grace(
        &self,
        reading: Reading,
        step_max: Duration,
        grace: Duration,
    ) -> bool {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = watched.last {
            let went = reading.shown.0.saturating_sub(last.shown.0);
            let passed = reading.answered_at.saturating_sub(last.asked_at);
            if went.saturating_sub(micros(passed)) > micros(step_max) {
                watched.grace_until = reading.answered_at.saturating_add(grace);
            }
        }
        watched.last = Some(reading);
        reading.answered_at < watched.grace_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_MAX: Duration = Duration::from_secs(1);
    const GRACE: Duration = Duration::from_secs(30);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// Readings as (asked, shown, answered), in seconds, with whether each grants grace.
    fn check(readings: &[(u64, i64, u64, bool)]) {
        let watch = ClockWatch::default();
        for (asked, shown, answered, expected) in readings {
            let reading = Reading {
                asked_at: seconds(*asked),
                shown: Timestamp(shown * 1_000_000),
                answered_at: seconds(*answered),
            };
            assert_eq!(watch.grants_grace(reading, STEP_MAX, GRACE), *expected, "{reading:?}");
        }
    }

    #[test]
    fn a_step_forward_grants_grace_once() {
        check(&[(0, 1_000, 0, false), (1, 1_001, 1, false), (2, 1_062, 2, true)]);
        check(&[(0, 1_000, 0, false), (1, 1_061, 1, true), (30, 1_090, 30, true)]);
        check(&[(0, 1_000, 0, false), (1, 1_061, 1, true), (31, 1_091, 31, false)]);
    }

    #[test]
    fn what_may_be_a_slow_answer_is_no_step() {
        check(&[(0, 1_000, 5, false), (6, 1_006, 6, false)]);
        check(&[(0, 1_000, 0, false), (1, 1_009, 9, false), (10, 1_010, 10, false)]);
    }

    #[test]
    fn a_step_back_and_a_small_one_grant_nothing() {
        check(&[(0, 1_000, 0, false), (1, 900, 1, false), (2, 902, 2, false)]);
        check(&[(0, 1_000, 0, false), (1, 1_002, 1, false)]);
    }
}
