//! I10: the numbers that readers see are those of the rows.

use sluicegate::identity::FlowKey;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{ChangeId, Execution, Summary};
use sluicegate::summary::{FlowStatus, StateCounts};

use super::{Context, Invariant, Quiescent, Verdict};
use crate::mirror::{Damaged, Mirror};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I10",
    title: "a flow is said to be over only while it is; at quiescence every summary is a recount",
    commit: Some(check_end),
    observe: None,
    quiescent: Some(check),
    #[cfg(test)]
    rejects: tests::rejects,
};

/// Whoever opens a flow takes the mark that it is over with the same commit.
fn check_end(context: &Context<'_>) -> Verdict {
    let mut open = context.written().filter(|(_, after)| !after.state.is_terminal());
    let summaries = context.commit.summaries.iter().filter_map(|change| change.after.as_ref());
    let ended = summaries.filter(|row| row.ended_at.is_some());
    for summary in ended {
        let mut rows = context.mirror.executions().iter();
        let of_the_flow = |row: &&Execution| row.flow_key() == summary.flow;
        let open = |row: &Execution| !row.state.is_terminal();
        if let Some(row) = rows.find(|row| of_the_flow(row) && open(row)) {
            return Err(format!("{summary:?} says that the flow is over, but not {row:?}"));
        }
    }
    let over = |row: &Execution| {
        let summary = context.mirror.summary(row.flow_key());
        summary.is_some_and(|summary| summary.ended_at.is_some())
    };
    match open.find(|(_, row)| over(row)) {
        None => Ok(()),
        Some((_, row)) => Err(format!("{row:?} is in a flow that is said to be over")),
    }
}

fn check(rest: &Quiescent<'_>) -> Verdict {
    // Edges are found through their groups: without one nobody can tell what a failure leads to.
    if rest.mirror.damaged().iter().any(|row| matches!(row, Damaged::GroupGone(_))) {
        return Ok(());
    }
    for flow in rest.mirror.flows() {
        let Some(summary) = rest.mirror.summary(flow.key) else {
            return Err(format!("flow {} has no summary", flow.key.id));
        };
        let members = || {
            let rows = rest.mirror.executions().iter();
            rows.filter(|row| row.flow_key() == flow.key)
        };
        let (total, buckets) = (members().count() as u64, summary.counts.total());
        if total != buckets {
            return Err(format!("the buckets of {total} executions sum to {buckets}"));
        }
        let expected =
            Summary { last_change: summary.last_change, ..recount(rest.mirror, flow.key) };
        if *summary != expected {
            return Err(format!("the rows give {expected:?}, stored is {summary:?}"));
        }
    }
    Ok(())
}

/// The summary that the rows of a flow give.
pub(super) fn recount(mirror: &Mirror, flow: FlowKey) -> Summary {
    let members = || mirror.executions().iter().filter(move |row| row.flow_key() == flow);
    let mut counts = StateCounts::default();
    for row in members() {
        counts.add(row.state, 1);
    }
    let over = members().all(|row| row.state.is_terminal());
    Summary {
        flow,
        counts,
        status: status(mirror, members),
        ended_at: members().filter_map(|row| row.finished_at).max().filter(|_| over),
        last_change: ChangeId::default(),
    }
}

/// The roll-up by the words of the specification, from rows.
fn status<'a, I: Iterator<Item = &'a Execution>>(
    mirror: &Mirror,
    members: impl Fn() -> I,
) -> FlowStatus {
    let any = |state| members().any(|row| row.state == state);
    if members().any(|row| !row.state.is_terminal()) {
        return match (any(State::Active), any(State::Ready)) {
            (true, _) => FlowStatus::Running,
            (false, true) => FlowStatus::Open,
            (false, false) => FlowStatus::Blocked,
        };
    }
    let unhandled = |row: &Execution| {
        let State::Terminal(failure @ (Outcome::Failed | Outcome::Expired)) = row.state else {
            return false;
        };
        !mirror.edges_from(row.id).any(|edge| edge.accepts.contains(failure))
    };
    let from_outside = |row: &Execution| {
        row.state == State::Terminal(Outcome::Cancelled)
            && matches!(row.cause, Some(Cause::Operator | Cause::Flow))
    };
    if members().any(unhandled) {
        FlowStatus::Failed
    } else if members().any(from_outside) {
        FlowStatus::Cancelled
    } else {
        FlowStatus::Completed
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{AcceptSet, JoinPolicy};
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::{Outcome, State};
    use sluicegate::storage::Summary;
    use sluicegate::summary::FlowStatus;
    use sluicegate::time::Timestamp;

    use crate::invariants::testing::{History, Story, after};

    /// a -> b over, and projected.
    fn over(outcome: Outcome, accepts: AcceptSet) -> Story {
        Story::flow(&[("a", "b", accepts)], JoinPolicy::AllOf)
            .grant("a")
            .complete("a", outcome)
            .hop(&["a"])
            .grant("b")
            .complete("b", Outcome::Succeeded)
            .project()
    }

    fn summary(story: Story, change: impl Fn(&mut Summary)) -> Story {
        story.tamper(|commit| commit.summaries.iter_mut().map(after).for_each(change))
    }

    pub(super) fn rejects() -> Vec<History> {
        let succeeded = || over(Outcome::Succeeded, AcceptSet::ON_SUCCESS);
        let handled = || over(Outcome::Failed, AcceptSet::ON_FAILURE);
        let failed = || {
            let a = Story::chain().grant("a").complete("a", Outcome::Failed);
            a.hop(&["a"]).project()
        };
        let completed = |row: &mut Summary| row.status = FlowStatus::Completed;
        vec![
            Story::chain().tamper(|commit| commit.summaries.clear()).rests().ends("none"),
            succeeded()
                .alter("b", |row| row.state = State::Terminal(Outcome::Failed))
                .rests()
                .ends("stale"),
            succeeded().alter("b", |row| row.state = State::Ready).ends("over, and goes on"),
            succeeded()
                .asks(ReplayScope::All)
                .again(&["a", "b"])
                .tamper(|commit| commit.summaries.clear())
                .ends("replayed, and still said to be over"),
            summary(Story::chain().grant("a").project(), |row| row.ended_at = Some(Timestamp(1)))
                .ends("said to be over too early"),
            summary(succeeded(), |row| row.counts.add(State::Blocked, 1))
                .rests()
                .ends("a bucket too many"),
            summary(succeeded(), |row| row.ended_at = None).rests().ends("over since never"),
            summary(failed(), completed).rests().ends("an unhandled failure passed over"),
            summary(handled(), |row| row.status = FlowStatus::Failed)
                .rests()
                .ends("a handled failure counted"),
        ]
    }

    #[test]
    fn a_projected_flow_passes() {
        use crate::invariants::Judge;
        for outcome in [Outcome::Succeeded, Outcome::Failed] {
            let history = over(outcome, AcceptSet::ON_DONE).rests().ends("projected");
            assert_eq!(history.judge(Judge::new().only("I10")), Ok(()));
        }
    }
}
