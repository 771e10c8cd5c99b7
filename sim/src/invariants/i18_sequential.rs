//! I18: the outcomes are those of a sequential evaluation, and of what was acknowledged.

use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{Execution, Reported};

use super::{Invariant, Quiescent, Verdict, attempt_key};
use crate::mirror::Mirror;
use crate::oracle::{self, Final, Link, Node, Observed};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I18",
    title: "final outcomes equal a sequential evaluator's, and no acknowledged report is lost",
    commit: None,
    observe: None,
    quiescent: Some(check),
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(rest: &Quiescent<'_>) -> Verdict {
    check_acknowledged(rest)?;
    let executions = rest.mirror.executions();
    let nodes: Vec<Node> = executions.iter().map(|row| node(rest.mirror, row)).collect();
    let finals =
        oracle::evaluate(&nodes, &links(rest.mirror)?).map_err(|cycle| cycle.to_string())?;
    let waiting = rest.mirror.waiting();
    for (row, expected) in executions.iter().zip(finals) {
        if !stands_as(row, expected) && !waiting.has(row.id) {
            return Err(format!("the evaluator says {expected:?} of {row:?}"));
        }
    }
    Ok(())
}

fn check_acknowledged(rest: &Quiescent<'_>) -> Verdict {
    for report in rest.told.reports() {
        let Reported::Finished(outcome) = report.reported else { continue };
        let row = rest.mirror.execution(report.holder.execution);
        let stands = row.is_some_and(|row| {
            let earlier = row.incarnation > report.holder.incarnation;
            // A replay has made it the end of an earlier life, which stays on record.
            let kept = rest.mirror.attempt_of(&report.holder);
            let kept = kept.is_some_and(|attempt| attempt.reported == report.reported);
            let same = row.incarnation == report.holder.incarnation;
            (earlier && kept) || (same && row.state == State::Terminal(outcome))
        });
        if !stands {
            return Err(format!("an acknowledged report is lost: {report:?}, but {row:?}"));
        }
    }
    Ok(())
}

/// What is known of an execution comes from its last attempt; its row only says who else ended it.
fn node(mirror: &Mirror, row: &Execution) -> Node {
    let reported = mirror.attempt(attempt_key(row)).map(|attempt| attempt.reported);
    let observed = match (reported, row.cause) {
        (Some(Reported::Finished(outcome)), _) => Observed::Ran(outcome),
        (_, Some(Cause::Deadline)) => Observed::Ended(Outcome::Expired),
        (_, Some(Cause::Unreadable)) => Observed::Ended(Outcome::Failed),
        (_, Some(Cause::Operator | Cause::Flow | Cause::Sibling)) => {
            Observed::Ended(Outcome::Cancelled)
        }
        _ => Observed::Nothing,
    };
    Node { policy: mirror.group(row.id).map(|group| group.policy), observed }
}

fn links(mirror: &Mirror) -> Result<Vec<Link>, String> {
    let link = |edge: &sluicegate::storage::Edge| {
        let upstream = mirror.execution_index(edge.key.upstream);
        let downstream = mirror.execution_index(edge.key.downstream);
        let ends = upstream.zip(downstream);
        let row = mirror.execution(edge.key.upstream);
        let by = edge.upstream_incarnation;
        // Its downstream did not start again with its upstream, and keeps what it had of it.
        let earlier = by.is_some_and(|by| row.is_some_and(|row| by < row.incarnation));
        let kept = earlier.then_some(edge.resolution);
        let accepts = edge.accepts;
        ends.map(|(upstream, downstream)| Link { upstream, downstream, accepts, kept })
            .ok_or_else(|| format!("an edge ends nowhere: {edge:?}"))
    };
    mirror.edges().iter().map(link).collect()
}

fn stands_as(row: &Execution, expected: Final) -> bool {
    let unsatisfiable = row.cause == Some(Cause::Unsatisfiable);
    match expected {
        Final::Ran(outcome) | Final::Ended(outcome) => {
            row.state == State::Terminal(outcome) && !unsatisfiable
        }
        Final::Unsatisfiable => row.state == State::Terminal(Outcome::Skipped) && unsatisfiable,
        Final::MustRun => false,
        Final::Waits => !row.state.is_terminal(),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::JoinPolicy;
    use sluicegate::state::{Cause, Outcome, State};
    use sluicegate::storage::{AttemptEnd, Reported};

    use crate::history::Observation;
    use crate::invariants::testing::{History, Story};

    pub(super) fn rejects() -> Vec<History> {
        let drained = |outcome| {
            let story = Story::chain().grant("a").complete("a", outcome).hop(&["a"]);
            if outcome == Outcome::Succeeded {
                story.grant("b").complete("b", Outcome::Succeeded)
            } else {
                story
            }
        };
        let holder = Story::chain().grant("a").holder("a");
        let end = AttemptEnd::Completed;
        let reported = Reported::Finished(Outcome::Succeeded);
        let acknowledged = Observation::Reported { holder, end, reported };
        let skipped = |row: &mut sluicegate::storage::Execution| {
            (row.state, row.cause) =
                (State::Terminal(Outcome::Skipped), Some(Cause::Unsatisfiable));
        };
        let succeeded = |row: &mut sluicegate::storage::Execution| {
            (row.state, row.cause) = (State::Terminal(Outcome::Succeeded), Some(Cause::Handler));
        };
        vec![
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .alter("b", skipped)
                .quiescent()
                .ends("skipped although its join is satisfied"),
            drained(Outcome::Failed)
                .alter("b", succeeded)
                .quiescent()
                .ends("ran although its join is impossible"),
            drained(Outcome::Succeeded)
                .alter("b", |row| row.state = State::Terminal(Outcome::Failed))
                .quiescent()
                .ends("another outcome than its attempt's"),
            Story::join(JoinPolicy::AllOf).quiescent().ends("never ran"),
            Story::second_life()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .alter("b", skipped)
                .quiescent()
                .ends("skipped in its second life, whose join is satisfied"),
            drained(Outcome::Failed).told(acknowledged).quiescent().ends("acknowledged and lost"),
        ]
    }
}
