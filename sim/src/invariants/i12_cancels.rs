//! I12: a cancel changes exactly its set, says so, and nothing starts after it.

use sluicegate::identity::{ExecutionId, FlowKey, RequestId};
use sluicegate::state::{Cause, ClosePolicy, Outcome, State};
use sluicegate::storage::{AttemptEnd, Execution, Flow, Request, RequestKey};
use uuid::Uuid;

use super::{Context, Hearing, Invariant, Quiescent, Verdict, lease_granted, started_again};
use crate::history::{Change, Observation};
use crate::mirror::{Closing, Events, Mirror};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I12",
    title: "a cancel changes exactly its set, its reply equals that, and nothing starts after it",
    commit: Some(check),
    observe: Some(hear),
    quiescent: Some(check_rest),
    #[cfg(test)]
    rejects: tests::rejects,
};

/// A stored reply of a cancelled flow: what is left to be looked at, and what was cancelled.
struct Kept {
    remaining: u64,
    cancelled: Vec<Uuid>,
}

impl Kept {
    fn of(request: &Request) -> Option<Kept> {
        let (remaining, ids) = request.reply.split_first_chunk::<8>()?;
        let ids = ids.chunks(16).map(|id| Uuid::from_slice(id).ok());
        let cancelled: Option<Vec<Uuid>> = ids.collect();
        Some(Kept { remaining: u64::from_be_bytes(*remaining), cancelled: cancelled? })
    }
}

/// How a flow was closed, if that keeps its members from starting.
fn stops(flow: &Flow) -> Option<ClosePolicy> {
    flow.closing.filter(|closing| *closing != ClosePolicy::FlowOnly)
}

fn by_flow(after: &Execution) -> bool {
    after.cause == Some(Cause::Flow)
}

fn check(context: &Context<'_>) -> Verdict {
    for change in &context.commit.flows {
        check_flow(context, change)?;
    }
    check_replay(context)?;
    for change in context.commit.flows.iter().filter(|_| context.born().next().is_some()) {
        if let Some(before) = change.before.as_ref().filter(|before| before.closing.is_some()) {
            return Err(format!("a flow that was closed has grown: {before:?}"));
        }
    }
    for (before, after) in context.moved().filter(|(before, after)| before.state != after.state) {
        let Some(flow) = context.mirror.flow(after.flow_key()) else { continue };
        check_start(context, flow, before, after)?;
        if by_flow(after) {
            check_member(context, flow, before, after)?;
        }
    }
    for change in &context.commit.requests {
        check_reply(context, change)?;
    }
    Ok(())
}

/// A close is only ever made stronger, until a replay opens the flow again.
fn check_flow(context: &Context<'_>, change: &Change<Flow>) -> Verdict {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return Ok(()) };
    let kept = before.closing == after.closing && before.closed_by == after.closed_by;
    let again =
        context.moved().any(|(row, now)| now.flow_key() == after.key && started_again(row, now));
    let replayed = again && after.closing.is_none() && after.closed_by.is_none();
    match kept || replayed || before.closing < after.closing {
        true => Ok(()),
        false => Err(format!("a flow was opened again: from {before:?} to {after:?}")),
    }
}

/// A replay opens its flow, and nobody goes on cancelling it.
fn check_replay(context: &Context<'_>) -> Verdict {
    let again = context.moved().find(|(before, after)| started_again(before, after));
    let Some(flow) = again.and_then(|(_, row)| context.mirror.flow(row.flow_key())) else {
        return Ok(());
    };
    match flow.closing.is_some() || context.mirror.cancel_backlog().contains(&flow.key) {
        true => Err(format!("executions start again, but their flow is cancelled: {flow:?}")),
        false => Ok(()),
    }
}

/// True if this commit opens the flow again.
fn opens(context: &Context<'_>, flow: &Flow) -> bool {
    let mut ended = context.commit.flows.iter().filter_map(Closing::ended);
    ended.any(|closing| closing.closer.flow == flow.key)
}

fn check_start(
    context: &Context<'_>,
    flow: &Flow,
    before: &Execution,
    after: &Execution,
) -> Verdict {
    let granted = lease_granted(before, after);
    if granted && context.commit.closed_at_claim.contains(&flow.key) {
        let id = after.id;
        return Err(format!("{id} was granted by a claim that began after its flow was cancelled"));
    }
    let ready = after.state == State::Ready;
    let closed = context.commit.closed_at_clock.contains(&flow.key);
    if ready && closed && !opens(context, flow) && !context.commit.reopened.contains(&flow.key) {
        return Err(format!("{} became ready after its flow was cancelled", after.id));
    }
    let starts = granted || ready;
    if starts && stops(flow).is_some() && was_done(context, flow) {
        let state = after.state.name();
        return Err(format!("{} became {state} after the cancel of its flow was done", after.id));
    }
    Ok(())
}

/// True if the call that closed the flow was done before this commit.
fn was_done(context: &Context<'_>, flow: &Flow) -> bool {
    let key = |request: RequestId| RequestKey { flow: flow.key, request };
    let Some(closer) = flow.closed_by.map(key) else { return false };
    let mut changes = context.commit.requests.iter();
    let changed = changes.find(|change| change.after.as_ref().is_some_and(|row| row.key == closer));
    let before = match changed {
        Some(change) => change.before.as_ref(),
        None => context.mirror.request(closer),
    };
    before.and_then(Kept::of).is_some_and(|kept| kept.remaining == 0)
}

/// What is cancelled with its flow is in the set of the policy, and in the reply if the cancel
/// itself found it.
fn check_member(
    context: &Context<'_>,
    flow: &Flow,
    before: &Execution,
    after: &Execution,
) -> Verdict {
    let Some(policy) = stops(flow) else {
        if context.commit.reopened.contains(&flow.key) {
            // A replay was faster than what began while the flow was closed.
            return Ok(());
        }
        return Err(format!("{} was cancelled with a flow that is open: {flow:?}", after.id));
    };
    let mut attempts = context.commit.attempts.iter();
    let revoked = attempts
        .any(|attempt| attempt.key.execution == after.id && attempt.end == AttemptEnd::Revoked);
    let runs = matches!(before.state, State::Active | State::Suspended);
    // Where a resume would have made it ready.
    let resumed = before.resumed != after.resumed;
    if policy == ClosePolicy::CancelPending
        && runs
        && !resumed
        && (revoked || before.lease.is_none())
    {
        return Err(format!("{} was running and is to run on, but was cancelled", after.id));
    }
    if before.state == State::Ready && context.commit.requests.is_empty() {
        return Err(format!("{} was cancelled with its flow, and no reply says so", after.id));
    }
    Ok(())
}

/// What is added to a reply is what was cancelled, and it says that it is done when it is.
fn check_reply(context: &Context<'_>, change: &Change<Request>) -> Verdict {
    let Some(after) = &change.after else { return Ok(()) };
    let flow = context.mirror.flow(after.key.flow);
    let closer = |flow: &&Flow| flow.closed_by == Some(after.key.request);
    let Some(flow) = flow.filter(closer) else {
        return match &change.before {
            None => Ok(()),
            Some(before) => Err(format!("a reply changed after its time: {before:?}, {after:?}")),
        };
    };
    let kept = Kept::of(after).ok_or_else(|| format!("a reply cannot be read: {after:?}"))?;
    let known = change.before.as_ref().and_then(Kept::of).map_or(0, |kept| kept.cancelled.len());
    let mut added: Vec<Uuid> = kept.cancelled.get(known..).unwrap_or_default().to_vec();
    let cancelled = context.moved().filter(|(before, after)| {
        before.state != after.state && by_flow(after) && after.flow_key() == flow.key
    });
    let mut cancelled: Vec<Uuid> = cancelled.map(|(_, after)| after.id.uuid).collect();
    added.sort_unstable();
    cancelled.sort_unstable();
    if added != cancelled {
        return Err(format!("a reply says that {added:?} were cancelled, but {cancelled:?} were"));
    }
    match (kept.remaining, stops(flow)) {
        (0, Some(policy)) => match left(context.mirror, flow, policy) {
            Some(id) => Err(format!("a cancel says that it is done, but {id} is left")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A member that the policy cancels.
fn left(mirror: &Mirror, flow: &Flow, policy: ClosePolicy) -> Option<ExecutionId> {
    let mut rows = mirror.executions().iter().filter(|row| row.flow_key() == flow.key);
    let wanted = |row: &&Execution| match policy {
        ClosePolicy::FlowOnly => false,
        ClosePolicy::CancelPending => matches!(row.state, State::Blocked | State::Ready),
        ClosePolicy::CancelAll => !row.state.is_terminal(),
    };
    rows.find(wanted).map(|row| row.id)
}

fn hear(hearing: &Hearing<'_>) -> Verdict {
    match hearing.observation {
        Observation::FlowCancelled { flow, request, policy, cancelled, done } => {
            let row = hearing.mirror.flow(*flow);
            let row = row.ok_or_else(|| format!("a flow was cancelled that is not: {flow:?}"))?;
            // A replay may have opened it since, which leaves the record as it was.
            let ended = hearing.mirror.closings(*flow).copied();
            let mut closings = Closing::of(row).into_iter().chain(ended);
            let ids: Vec<Uuid> = cancelled.iter().map(|id| id.uuid).collect();
            let kept = |key| hearing.mirror.request(key).and_then(Kept::of);
            let own = kept(RequestKey { flow: *flow, request: *request });
            let stands = closings.any(|closing| {
                let closer = kept(closing.closer);
                let told = !*done || closer.as_ref().is_some_and(|closer| closer.remaining == 0);
                let listed = own.as_ref().or(closer.as_ref());
                let listed = listed.is_some_and(|kept| kept.cancelled.starts_with(&ids));
                closing.policy >= *policy && listed && told
            });
            match stands {
                true => Ok(()),
                false => Err(format!("{:?}, but the flow is {row:?}", hearing.observation)),
            }
        }
        Observation::GivenUp { execution, ended } => {
            let row = hearing.mirror.execution(*execution);
            let outcome = ended.unwrap_or(Outcome::Failed);
            let stands = row.is_some_and(|row| {
                let given_up = ended.is_some() || row.cause == Some(Cause::Unreadable);
                let now = row.state == State::Terminal(outcome) && given_up;
                now || has_ended_before(hearing.mirror, row, outcome)
            });
            match stands {
                true => Ok(()),
                false => Err(format!("{:?}, but it is {row:?}", hearing.observation)),
            }
        }
        Observation::ExecutionCancelled { execution, ended } => {
            let row = hearing.mirror.execution(*execution);
            let outcome = ended.unwrap_or(Outcome::Cancelled);
            let stands = row.is_some_and(|row| {
                let by_operator = ended.is_some() || row.cause == Some(Cause::Operator);
                let now = row.state == State::Terminal(outcome) && by_operator;
                now || has_ended_before(hearing.mirror, row, outcome)
            });
            match stands {
                true => Ok(()),
                false => Err(format!("{:?}, but it is {row:?}", hearing.observation)),
            }
        }
        _ => Ok(()),
    }
}

fn check_rest(rest: &Quiescent<'_>) -> Verdict {
    let waiting = rest.mirror.waiting();
    let waits = |flow: &FlowKey| {
        let of = |row: &Execution| row.flow_key() == *flow && !row.state.is_terminal();
        rest.mirror.executions().iter().any(|row| of(row) && waiting.has(row.id))
    };
    match rest.mirror.cancel_backlog().iter().find(|flow| !waits(flow)) {
        None => Ok(()),
        Some(flow) => Err(format!("flow {} is being cancelled for ever", flow.id)),
    }
}

/// A replay may have started it again since.
fn has_ended_before(mirror: &Mirror, row: &Execution, outcome: Outcome) -> bool {
    let ended = |life| mirror.events(row.id, life).and_then(Events::outcome) == Some(outcome);
    (0..row.incarnation).any(ended)
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::{Cause, ClosePolicy, Outcome, State};
    use sluicegate::storage::AttemptEnd;

    use crate::invariants::Judge;
    use crate::invariants::testing::{History, Story, after, flow_key};
    use crate::mirror::Damaged;

    pub(super) fn rejects() -> Vec<History> {
        let pending = ClosePolicy::CancelPending;
        let all = ClosePolicy::CancelAll;
        let cancelled = || Story::chain().close(pending, &["a", "b"], 0);
        let mut histories = vec![
            cancelled()
                .alter("a", |row| {
                    (row.state, row.cause, row.finished_at) = (State::Ready, None, None);
                })
                .ends("ready after it was done"),
            Story::chain()
                .close(pending, &["b"], 1)
                .grant("a")
                .tamper(|commit| {
                    let row = after(&mut commit.executions[0]);
                    commit.closed_at_claim.push(row.flow_key());
                })
                .ends("granted by a later claim"),
            Story::chain()
                .grant("a")
                .close(pending, &["b"], 1)
                .end("a", AttemptEnd::Released)
                .tamper(|commit| {
                    let row = after(&mut commit.executions[0]);
                    commit.closed_at_clock.push(row.flow_key());
                })
                .ends("ready again although the close could be read"),
            Story::chain().close(pending, &["b"], 0).ends("done with a ready member left"),
            Story::chain().grant("a").close(all, &["b"], 0).ends("done with a running member left"),
            Story::chain()
                .grant("a")
                .close(pending, &["a", "b"], 0)
                .ends("cancelled while running"),
            Story::chain()
                .close(ClosePolicy::FlowOnly, &["a"], 0)
                .ends("cancelled by a mere close"),
            cancelled()
                .tamper(|commit| {
                    let reply = &mut after(&mut commit.requests[0]).reply;
                    *reply = reply[..24].into();
                })
                .ends("a reply that leaves one out"),
            Story::chain()
                .alter("a", |row| {
                    (row.state, row.cause) =
                        (State::Terminal(Outcome::Cancelled), Some(Cause::Flow));
                })
                .ends("cancelled with an open flow"),
            Story::chain()
                .close(pending, &["b"], 1)
                .alter("a", |row| {
                    (row.state, row.cause) =
                        (State::Terminal(Outcome::Cancelled), Some(Cause::Flow));
                })
                .ends("cancelled, and no reply says so"),
            cancelled()
                .tamper(|commit| commit.requests.clear())
                .ends("cancelled without a request"),
            Story::chain()
                .close(ClosePolicy::FlowOnly, &[], 0)
                .extend("x", &["a"], JoinPolicy::AllOf)
                .ends("extended after its close"),
            Story::chain().close(all, &["a", "b"], 0).reopen().ends("opened again"),
            Story::chain()
                .close(all, &["a"], 1)
                .told(Story::flow_cancelled(all, &["a"], true))
                .ends("told done too early"),
            Story::chain()
                .close(all, &["a", "b"], 0)
                .told(Story::flow_cancelled(all, &["b"], true))
                .ends("told another list"),
            Story::chain()
                .told(Story::execution_cancelled("a", None))
                .ends("told what was not done"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Failed)
                .told(Story::given_up("a", None))
                .ends("told that it was given up, and its handler failed"),
            Story::chain()
                .damaged("a", Damaged::ExecutionUnreadable)
                .give_up("a")
                .told(Story::given_up("a", Some(Outcome::Succeeded)))
                .ends("told that it had succeeded before, and it was given up"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .told(Story::execution_cancelled("a", Some(Outcome::Failed)))
                .ends("told another end"),
            Story::chain().close(all, &["a", "b"], 0).backlog().quiescent().ends("never taken off"),
            Story::chain()
                .grant("a")
                .close(pending, &["b"], 0)
                .end("a", AttemptEnd::Released)
                .ends("given back in a cancelled flow"),
        ];
        histories.extend(after_a_replay());
        histories
    }

    fn after_a_replay() -> Vec<History> {
        let (pending, all) = (ClosePolicy::CancelPending, ClosePolicy::CancelAll);
        vec![
            replayed()
                .tamper(|commit| commit.flows.clear())
                .ends("started again in a cancelled flow"),
            half_cancelled()
                .asks(ReplayScope::Failed)
                .again(&["b"])
                .tamper(|commit| commit.cancel_backlog.clear())
                .ends("started again, and still to be cancelled"),
            replayed().cancelled_with_its_flow("a").ends("cancelled after its flow was opened"),
            replayed()
                .told(Story::flow_cancelled(pending, &["b"], true))
                .ends("opened since, and told another list"),
            replayed()
                .told(Story::flow_cancelled(all, &["a", "b"], true))
                .ends("opened since, and told another policy"),
            replayed()
                .told(Story::execution_cancelled("a", Some(Outcome::Failed)))
                .ends("started again since, and told another end"),
            half_cancelled()
                .asks(ReplayScope::Failed)
                .again(&["b"])
                .cancels_more("b")
                .ends("a reply changed after the flow was opened"),
        ]
    }

    /// A flow that was cancelled and replayed.
    fn replayed() -> Story {
        let cancelled = Story::chain().close(ClosePolicy::CancelPending, &["a", "b"], 0);
        cancelled.asks(ReplayScope::All).again(&["a", "b"])
    }

    /// The cancel of a flow has looked at one member of two.
    fn half_cancelled() -> Story {
        Story::chain().close(ClosePolicy::CancelPending, &["b"], 1).backlog()
    }

    #[test]
    fn what_a_cancel_did_stands_after_a_replay() {
        let history = replayed()
            .told(Story::flow_cancelled(ClosePolicy::CancelPending, &["a", "b"], true))
            .told(Story::execution_cancelled("a", Some(Outcome::Cancelled)))
            .cancelled_with_its_flow("a")
            .tamper(|commit| commit.reopened.push(flow_key()))
            .ends("cancelled by what began before the replay");
        assert_eq!(history.judge(Judge::new()), Ok(()));
    }
}
