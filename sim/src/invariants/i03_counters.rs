//! I3: counters equal a recount, and an edge is resolved once, by its upstream as it stands.

use sluicegate::identity::ExecutionId;
use sluicegate::storage::{Edge, Group, Resolution};

use super::{Context, Invariant, Verdict, started_again};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I3",
    title: "group counters equal a recount; an edge is resolved once, by its terminal upstream",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for change in &context.commit.edges {
        let Some(after) = &change.after else { continue };
        let resolved = |before: &&Edge| {
            let again = || context.starts_again(before.key.downstream);
            before.resolution != Resolution::Pending && !again()
        };
        if let Some(before) = change.before.as_ref().filter(resolved) {
            return Err(format!("a resolved edge was written again: {before:?}, {after:?}"));
        }
        check_resolution(context, after)?;
    }
    for (_, after) in context.moved().filter(|(before, after)| started_again(before, after)) {
        // Whatever stands of an earlier incarnation counts for nothing.
        let edges = context.mirror.edges_into(after.id).iter();
        edges.into_iter().try_for_each(|edge| check_resolution(context, edge))?;
    }
    context.touched.iter().try_for_each(|downstream| recount(context, *downstream))
}

/// An edge must be resolved by the incarnation and the end of its upstream that this commit leaves.
fn check_resolution(context: &Context<'_>, edge: &Edge) -> Verdict {
    if edge.resolution == Resolution::Pending && edge.upstream_incarnation.is_none() {
        return Ok(());
    }
    let upstream = context.mirror.execution(edge.key.upstream);
    let by_upstream = upstream.is_some_and(|upstream| {
        upstream.state.is_terminal() && edge.upstream_incarnation == Some(upstream.incarnation)
    });
    if by_upstream && edge.resolution != Resolution::Pending {
        return Ok(());
    }
    Err(format!("an edge was resolved as its upstream does not stand: {edge:?} by {upstream:?}"))
}

fn recount(context: &Context<'_>, downstream: ExecutionId) -> Verdict {
    let edges = context.mirror.edges_into(downstream);
    let count = |resolution| edges.iter().filter(|edge| edge.resolution == resolution).count();
    let counted = [edges.len(), count(Resolution::Satisfied), count(Resolution::Unsatisfied)];
    let group = context.mirror.group(downstream);
    if group.map_or([0; 3], stored) == counted {
        return Ok(());
    }
    let [edges, satisfied, unsatisfied] = counted;
    Err(format!(
        "group of {downstream} counts {edges} edges, {satisfied} satisfied and {unsatisfied} \
         unsatisfied, but stores {group:?}"
    ))
}

fn stored(group: &Group) -> [usize; 3] {
    [group.edges, group.satisfied, group.unsatisfied].map(|count| count as usize)
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::Outcome;
    use sluicegate::storage::Resolution;

    use crate::invariants::testing::{History, Story, after, id};

    pub(super) fn rejects() -> Vec<History> {
        let ended = || {
            let story = Story::join(JoinPolicy::AllOf).grant("a").grant("b");
            story.complete("a", Outcome::Succeeded)
        };
        let hopped = || ended().hop(&["a"]);
        let flipped = |tamper: fn(&mut sluicegate::storage::Edge)| {
            hopped().tamper(move |commit| tamper(after(&mut commit.edges[0])))
        };
        vec![
            hopped().alter_group("c", |group| group.satisfied += 1).ends("counter without an edge"),
            hopped().tamper(|commit| commit.groups.clear()).ends("edge without its counter"),
            hopped()
                .tamper(|commit| {
                    let group = after(&mut commit.groups[0]);
                    (group.satisfied, group.unsatisfied) = (0, 1);
                })
                .ends("the other counter"),
            hopped()
                .alter_edge("a", "c", |edge| edge.resolution = Resolution::Unsatisfied)
                .ends("resolved again, otherwise"),
            hopped().alter_edge("a", "c", |_| {}).ends("resolved again, alike"),
            flipped(|edge| edge.upstream_incarnation = Some(1)).ends("another incarnation"),
            flipped(|edge| edge.upstream_incarnation = None).ends("no incarnation"),
            Story::join(JoinPolicy::AllOf).flip("a", "c").ends("upstream has not ended"),
            hopped()
                .asks(ReplayScope::All)
                .again(&["a", "b", "c"])
                .tamper(|commit| commit.edges.clear())
                .ends("an edge of an earlier incarnation counts"),
            hopped()
                .asks(ReplayScope::From(id("a")))
                .again(&["a", "c"])
                .hop_as(&[("a", Outcome::Succeeded)])
                .ends("resolved by how its upstream stood before"),
        ]
    }
}
