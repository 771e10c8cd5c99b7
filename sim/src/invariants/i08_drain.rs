//! I8: nothing is left over.

use sluicegate::storage::Resolution;

use super::{Invariant, Propagation, Quiescent, Verdict};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I8",
    title: "once faults have stopped, every execution is terminal and every edge resolved",
    commit: None,
    observe: None,
    quiescent: Some(check),
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(rest: &Quiescent<'_>) -> Verdict {
    let executions = rest.mirror.executions();
    let unfinished = executions.iter().filter(|row| !row.state.is_terminal());
    if let Some(row) = unfinished.clone().next() {
        let group = rest.mirror.group(row.id);
        let count = unfinished.count();
        return Err(format!("{count} executions are stranded, the first {row:?} under {group:?}"));
    }
    let edges = rest.mirror.edges();
    if let Some(edge) = edges.iter().find(|edge| edge.resolution == Resolution::Pending) {
        return Err(format!("an edge is pending for ever: {edge:?}"));
    }
    let kept = |propagated| propagated || rest.propagation == Propagation::Ignored;
    match executions.iter().find(|row| !kept(row.propagated)) {
        Some(row) => Err(format!("execution {} is never propagated", row.id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::state::Outcome;

    use crate::invariants::testing::{History, Story, after};

    pub(super) fn rejects() -> Vec<History> {
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded);
        let failed = || Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        vec![
            ended().quiescent().ends("stranded below an end"),
            ended().hop(&["a"]).quiescent().ends("never claimed"),
            failed().tamper(|commit| commit.edges.clear()).quiescent().ends("pending edge"),
            failed()
                .tamper(|commit| {
                    let rows = commit.executions.iter_mut().map(after);
                    rows.for_each(|row| row.propagated = false);
                })
                .quiescent()
                .ends("never propagated"),
        ]
    }
}
