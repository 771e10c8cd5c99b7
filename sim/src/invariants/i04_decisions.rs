//! I4: edges are resolved by their accept sets and groups decided once, as the oracle does both.

use sluicegate::policy::{Decision, JoinPolicy};
use sluicegate::storage::{Edge, Group, Resolution};

use super::{Context, Invariant, Verdict};
use crate::oracle;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I4",
    title: "a group is decided at most once, and as the pure oracle decides",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for change in &context.commit.groups {
        let (Some(before), Some(after)) = (change.before, change.after) else { continue };
        let again = before.decision != Decision::Undecided && before.decision != after.decision;
        if again && !context.starts_again(after.downstream) {
            return Err(format!("a group was decided again: {before:?}, {after:?}"));
        }
    }
    let edges = context.commit.edges.iter().filter_map(|change| change.after.as_ref());
    edges.into_iter().try_for_each(|edge| check_edge(context, edge))?;
    let touched = context.touched.iter().filter_map(|id| context.mirror.group(*id));
    // A quorum that no number of edges reaches is for I9.
    for group in touched.filter(|group| is_in_reach(group)) {
        let expected =
            oracle::decide(group.policy, group.edges, group.satisfied, group.unsatisfied);
        if group.decision != expected {
            return Err(format!("the oracle says {expected:?} of {group:?}"));
        }
    }
    Ok(())
}

fn is_in_reach(group: &Group) -> bool {
    !matches!(group.policy, JoinPolicy::Quorum { k, .. } if k > group.edges)
}

/// The accept set is half of the decision; whether the upstream has ended at all is for I3.
fn check_edge(context: &Context<'_>, edge: &Edge) -> Verdict {
    let upstream = context.mirror.execution(edge.key.upstream);
    let Some(outcome) = upstream.and_then(|upstream| upstream.state.outcome()) else {
        return Ok(());
    };
    let expected = oracle::resolve(edge.accepts, outcome);
    if edge.resolution == Resolution::Pending || edge.resolution == expected {
        return Ok(());
    }
    Err(format!("{} upstream calls for {expected:?}: {edge:?}", outcome.name()))
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{Decision, JoinPolicy, OnSatisfied};
    use sluicegate::state::Outcome;
    use sluicegate::storage::Resolution;

    use crate::invariants::testing::{History, Story, after};

    fn first_end(policy: JoinPolicy, outcome: Outcome) -> Story {
        Story::join(policy).grant("a").grant("b").complete("a", outcome).hop(&["a"])
    }

    fn decided(policy: JoinPolicy, outcome: Outcome, decision: Decision) -> Story {
        let story = first_end(policy, outcome);
        story.tamper(move |commit| after(&mut commit.groups[0]).decision = decision)
    }

    fn flipped(outcome: Outcome, resolution: Resolution) -> Story {
        let story = first_end(JoinPolicy::AllOf, outcome);
        story.tamper(move |commit| after(&mut commit.edges[0]).resolution = resolution)
    }

    pub(super) fn rejects() -> Vec<History> {
        let any = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
        let two = JoinPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun };
        let (success, failure) = (Outcome::Succeeded, Outcome::Failed);
        vec![
            decided(JoinPolicy::AllOf, failure, Decision::Undecided).ends("failure ignored"),
            decided(JoinPolicy::AllOf, success, Decision::Satisfied).ends("satisfied too early"),
            decided(any, success, Decision::Undecided).ends("any of two not seen"),
            decided(any, failure, Decision::Impossible).ends("impossible too early"),
            decided(two, failure, Decision::Undecided).ends("quorum out of reach"),
            flipped(Outcome::Skipped, Resolution::Satisfied).ends("skip counted as success"),
            flipped(Outcome::Expired, Resolution::Satisfied).ends("expiry counted as success"),
            flipped(success, Resolution::Unsatisfied).ends("success counted as failure"),
            first_end(any, success)
                .alter_group("c", |group| group.decision = Decision::Impossible)
                .ends("decided again"),
            first_end(any, success)
                .alter_group("c", |group| group.decision = Decision::Undecided)
                .ends("undecided again"),
        ]
    }
}
