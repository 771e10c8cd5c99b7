//! States of an execution, the outcomes they end in and the transitions between them. Pure; the
//! only place that says which state may follow which.

use serde::{Deserialize, Serialize};

use crate::mutants::mutated;

/// The five ways an execution ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outcome {
    /// The handler reported success.
    Succeeded = 0,
    /// The handler reported a fatal failure, or its attempts are exhausted.
    Failed = 1,
    /// An operator, the flow's closing or a decided join ended it.
    Cancelled = 2,
    /// The last lease or the deadline ran out.
    Expired = 3,
    /// Its group became impossible, or the handler said so.
    Skipped = 4,
}

/// The stored state of an execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Waits for the decision of its edge group.
    Blocked,
    /// May be claimed once `not_before` has passed.
    Ready,
    /// A lease exists.
    Active,
    /// Gave its lease up and waits for `resume`.
    Suspended,
    /// Ended; leaves this state by replay only.
    Terminal(Outcome),
}

/// Why an execution ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its handler reported the outcome.
    Handler,
    /// A retryable failure, an expired lease or a release found no attempt left.
    AttemptsExhausted,
    /// The deadline of the whole execution passed.
    Deadline,
    /// `cancel_execution`.
    Operator,
    /// `cancel_flow`.
    Flow,
    /// A decided join no longer needs it.
    Sibling,
    /// Its group became impossible.
    Unsatisfiable,
    /// Its row, or its group's row, could not be read, and somebody gave it up.
    Unreadable,
}

/// How a flow was closed; members react by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosePolicy {
    /// Members run out; the flow takes no extension.
    FlowOnly,
    /// Members that are not running are cancelled.
    CancelPending,
    /// Every member is cancelled.
    CancelAll,
}

/// The predicate of a claim over the flow: members of a flow that was closed so may start.
pub fn lets_start(closing: Option<ClosePolicy>) -> bool {
    matches!(closing, None | Some(ClosePolicy::FlowOnly)) || mutated!(P31)
}

impl ClosePolicy {
    /// Every policy, the weakest first.
    pub const ALL: [ClosePolicy; 3] =
        [ClosePolicy::FlowOnly, ClosePolicy::CancelPending, ClosePolicy::CancelAll];

    /// The word used in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ClosePolicy::FlowOnly => "flow_only",
            ClosePolicy::CancelPending => "cancel_pending",
            ClosePolicy::CancelAll => "cancel_all",
        }
    }
}

/// The published words for what a state means to a reader; derived, never stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublicState {
    /// Ready to be claimed.
    Waiting,
    /// Ready later.
    Delayed,
    /// Blocked by upstreams.
    WaitingChildren,
    /// Leased.
    Active,
    /// Waits for a resume.
    Suspended,
    /// Succeeded.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Expired.
    Expired,
    /// Skipped.
    Skipped,
}

impl Outcome {
    /// Every outcome, in stored order.
    pub const ALL: [Outcome; 5] = [
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Expired,
        Outcome::Skipped,
    ];

    /// The word used in text and JSON.
    pub fn name(self) -> &'static str {
        State::Terminal(self).name()
    }
}

impl State {
    /// Every state, in stored order.
    pub const ALL: [State; 9] = [
        State::Blocked,
        State::Ready,
        State::Active,
        State::Suspended,
        State::Terminal(Outcome::Succeeded),
        State::Terminal(Outcome::Failed),
        State::Terminal(Outcome::Cancelled),
        State::Terminal(Outcome::Expired),
        State::Terminal(Outcome::Skipped),
    ];

    /// The first stored code of a terminal state; partial indexes and scans use it.
    pub const FIRST_TERMINAL_CODE: u8 = 4;

    /// The stored code: the position in [`State::ALL`].
    pub fn code(self) -> u8 {
        match self {
            State::Blocked => 0,
            State::Ready => 1,
            State::Active => 2,
            State::Suspended => 3,
            State::Terminal(outcome) => Self::FIRST_TERMINAL_CODE + outcome as u8,
        }
    }

    /// The state with that stored code; `None` for a code that nothing writes.
    pub fn from_code(code: i64) -> Option<State> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code).copied())
    }

    /// The word used in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Blocked => "blocked",
            State::Ready => "ready",
            State::Active => "active",
            State::Suspended => "suspended",
            State::Terminal(Outcome::Succeeded) => "succeeded",
            State::Terminal(Outcome::Failed) => "failed",
            State::Terminal(Outcome::Cancelled) => "cancelled",
            State::Terminal(Outcome::Expired) => "expired",
            State::Terminal(Outcome::Skipped) => "skipped",
        }
    }

    /// The outcome, once it has ended.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            State::Terminal(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// True once it has ended.
    pub fn is_terminal(self) -> bool {
        self.outcome().is_some()
    }

    /// True if one transition, other than replay, leads from this state to `next`.
    pub fn may_become(self, next: State) -> bool {
        match (self, next) {
            (State::Terminal(_) | State::Active | State::Suspended, State::Blocked)
            | (State::Terminal(_), _)
            | (State::Blocked | State::Ready | State::Suspended, State::Suspended)
            | (State::Blocked | State::Suspended, State::Active) => false,
            (State::Blocked, next) => matches!(
                next,
                State::Ready
                    | State::Terminal(Outcome::Skipped | Outcome::Cancelled | Outcome::Expired)
            ),
            (State::Ready, next) => matches!(
                next,
                State::Active | State::Terminal(Outcome::Cancelled | Outcome::Expired)
            ),
            (State::Active, next) => next != State::Active,
            (State::Suspended, next) => matches!(
                next,
                State::Ready
                    | State::Terminal(Outcome::Failed | Outcome::Cancelled | Outcome::Expired)
            ),
        }
    }

    /// The published word; `delayed` if it is ready later than now.
    pub fn public(self, delayed: bool) -> PublicState {
        match self {
            State::Blocked => PublicState::WaitingChildren,
            State::Ready if delayed => PublicState::Delayed,
            State::Ready => PublicState::Waiting,
            State::Active => PublicState::Active,
            State::Suspended => PublicState::Suspended,
            State::Terminal(Outcome::Succeeded) => PublicState::Completed,
            State::Terminal(Outcome::Failed) => PublicState::Failed,
            State::Terminal(Outcome::Cancelled) => PublicState::Cancelled,
            State::Terminal(Outcome::Expired) => PublicState::Expired,
            State::Terminal(Outcome::Skipped) => PublicState::Skipped,
        }
    }
}

impl Serialize for State {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = Self::ALL.into_iter().find(|state| state.name() == text);
        known.ok_or_else(|| serde::de::Error::custom(format!("unknown state `{text}`")))
    }
}

impl Cause {
    /// Every cause, in stored order; the stored code of a cause is its position plus one.
    pub const ALL: [Cause; 7] = [
        Cause::Handler,
        Cause::AttemptsExhausted,
        Cause::Deadline,
        Cause::Operator,
        Cause::Flow,
        Cause::Sibling,
        Cause::Unsatisfiable,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_unknown_codes_are_refused() {
        for (code, state) in (0i64..).zip(State::ALL) {
            assert_eq!(i64::from(state.code()), code);
            assert_eq!(State::from_code(code), Some(state));
        }
        assert_eq!(State::from_code(9), None);
        assert_eq!(State::from_code(-1), None);
    }

    #[test]
    fn the_transition_table_is_the_one_of_the_specification() {
        let leaves_by = |from: State| {
            State::ALL.into_iter().filter(|to| from.may_become(*to)).map(State::name).collect()
        };
        let table: Vec<(&str, Vec<&str>)> =
            State::ALL.into_iter().map(|from| (from.name(), leaves_by(from))).collect();
        assert_eq!(
            table,
            vec![
                ("blocked", vec!["ready", "cancelled", "expired", "skipped"]),
                ("ready", vec!["active", "cancelled", "expired"]),
                (
                    "active",
                    vec![
                        "ready",
                        "suspended",
                        "succeeded",
                        "failed",
                        "cancelled",
                        "expired",
                        "skipped",
                    ]
                ),
                ("suspended", vec!["ready", "failed", "cancelled", "expired"]),
                ("succeeded", vec![]),
                ("failed", vec![]),
                ("cancelled", vec![]),
                ("expired", vec![]),
                ("skipped", vec![]),
            ]
        );
    }
}
