//! I2: what has ended stays as it ended.

use super::{Context, Invariant, Verdict};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I2",
    title: "state, cause, end and incarnation of a terminal execution never change",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for (before, after) in context.moved().filter(|(before, _)| before.state.is_terminal()) {
        let kept = before.state == after.state
            && before.cause == after.cause
            && before.finished_at == after.finished_at
            && before.incarnation == after.incarnation
            && (after.propagated || !before.propagated);
        if !kept {
            return Err(format!("a terminal execution changed from {before:?} to {after:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluicegate::state::{Cause, Outcome, State};

    use crate::invariants::testing::{History, Story};

    pub(super) fn rejects() -> Vec<History> {
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded).hop(&["a"]);
        let cancelled = State::Terminal(Outcome::Cancelled);
        vec![
            ended().alter("a", |row| row.state = cancelled).ends("another outcome"),
            ended().alter("a", |row| row.state = State::Ready).ends("ready again"),
            ended().alter("a", |row| row.cause = Some(Cause::Flow)).ends("another cause"),
            ended().alter("a", |row| row.finished_at = None).ends("no end"),
            ended().alter("a", |row| row.incarnation += 1).ends("another incarnation"),
            ended().alter("a", |row| row.propagated = false).ends("not propagated again"),
        ]
    }
}
