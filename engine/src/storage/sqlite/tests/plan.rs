//! The walk that plans a hop: where it starts, where it goes on and where it ends.

use super::*;
use crate::policy::OnSatisfied;
use crate::storage::PlanQuery;

const ANY: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };

/// Plans from these executions; the names must be exactly those of the groups.
fn check(storage: &SqliteStorage, flow: FlowKey, from: &[&str], limit: u32, expected: &[&str]) {
    let upstreams = from.iter().map(|name| flow.execution(name)).collect();
    let planned = ready(reader(storage).plan_groups(&PlanQuery { upstreams, limit })).unwrap();
    let mut expected: Vec<ExecutionId> = expected.iter().map(|name| flow.execution(name)).collect();
    expected.sort();
    assert_eq!(planned, expected, "from {from:?}, limit {limit}");
}

/// A failed `a` and a chain behind it of blocked `n1`, `n2` and so on, each waiting for success.
fn chain(storage: &SqliteStorage, length: usize) -> FlowKey {
    let flow = flow(1);
    let names: Vec<String> = (1..=length).map(|number| format!("n{number}")).collect();
    let mut executions = vec![execution(flow.key, "a", FAILED)];
    let (mut groups, mut edges) = (Vec::new(), Vec::new());
    let mut upstream = "a";
    for name in &names {
        executions.push(execution(flow.key, name, State::Blocked));
        groups.push(group(flow.key, name, JoinPolicy::AllOf, 1));
        edges.push(edge(flow.key, upstream, name, AcceptSet::ON_SUCCESS));
        upstream = name;
    }
    submit(storage, &flow, &executions, &groups, &edges);
    flow.key
}

#[test]
fn a_plan_walks_through_a_chain_of_skips_and_stops_at_the_limit() {
    on_each(|storage| {
        let flow = chain(storage, 5);
        check(storage, flow, &["a"], 100, &["n1", "n2", "n3", "n4", "n5"]);
        check(storage, flow, &["a"], 3, &["n1", "n2", "n3"]);
        check(storage, flow, &["a"], 1, &["n1"]);
        check(storage, flow, &["a"], 0, &[]);
        check(storage, flow, &[], 9, &[]);
    });
}

#[test]
fn a_plan_starts_only_from_what_is_terminal_now() {
    on_each(|storage| {
        let flow = chain(storage, 2);
        check(storage, flow, &["n1", "missing"], 9, &[]);
        check(storage, flow, &["n1", "a"], 9, &["n1", "n2"]);
    });
}

#[test]
fn a_plan_leaves_resolved_edges_alone() {
    on_each(|storage| {
        let flow = chain(storage, 2);
        spoil(storage, "update sluicegate_edge set resolution = 2, upstream_incarnation = 0");
        check(storage, flow, &["a"], 9, &[]);
    });
}

/// `a` ended in `state`; `b` waits for it, `c` for `b`; both edges accept what is said.
fn check_step(
    state: State,
    first: AcceptSet,
    policy: JoinPolicy,
    change: &str,
    second: AcceptSet,
    expected: &[&str],
) {
    on_each(|storage| {
        let flow = flow(1);
        let key = flow.key;
        let executions = [
            execution(key, "a", state),
            execution(key, "b", State::Blocked),
            execution(key, "c", State::Blocked),
            execution(key, "d", State::Blocked),
        ];
        let groups = [
            group(key, "b", policy, 1),
            group(key, "c", JoinPolicy::AllOf, 1),
            group(key, "d", JoinPolicy::AllOf, 1),
        ];
        let edges = [
            edge(key, "a", "b", first),
            edge(key, "b", "c", second),
            edge(key, "c", "d", AcceptSet::ON_SUCCESS),
        ];
        submit(storage, &flow, &executions, &groups, &edges);
        spoil(storage, change);
        check(storage, key, &["a"], 9, expected);
    });
}

#[test]
fn a_plan_goes_on_only_from_what_a_hop_will_skip() {
    let (success, done) = (AcceptSet::ON_SUCCESS, AcceptSet::ON_DONE);
    let all = JoinPolicy::AllOf;
    check_step(FAILED, success, all, "", success, &["b", "c", "d"]);
    check_step(SUCCEEDED, success, all, "", success, &["b"]);
    check_step(FAILED, done, all, "", success, &["b"]);
    check_step(FAILED, success, ANY, "", success, &["b"]);
    let decided = "update sluicegate_edge_group set decision = 1";
    check_step(FAILED, success, all, decided, success, &["b"]);
    let ready = "update sluicegate_execution set state = 1 where name = 'b'";
    check_step(FAILED, success, all, ready, success, &["b"]);
}

#[test]
fn a_skip_counts_as_a_skip_further_down() {
    let success = AcceptSet::ON_SUCCESS;
    for accepts in [AcceptSet::ON_SKIP, AcceptSet::NONE_FAILED, AcceptSet::ON_DONE] {
        check_step(FAILED, success, JoinPolicy::AllOf, "", accepts, &["b", "c"]);
    }
    for outcome in Outcome::ALL {
        let others: Vec<Outcome> = Outcome::ALL.into_iter().filter(|o| *o != outcome).collect();
        let all = JoinPolicy::AllOf;
        let state = State::Terminal(outcome);
        check_step(state, AcceptSet::of(&others), all, "", success, &["b", "c", "d"]);
        check_step(state, AcceptSet::of(&[outcome]), all, "", success, &["b"]);
    }
}

#[test]
fn a_group_reached_on_several_paths_is_planned_once() {
    on_each(|storage| {
        let flow = flow(1);
        let key = flow.key;
        let mut executions: Vec<NewExecution> =
            ["b", "c", "d"].iter().map(|name| execution(key, name, State::Blocked)).collect();
        executions.extend(["a", "z"].map(|name| execution(key, name, FAILED)));
        let all = JoinPolicy::AllOf;
        let groups = [group(key, "b", all, 2), group(key, "c", all, 1), group(key, "d", all, 3)];
        let success = AcceptSet::ON_SUCCESS;
        let edges = [
            edge(key, "a", "b", success),
            edge(key, "z", "b", AcceptSet::ON_DONE),
            edge(key, "a", "c", success),
            edge(key, "b", "d", success),
            edge(key, "c", "d", AcceptSet::ON_SKIP),
            edge(key, "z", "d", success),
        ];
        submit(storage, &flow, &executions, &groups, &edges);
        check(storage, key, &["z", "a"], 9, &["b", "c", "d"]);
        check(storage, key, &["z", "a"], 3, &["b", "c", "d"]);
    });
}

#[test]
fn a_plan_of_few_groups_reads_few_edges_of_a_wide_fan_out() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    let flow = flow(1);
    let mut executions = vec![execution(flow.key, "a", FAILED)];
    let (mut groups, mut edges) = (Vec::new(), Vec::new());
    for name in (0..2_000).map(|number| format!("n{number}")) {
        executions.push(execution(flow.key, &name, State::Blocked));
        groups.push(group(flow.key, &name, JoinPolicy::AllOf, 1));
        edges.push(edge(flow.key, "a", &name, AcceptSet::ON_SUCCESS));
    }
    submit(&storage, &flow, &executions, &groups, &edges);
    let steps = |limit: u32| {
        let upstream = flow.key.execution("a");
        let list = super::super::transaction::json(&[upstream.uuid.simple().to_string()]);
        let counted = storage.with_connection(|connection| {
            let mut statement = connection.prepare(include_str!("../sql/plan_groups.sql")).unwrap();
            let rows = statement.query_map((list, upstream.partition.0, limit), |_| Ok(()));
            assert_eq!(rows.unwrap().count(), limit as usize);
            statement.get_status(rusqlite::StatementStatus::VmStep)
        });
        counted.unwrap()
    };
    assert!(steps(20) * 50 < steps(2_000), "{} of {}", steps(20), steps(2_000));
}
