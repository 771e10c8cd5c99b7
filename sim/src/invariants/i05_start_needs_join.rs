//! I5: nothing starts before its join is satisfied.

use sluicegate::identity::ExecutionId;
use sluicegate::policy::Decision;
use sluicegate::state::State;

use super::{Context, Invariant, Verdict, started_again};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I5",
    title: "an execution becomes ready or active only if its group is satisfied or it has none",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for (before, after) in context.written() {
        let starts = matches!(after.state, State::Ready | State::Active)
            && before
                .is_none_or(|before| before.state != after.state || started_again(before, after));
        if starts && !may_start(context, after.id) {
            let group = context.mirror.group(after.id);
            let state = after.state.name();
            return Err(format!("execution {} became {state} under {group:?}", after.id));
        }
    }
    Ok(())
}

fn may_start(context: &Context<'_>, id: ExecutionId) -> bool {
    match context.mirror.group(id) {
        Some(group) => group.decision == Decision::Satisfied,
        None => context.mirror.edges_into(id).is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::state::{Outcome, State};

    use crate::invariants::testing::{History, Story, after};

    pub(super) fn rejects() -> Vec<History> {
        let ready = |row: &mut sluicegate::storage::Execution| row.state = State::Ready;
        vec![
            Story::chain().alter("b", ready).ends("undecided"),
            Story::chain().grant("b").ends("claimed while blocked"),
            Story::second_life().alter("b", ready).ends("undecided in its second life"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Failed)
                .hop(&["a"])
                .tamper(move |commit| {
                    let changes = commit.executions.iter_mut();
                    changes.map(after).filter(|row| row.has_in).for_each(ready);
                })
                .ends("impossible"),
            Story::join(JoinPolicy::AllOf)
                .tamper(move |commit| commit.executions.iter_mut().map(after).for_each(ready))
                .ends("submitted as ready behind edges"),
            Story::chain()
                .tamper(|commit| commit.groups.clear())
                .alter("b", ready)
                .ends("edges without a group"),
        ]
    }
}
