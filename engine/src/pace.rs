//! Pauses between tries and polls: they double up to a cap and are spread, so that processes do not
//! march in step. Pure; the caller draws the randomness and waits.

use std::time::Duration;

use crate::time::micros;

/// Somewhat more or less than a duration: between three and five quarters of it.
pub(crate) fn spread(about: Duration, random: u64) -> Duration {
    let half = micros(about).unsigned_abs() / 2;
    about / 4 * 3 + Duration::from_micros(random % (half + 1))
}

/// A growing pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Pace {
    /// Pauses from about `least`, never longer than `most`.
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        let most = most.max(least);
        Self { least, most, next: least }
    }

    /// The next pause, with which the one after it doubles.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        let pause = spread(self.next, random).min(self.most);
        self.next = self.next.saturating_mul(2).min(self.most);
        pause
    }

    /// Begins anew.
    #[cfg(any(feature = "system", test))]
    pub(crate) fn reset(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_grow_to_the_cap_and_never_beyond_it() {
        for random in [0, 7, 12_345_678_901, u64::MAX] {
            let mut pace = Pace::new(LEAST, MOST);
            let pauses: Vec<Duration> = (0..40).map(|_| pace.next(random)).collect();
            assert!(pauses.iter().all(|pause| *pause >= LEAST * 3 / 4 && *pause <= MOST));
            assert!(pauses[39] >= MOST * 3 / 4, "{:?}", pauses[39]);
            pace.reset();
            assert!(pace.next(random) <= LEAST * 5 / 4);
        }
    }

    #[test]
    fn what_is_spread_stays_within_a_quarter() {
        for random in [0, 1, 49_999, 50_000, u64::MAX] {
            let about = spread(LEAST, random);
            assert!(about >= LEAST * 3 / 4 && about <= LEAST * 5 / 4, "{about:?}");
        }
    }
}
