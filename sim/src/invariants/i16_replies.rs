//! I16: a call whose reply was lost, repeated, has one effect and one reply.

use std::sync::Arc;

use sluicegate::identity::{ExecutionId, FlowKey, RequestId};
use sluicegate::storage::{AttemptEnd, ProgressMark, Reported, Request, RequestKey, SubmissionKey};

use super::{Context, Growth, Hearing, Invariant, Verdict};
use crate::history::{Holder, Observation};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I16",
    title: "a repeated call gives the same final state and the same reply as once",
    commit: Some(check),
    observe: Some(check_reply),
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

/// The mirror keeps the first submission of a key.
fn check(context: &Context<'_>) -> Verdict {
    for submission in &context.commit.submissions {
        let first = context.mirror.submission(&submission.key);
        if first != Some(submission) {
            return Err(format!("one key stands for two flows: {first:?}, {submission:?}"));
        }
    }
    check_progress(context)?;
    check_tags(context)
}

/// A report of progress that comes again, or late, moves nothing back.
fn check_progress(context: &Context<'_>) -> Verdict {
    for (before, after) in context.moved() {
        let (Some(old), Some(new)) = (before.progress, after.progress) else { continue };
        if new < old && before.incarnation == after.incarnation {
            return Err(format!("progress moved back: {before:?}, {after:?}"));
        }
    }
    Ok(())
}

/// What was acknowledged is there, or what came after it.
fn check_progressed(hearing: &Hearing<'_>, holder: &Holder, sequence: u64) -> Verdict {
    let told = ProgressMark { attempt: holder.attempt, sequence };
    let row = hearing.mirror.execution(holder.execution);
    let stands = row.is_some_and(|row| {
        row.incarnation > holder.incarnation || row.progress.is_some_and(|stored| stored >= told)
    });
    match stands {
        true => Ok(()),
        false => Err(format!("progress was acknowledged as {told:?}, but the row is {row:?}")),
    }
}

/// What changes the tags of a flow records its call with them.
fn check_tags(context: &Context<'_>) -> Verdict {
    for change in &context.commit.flows {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        let of_flow = |request: &Request| request.key.flow == after.key;
        let new = context.commit.requests.iter().filter(|request| request.before.is_none());
        let recorded = new.filter_map(|request| request.after.as_ref()).any(of_flow);
        if before.tags != after.tags && !recorded {
            return Err(format!("tags changed without a record of the call: {change:?}"));
        }
    }
    Ok(())
}

fn check_reply(hearing: &Hearing<'_>) -> Verdict {
    match hearing.observation {
        Observation::Submitted { key, flow, created, request } => {
            check_submitted(hearing, key.as_ref(), *flow, *created, *request)
        }
        Observation::Extended { flow, request, revision } => {
            check_extended(hearing, *flow, *request, *revision)
        }
        Observation::Reported { holder, end, reported } => {
            check_reported(hearing, holder, *end, *reported)
        }
        Observation::Progressed { holder, sequence } => {
            check_progressed(hearing, holder, *sequence)
        }
        Observation::LeaseLost { holder, end: Some(end) } => {
            check_not_recorded(hearing, holder, *end, "refused as a lost lease")
        }
        Observation::ReportContended { holder, end } => {
            check_not_recorded(hearing, holder, *end, "told as contention")
        }
        Observation::FlowTagged { flow, request } => {
            let key = RequestKey { flow: *flow, request: *request };
            match hearing.mirror.request(key) {
                Some(_) => Ok(()),
                None => Err(format!("a tag was acknowledged, but {key:?} is not recorded")),
            }
        }
        Observation::Resumed { execution, epoch, reported } => {
            check_resumed(hearing, *execution, *epoch, *reported)
        }
        _ => Ok(()),
    }
}

/// The row keeps the reply until the next resume; epochs grow.
fn check_resumed(
    hearing: &Hearing<'_>,
    execution: ExecutionId,
    epoch: u64,
    reported: Option<Reported>,
) -> Verdict {
    let resumed = hearing.mirror.execution(execution).and_then(|row| row.resumed);
    let last = resumed.filter(|resumed| resumed.epoch == epoch);
    let stands = match (last, reported) {
        (Some(last), reported) => reported == Some(last.reported()),
        (None, Some(_)) => resumed.is_some_and(|resumed| resumed.epoch > epoch),
        (None, None) => true,
    };
    match stands {
        true => Ok(()),
        false => Err(format!(
            "the resume of {execution} at epoch {epoch} was told {reported:?}, but {resumed:?} is \
             recorded"
        )),
    }
}

fn check_submitted(
    hearing: &Hearing<'_>,
    key: Option<&Arc<str>>,
    flow: FlowKey,
    created: bool,
    request: RequestId,
) -> Verdict {
    let Some(row) = hearing.mirror.flow(flow) else {
        return Err(format!("a submit was told of flow {flow:?}, which does not exist"));
    };
    if created != (row.request == request) {
        return Err(format!("request {request} was told created = {created}, but wrote {row:?}"));
    }
    if created && hearing.told.created(request) {
        return Err(format!("request {request} was told twice that it created its flow"));
    }
    let Some(key) = key else { return Ok(()) };
    let key = SubmissionKey { namespace: row.namespace.clone(), key: key.clone() };
    let submission = hearing.mirror.submission(&key);
    if submission.is_some_and(|submission| submission.flow == flow) {
        return Ok(());
    }
    Err(format!("a submit was told of flow {flow:?}, but its key stands for {submission:?}"))
}

/// A revision is the effect of one call, whoever is told of it how often.
fn check_extended(
    hearing: &Hearing<'_>,
    flow: FlowKey,
    request: RequestId,
    revision: u64,
) -> Verdict {
    let row = hearing.mirror.flow(flow);
    if row.is_none_or(|row| row.revision < revision) {
        return Err(format!("an extension was told revision {revision}, but the flow is {row:?}"));
    }
    if hearing.mirror.request(RequestKey { flow, request }).is_none() {
        return Err(format!("an extension was acknowledged, but {request} is not recorded"));
    }
    let mut told = hearing.told.extensions().iter();
    let unlike = |told: &&Growth| (told.request == request) != (told.revision == revision);
    match told.find(unlike) {
        Some(told) => Err(format!("request {request} was told revision {revision}, but {told:?}")),
        None => Ok(()),
    }
}

fn check_reported(
    hearing: &Hearing<'_>,
    holder: &Holder,
    end: AttemptEnd,
    reported: Reported,
) -> Verdict {
    let attempt = hearing.mirror.attempt_of(holder);
    if !attempt.is_some_and(|attempt| attempt.end == end && attempt.reported == reported) {
        return Err(format!(
            "{end:?} was acknowledged as {reported:?} under {holder:?}, but recorded as {attempt:?}"
        ));
    }
    match hearing.told.report(holder) {
        Some(first) if (first.end, first.reported) != (end, reported) => {
            Err(format!("two reports under one lease: {first:?}, then {end:?} as {reported:?}"))
        }
        _ => Ok(()),
    }
}

/// What was refused has had no effect.
fn check_not_recorded(
    hearing: &Hearing<'_>,
    holder: &Holder,
    end: AttemptEnd,
    told: &str,
) -> Verdict {
    match hearing.mirror.attempt_of(holder) {
        Some(attempt) if attempt.end == end => {
            Err(format!("{end:?} was {told}, but it is recorded: {attempt:?}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::state::{ClosePolicy, Outcome};
    use sluicegate::storage::{AttemptEnd, Reported};

    use crate::history::Observation;
    use crate::invariants::testing::{History, Story};

    pub(super) fn rejects() -> Vec<History> {
        let story = || Story::chain().grant("a");
        let holder = story().holder("a");
        let succeeded = Reported::Finished(Outcome::Succeeded);
        let told = |end, reported| Observation::Reported { holder, end, reported };
        let completed = || story().complete("a", Outcome::Succeeded);
        let refused = Observation::LeaseLost { holder, end: Some(AttemptEnd::Completed) };
        let contended = Observation::ReportContended { holder, end: AttemptEnd::Completed };
        let acknowledged = || completed().told(told(AttemptEnd::Completed, succeeded));
        let extended = || {
            let closed = Story::chain().close(ClosePolicy::FlowOnly, &[], 0);
            closed.reopen().extend("x", &["a"], JoinPolicy::AllOf)
        };
        let failed = Reported::Finished(Outcome::Failed);
        let resumed = || story().suspend("a").resume("a");
        let ready = Reported::Requeued { delay_us: 0 };
        vec![
            story().told(told(AttemptEnd::Completed, succeeded)).ends("nothing recorded"),
            completed().told(told(AttemptEnd::FailedFatal, failed)).ends("another end recorded"),
            completed().told(told(AttemptEnd::Completed, failed)).ends("another reply recorded"),
            completed().told(refused).ends("stored reply not found"),
            completed().told(contended).ends("applied, and told as contention"),
            acknowledged()
                .rewrite_attempt("a", |attempt| attempt.end = AttemptEnd::FailedFatal)
                .told(told(AttemptEnd::FailedFatal, succeeded))
                .ends("two replies under one lease"),
            Story::chain().told(Story::submitted(7, true)).ends("created by another request"),
            Story::chain().told(Story::submitted(1, false)).ends("duplicate of itself"),
            Story::chain()
                .told(Story::submitted(1, true))
                .told(Story::submitted(1, true))
                .ends("created twice"),
            Story::empty().told(Story::submitted(1, true)).ends("flow that never was"),
            Story::chain()
                .tamper(|commit| commit.submissions.clear())
                .told(Story::submitted(1, true))
                .ends("key that was never stored"),
            resumed()
                .told(Story::told_of_resume("a", 2, None))
                .ends("stored reply to a resume lost"),
            resumed()
                .told(Story::told_of_resume("a", 2, Some(succeeded)))
                .ends("another reply to a resume recorded"),
            Story::chain()
                .grant("a")
                .suspend("a")
                .told(Story::told_of_resume("a", 2, Some(ready)))
                .ends("resume that never was"),
            story()
                .progress("a", 1, 2)
                .progress("a", 1, 1)
                .ends("a late report moves progress back"),
            story()
                .progress("a", 1, 1)
                .told(Observation::Progressed { holder, sequence: 2 })
                .ends("progress acknowledged and not stored"),
            Story::chain().submit_again().ends("one key, two flows"),
            Story::chain().tag("a.b").ends("tag without a record of its call"),
            Story::chain().told(Story::flow_tagged()).ends("tag acknowledged, call not recorded"),
            extended().told(Story::extended(6, 2)).ends("a revision that never was"),
            extended().told(Story::extended(7, 1)).ends("extended and not recorded"),
            extended()
                .told(Story::extended(6, 0))
                .told(Story::extended(6, 1))
                .ends("one call, two revisions"),
            extended()
                .told(Story::extended(5, 1))
                .told(Story::extended(6, 1))
                .ends("one revision, two calls"),
        ]
    }
}
