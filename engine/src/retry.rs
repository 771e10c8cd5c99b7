//! Retry policies and their deterministic backoff. Pure; the jitter is a function of the attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::ExecutionId;
use crate::time::micros;

/// How long a retry waits, before jitter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Backoff {
    /// The same delay each time.
    Fixed {
        /// Milliseconds.
        delay_ms: u32,
    },
    /// `initial_ms * factor^(attempt - 1)`, at most `cap_ms`.
    Exponential {
        /// Milliseconds before the second attempt.
        initial_ms: u32,
        /// Growth from one attempt to the next; at least 1.
        factor: u32,
        /// Milliseconds, the most that a retry ever waits.
        cap_ms: u32,
    },
}

/// The limits and delays of an execution's attempts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Attempts charged before the execution ends; at least 1.
    pub max_attempts: u32,
    /// Delay before the next attempt.
    pub backoff: Backoff,
    /// Milliseconds after the grant at which the reaper ends an attempt, renewed or not; at least
    /// 1.
    pub attempt_timeout_ms: Option<u32>,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::Exponential { initial_ms: 1_000, factor: 2, cap_ms: 60_000 }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 4, backoff: Backoff::default(), attempt_timeout_ms: None }
    }
}

impl Backoff {
    /// The largest delay that this policy can ask for, jitter included.
    pub fn longest(self) -> Duration {
        Duration::from_millis(u64::from(match self {
            Backoff::Fixed { delay_ms } => delay_ms,
            Backoff::Exponential { cap_ms, .. } => cap_ms,
        }))
    }

    /// The delay after that attempt (from 1) of that execution.
    ///
    /// "Equal jitter": half of the delay is kept and half is drawn, so that a herd spreads without
    /// losing the backoff (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
    pub fn delay(self, execution: ExecutionId, attempt: u32) -> Duration {
        let full_ms = match self {
            Backoff::Fixed { delay_ms } => return Duration::from_millis(u64::from(delay_ms)),
            Backoff::Exponential { initial_ms, factor, cap_ms } => {
                let growth = u64::from(factor.max(1)).saturating_pow(attempt.saturating_sub(1));
                u64::from(initial_ms).saturating_mul(growth).min(u64::from(cap_ms))
            }
        };
        let half = Duration::from_millis(full_ms) / 2;
        let span = u64::try_from(micros(half)).unwrap_or(0) + 1;
        half + Duration::from_micros(hash(execution, attempt) % span)
    }
}

impl RetryPolicy {
    /// The time limit of one attempt.
    pub fn attempt_timeout(self) -> Option<Duration> {
        self.attempt_timeout_ms.map(|limit| Duration::from_millis(u64::from(limit)))
    }
}

/// A well-mixed number of the pair: the finalizer of `SplitMix64` (Steele, Lea, Flood, 2014).
fn hash(execution: ExecutionId, attempt: u32) -> u64 {
    let (high, low) = execution.uuid.as_u64_pair();
    let mut z = high ^ low.rotate_left(32) ^ u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{FlowId, PartitionCount};

    fn execution(name: &str) -> ExecutionId {
        PartitionCount::default().key(FlowId::from_parts(1, [3; 10])).execution(name)
    }

    #[test]
    fn exponential_delays_stay_between_half_and_full() {
        let backoff = Backoff::default();
        for attempt in 1..40 {
            let full = Duration::from_millis((1_000u64 << (attempt - 1).min(6)).min(60_000));
            let delay = backoff.delay(execution("a"), attempt);
            assert!(delay >= full / 2 && delay <= full, "{attempt}: {delay:?} of {full:?}");
            assert!(delay <= backoff.longest());
        }
    }

    #[test]
    fn jitter_is_the_same_for_the_same_attempt_and_differs_between_executions() {
        let backoff = Backoff::default();
        let delays: Vec<Duration> =
            ["a", "b", "c", "d"].map(|name| backoff.delay(execution(name), 3)).into();
        assert_eq!(delays[0], backoff.delay(execution("a"), 3));
        assert!(delays.windows(2).any(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn fixed_delays_have_no_jitter() {
        let backoff = Backoff::Fixed { delay_ms: 250 };
        assert_eq!(backoff.delay(execution("a"), 9), Duration::from_millis(250));
    }
}
