//! I4: edges are resolved by their accept sets and groups decided once, as the oracle does both;
//! what they pass on is fixed with the decision.

use sluicegate::identity::ExecutionId;
use sluicegate::policy::{Decision, JoinPolicy};
use sluicegate::state::Outcome;
use sluicegate::storage::{AttemptEnd, Edge, Group, Input, Resolution};

use super::{Context, Hearing, Invariant, Verdict};
use crate::history::{Change, Observation, result_of};
use crate::mirror::Mirror;
use crate::oracle;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I4",
    title: "a group is decided at most once, and as the pure oracle decides",
    commit: Some(check),
    observe: Some(check_passed),
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
    context.commit.edges.iter().try_for_each(|change| check_input(context, change))?;
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

/// True if the downstream began another incarnation in this commit, whose join decides anew.
fn begins_again(context: &Context<'_>, downstream: ExecutionId) -> bool {
    let mut moved = context.moved().filter(|(_, after)| after.id == downstream);
    moved.any(|(before, after)| before.incarnation != after.incarnation)
}

/// True if the group had decided before this commit.
fn had_decided(context: &Context<'_>, downstream: ExecutionId) -> bool {
    if begins_again(context, downstream) {
        return false;
    }
    let mut groups = context.commit.groups.iter();
    let changed = groups.find(|change| {
        change.after.or(change.before).is_some_and(|group| group.downstream == downstream)
    });
    let before = match changed {
        Some(change) => change.before,
        None => context.mirror.group(downstream).copied(),
    };
    before.is_some_and(|group| group.decision != Decision::Undecided)
}

/// What satisfies a join until it decides is passed on, and nothing that comes later is.
fn check_input(context: &Context<'_>, change: &Change<Edge>) -> Verdict {
    let Some(after) = &change.after else { return Ok(()) };
    let again = begins_again(context, after.key.downstream);
    let before = change.before.as_ref().filter(|_| !again);
    let expected: Option<Outcome> = match before {
        Some(before) if before.resolution != Resolution::Pending => before.input,
        _ if after.resolution != Resolution::Satisfied => None,
        _ if had_decided(context, after.key.downstream) => None,
        _ => context.mirror.execution(after.key.upstream).and_then(|row| row.state.outcome()),
    };
    match after.input == expected {
        true => Ok(()),
        false => Err(format!("an edge is to pass on {expected:?}: {:?}, {after:?}", change.before)),
    }
}

/// What is to be passed on along an edge: the result of the attempt that completed the incarnation
/// which resolved the edge.
fn is_passed(mirror: &Mirror, edge: &Edge, input: &Input) -> bool {
    let ends = input.outcome == Outcome::Succeeded;
    let completed = mirror.attempts().iter().any(|attempt| {
        let ours = attempt.key.execution == edge.key.upstream
            && Some(attempt.key.incarnation) == edge.upstream_incarnation
            && attempt.end == AttemptEnd::Completed;
        ours && input.result == Some(result_of(attempt.key))
    });
    let bytes = input.result.as_ref().map_or(0, |bytes| bytes.len() as u64);
    let result = if ends { completed } else { input.result.is_none() };
    (edge.key, edge.input) == (input.key, Some(input.outcome))
        && edge.passes_as.as_ref() == Some(&input.name)
        && bytes == input.bytes
        && result
}

/// A lease of the present incarnation carries what its join decided on, whichever attempt it is.
fn check_passed(hearing: &Hearing<'_>) -> Verdict {
    let Observation::Passed { holder, inputs } = hearing.observation else { return Ok(()) };
    let mirror = hearing.mirror;
    let present = mirror.execution(holder.execution);
    if present.is_none_or(|row| row.incarnation != holder.incarnation) {
        return Ok(());
    }
    let edges = mirror.edges_into(holder.execution).iter();
    let edges: Vec<&Edge> =
        edges.filter(|edge| edge.passes_as.is_some() && edge.input.is_some()).collect();
    let same = edges.len() == inputs.len()
        && edges.iter().zip(inputs).all(|(edge, input)| is_passed(mirror, edge, input));
    match same {
        true => Ok(()),
        false => Err(format!("{holder:?} was passed {inputs:?} along {edges:?}")),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{Decision, JoinPolicy, OnSatisfied};
    use sluicegate::state::Outcome;
    use sluicegate::storage::{AttemptEnd, AttemptKey, EdgeKey, Input, Resolution};

    use crate::history::{Observation, result_of};
    use crate::invariants::testing::{History, Story, after, id};

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

    /// The second of two succeeds once the first has decided their join; both edges have names.
    fn late() -> Story {
        let any = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
        let story = Story::join(any).tamper(|commit| {
            for (change, name) in commit.edges.iter_mut().zip(["a", "b"]) {
                after(change).passes_as = Some(name.into());
            }
            let rows = commit.executions.iter_mut().map(after);
            rows.filter(|row| row.has_in).for_each(|row| row.has_inputs = true);
        });
        let story = story.grant("a").grant("b").complete("a", Outcome::Succeeded).hop(&["a"]);
        story.complete("b", Outcome::Succeeded).hop(&["b"])
    }

    /// The second attempt is passed this in place of what `a` returned.
    fn passed(change: impl FnOnce(&mut Vec<Input>)) -> Story {
        let story = late().grant("c").end("c", AttemptEnd::FailedRetryable);
        let story = story.wait(std::time::Duration::from_secs(9)).grant("c");
        let key = AttemptKey { execution: id("a"), incarnation: 0, attempt: 1 };
        let result = result_of(key);
        let mut inputs = vec![Input {
            key: EdgeKey { downstream: id("c"), upstream: id("a") },
            name: "a".into(),
            outcome: Outcome::Succeeded,
            bytes: result.len() as u64,
            result: Some(result),
        }];
        change(&mut inputs);
        let holder = story.holder("c");
        story.told(Observation::Passed { holder, inputs })
    }

    #[test]
    fn what_the_decision_called_for_is_accepted() {
        let judge = || crate::invariants::Judge::new().only("I4");
        assert_eq!(passed(|_| {}).ends("passed what it was decided on").judge(judge()), Ok(()));
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
            late()
                .tamper(|commit| after(&mut commit.edges[0]).input = Some(success))
                .ends("late edge passes on"),
            first_end(any, success)
                .tamper(|commit| after(&mut commit.edges[0]).input = None)
                .ends("deciding edge passes nothing on"),
            first_end(any, success)
                .tamper(|commit| after(&mut commit.edges[0]).input = Some(failure))
                .ends("another outcome is passed on"),
            Story::second_life()
                .grant("a")
                .complete("a", success)
                .hop(&["a"])
                .alter_group("b", |group| group.decision = Decision::Impossible)
                .ends("decided again in its second life"),
            passed(Vec::clear).ends("a later attempt is passed nothing"),
            passed(|inputs| {
                let late = Input { name: "b".into(), ..inputs[0].clone() };
                inputs.push(late);
            })
            .ends("a later attempt is passed more"),
            passed(|inputs| inputs[0].result = Some([0; 16].into())).ends("another result"),
            passed(|inputs| inputs[0].outcome = failure).ends("another outcome"),
        ]
    }
}
