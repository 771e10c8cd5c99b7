//! I20: retention takes nothing away that somebody may still need.

use sluicegate::identity::FlowKey;
use sluicegate::storage::Execution;

use super::{Context, Invariant, Verdict};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I20",
    title: "nothing that a non-terminal flow needs is pruned; a flow goes as a whole",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    let gone = context.commit.executions.iter().filter(|change| change.after.is_none());
    for row in gone.filter_map(|change| change.before.as_ref()) {
        check_member(context, row)?;
    }
    let gone = context.commit.flows.iter().filter(|change| change.after.is_none());
    for flow in gone.filter_map(|change| change.before.as_ref()) {
        check_flow(context, flow.key)?;
    }
    check_parts(context)
}

fn check_member(context: &Context<'_>, row: &Execution) -> Verdict {
    if !row.state.is_terminal() {
        return Err(format!("an execution was pruned before its end: {row:?}"));
    }
    if context.mirror.flow(row.flow_key()).is_some() {
        return Err(format!("a member of a flow that is still there was pruned: {row:?}"));
    }
    match context.mirror.events_left().any(|event| event.execution == row.id) {
        true => Err(format!("an execution was pruned whose event is still in the feed: {row:?}")),
        false => Ok(()),
    }
}

fn check_flow(context: &Context<'_>, flow: FlowKey) -> Verdict {
    match context.mirror.left_of(flow) {
        Some(left) => Err(format!("flow {} was pruned, and this is left of it: {left}", flow.id)),
        None => Ok(()),
    }
}

/// What belongs to an execution or to a flow goes with it.
fn check_parts(context: &Context<'_>) -> Verdict {
    let (commit, mirror) = (context.commit, context.mirror);
    let groups = commit.groups.iter().filter(|change| change.after.is_none());
    let groups = groups.filter_map(|change| Some(change.before?.downstream));
    let edges = commit.edges.iter().filter(|change| change.after.is_none());
    let edges = edges.filter_map(|change| Some(change.before.as_ref()?.key.downstream));
    let attempts = commit.attempts_pruned.iter().map(|key| key.execution);
    let mut parts = groups.chain(edges).chain(attempts);
    if let Some(id) = parts.find(|id| mirror.execution(*id).is_some()) {
        return Err(format!("something of {id} was pruned, and it is still there"));
    }
    let summaries = commit.summaries.iter().filter(|change| change.after.is_none());
    let mut summaries = summaries.filter_map(|change| Some(change.before?.flow));
    match summaries.find(|flow| mirror.flow(*flow).is_some()) {
        Some(flow) => Err(format!("the summary of flow {} was pruned, and it is there", flow.id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::state::Outcome;

    use crate::invariants::Judge;
    use crate::invariants::testing::{History, Story};

    /// Both ends of a chain have ended, and their events are in the feed.
    fn ended() -> Story {
        let story = Story::chain().grant("a").complete("a", Outcome::Succeeded).hop(&["a"]);
        story.grant("b").complete("b", Outcome::Succeeded).place(&[("a", 1), ("b", 2)]).project()
    }

    #[test]
    fn a_flow_that_is_over_goes_as_a_whole() {
        let history = ended().prune_events(&["a", "b"]).prune().ends("a flow is pruned");
        assert_eq!(history.judge(Judge::new()), Ok(()));
    }

    pub(super) fn rejects() -> Vec<History> {
        let half = || Story::chain().grant("a").complete("a", Outcome::Succeeded).hop(&["a"]);
        let pruned = || ended().prune_events(&["a", "b"]).prune();
        vec![
            half().place(&[("a", 1)]).prune_events(&["a"]).prune().ends("a flow that is not over"),
            ended().prune().ends("events are still in the feed"),
            pruned().tamper(|commit| commit.flows.clear()).ends("the members of a flow that stays"),
            pruned()
                .tamper(|commit| commit.executions.truncate(1))
                .ends("an execution is left behind"),
            pruned().tamper(|commit| commit.groups.clear()).ends("a group is left behind"),
            pruned().tamper(|commit| commit.edges.clear()).ends("an edge is left behind"),
            pruned().tamper(|commit| commit.attempts_pruned.clear()).ends("history is left behind"),
            pruned().tamper(|commit| commit.summaries.clear()).ends("a summary is left behind"),
            pruned()
                .tamper(|commit| commit.submissions_pruned.clear())
                .ends("an idempotency key is left behind"),
            pruned()
                .tamper(|commit| {
                    commit.flows.clear();
                    commit.executions.clear();
                })
                .ends("what belongs to executions that stay"),
        ]
    }
}
