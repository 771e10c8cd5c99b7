//! I13: a decided join cancels exactly what nothing needs any more, and finally all of it.

use sluicegate::policy::{Decision, OnSatisfied};
use sluicegate::state::Cause;
use sluicegate::storage::{Edge, Resolution};

use super::{Context, Invariant, Quiescent, Verdict};
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
        let decided = before == Decision::Undecided && after.decision != before;
        let asks = after.policy.on_satisfied() == Some(OnSatisfied::CancelRemaining);
        let open = after.satisfied + after.unsatisfied < after.edges;
        if decided && asks && open && context.mirror.sibling_request(after.downstream).is_none() {
            return Err(format!("a join was decided and asks for nothing: {after:?}"));
        }
    }
    let served = context.commit.sibling_requests.iter().filter(|change| change.after.is_none());
    for request in served.filter_map(|change| change.before) {
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
    use sluicegate::state::Outcome;

    use crate::invariants::testing::{History, Story};

    const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };

    fn decided(policy: JoinPolicy, edges: &[(&str, &str)]) -> Story {
        let edges: Vec<(&str, &str, AcceptSet)> =
            edges.iter().map(|(from, to)| (*from, *to, AcceptSet::ON_SUCCESS)).collect();
        Story::flow(&edges, policy).grant("a").complete("a", Outcome::Succeeded).hop(&["a"])
    }

    pub(super) fn rejects() -> Vec<History> {
        let race = || decided(RACE, &[("a", "c"), ("b", "c")]);
        let shared = || decided(RACE, &[("a", "c"), ("b", "c"), ("b", "d"), ("e", "d")]);
        let let_run = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
        vec![
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
