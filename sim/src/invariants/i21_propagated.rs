//! I21: the flag that lets a scan pass an execution over never lies.

use sluicegate::storage::Resolution;

use super::{Context, Invariant, Verdict};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I21",
    title: "a propagated execution has no pending out-edge",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for (before, after) in context.written() {
        if !after.propagated {
            continue;
        }
        if !after.state.is_terminal() {
            return Err(format!("execution {} is propagated before its end", after.id));
        }
        let turned = !before.is_some_and(|before| before.propagated);
        let mut pending = context.mirror.edges_from(after.id);
        if let Some(edge) = pending.find(|edge| turned && edge.resolution == Resolution::Pending) {
            return Err(format!("execution {} is propagated with {edge:?}", after.id));
        }
    }
    let edges = context.commit.edges.iter().filter_map(|change| change.after.as_ref());
    for edge in edges.filter(|edge| edge.resolution == Resolution::Pending) {
        let upstream = context.mirror.execution(edge.key.upstream);
        if upstream.is_some_and(|upstream| upstream.propagated) {
            return Err(format!("a propagated execution got a pending edge: {edge:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::state::Outcome;

    use crate::invariants::testing::{History, Story};

    pub(super) fn rejects() -> Vec<History> {
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded);
        vec![
            ended().alter("a", |row| row.propagated = true).ends("marked before its hop"),
            ended()
                .hop(&["a"])
                .tamper(|commit| commit.edges.clear())
                .ends("marked with an edge left"),
            Story::chain().alter("a", |row| row.propagated = true).ends("marked before its end"),
            Story::join(JoinPolicy::AllOf)
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .hop(&["a"])
                .add_edge("a", "b")
                .ends("edge added behind the mark"),
        ]
    }
}
