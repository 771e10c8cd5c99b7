//! The integers that stand for enums in a database, shared by every backend. Never reads a row;
//! a code that nothing writes has no value, and no default takes its place.

use super::{AttemptEnd, EventKind, LeaseChange, LeaseEvent, Reported, Resolution};
use crate::policy::{Decision, JoinPolicy, OnSatisfied};
use crate::retry::Backoff;
use crate::state::{Cause, ClosePolicy, Outcome};
use crate::summary::FlowStatus;
use crate::time::Timestamp;

macro_rules! codes {
    ($($to:ident $from:ident $type:ident $all:ident { $($variant:ident = $code:literal),* })*) => {
        $(
            #[doc = concat!("The stored code of a [`", stringify!($type), "`].")]
            pub const fn $to(value: $type) -> u8 {
                match value { $($type::$variant => $code,)* }
            }
            #[doc = concat!("The [`", stringify!($type), "`] with that code, if there is one.")]
            pub const fn $from(code: i64) -> Option<$type> {
                match code { $($code => Some($type::$variant),)* _ => None }
            }
            #[cfg(test)]
            const $all: &[$type] = &[$($type::$variant),*];
        )*
    };
}

codes! {
    outcome outcome_of Outcome OUTCOMES {
        Succeeded = 0, Failed = 1, Cancelled = 2, Expired = 3, Skipped = 4
    }
    cause cause_of Cause CAUSES {
        Handler = 1, AttemptsExhausted = 2, Deadline = 3, Operator = 4, Flow = 5, Sibling = 6,
        Unsatisfiable = 7, Unreadable = 8
    }
    close_policy close_policy_of ClosePolicy CLOSE_POLICIES {
        FlowOnly = 1, CancelPending = 2, CancelAll = 3
    }
    decision decision_of Decision DECISIONS { Undecided = 0, Satisfied = 1, Impossible = 2 }
    resolution resolution_of Resolution RESOLUTIONS { Pending = 0, Satisfied = 1, Unsatisfied = 2 }
    flow_status flow_status_of FlowStatus FLOW_STATUSES {
        Open = 0, Blocked = 1, Running = 2, Completed = 3, Cancelled = 4, Failed = 5
    }
    on_satisfied on_satisfied_of OnSatisfied ON_SATISFIED { CancelRemaining = 1, LetRun = 2 }
    lease_change lease_change_of LeaseChange LEASE_CHANGES {
        Acquired = 1, Renewed = 2, Released = 3, Expired = 4, Revoked = 5
    }
    attempt_end attempt_end_of AttemptEnd ATTEMPT_ENDS {
        Completed = 1, FailedRetryable = 2, FailedFatal = 3, Released = 4, Expired = 5, Revoked = 6,
        Snoozed = 7, Skipped = 8, Suspended = 9
    }
}

/// A [`JoinPolicy`] in columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredJoin {
    /// 1 `AllOf`, 2 `AnyOf`, 3 `Quorum`.
    pub kind: i64,
    /// Only of a `Quorum`.
    pub k: Option<u32>,
    /// Code of the [`OnSatisfied`]; none of an `AllOf`.
    pub on_satisfied: Option<i64>,
}

/// The columns of a policy.
pub fn join(policy: JoinPolicy) -> StoredJoin {
    let on_satisfied = policy.on_satisfied().map(|value| i64::from(self::on_satisfied(value)));
    let (kind, k) = match policy {
        JoinPolicy::AllOf => (1, None),
        JoinPolicy::AnyOf { .. } => (2, None),
        JoinPolicy::Quorum { k, .. } => (3, Some(k)),
    };
    StoredJoin { kind, k, on_satisfied }
}

/// The policy in these columns, if they hold one.
pub fn join_of(stored: StoredJoin) -> Option<JoinPolicy> {
    match (stored.kind, stored.k, stored.on_satisfied) {
        (1, None, None) => Some(JoinPolicy::AllOf),
        (2, None, Some(code)) => {
            on_satisfied_of(code).map(|on_satisfied| JoinPolicy::AnyOf { on_satisfied })
        }
        (3, Some(k), Some(code)) => {
            on_satisfied_of(code).map(|on_satisfied| JoinPolicy::Quorum { k, on_satisfied })
        }
        _ => None,
    }
}

/// A [`Reported`] in columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredReport {
    /// 1 `Finished`, 2 `Requeued`, 3 `Suspended`.
    pub kind: i64,
    /// Code of the outcome, the delay in microseconds, or the bits of the epoch.
    pub value: i64,
}

/// The columns of a report.
pub fn reported(reported: Reported) -> StoredReport {
    match reported {
        Reported::Finished(outcome) => {
            StoredReport { kind: 1, value: i64::from(self::outcome(outcome)) }
        }
        Reported::Requeued { delay_us } => StoredReport { kind: 2, value: delay_us },
        Reported::Suspended { epoch } => StoredReport { kind: 3, value: bits(epoch) },
    }
}

/// The report in these columns, if they hold one.
pub fn reported_of(stored: StoredReport) -> Option<Reported> {
    match stored.kind {
        1 => outcome_of(stored.value).map(Reported::Finished),
        2 => Some(Reported::Requeued { delay_us: stored.value }),
        3 => Some(Reported::Suspended { epoch: bits_of(stored.value) }),
        _ => None,
    }
}

/// A [`LeaseEvent`] in columns: all zero where an event says nothing of a lease, so that they can
/// be part of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoredLease {
    /// Of which attempt, from 1 on.
    pub attempt: i64,
    /// Code of the [`LeaseChange`].
    pub change: i64,
    /// Microseconds since the Unix epoch.
    pub expires_at: i64,
}

/// The columns of what an event says of a lease.
pub fn lease_event(lease: Option<LeaseEvent>) -> StoredLease {
    lease.map_or_else(StoredLease::default, |lease| StoredLease {
        attempt: i64::from(lease.attempt),
        change: i64::from(lease_change(lease.change)),
        expires_at: lease.expires_at.0,
    })
}

/// What an event with these columns says of a lease, if they hold a key.
pub fn lease_event_of(stored: StoredLease) -> Option<Option<LeaseEvent>> {
    if stored == StoredLease::default() {
        return Some(None);
    }
    let (attempt, change) = (stored.attempt.try_into().ok()?, lease_change_of(stored.change)?);
    Some(Some(LeaseEvent { attempt, change, expires_at: Timestamp(stored.expires_at) }))
}

/// What an event says, if what it says of a lease and of an outcome go together.
pub fn event_of(lease: Option<LeaseEvent>, outcome: Option<Outcome>) -> Option<EventKind> {
    match (lease, outcome) {
        (Some(lease), None) => Some(EventKind::Lease(lease)),
        (None, Some(outcome)) => Some(EventKind::Completed { outcome }),
        _ => None,
    }
}

/// A [`Backoff`] in columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredBackoff {
    /// 1 `Fixed`, 2 `Exponential`.
    pub kind: i64,
    /// Milliseconds: the delay, or the first of the growing ones.
    pub delay_ms: u32,
    /// Only of an `Exponential`.
    pub factor: Option<u32>,
    /// Milliseconds; only of an `Exponential`.
    pub cap_ms: Option<u32>,
}

/// The columns of a backoff.
pub fn backoff(backoff: Backoff) -> StoredBackoff {
    match backoff {
        Backoff::Fixed { delay_ms } => {
            StoredBackoff { kind: 1, delay_ms, factor: None, cap_ms: None }
        }
        Backoff::Exponential { initial_ms, factor, cap_ms } => StoredBackoff {
            kind: 2,
            delay_ms: initial_ms,
            factor: Some(factor),
            cap_ms: Some(cap_ms),
        },
    }
}

/// The backoff in these columns, if they hold one.
pub fn backoff_of(stored: StoredBackoff) -> Option<Backoff> {
    match (stored.kind, stored.factor, stored.cap_ms) {
        (1, None, None) => Some(Backoff::Fixed { delay_ms: stored.delay_ms }),
        (2, Some(factor), Some(cap_ms)) => {
            Some(Backoff::Exponential { initial_ms: stored.delay_ms, factor, cap_ms })
        }
        _ => None,
    }
}

/// Sixty-four bits (an epoch, a nonce, a hash) in a signed column.
pub const fn bits(value: u64) -> i64 {
    value.cast_signed()
}

/// The bits in a signed column.
pub const fn bits_of(stored: i64) -> u64 {
    stored.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn check<T: Copy + PartialEq + Debug>(
        values: &[T],
        to: impl Fn(T) -> u8,
        from: impl Fn(i64) -> Option<T>,
    ) {
        for value in values {
            assert_eq!(from(i64::from(to(*value))), Some(*value));
        }
        let known: Vec<i64> = values.iter().map(|value| i64::from(to(*value))).collect();
        for code in (-300..300).chain([i64::MIN, i64::MAX]).filter(|code| !known.contains(code)) {
            assert_eq!(from(code), None, "code {code}");
        }
    }

    #[test]
    fn every_code_reads_back_and_no_other_code_reads() {
        check(OUTCOMES, outcome, outcome_of);
        check(CAUSES, cause, cause_of);
        check(CLOSE_POLICIES, close_policy, close_policy_of);
        check(DECISIONS, decision, decision_of);
        check(RESOLUTIONS, resolution, resolution_of);
        check(ON_SATISFIED, on_satisfied, on_satisfied_of);
        check(ATTEMPT_ENDS, attempt_end, attempt_end_of);
        check(FLOW_STATUSES, flow_status, flow_status_of);
        check(LEASE_CHANGES, lease_change, lease_change_of);
    }

    #[test]
    fn outcomes_are_numbered_as_their_bits_in_accept_sets() {
        for value in Outcome::ALL {
            assert_eq!(outcome(value), value as u8);
        }
    }

    #[test]
    fn policies_in_columns_read_back_and_mixed_columns_do_not() {
        for on_satisfied in ON_SATISFIED.iter().copied() {
            for policy in [
                JoinPolicy::AllOf,
                JoinPolicy::AnyOf { on_satisfied },
                JoinPolicy::Quorum { k: 3, on_satisfied },
            ] {
                assert_eq!(join_of(join(policy)), Some(policy));
            }
        }
        for (kind, k, on_satisfied) in [
            (1, Some(1), None),
            (1, None, Some(1)),
            (2, None, None),
            (3, None, Some(1)),
            (4, None, None),
        ] {
            assert_eq!(join_of(StoredJoin { kind, k, on_satisfied }), None);
        }
    }

    #[test]
    fn reports_and_backoffs_in_columns_read_back_and_mixed_columns_do_not() {
        let suspended = Reported::Suspended { epoch: u64::MAX };
        let requeued = Reported::Requeued { delay_us: -7 };
        for value in [Reported::Finished(Outcome::Skipped), requeued, suspended] {
            assert_eq!(reported_of(reported(value)), Some(value));
        }
        assert_eq!(reported_of(StoredReport { kind: 1, value: 5 }), None);
        assert_eq!(reported_of(StoredReport { kind: 4, value: 0 }), None);
        for value in [Backoff::Fixed { delay_ms: 9 }, Backoff::default()] {
            assert_eq!(backoff_of(backoff(value)), Some(value));
        }
        let mixed = StoredBackoff { kind: 1, delay_ms: 1, factor: Some(2), cap_ms: None };
        assert_eq!(backoff_of(mixed), None);
        assert_eq!(backoff_of(StoredBackoff { kind: 2, ..mixed }), None);
    }

    #[test]
    fn what_events_say_reads_back_and_mixed_columns_do_not() {
        for change in LEASE_CHANGES.iter().copied() {
            for (attempt, at) in [(1, 0), (u32::MAX, i64::MAX), (7, -1)] {
                let said = Some(LeaseEvent { attempt, change, expires_at: Timestamp(at) });
                assert_eq!(lease_event_of(lease_event(said)), Some(said));
            }
        }
        assert_eq!(lease_event_of(lease_event(None)), Some(None));
        for (attempt, change, expires_at) in [(1, 0, 0), (0, 0, 1), (-1, 1, 0), (1, 6, 0)] {
            assert_eq!(lease_event_of(StoredLease { attempt, change, expires_at }), None);
        }
        let said =
            LeaseEvent { attempt: 1, change: LeaseChange::Expired, expires_at: Timestamp(1) };
        assert_eq!(event_of(Some(said), None), Some(EventKind::Lease(said)));
        assert_eq!(event_of(Some(said), Some(Outcome::Expired)), None);
        assert_eq!(event_of(None, None), None);
    }

    #[test]
    fn bits_survive_the_sign() {
        for value in [0, 1, u64::MAX, 1 << 63, u64::MAX / 2] {
            assert_eq!(bits_of(bits(value)), value);
        }
    }
}
