//! I14: a filter leaves out what does not match it, and nothing else.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{EventKind, Execution, Flow, Scope};

use super::{Hearing, Invariant, Quiescent, Verdict};
use crate::history::Observation;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I14",
    title: "for every filter, what a scan or a subscription sees equals the rows that match it",
    commit: None,
    observe: Some(check),
    quiescent: Some(check_rest),
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(hearing: &Hearing<'_>) -> Verdict {
    let mirror = hearing.mirror;
    match hearing.observation {
        Observation::ListedFlows { scope, statuses, flows } => {
            let status = |flow: &Flow| mirror.summary(flow.key).map(|summary| summary.status);
            let wanted = |flow: &&Flow| {
                let fits = status(flow).is_some_and(|status| statuses.contains(&status));
                matches(flow, scope) && (statuses.is_empty() || fits)
            };
            let expected = mirror.flows().iter().filter(wanted).map(|flow| flow.key);
            compare(&expected.collect::<Vec<_>>(), flows, &(scope, statuses))
        }
        Observation::ListedExecutions { scope, flow, states, executions } => {
            let expected = mirror.executions().iter().filter(|row| {
                let labels = mirror.flow(row.flow_key());
                labels.is_some_and(|labels| matches(labels, scope))
                    && flow.is_none_or(|flow| row.flow_key() == flow)
                    && (states.is_empty() || states.contains(&row.state))
            });
            let expected: Vec<_> = expected.map(|row| row.id).collect();
            compare(&expected, executions, &(scope, flow, states))
        }
        Observation::Delivered { subscriber, flow, execution, kind, .. } => {
            check_delivery(hearing, *subscriber, *flow, *execution, *kind)
        }
        _ => Ok(()),
    }
}

/// The words of the specification: partition range, namespace, and the whole tag.
fn matches(flow: &Flow, scope: &Scope) -> bool {
    let within = scope.partitions.start <= flow.key.partition.0
        && flow.key.partition.0 < scope.partitions.end;
    let same_tenant =
        scope.namespace.is_none() || scope.namespace.as_ref() == Some(&flow.namespace);
    let same_tag = scope.instance_tag.is_none() || scope.instance_tag == flow.instance_tag;
    within && same_tenant && same_tag
}

fn compare<T: PartialEq + std::fmt::Debug>(
    expected: &[T],
    seen: &[T],
    filter: &impl std::fmt::Debug,
) -> Verdict {
    match expected == seen {
        true => Ok(()),
        false => Err(format!("{filter:?} matches {expected:?}, and shown is {seen:?}")),
    }
}

/// The labels are those of the flow's row, whatever the event says.
fn check_delivery(
    hearing: &Hearing<'_>,
    subscriber: u8,
    flow: FlowKey,
    execution: ExecutionId,
    kind: EventKind,
) -> Verdict {
    let Some(heard) = hearing.told.heard(subscriber) else { return Ok(()) };
    if !heard.wanted.includes(&kind) {
        let wanted = heard.wanted;
        return Err(format!(
            "subscriber {subscriber} wants {wanted:?} and is handed {kind:?} of {execution}"
        ));
    }
    let Some(wanted) = &heard.namespace else { return Ok(()) };
    let row = hearing.mirror.labels(flow);
    match row.is_some_and(|row| row.namespace == *wanted) {
        true => Ok(()),
        false => Err(format!(
            "subscriber {subscriber} wants namespace `{wanted}` and is handed {execution} of {:?}",
            row.map(|row| &row.namespace)
        )),
    }
}

fn check_rest(rest: &Quiescent<'_>) -> Verdict {
    let mirror = rest.mirror;
    for heard in rest.told.subscribers() {
        let Some(wanted) = &heard.namespace else { continue };
        for given in mirror.positions() {
            let flow = mirror.execution(given.key.execution).map(Execution::flow_key);
            let row = flow.and_then(|flow| mirror.flow(flow));
            let matches = row.is_some_and(|row| row.namespace == *wanted);
            let kept = given.position > mirror.forgotten().position.max(heard.from);
            let lost = !heard.wants(&given.key) || mirror.is_event_lost(&given.key);
            if matches && kept && !lost && !heard.has(given.position) {
                return Err(format!(
                    "subscriber {} wants namespace `{wanted}` and is never handed {given:?}",
                    heard.subscriber
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluicegate::state::{Outcome, State};
    use sluicegate::storage::Scope;
    use sluicegate::summary::FlowStatus;

    use crate::history::Observation;
    use crate::invariants::Judge;
    use crate::invariants::testing::{History, Story, flow_key, id};

    fn over() -> Story {
        let story = Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        story.project()
    }

    fn flows(scope: Scope, statuses: &[FlowStatus], shown: bool) -> Observation {
        let flows = if shown { vec![flow_key()] } else { Vec::new() };
        Observation::ListedFlows { scope, statuses: statuses.to_vec(), flows }
    }

    fn executions(scope: Scope, states: &[State], shown: &[&str]) -> Observation {
        let mut executions: Vec<_> = shown.iter().map(|name| id(name)).collect();
        executions.sort_unstable();
        Observation::ListedExecutions { scope, flow: None, states: states.to_vec(), executions }
    }

    fn tagged(tag: &str) -> Scope {
        Scope { instance_tag: Some(tag.into()), ..Scope::default() }
    }

    fn tenant(namespace: &str) -> Scope {
        Scope { namespace: Some(namespace.into()), ..Scope::default() }
    }

    /// Both events have their places; a subscriber wants those of that namespace.
    fn placed(namespace: &str) -> Story {
        let story = over().place(&[("a", 1), ("b", 2)]);
        story.told(Story::subscribed(1, Some(namespace)))
    }

    fn handed(story: Story) -> Story {
        let delivered = story.delivered(1, "a", 1);
        story.told(delivered)
    }

    pub(super) fn rejects() -> Vec<History> {
        let failed = [State::Terminal(Outcome::Failed)];
        let outside = Scope { partitions: 0..flow_key().partition.0, ..Scope::default() };
        vec![
            over().told(flows(tagged("c=north"), &[], true)).ends("another key, the same value"),
            over().told(flows(tagged("region=north"), &[], false)).ends("left out"),
            over().told(flows(tenant("other"), &[], true)).ends("another tenant"),
            over().told(flows(outside, &[], true)).ends("another partition"),
            over()
                .told(flows(Scope::default(), &[FlowStatus::Completed], true))
                .ends("another status"),
            over().told(executions(Scope::default(), &failed, &["a", "b"])).ends("another state"),
            over().told(executions(tagged("c=north"), &[], &["a"])).ends("of another tag"),
            over().told(executions(tenant("tenant"), &[], &["b"])).ends("one left out"),
            handed(placed("another")).ends("an event of another namespace"),
            handed(placed("tenant")).quiescent().ends("a matching event is never handed out"),
        ]
    }

    #[test]
    fn what_matches_and_nothing_else_passes() {
        let skipped = [State::Terminal(Outcome::Skipped)];
        let history = over()
            .told(flows(tagged("region=north"), &[FlowStatus::Failed], true))
            .told(flows(tagged("region=south"), &[], false))
            .told(executions(tenant("tenant"), &[], &["a", "b"]))
            .told(executions(tenant("other"), &[], &[]))
            .told(executions(Scope::default(), &skipped, &["b"]))
            .ends("lists");
        assert_eq!(history.judge(Judge::new().only("I14")), Ok(()));
    }
}
