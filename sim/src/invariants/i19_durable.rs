//! I19: what was acknowledged is still there after every crash, and is what was brought.

use super::{Acknowledged, Granted, Hearing, Invariant, Quiescent, Verdict};
use crate::history::Observation;
use crate::mirror::Mirror;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I19",
    title: "an acknowledged write survives every crash, and its bytes stay what they were",
    commit: None,
    observe: Some(check_payload),
    quiescent: Some(check),
    #[cfg(test)]
    rejects: tests::rejects,
};

/// A worker is handed the bytes that were submitted.
fn check_payload(hearing: &Hearing<'_>) -> Verdict {
    match hearing.observation {
        Observation::Garbled { holder, payload } => {
            let payload = String::from_utf8_lossy(payload);
            Err(format!("no submit has brought the payload `{payload}`: {holder:?}"))
        }
        _ => Ok(()),
    }
}

/// Asked whenever the database has recovered, too.
fn check(rest: &Quiescent<'_>) -> Verdict {
    let Quiescent { mirror, told, .. } = rest;
    for created in told.all_created() {
        if mirror.flow(created.flow).is_none_or(|row| row.request != created.request) {
            return Err(format!("a submit was acknowledged and is lost: {created:?}"));
        }
    }
    for report in told.reports() {
        check_report(mirror, report)?;
    }
    for Granted { holder } in told.grants() {
        if !mirror.holds(holder) && mirror.attempt_of(holder).is_none() {
            return Err(format!("a grant was acknowledged and is lost: {holder:?}"));
        }
    }
    for call in told.calls() {
        if mirror.request(*call).is_none() {
            return Err(format!("a call was acknowledged and is lost: {call:?}"));
        }
    }
    Ok(())
}

fn check_report(mirror: &Mirror, report: &Acknowledged) -> Verdict {
    match mirror.attempt_of(&report.holder) {
        Some(attempt) if attempt.end == report.end => Ok(()),
        stored => Err(format!("{report:?} was acknowledged and is lost: {stored:?} is stored")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate::policy::JoinPolicy;
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::{ClosePolicy, Outcome};
    use sluicegate::storage::{AttemptEnd, Reported};

    use crate::history::Observation;
    use crate::invariants::testing::{History, Story};

    pub(super) fn rejects() -> Vec<History> {
        let granted = || Story::chain().grant("a");
        let holder = granted().holder("a");
        let reported = Reported::Finished(Outcome::Succeeded);
        let completed = Observation::Reported { holder, end: AttemptEnd::Completed, reported };
        let policy = ClosePolicy::FlowOnly;
        let failed = || granted().complete("a", Outcome::Failed).hop(&["a"]);
        let closed = Story::chain().close(policy, &[], 0);
        vec![
            Story::chain()
                .told(Story::submitted(1, true))
                .recovers(Story::empty())
                .ends("a flow is lost"),
            granted()
                .told(Observation::Garbled { holder, payload: Arc::from(*b"{\"a\":2}") })
                .ends("a payload is changed"),
            granted()
                .told(Observation::Granted { holder })
                .recovers(Story::chain())
                .ends("a grant is lost"),
            granted()
                .complete("a", Outcome::Succeeded)
                .told(completed)
                .recovers(granted())
                .ends("a report is lost"),
            Story::chain()
                .extend("x", &["a"], JoinPolicy::AllOf)
                .told(Story::extended(6, 1))
                .recovers(Story::chain())
                .ends("an extension is lost"),
            failed()
                .asks(ReplayScope::Failed)
                .again(&["a", "b"])
                .told(Story::replayed(&["a", "b"]))
                .recovers(failed())
                .ends("a replay is lost"),
            closed
                .told(Story::flow_cancelled(policy, &[], true))
                .recovers(Story::chain())
                .ends("a cancel is lost"),
        ]
    }
}
