//! Accept sets, join policies and the one decision table. Pure; never reads a row.

use serde::{Deserialize, Serialize};

use crate::mutants::{ensure_rule, mutated};
use crate::state::Outcome;

/// The upstream outcomes that satisfy an edge; never empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AcceptSet(u8);

/// What happens to the upstreams that a decided join no longer needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnSatisfied {
    /// They are cancelled, unless another group still needs them.
    #[default]
    CancelRemaining,
    /// They run out.
    LetRun,
}

/// When the inbound edges of an execution release it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "join", from = "JoinPolicyText")]
pub enum JoinPolicy {
    /// Every edge is satisfied.
    #[default]
    AllOf,
    /// At least one edge is satisfied.
    AnyOf {
        /// What happens to the others.
        on_satisfied: OnSatisfied,
    },
    /// At least `k` edges are satisfied.
    Quorum {
        /// How many; in `1..=n` for a group of n edges.
        k: u32,
        /// What happens to the others.
        on_satisfied: OnSatisfied,
    },
}

/// State of an edge group; it leaves `Undecided` once per incarnation of its downstream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Neither bound is reached.
    Undecided,
    /// The downstream may run.
    Satisfied,
    /// The downstream can no longer run.
    Impossible,
}

impl AcceptSet {
    /// Only success: the default of an edge.
    pub const ON_SUCCESS: AcceptSet = AcceptSet::of(&[Outcome::Succeeded]);
    /// Failure or expiry.
    pub const ON_FAILURE: AcceptSet = AcceptSet::of(&[Outcome::Failed, Outcome::Expired]);
    /// Only a skip.
    pub const ON_SKIP: AcceptSet = AcceptSet::of(&[Outcome::Skipped]);
    /// All five outcomes.
    pub const ON_DONE: AcceptSet = AcceptSet::of(&Outcome::ALL);
    /// Success or a skip.
    pub const NONE_FAILED: AcceptSet = AcceptSet::of(&[Outcome::Succeeded, Outcome::Skipped]);
    /// The five presets with their names, in the order of the documentation.
    pub const PRESETS: [(&'static str, AcceptSet); 5] = [
        ("on_success", AcceptSet::ON_SUCCESS),
        ("on_failure", AcceptSet::ON_FAILURE),
        ("on_skip", AcceptSet::ON_SKIP),
        ("on_done", AcceptSet::ON_DONE),
        ("none_failed", AcceptSet::NONE_FAILED),
    ];

    /// The set of these outcomes.
    pub const fn of(outcomes: &[Outcome]) -> AcceptSet {
        let mut bits = 0;
        let mut index = 0;
        while index < outcomes.len() {
            bits |= 1 << outcomes[index] as u8;
            index += 1;
        }
        AcceptSet(bits)
    }

    /// The set as stored: bit i stands for `Outcome::ALL[i]`; `None` if a higher bit is set.
    pub fn from_bits(bits: u8) -> Option<AcceptSet> {
        (bits < 1 << Outcome::ALL.len()).then_some(AcceptSet(bits))
    }

    /// The stored form.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// True if no outcome satisfies the edge; such a set is refused at submit.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if an upstream with that outcome satisfies the edge.
    pub fn contains(self, outcome: Outcome) -> bool {
        let outcome = match outcome {
            Outcome::Skipped if mutated!(P16) => Outcome::Succeeded,
            Outcome::Expired if mutated!(P17) => Outcome::Succeeded,
            outcome => outcome,
        };
        self.0 & (1 << outcome as u8) != 0
    }

    /// The outcomes of the set, in stored order.
    pub fn outcomes(self) -> impl Iterator<Item = Outcome> {
        Outcome::ALL.into_iter().filter(move |outcome| self.0 & (1 << *outcome as u8) != 0)
    }
}

impl Default for AcceptSet {
    fn default() -> Self {
        Self::ON_SUCCESS
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AcceptSetText {
    Preset(String),
    Outcomes(Vec<Outcome>),
}

impl Serialize for AcceptSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Self::PRESETS.iter().find(|preset| preset.1 == *self) {
            Some((name, _)) => serializer.serialize_str(name),
            None => serializer.collect_seq(self.outcomes()),
        }
    }
}

impl<'de> Deserialize<'de> for AcceptSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match AcceptSetText::deserialize(deserializer)? {
            AcceptSetText::Outcomes(outcomes) => Ok(Self::of(&outcomes)),
            AcceptSetText::Preset(text) => {
                let known = Self::PRESETS.iter().find(|preset| preset.0 == text);
                known.map(|preset| preset.1).ok_or_else(|| {
                    let names: Vec<&str> = Self::PRESETS.iter().map(|preset| preset.0).collect();
                    let names = names.join(", ");
                    serde::de::Error::custom(format!(
                        "unknown accept set `{text}`: use one of {names}, or a list of outcomes"
                    ))
                })
            }
        }
    }
}

/// The fields of a policy as read: `AllOf` with braces, as a unit variant would ignore any `k`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "join", deny_unknown_fields)]
enum JoinPolicyText {
    AllOf {},
    AnyOf {
        #[serde(default)]
        on_satisfied: OnSatisfied,
    },
    Quorum {
        k: u32,
        #[serde(default)]
        on_satisfied: OnSatisfied,
    },
}

impl From<JoinPolicyText> for JoinPolicy {
    fn from(text: JoinPolicyText) -> Self {
        match text {
            JoinPolicyText::AllOf {} => JoinPolicy::AllOf,
            JoinPolicyText::AnyOf { on_satisfied } => JoinPolicy::AnyOf { on_satisfied },
            JoinPolicyText::Quorum { k, on_satisfied } => JoinPolicy::Quorum { k, on_satisfied },
        }
    }
}

impl JoinPolicy {
    /// What happens to losers; `None` for `AllOf`, which neither asks nor protects.
    pub fn on_satisfied(self) -> Option<OnSatisfied> {
        match self {
            JoinPolicy::AllOf => None,
            JoinPolicy::AnyOf { on_satisfied } | JoinPolicy::Quorum { on_satisfied, .. } => {
                Some(on_satisfied)
            }
        }
    }

    /// True if a decision of this group asks for the cancellation of its unresolved upstreams.
    pub fn cancels_remaining(self) -> bool {
        self.on_satisfied() == Some(OnSatisfied::CancelRemaining)
    }

    /// True if a group of so many edges may have this policy: a quorum is one of its edges.
    pub fn fits(self, edges: u32) -> bool {
        match self {
            JoinPolicy::Quorum { k, .. } if mutated!(P13) => k.cast_signed() <= edges.cast_signed(),
            JoinPolicy::Quorum { k, .. } if mutated!(P14) => k >= 1,
            JoinPolicy::Quorum { k, .. } => (1..=edges).contains(&k),
            JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } => edges >= 1,
        }
    }

    /// The decision of a group of `edges` edges, of which so many are resolved each way.
    pub fn decide(self, edges: u32, satisfied: u32, unsatisfied: u32) -> Decision {
        let resolved = satisfied.checked_add(unsatisfied);
        ensure_rule!(
            resolved.is_some_and(|resolved| resolved <= edges),
            "more edges are resolved than the group has: {satisfied} + {unsatisfied} of {edges}"
        );
        let (reached, lost) = match self {
            JoinPolicy::AllOf if mutated!(P15) => (resolved == Some(edges), false),
            JoinPolicy::AllOf => (satisfied == edges, unsatisfied >= 1),
            JoinPolicy::AnyOf { .. } if mutated!(P18) => (satisfied >= 1, unsatisfied >= 1),
            JoinPolicy::AnyOf { .. } => (satisfied >= 1, unsatisfied == edges),
            JoinPolicy::Quorum { k, .. } => (satisfied >= k, edges.saturating_sub(unsatisfied) < k),
        };
        match (reached, lost) {
            (true, _) => Decision::Satisfied,
            (false, true) => Decision::Impossible,
            (false, false) => Decision::Undecided,
        }
    }
}

#[cfg(test)]
mod tests;
