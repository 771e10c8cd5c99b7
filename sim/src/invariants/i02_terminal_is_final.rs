//! I2: what has ended stays as it ended, but for a replay, which starts exactly its own set again.

use std::collections::BTreeSet;

use sluicegate::identity::ExecutionId;
use sluicegate::replay::ReplayScope;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{Execution, Request};
use uuid::Uuid;

use super::{Asked, Context, Hearing, Invariant, Verdict, started_again};
use crate::history::Observation;
use crate::oracle::replays::{Life, must_start_again, reset_set};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I2",
    title: "a terminal execution never changes, except that a replay starts its own set again",
    commit: Some(check),
    observe: Some(check_told),
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    let mut again = BTreeSet::new();
    for (before, after) in context.moved() {
        if started_again(before, after) {
            again.insert(after.id);
            if after.incarnation != before.incarnation + 1 {
                return Err(format!("an incarnation was passed over: {before:?}, {after:?}"));
            }
        } else if before.state.is_terminal() && !kept(before, after) {
            return Err(format!("a terminal execution changed from {before:?} to {after:?}"));
        }
    }
    if again.is_empty() { Ok(()) } else { check_replay(context, &again) }
}

fn kept(before: &Execution, after: &Execution) -> bool {
    before.state == after.state
        && before.cause == after.cause
        && before.finished_at == after.finished_at
        && (after.propagated || !before.propagated)
}

/// What started again is what the call in this commit asked for, and its reply says so.
fn check_replay(context: &Context<'_>, again: &BTreeSet<ExecutionId>) -> Verdict {
    let new = context.commit.requests.iter().filter(|change| change.before.is_none());
    let new = new.filter_map(|change| change.after.as_ref());
    let mut asked = new.filter_map(|row| Some((row, context.told.replay(row.key.request)?)));
    let Some((row, asked)) = asked.next_back() else {
        return Err(format!("nobody has asked for these to start again: {again:?}"));
    };
    if named(row) != Some(again.iter().map(|id| id.uuid).collect()) {
        return Err(format!("{again:?} start again, but the stored reply names {row:?}"));
    }
    check_set(context, again, asked)
}

fn named(row: &Request) -> Option<BTreeSet<Uuid>> {
    row.reply.chunks(16).map(|id| Uuid::from_slice(id).ok()).collect()
}

/// Executions elsewhere may have ended since the replay looked, so that of what failed only a part
/// can be asked for; but what follows from that part is asked for as well. That is locked by then,
/// but for what ran and was skipped by its handler meanwhile: this comes after the replay.
fn check_set(context: &Context<'_>, again: &BTreeSet<ExecutionId>, asked: &Asked) -> Verdict {
    let rows = context.mirror.executions().iter().filter(|row| row.flow_key() == asked.flow);
    let lives: Vec<Life> = rows.map(|row| life_before(context, row)).collect();
    let edges: Vec<(ExecutionId, ExecutionId)> = context
        .mirror
        .edges()
        .iter()
        .map(|edge| (edge.key.upstream, edge.key.downstream))
        .collect();
    let expected = reset_set(asked.scope, &lives, &edges);
    if let Some(id) = again.difference(&expected).next() {
        return Err(format!("{id} starts again, and {:?} does not hold it", asked.scope));
    }
    let missing = match asked.scope {
        ReplayScope::Failed => {
            let meanwhile = |life: &Life| {
                life.state == State::Terminal(Outcome::Skipped)
                    && life.cause == Some(Cause::Handler)
                    && !context.commit.skipped_at_look.contains(&life.id)
            };
            let looked_at: Vec<Life> =
                lives.iter().copied().filter(|life| !meanwhile(life)).collect();
            must_start_again(again, &looked_at, &edges)
        }
        ReplayScope::From(_) | ReplayScope::All => expected.difference(again).next().copied(),
    };
    match missing {
        Some(id) => Err(format!("{id} does not start again, and {:?} holds it", asked.scope)),
        None => Ok(()),
    }
}

/// How an execution stood before this commit.
fn life_before(context: &Context<'_>, row: &Execution) -> Life {
    let mut moved = context.moved();
    let before = moved.find(|(_, after)| after.id == row.id).map_or(row, |(before, _)| before);
    Life { id: before.id, state: before.state, cause: before.cause }
}

/// A replay was answered as its request keeps it.
fn check_told(hearing: &Hearing<'_>) -> Verdict {
    let Observation::Replayed { flow, request, members } = hearing.observation else {
        return Ok(());
    };
    let key = sluicegate::storage::RequestKey { flow: *flow, request: *request };
    let kept = hearing.mirror.request(key);
    let told: BTreeSet<Uuid> = members.iter().map(|id| id.uuid).collect();
    match kept.and_then(named).unwrap_or_default() == told {
        true => Ok(()),
        false => Err(format!("{:?}, but the request is {kept:?}", hearing.observation)),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{AcceptSet, JoinPolicy};
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::{Cause, Outcome, State};

    use crate::invariants::Judge;
    use crate::invariants::testing::{History, Story, after, id};

    pub(super) fn rejects() -> Vec<History> {
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded).hop(&["a"]);
        let cancelled = State::Terminal(Outcome::Cancelled);
        let failed = || Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        let done = || ended().grant("b").complete("b", Outcome::Succeeded);
        let replayed = || failed().asks(ReplayScope::Failed).again(&["a", "b"]);
        vec![
            ended().alter("a", |row| row.state = cancelled).ends("another outcome"),
            ended().alter("a", |row| row.state = State::Ready).ends("ready again"),
            ended().alter("a", |row| row.cause = Some(Cause::Flow)).ends("another cause"),
            ended().alter("a", |row| row.finished_at = None).ends("no end"),
            ended().alter("a", |row| row.incarnation += 1).ends("another incarnation"),
            ended().alter("a", |row| row.propagated = false).ends("not propagated again"),
            failed().again(&["a", "b"]).ends("started again, and nobody asked"),
            failed().asks(ReplayScope::Failed).again(&["a"]).ends("what waits for it is left"),
            skips_itself().asks(ReplayScope::Failed).again(&["a"]).ends("a seen skip is left"),
            failed().asks(ReplayScope::All).again(&["a"]).ends("not all of all"),
            failed().asks(ReplayScope::From(id("b"))).again(&["a", "b"]).ends("above its scope"),
            done().asks(ReplayScope::Failed).again(&["a", "b"]).ends("what succeeded starts again"),
            replayed()
                .tamper(|commit| after(&mut commit.requests[0]).reply = [0; 16].into())
                .ends("a reply that names another"),
            replayed()
                .tamper(|commit| {
                    commit.executions.iter_mut().map(after).for_each(|row| {
                        row.incarnation += 1;
                    });
                })
                .ends("an incarnation passed over"),
            replayed().told(Story::replayed(&["a"])).ends("told another set"),
        ]
    }

    /// a has failed, and b, which runs after it in any case, has been skipped by its handler.
    fn skips_itself() -> Story {
        Story::flow(&[("a", "b", AcceptSet::ON_DONE)], JoinPolicy::AllOf)
            .grant("a")
            .complete("a", Outcome::Failed)
            .hop(&["a"])
            .grant("b")
            .complete("b", Outcome::Skipped)
    }

    #[test]
    fn what_its_handler_skipped_after_the_replay_had_looked_comes_after_the_replay() {
        let replayed = skips_itself().asks(ReplayScope::Failed).again(&["a"]);
        let unseen = replayed.tamper(|commit| commit.skipped_at_look.clear());
        assert_eq!(unseen.ends("skipped meanwhile").judge(Judge::new()), Ok(()));
        let both = skips_itself().asks(ReplayScope::Failed).again(&["a", "b"]);
        assert_eq!(both.ends("seen in time").judge(Judge::new()), Ok(()));
    }

    #[test]
    fn a_replay_of_what_failed_passes_and_runs_again() {
        let failed = Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        let history = failed
            .asks(ReplayScope::Failed)
            .again(&["a", "b"])
            .told(Story::replayed(&["a", "b"]))
            .grant("a")
            .complete("a", Outcome::Succeeded)
            .hop(&["a"])
            .grant("b")
            .complete("b", Outcome::Succeeded)
            .quiescent()
            .ends("replayed");
        assert_eq!(history.judge(Judge::new()), Ok(()));
    }
}
