//! Scans: what they find, their filters, their order and their pages.

use super::*;
use crate::storage::{OverdueScan, Page, Scope, UpstreamScan};

fn page(scope: Scope) -> Page {
    Page { scope, after: None, limit: 100 }
}

/// Walks a scan with several page sizes and filters; each must see exactly the rows that match.
fn check(expected: &[ExecutionId], labels: &Flow, scan: impl Fn(Page) -> Vec<ExecutionId>) {
    let mut expected = expected.to_vec();
    expected.sort();
    for limit in [1, 2, 100] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let found = scan(Page { scope: Scope::default(), after, limit });
            assert!(found.len() <= limit as usize);
            let Some(last) = found.last() else { break };
            after = Some(*last);
            seen.extend(found);
        }
        assert_eq!(seen, expected, "limit {limit}");
    }
    let partition = labels.key.partition.0;
    let (namespace, tag) = (labels.namespace.clone(), labels.instance_tag.clone());
    let scope = Scope {
        partitions: partition..partition + 1,
        namespace: Some(namespace),
        instance_tag: tag,
    };
    assert_eq!(scan(page(scope.clone())), expected);
    for other in [
        Scope { partitions: 0..partition, ..scope.clone() },
        Scope { partitions: partition + 1..u16::MAX, ..scope.clone() },
        Scope { namespace: Some("other".into()), ..scope.clone() },
        Scope { instance_tag: Some("region=south".into()), ..scope },
    ] {
        assert_eq!(scan(page(other)), []);
    }
}

#[test]
fn upstreams_are_terminal_and_not_propagated() {
    on_each(|storage| {
        let flow = flow(1);
        let mut rows: Vec<NewExecution> = State::ALL
            .into_iter()
            .filter(|state| *state != State::Active)
            .map(|state| execution(flow.key, state.name(), state))
            .collect();
        let mut propagated = execution(flow.key, "propagated", FAILED);
        propagated.execution.propagated = true;
        rows.push(propagated);
        submit(storage, &flow, &rows, &[], &[]);
        let expected: Vec<ExecutionId> = rows
            .iter()
            .filter(|row| row.execution.state.is_terminal() && !row.execution.propagated)
            .map(|row| row.execution.id)
            .collect();
        let finished = rows[4].execution.finished_at;
        for (finished_by, expected) in [
            (None, &expected[..]),
            (finished, &expected),
            (finished.map(|at| at - Duration::from_micros(1)), &[]),
        ] {
            check(expected, &flow, |page| {
                let scan = UpstreamScan { page, finished_by };
                ready(reader(storage).scan_upstreams(&scan)).unwrap()
            });
        }
    });
}

#[test]
fn a_stuck_group_is_decided_and_its_downstream_blocked() {
    on_each(|storage| {
        let flow = flow(1);
        let names = ["stuck", "lost", "open", "gone"];
        let states = [State::Blocked, State::Blocked, State::Blocked, State::Ready];
        let decisions =
            [Decision::Satisfied, Decision::Impossible, Decision::Undecided, Decision::Satisfied];
        let rows: Vec<NewExecution> = names
            .iter()
            .zip(states)
            .map(|(name, state)| execution(flow.key, name, state))
            .collect();
        let groups: Vec<Group> = names
            .iter()
            .zip(decisions)
            .map(|(name, decision)| Group {
                decision,
                ..group(flow.key, name, JoinPolicy::AllOf, 1)
            })
            .collect();
        submit(storage, &flow, &rows, &groups, &[]);
        let expected = ["stuck", "lost"].map(|name| flow.key.execution(name));
        check(&expected, &flow, |page| ready(reader(storage).scan_stuck_groups(&page)).unwrap());
    });
}

#[test]
fn the_overdue_are_those_of_rust() {
    on_each(|storage| {
        let flow = flow(1);
        let mut rows = Vec::new();
        for state in State::ALL {
            for (name, deadline) in [("past", -1), ("now", 0), ("future", 1)] {
                // What a claim will turn into an active execution.
                let initial = if state == State::Active { State::Ready } else { state };
                let name = format!("{} {name}", state.name());
                let mut row = execution(flow.key, &name, initial);
                row.definition.lane = state.name().into();
                row.execution.deadline = Some(Timestamp(NOW.0 + deadline));
                rows.push(row);
            }
            rows.push(execution(flow.key, state.name(), State::Blocked));
        }
        for (name, timeout) in [("timed out", Some(1)), ("in time", Some(60_000)), ("lease", None)]
        {
            let mut row = execution(flow.key, name, State::Ready);
            row.definition.lane = "active".into();
            row.execution.retry.attempt_timeout_ms = timeout;
            rows.push(row);
        }
        submit(storage, &flow, &rows, &[], &[]);
        let granted_at = NOW - Duration::from_millis(1);
        let query = ClaimQuery { now: granted_at, ..claim_query(&["active"], 100) };
        assert_eq!(claim(storage, &query).len(), 6);
        for now in [NOW, NOW - Duration::from_micros(1), NOW + Duration::from_mins(1)] {
            let expected: Vec<ExecutionId> = rows
                .iter()
                .map(|row| stored(storage, row.execution.id))
                .filter(|row| row.is_overdue(now))
                .map(|row| row.id)
                .collect();
            assert!(!expected.is_empty());
            check(&expected, &flow, |page| {
                ready(reader(storage).scan_overdue(&OverdueScan { page, now })).unwrap()
            });
        }
    });
}
