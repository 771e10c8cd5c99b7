//! I13: a decided join cancels exactly what nothing needs any more, and finally all of it.

use sluicegate::policy::{Decision, OnSatisfied};
use sluicegate::state::Cause;
use sluicegate::storage::{Edge, Execution, Resolution, SiblingRequest};

use super::{Context, Invariant, Quiescent, Verdict, started_again};
use crate::mirror::Mirror;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I13",
    title: "sibling cancel touches exactly what no join needs any more, and finally all of it",
    commit: Some(check),
    observe: None,
    quiescent: Some(check_rest),
    #[cfg(test)]
    rejects: tests::rejects,
};

/// What the joins that an upstream still feeds make of it.
#[derive(Clone, Copy, Default, Debug)]
struct Feeds {
    undecided: bool,
    let_run: bool,
    asked: bool,
}

fn feeds<'a>(mirror: &'a Mirror, edges: impl Iterator<Item = &'a Edge>) -> Feeds {
    let mut feeds = Feeds::default();
    for edge in edges.filter(|edge| edge.resolution == Resolution::Pending) {
        let Some(group) = mirror.group(edge.key.downstream) else { continue };
        let on_satisfied = group.policy.on_satisfied();
        feeds.undecided |= group.decision == Decision::Undecided;
        feeds.let_run |= on_satisfied == Some(OnSatisfied::LetRun);
        feeds.asked |= on_satisfied == Some(OnSatisfied::CancelRemaining)
            && group.decision != Decision::Undecided;
    }
    feeds
}

fn check(context: &Context<'_>) -> Verdict {
    let cancelled = context.moved().filter(|(before, after)| {
        after.cause == Some(Cause::Sibling) && !before.state.is_terminal()
    });
    for (_, after) in cancelled {
        let feeds = feeds(context.mirror, context.mirror.edges_from(after.id));
        if feeds.undecided || feeds.let_run || !feeds.asked {
            return Err(format!("{} was cancelled for a decided join, but {feeds:?}", after.id));
        }
    }
    for change in &context.commit.groups {
        let Some(after) = change.after else { continue };
        let before = change.before.map_or(Decision::Undecided, |before| before.decision);
        let anew = before == Decision::Undecided || context.starts_again(after.downstream);
        let decided = anew && after.decision != Decision::Undecided;
        let asks = after.policy.on_satisfied() == Some(OnSatisfied::CancelRemaining);
        let open = after.satisfied + after.unsatisfied < after.edges;
        if decided && asks && open && context.mirror.sibling_request(after.downstream).is_none() {
            return Err(format!("a join was decided and asks for nothing: {after:?}"));
        }
    }
    for (_, again) in context.moved().filter(|(before, after)| started_again(before, after)) {
        check_start(context, again)?;
    }
    let served = context.commit.sibling_requests.iter().filter(|change| change.after.is_none());
    let withdrawn = |request: &SiblingRequest| context.starts_again(request.group);
    for request in served.filter_map(|change| change.before).filter(|one| !withdrawn(one)) {
        let edges = context.mirror.edges_into(request.group).iter();
        for edge in edges.filter(|edge| edge.resolution == Resolution::Pending) {
            let upstream = edge.key.upstream;
            let ended = context.mirror.execution(upstream).is_some_and(|x| x.state.is_terminal());
            let feeds = feeds(context.mirror, context.mirror.edges_from(upstream));
            if !ended && (feeds.undecided || !feeds.let_run) {
                let group = request.group;
                return Err(format!(
                    "join {group} asks no more, but {upstream} is left: {feeds:?}"
                ));
            }
        }
    }
    Ok(())
}

/// A decided join that has nothing yet of what starts again asks for its end once more: what it
/// asked for may have been served when that had ended.
fn check_start(context: &Context<'_>, again: &Execution) -> Verdict {
    for edge in context.mirror.edges_from(again.id) {
        let join = context.mirror.group(edge.key.downstream);
        let asks = join.is_some_and(|join| {
            join.decision != Decision::Undecided
                && join.policy.on_satisfied() == Some(OnSatisfied::CancelRemaining)
        });
        let pending = edge.resolution == Resolution::Pending;
        let request = context.mirror.sibling_request(edge.key.downstream);
        if pending && asks && request.is_none() {
            return Err(format!("{join:?} does not ask for the end of {again:?} once more"));
        }
    }
    Ok(())
}

fn check_rest(rest: &Quiescent<'_>) -> Verdict {
    match rest.mirror.sibling_requests().first() {
        // What a damaged group makes of its upstreams nobody can tell.
        Some(_) if !rest.mirror.damaged().is_empty() => Ok(()),
        None => Ok(()),
        Some(request) => Err(format!("a request is never served: {request:?}")),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::Outcome;

    use crate::invariants::Judge;
    use crate::invariants::testing::{History, Story};

    const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };

    fn decided(policy: JoinPolicy, edges: &[(&str, &str)]) -> Story {
        let edges: Vec<(&str, &str, AcceptSet)> =
            edges.iter().map(|(from, to)| (*from, *to, AcceptSet::ON_SUCCESS)).collect();
        Story::flow(&edges, policy).grant("a").complete("a", Outcome::Succeeded).hop(&["a"])
    }

    /// A race is decided and served; its loser, which had failed before its edge was resolved, is
    /// replayed, but not the join, which has succeeded.
    fn run_again() -> Story {
        Story::flow(&[("a", "c", AcceptSet::ON_SUCCESS), ("b", "c", AcceptSet::ON_SUCCESS)], RACE)
            .grant("b")
            .grant("a")
            .complete("a", Outcome::Succeeded)
            .hop(&["a"])
            .grant("c")
            .complete("c", Outcome::Succeeded)
            .complete("b", Outcome::Failed)
            .serve("c")
            .asks(ReplayScope::Failed)
            .again(&["b"])
    }

    #[test]
    fn a_loser_that_runs_again_is_asked_for_again() {
        let history = run_again()
            .cancel_sibling("b")
            .serve("c")
            .hop(&["b"])
            .quiescent()
            .ends("run again and cancelled");
        assert_eq!(history.judge(Judge::new()), Ok(()));
    }

    pub(super) fn rejects() -> Vec<History> {
        let race = || decided(RACE, &[("a", "c"), ("b", "c")]);
        let shared = || decided(RACE, &[("a", "c"), ("b", "c"), ("b", "d"), ("e", "d")]);
        let let_run = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
        vec![
            run_again()
                .tamper(|commit| commit.sibling_requests.clear())
                .ends("a loser runs again, and nobody asks for its end"),
            shared().cancel_sibling("b").ends("another join still needs it"),
            decided(let_run, &[("a", "c"), ("b", "c")]).cancel_sibling("b").ends("it is let run"),
            decided(JoinPolicy::AllOf, &[("a", "c"), ("b", "d")])
                .cancel_sibling("b")
                .ends("nobody asked"),
            race().tamper(|commit| commit.sibling_requests.clear()).ends("asks for nothing"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .hop(&["a"])
                .extend("x", &["a", "b"], RACE)
                .tamper(|commit| commit.sibling_requests.clear())
                .ends("added, decided, and asks for nothing"),
            race().serve("c").ends("taken away before it was served"),
            race().cancel_sibling("b").quiescent().ends("never taken away"),
        ]
    }
}
