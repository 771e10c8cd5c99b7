//! I9: every stored row is legal and reachable from the one before.

use sluicegate::policy::{Decision, JoinPolicy};
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{Attempt, AttemptEnd, Execution, Flow, Group, Reported, Resumed};

use super::{Context, Invariant, Verdict, started_again};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I9",
    title: "the stored state is legal and reachable from the previous one",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for row in context.born() {
        let sound = is_newborn(row) || is_born_decided(context, row);
        if !sound || !knows_its_edges(context, row) {
            return Err(format!("an execution was not born like this: {row:?}"));
        }
    }
    for (before, after) in context.moved() {
        let reached = match started_again(before, after) {
            true => replayable(context, before, after),
            false => reachable(before, after) && gains_an_edge(context, before, after),
        };
        let reached = reached || is_given_up(context, before, after);
        if !reached || !ends_consistently(context, before, after) {
            return Err(format!("an execution can not come from {before:?} to {after:?}"));
        }
    }
    check_growth(context)?;
    check_unreadable(context)?;
    for change in &context.commit.groups {
        let Some(after) = change.after else { continue };
        let kept = |before: Group| {
            keeps_policy(&before, &after) || context.mirror.has_mended_group(after.downstream)
        };
        if !is_group(&after) || !change.before.is_none_or(kept) {
            return Err(format!("a group is not legal: {:?}, {after:?}", change.before));
        }
    }
    for attempt in &context.commit.attempts {
        let row = context.mirror.execution(attempt.key.execution);
        if !row.is_some_and(|row| leads_to(attempt, row)) {
            return Err(format!("an attempt did not lead where it says: {attempt:?}, {row:?}"));
        }
    }
    Ok(())
}

/// What cannot be read is not written either, by a value that was made up, unless an operator gives
/// it up.
fn check_unreadable(context: &Context<'_>) -> Verdict {
    for damaged in context.mirror.mended() {
        let id = damaged.execution();
        let mut moves = context.moved().filter(|(_, after)| after.id == id);
        let done = match moves.next() {
            Some((before, after)) => is_given_up(context, before, after),
            None => context.mirror.execution(id).is_some_and(|row| row.state.is_terminal()),
        };
        if !done {
            return Err(format!("{damaged:?}, and was written all the same"));
        }
    }
    for (before, after) in context.moved() {
        let given_up = after.cause == Some(Cause::Unreadable) && before.cause != after.cause;
        if given_up && !is_given_up(context, before, after) {
            return Err(format!("given up although it can be read: {before:?}, {after:?}"));
        }
    }
    Ok(())
}

/// What cannot be read, or waits for what cannot, fails by an act of an operator alone; what had
/// ended stays as it is but for what could not be read.
fn is_given_up(context: &Context<'_>, before: &Execution, after: &Execution) -> bool {
    let mended = context.mirror.mended().iter().any(|row| row.execution() == after.id);
    if before.state.is_terminal() {
        return mended && Execution { retry: after.retry, ..*before } == *after;
    }
    let expected = Execution {
        state: State::Terminal(Outcome::Failed),
        cause: Some(Cause::Unreadable),
        epoch: before.epoch + 1,
        lease: None,
        finished_at: after.finished_at,
        propagated: !before.has_out,
        retry: after.retry,
        ..*before
    };
    mended && expected == *after
}

fn is_newborn(row: &Execution) -> bool {
    let state = if row.has_in { State::Blocked } else { State::Ready };
    let counts = [row.incarnation, row.attempt, row.charged, row.give_backs];
    let unused = row.lease.is_none()
        && row.resumed.is_none()
        && row.progress.is_none()
        && row.cause.is_none()
        && row.finished_at.is_none();
    row.state == state
        && counts == [0; 4]
        && unused
        && !row.propagated
        && row.retry.max_attempts >= 1
}

/// What is added to a flow behind upstreams that have ended may be decided with it. By what, is for
/// others.
fn is_born_decided(context: &Context<'_>, row: &Execution) -> bool {
    let skipped = row.state == State::Terminal(Outcome::Skipped);
    let blocked = Execution {
        state: State::Blocked,
        cause: None,
        finished_at: None,
        propagated: false,
        ..*row
    };
    let unsatisfiable = row.cause == Some(Cause::Unsatisfiable) && row.finished_at.is_some();
    let open = row.cause.is_none() && row.finished_at.is_none() && !row.propagated;
    let decided = if skipped { unsatisfiable } else { row.state == State::Ready && open };
    let mut flows = context.commit.flows.iter();
    let extended = flows.any(|change| change.before.as_ref().is_some_and(|flow| is_of(flow, row)));
    row.has_in && decided && extended && is_newborn(&blocked)
}

fn is_of(flow: &Flow, row: &Execution) -> bool {
    flow.key == row.flow_key()
}

/// An execution has an out-edge for good once it has one, and an input.
fn gains_an_edge(context: &Context<'_>, before: &Execution, after: &Execution) -> bool {
    let kept = before.has_out == after.has_out;
    let gained = after.has_out && context.mirror.edges_from(after.id).next().is_some();
    before.has_in == after.has_in && before.has_inputs <= after.has_inputs && (kept || gained)
}

/// A flow gets one revision with each extension, and none otherwise.
fn check_growth(context: &Context<'_>) -> Verdict {
    let added = context.born().next().is_some()
        || context.commit.edges.iter().any(|change| change.before.is_none());
    let mut expected = added;
    for change in &context.commit.flows {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            expected = false;
            continue;
        };
        let grown = after.revision.checked_sub(before.revision);
        if grown != Some(u64::from(added)) {
            return Err(format!(
                "a flow grew by {grown:?} revisions, from {before:?} to {after:?}"
            ));
        }
        expected = false;
    }
    match expected {
        true => Err("a flow grew and kept its revision".to_owned()),
        false => Ok(()),
    }
}

fn knows_its_edges(context: &Context<'_>, row: &Execution) -> bool {
    let edges = context.mirror.edges_into(row.id);
    row.has_in == context.mirror.group(row.id).is_some()
        && row.has_inputs == edges.iter().any(|edge| edge.passes_as.is_some())
        && row.has_in != edges.is_empty()
        && row.has_out == context.mirror.edges_from(row.id).next().is_some()
}

fn reachable(before: &Execution, after: &Execution) -> bool {
    let fixed = (before.flow, before.incarnation, before.deadline, before.retry)
        == (after.flow, after.incarnation, after.deadline, after.retry);
    let follows = before.state == after.state || follows(before.state, after.state);
    fixed && follows && resumes(before, after)
}

/// A resume names the suspension that it ends, and what it led to; nothing else leads from
/// suspended to ready.
fn resumes(before: &Execution, after: &Execution) -> bool {
    let resumed = Resumed { epoch: before.epoch, outcome: after.state.outcome() };
    let ends = before.state == State::Suspended && after.state != State::Suspended;
    match before.resumed == after.resumed {
        true => !ends || after.state.is_terminal(),
        false => ends && after.resumed == Some(resumed),
    }
}

/// A new life: nothing of the one before is left, but for a deadline that is still ahead.
fn replayable(context: &Context<'_>, before: &Execution, after: &Execution) -> bool {
    use State::{Active, Blocked, Ready, Suspended, Terminal};
    let kept = (before.flow, before.retry, before.has_in, before.has_out)
        == (after.flow, after.retry, after.has_in, after.has_out);
    let passed = before.deadline.is_some_and(|at| at <= context.commit.clock_highest);
    let deadline = before.deadline == after.deadline || (passed && after.deadline.is_none());
    let unused = [after.attempt, after.charged, after.give_backs] == [0; 3];
    kept && deadline
        && unused
        && after.lease.is_none()
        && !matches!(before.state, Active | Suspended)
        && matches!(after.state, Blocked | Ready | Terminal(Outcome::Skipped))
}

/// The transitions of the specification, written anew.
fn follows(from: State, to: State) -> bool {
    use Outcome::{Cancelled, Expired, Skipped};
    use State::{Active, Blocked, Ready, Suspended, Terminal};
    match from {
        Blocked => matches!(to, Ready | Terminal(Skipped | Cancelled | Expired)),
        Ready => matches!(to, Active | Terminal(Cancelled | Expired)),
        Active => matches!(to, Ready | Suspended | Terminal(_)),
        Suspended => matches!(to, Ready | Terminal(Cancelled | Expired)),
        Terminal(_) => false,
    }
}

/// Cause and end stand exactly in a terminal row, and the cause is one of that outcome.
fn ends_consistently(context: &Context<'_>, before: &Execution, after: &Execution) -> bool {
    let (Some(outcome), Some(cause)) = (after.state.outcome(), after.cause) else {
        let open = after.cause.is_none() && after.finished_at.is_none() && !after.propagated;
        return !after.state.is_terminal() && open;
    };
    let explained = match outcome {
        Outcome::Succeeded => cause == Cause::Handler,
        Outcome::Failed => {
            matches!(cause, Cause::Handler | Cause::AttemptsExhausted | Cause::Unreadable)
        }
        Outcome::Cancelled => matches!(cause, Cause::Operator | Cause::Flow | Cause::Sibling),
        Outcome::Expired => matches!(cause, Cause::AttemptsExhausted | Cause::Deadline),
        Outcome::Skipped => matches!(cause, Cause::Handler | Cause::Unsatisfiable),
    };
    let passed = after.deadline.is_some_and(|at| at <= context.commit.clock_highest);
    let due = cause != Cause::Deadline || before.state.is_terminal() || passed;
    explained && due && after.finished_at.is_some()
}

fn is_group(group: &Group) -> bool {
    let reachable = match group.policy {
        JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } => group.edges >= 1,
        JoinPolicy::Quorum { k, .. } => k >= 1 && k <= group.edges,
    };
    let resolved = group.satisfied.checked_add(group.unsatisfied);
    reachable && resolved.is_some_and(|resolved| resolved <= group.edges)
}

/// A policy may be exchanged until an edge of its group is resolved.
fn keeps_policy(before: &Group, after: &Group) -> bool {
    let untouched =
        before.decision == Decision::Undecided && before.satisfied == 0 && before.unsatisfied == 0;
    before.flow == after.flow && (before.policy == after.policy || untouched)
}

/// Whether an attempt that ended so may leave its execution in that state, and says that it did.
/// A row that is active again was claimed anew in the same transaction.
fn leads_to(attempt: &Attempt, row: &Execution) -> bool {
    use Outcome::{Cancelled, Expired, Failed, Skipped, Succeeded};
    use State::{Active, Ready, Terminal};
    let state = row.state;
    let possible = match attempt.end {
        AttemptEnd::Completed => state == Terminal(Succeeded),
        AttemptEnd::Skipped => state == Terminal(Skipped),
        AttemptEnd::FailedFatal => state == Terminal(Failed),
        AttemptEnd::FailedRetryable | AttemptEnd::Released | AttemptEnd::Snoozed => {
            matches!(state, Ready | Active | Terminal(Failed | Cancelled))
        }
        AttemptEnd::Expired => matches!(state, Ready | Active | Terminal(Expired | Cancelled)),
        AttemptEnd::Revoked if row.cause == Some(Cause::Unreadable) => state == Terminal(Failed),
        AttemptEnd::Revoked => state == Terminal(Cancelled),
        AttemptEnd::Suspended => state == State::Suspended,
    };
    let said = match attempt.reported {
        Reported::Finished(outcome) => state == Terminal(outcome),
        Reported::Requeued { delay_us } => matches!(state, Ready | Active) && delay_us >= 0,
        Reported::Suspended { epoch } => state == State::Suspended && epoch == row.epoch,
    };
    possible && said
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{JoinPolicy, OnSatisfied};
    use sluicegate::replay::ReplayScope;
    use sluicegate::retry::Backoff;
    use sluicegate::state::{Cause, ClosePolicy, Outcome, State};
    use sluicegate::storage::{AttemptEnd, Execution, Group, Reported};
    use sluicegate::time::Timestamp;

    use crate::invariants::Judge;
    use crate::invariants::testing::{History, LEASE, Story, after};
    use crate::mirror::Damaged;

    fn submitted(tamper: impl Fn(&mut Execution)) -> Story {
        Story::chain().tamper(|commit| tamper(after(&mut commit.executions[0])))
    }

    fn grouped(tamper: impl Fn(&mut Group)) -> Story {
        Story::chain().tamper(|commit| tamper(after(&mut commit.groups[0])))
    }

    fn ended(tamper: impl Fn(&mut Execution)) -> Story {
        let story = Story::chain().grant("a").complete("a", Outcome::Succeeded);
        story.tamper(|commit| tamper(after(&mut commit.executions[0])))
    }

    fn replays() -> Vec<History> {
        let replayed = |tamper: fn(&mut Execution)| {
            let failed = Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
            let again = failed.asks(ReplayScope::Failed).again(&["a", "b"]);
            again.tamper(move |commit| tamper(after(&mut commit.executions[0])))
        };
        vec![
            replayed(|row| row.attempt = 1).ends("an attempt of an earlier life"),
            replayed(|row| row.charged = 1).ends("charged for an earlier life"),
            replayed(|row| row.cause = Some(Cause::Handler)).ends("cause of an earlier end"),
            replayed(|row| row.state = State::Active).ends("active at once"),
            replayed(|row| row.deadline = Some(Timestamp(1))).ends("another deadline"),
            Story::chain()
                .grant("a")
                .asks(ReplayScope::All)
                .again(&["a", "b"])
                .ends("replayed while it ran"),
        ]
    }

    pub(super) fn rejects() -> Vec<History> {
        let mut histories = vec![
            submitted(|row| row.state = State::Active).ends("born active"),
            submitted(|row| row.charged = 1).ends("born charged"),
            submitted(|row| row.retry.max_attempts = 0).ends("no attempts at all"),
            submitted(|row| row.has_out = !row.has_out).ends("wrong about its edges"),
            grouped(|group| group.edges = 0).ends("group without edges"),
            ended(|row| row.finished_at = None).ends("terminal without an end"),
            ended(|row| row.cause = None).ends("terminal without a cause"),
            ended(|row| row.cause = Some(Cause::Sibling)).ends("cause of another outcome"),
            ended(|row| row.retry.max_attempts = 9).ends("another retry policy"),
            ended(|row| row.state = State::Terminal(Outcome::Failed)).ends("not as reported"),
            Story::chain()
                .grant("a")
                .end("a", AttemptEnd::Released)
                .tamper(|commit| {
                    commit.attempts[0].reported = Reported::Finished(Outcome::Failed);
                })
                .ends("finished by its word only"),
            Story::chain()
                .alter("a", |row| row.cause = Some(Cause::Handler))
                .ends("cause before its end"),
            Story::chain()
                .alter("a", |row| row.state = State::Suspended)
                .ends("suspended without having run"),
            Story::chain()
                .grant("a")
                .suspend("a")
                .tamper(|commit| {
                    commit.attempts[0].reported = Reported::Suspended { epoch: 1 };
                })
                .ends("suspended under another number"),
            Story::chain()
                .grant("a")
                .suspend("a")
                .resume("a")
                .tamper(|commit| after(&mut commit.executions[0]).resumed = None)
                .ends("resumed without a trace"),
            Story::chain()
                .grant("a")
                .suspend("a")
                .resume("a")
                .tamper(|commit| {
                    after(&mut commit.executions[0]).resumed.as_mut().unwrap().epoch -= 1;
                })
                .ends("resumed by the number of an older suspension"),
            Story::chain()
                .alter("a", |row| {
                    row.state = State::Terminal(Outcome::Expired);
                    row.cause = Some(Cause::Deadline);
                    row.finished_at = Some(Timestamp(1));
                })
                .ends("expired without a deadline"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .hop(&["a"])
                .alter_group("b", |group| {
                    group.policy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
                })
                .ends("policy exchanged too late"),
        ];
        let extended = || Story::chain().extend("x", &["a"], JoinPolicy::AllOf);
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded).hop(&["a"]);
        let born =
            |row: &Execution| row.epoch == 0 && row.id == crate::invariants::testing::id("x");
        histories.extend([
            extended()
                .tamper(|commit| {
                    commit.executions.retain(|change| change.after.is_some_and(|row| !born(&row)));
                })
                .tamper(|commit| commit.flows.clear())
                .ends("an edge, and no revision"),
            extended().tamper(|commit| commit.flows.clear()).ends("grown, and no revision"),
            extended()
                .tamper(|commit| after(&mut commit.flows[0]).revision += 1)
                .ends("two revisions for one extension"),
            Story::chain()
                .close(ClosePolicy::FlowOnly, &[], 0)
                .tamper(|commit| after(&mut commit.flows[0]).revision += 1)
                .ends("a revision for nothing"),
            ended()
                .extend("x", &["a"], JoinPolicy::AllOf)
                .tamper(|commit| {
                    commit.executions.iter_mut().map(after).for_each(|row| {
                        if row.has_in {
                            row.charged = 1;
                        }
                    });
                })
                .ends("added with an attempt charged"),
            Story::chain().alter("a", |row| row.has_out = false).ends("an edge forgotten"),
            Story::chain().alter("b", |row| row.has_out = true).ends("an edge made up"),
        ]);
        histories.extend(replays());
        histories.extend([0, 2, 1 << 31, u32::MAX].map(quorum));
        histories.extend(damaged());
        histories
    }

    fn quorum(k: u32) -> History {
        let policy = JoinPolicy::Quorum { k, on_satisfied: OnSatisfied::LetRun };
        grouped(move |group| group.policy = policy).ends("quorum out of range")
    }

    #[test]
    fn what_cannot_be_read_may_be_given_up() {
        let waits = || Story::chain().damaged("a", Damaged::ExecutionUnreadable);
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded);
        let anew = |row: &mut Execution| row.retry.backoff = Backoff::default();
        for history in [
            waits().give_up("a").ends("waiting"),
            waits().give_up("a").hop(&["a"]).ends("hop"),
            ended().damaged("a", Damaged::ExecutionUnreadable).alter("a", anew).ends("ended"),
        ] {
            assert_eq!(history.judge(Judge::new().only("I9")), Ok(()));
        }
    }

    fn damaged() -> [History; 5] {
        [
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .damaged("a", Damaged::ExecutionUnreadable)
                .alter("a", |row| row.finished_at = row.finished_at.map(|at| at + LEASE))
                .ends("ended at another time once it was given up"),
            Story::chain()
                .damaged("a", Damaged::ExecutionUnreadable)
                .grant("a")
                .ends("granted although it cannot be read"),
            Story::chain().give_up("a").ends("given up although it can be read"),
            Story::chain()
                .damaged("b", Damaged::GroupUnreadable)
                .give_up("a")
                .ends("given up for another that cannot be read"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .damaged("b", Damaged::GroupUnreadable)
                .hop(&["a"])
                .ends("decided although its join cannot be read"),
        ]
    }
}
