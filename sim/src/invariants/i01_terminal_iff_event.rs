//! I1: a terminal transition and its completion event are one.

use sluicegate::storage::Execution;

use super::{Context, Invariant, Verdict, started_again};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I1",
    title: "an execution becomes terminal in the transaction that writes its one completion event",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    let mut ended = 0;
    for (before, after) in context.written() {
        let had_ended = |row: &Execution| row.state.is_terminal() && !started_again(row, after);
        if !after.state.is_terminal() && before.is_some_and(|row| row.state.is_terminal()) {
            check_start(context, after)?;
        }
        if after.state.is_terminal() && !before.is_some_and(had_ended) {
            ended += 1;
            check_end(context, after)?;
        }
    }
    // Each of them has an event of its own in this commit: as many events are no event too many.
    let events = &context.commit.events;
    let completions = events.iter().filter(|(_, event)| event.outcome().is_some()).count();
    if completions == ended {
        return Ok(());
    }
    Err(format!("{completions} completion events for {ended} executions that ended: {events:?}"))
}

/// An execution that starts again has not ended in its incarnation.
fn check_start(context: &Context<'_>, after: &Execution) -> Verdict {
    match context.mirror.events(after.id, after.incarnation) {
        None => Ok(()),
        Some(events) => Err(format!("it has ended in this incarnation: {after:?}, {events:?}")),
    }
}

fn check_end(context: &Context<'_>, after: &Execution) -> Verdict {
    let events = context.mirror.events(after.id, after.incarnation);
    let once = events.is_some_and(|events| {
        let here = events.count == 1 && events.commit == context.mirror.commits();
        here && events.outcome() == after.state.outcome()
    });
    if once {
        return Ok(());
    }
    let (id, state) = (after.id, after.state.name());
    let count = events.map_or(0, |events| events.count);
    let said = events.map(|events| events.kind);
    Err(format!(
        "execution {id} became {state} in incarnation {}; its completion events: {count}, \
         the last says {said:?}",
        after.incarnation
    ))
}

#[cfg(test)]
mod tests {
    use sluicegate::state::Outcome;
    use sluicegate::storage::EventKind;

    use crate::invariants::testing::{History, Story};

    fn completed(outcome: Outcome) -> EventKind {
        EventKind::Completed { outcome }
    }

    pub(super) fn rejects() -> Vec<History> {
        let finished = || Story::chain().grant("a").complete("a", Outcome::Succeeded);
        vec![
            finished().tamper(|commit| commit.events.clear()).ends("no event"),
            finished()
                .tamper(|commit| commit.events.push(commit.events[0]))
                .ends("two events in one commit"),
            finished()
                .tamper(|commit| commit.events[0].1.kind = completed(Outcome::Failed))
                .ends("event with another outcome"),
            finished()
                .tamper(|commit| commit.events[0].1.incarnation = 1)
                .ends("event of another incarnation"),
            Story::chain().grant("a").event("a", Outcome::Succeeded).ends("event without an end"),
            finished().event("a", Outcome::Succeeded).ends("event again later"),
            Story::second_life()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .tamper(|commit| commit.events.clear())
                .ends("no event of its second life"),
        ]
    }
}
