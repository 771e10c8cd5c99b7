//! I8: nothing is left over.

use sluicegate::storage::{Edge, Resolution};

use super::{Hearing, Invariant, Propagation, Quiescent, Verdict};
use crate::history::Observation;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I8",
    title: "once faults have stopped, every execution is terminal and every edge resolved",
    commit: None,
    observe: Some(check_size),
    quiescent: Some(check),
    #[cfg(test)]
    rejects: tests::rejects,
};

/// What the limits allow can be begun.
fn check_size(hearing: &Hearing<'_>) -> Verdict {
    match hearing.observation {
        Observation::TooLarge { executions } => {
            Err(format!("a flow of {executions} executions that the limits allow is too large"))
        }
        _ => Ok(()),
    }
}

fn check(rest: &Quiescent<'_>) -> Verdict {
    let executions = rest.mirror.executions();
    let waiting = rest.mirror.waiting();
    let open = executions.iter().filter(|row| !row.state.is_terminal());
    let unfinished = open.filter(|row| !waiting.has(row.id));
    if let Some(row) = unfinished.clone().next() {
        let group = rest.mirror.group(row.id);
        let count = unfinished.count();
        return Err(format!("{count} executions are stranded, the first {row:?} under {group:?}"));
    }
    let edges = rest.mirror.edges();
    let pending = edges.iter().filter(|edge| edge.resolution == Resolution::Pending);
    if let Some(edge) = pending.clone().find(|edge| !waiting.has_end_of(edge)) {
        return Err(format!("an edge is pending for ever: {edge:?}"));
    }
    let required = rest.propagation == Propagation::Required;
    let settled =
        |id| waiting.has(id) || pending.clone().any(|edge: &Edge| edge.key.upstream == id);
    match executions.iter().find(|row| required && !row.propagated && !settled(row.id)) {
        Some(row) => Err(format!("execution {} is never propagated", row.id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::state::Outcome;

    use crate::history::Observation;
    use crate::invariants::testing::{History, Story, after};
    use crate::mirror::Damaged;

    pub(super) fn rejects() -> Vec<History> {
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded);
        let failed = || Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        vec![
            Story::empty()
                .told(Observation::TooLarge { executions: 3 })
                .ends("a flow within the limits is refused"),
            ended().quiescent().ends("stranded below an end"),
            ended().hop(&["a"]).quiescent().ends("never claimed"),
            failed().tamper(|commit| commit.edges.clear()).quiescent().ends("pending edge"),
            Story::join(JoinPolicy::AllOf)
                .damaged("a", Damaged::ExecutionUnreadable)
                .quiescent()
                .ends("stranded beside a damaged row"),
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
