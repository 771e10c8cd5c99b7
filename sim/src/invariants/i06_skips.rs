//! I6: what is skipped could not run, or ran and said so.

use sluicegate::policy::Decision;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::Execution;

use super::{Context, Invariant, Verdict, started_again};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I6",
    title: "skipped only if its group is impossible or its handler said so, and then for good",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

const SKIPPED: State = State::Terminal(Outcome::Skipped);
const CANCELLED: State = State::Terminal(Outcome::Cancelled);

fn check(context: &Context<'_>) -> Verdict {
    for (before, after) in context.written() {
        let before = before.filter(|before| !started_again(before, after));
        let from = before.map(|before| before.state);
        if after.state == State::Active && matches!(from, Some(SKIPPED | CANCELLED)) {
            return Err(format!("execution {} became active after its end", after.id));
        }
        if after.state == SKIPPED && from != Some(SKIPPED) && !may_skip(context, from, after) {
            let (cause, group) = (after.cause, context.mirror.group(after.id));
            return Err(format!(
                "execution {} went from {from:?} to skipped, cause {cause:?}, under {group:?}",
                after.id
            ));
        }
    }
    Ok(())
}

fn may_skip(context: &Context<'_>, from: Option<State>, after: &Execution) -> bool {
    match after.cause {
        Some(Cause::Handler) => from == Some(State::Active),
        Some(Cause::Unsatisfiable) => {
            let group = context.mirror.group(after.id);
            group.is_some_and(|group| group.decision == Decision::Impossible)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{JoinPolicy, OnSatisfied};
    use sluicegate::state::{Cause, Outcome, State};

    use super::{CANCELLED, SKIPPED};
    use crate::invariants::testing::{History, Story};

    fn skipped(cause: Cause) -> impl Fn(&mut sluicegate::storage::Execution) {
        move |row| (row.state, row.cause) = (SKIPPED, Some(cause))
    }

    pub(super) fn rejects() -> Vec<History> {
        let any = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
        let failed = Story::join(any).grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        let active = |row: &mut sluicegate::storage::Execution| row.state = State::Active;
        let cancelled = |row: &mut sluicegate::storage::Execution| {
            (row.state, row.cause) = (CANCELLED, Some(Cause::Operator));
        };
        vec![
            failed.alter("c", skipped(Cause::Unsatisfiable)).ends("the other may still succeed"),
            Story::chain().alter("b", skipped(Cause::Handler)).ends("no handler ran"),
            Story::second_life()
                .alter("b", skipped(Cause::Unsatisfiable))
                .ends("skipped in its second life by a decision of its first"),
            Story::chain().grant("a").alter("a", skipped(Cause::Flow)).ends("another cause"),
            Story::chain().alter("a", skipped(Cause::Unsatisfiable)).ends("no group"),
            Story::chain().alter("a", cancelled).alter("a", active).ends("runs after its cancel"),
        ]
    }
}
