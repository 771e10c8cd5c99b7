//! Claims: what is granted, in which order, and that the columns behind the order agree with Rust.

use std::time::Duration;

use super::*;
use crate::state::ClosePolicy;
use crate::storage::claim_rank;

const STEP: Duration = Duration::from_mins(1);

/// Names of the granted executions, in claim order.
fn names(grants: &[Grant]) -> Vec<String> {
    grants.iter().map(|grant| grant.definition.name.to_string()).collect()
}

fn ready_execution(
    flow: &Flow,
    name: &str,
    lane: &str,
    priority: i32,
    not_before: Timestamp,
) -> NewExecution {
    let mut row = execution(flow.key, name, State::Ready);
    row.execution.not_before = not_before;
    row.definition.lane = lane.into();
    row.definition.priority = priority;
    row
}

/// Claims with `limit` and checks order, grants and stored rows against Rust's own.
fn check(storage: &SqliteStorage, rows: &[NewExecution], query: &ClaimQuery, expected: &[&str]) {
    let grants = claim(storage, query);
    assert_eq!(names(&grants), expected);
    for grant in grants {
        let before = rows.iter().find(|row| row.execution.id == grant.execution.id).unwrap();
        assert_eq!(grant.execution, before.execution.granted(query));
        assert_eq!(grant.definition, before.definition);
        assert_eq!(stored(storage, grant.execution.id), grant.execution);
    }
}

#[test]
fn lanes_are_merged_by_rank_and_a_step_of_priority_is_worth_a_minute() {
    on_each(|storage| {
        let flow = flow(1);
        let early = NOW - 10 * STEP;
        let rows = [
            ready_execution(&flow, "plain", "a", 0, early),
            ready_execution(&flow, "urgent", "b", 2, early + STEP),
            ready_execution(&flow, "older", "b", 0, early - STEP / 2),
            ready_execution(&flow, "low", "a", -3, early - STEP),
            ready_execution(&flow, "elsewhere", "c", 9, early),
            ready_execution(&flow, "later", "a", 100, NOW + Duration::from_micros(1)),
        ];
        submit(storage, &flow, &rows, &[], &[]);
        check(storage, &rows, &claim_query(&["b", "a"], 3), &["urgent", "older", "plain"]);
        check(storage, &rows, &claim_query(&["b", "a"], 9), &["low"]);
        check(storage, &rows, &claim_query(&["b", "a"], 9), &[]);
        let later = ClaimQuery { now: NOW + STEP, ..claim_query(&["a"], 9) };
        check(storage, &rows, &later, &["later"]);
    });
}

#[test]
fn equal_ranks_go_by_not_before_and_then_by_id() {
    on_each(|storage| {
        let flow = flow(1);
        let early = NOW - 10 * STEP;
        let mut rows = vec![ready_execution(&flow, "waiting", "a", -1, early - STEP)];
        for name in ["x", "y", "z"] {
            rows.push(ready_execution(&flow, name, "a", 0, early));
        }
        rows[1..].sort_by_key(|row| row.execution.id);
        submit(storage, &flow, &rows, &[], &[]);
        let expected: Vec<&str> = rows.iter().map(|row| &*row.definition.name).collect();
        check(storage, &rows, &claim_query(&["a"], 9), &expected);
    });
}

#[test]
fn namespace_partitions_kinds_and_limit_narrow_a_claim() {
    on_each(|storage| {
        let flow = flow(1);
        let partition = flow.key.partition.0;
        let row = ready_execution(&flow, "a", "main", 0, Timestamp(0));
        submit(storage, &flow, std::slice::from_ref(&row), &[], &[]);
        let query = claim_query(&["main"], 1);
        for narrowed in [
            ClaimQuery { namespace: Some("other".into()), ..query.clone() },
            ClaimQuery { partitions: 0..partition, ..query.clone() },
            ClaimQuery { partitions: partition + 1..u16::MAX, ..query.clone() },
            ClaimQuery { kinds: vec!["move".into(), "drop".into()], ..query.clone() },
            ClaimQuery { limit: 0, ..query.clone() },
        ] {
            check(storage, std::slice::from_ref(&row), &narrowed, &[]);
        }
        let matching = ClaimQuery {
            namespace: Some("tenant".into()),
            partitions: partition..partition + 1,
            kinds: vec!["move".into(), "copy".into()],
            ..query
        };
        check(storage, &[row], &matching, &["a"]);
    });
}

#[test]
fn members_of_a_cancelled_flow_are_not_granted_and_those_of_a_closed_one_run_out() {
    on_each(|storage| {
        let closings = [
            (ClosePolicy::FlowOnly, &["a"][..]),
            (ClosePolicy::CancelPending, &[]),
            (ClosePolicy::CancelAll, &[]),
        ];
        for (number, (closing, expected)) in (1..).zip(closings) {
            let flow = Flow { closing: Some(closing), ..flow(number) };
            let rows = [ready_execution(&flow, "a", "main", 0, Timestamp(0))];
            submit(storage, &flow, &rows, &[], &[]);
            check(storage, &rows, &claim_query(&["main"], 9), expected);
        }
    });
}

#[test]
fn a_grant_without_a_charge_leaves_the_count_and_the_epoch_wraps_as_bits() {
    on_each(|storage| {
        let flow = flow(1);
        let mut row = ready_execution(&flow, "a", "main", 0, Timestamp(0));
        row.execution.epoch = u64::MAX / 2;
        submit(storage, &flow, std::slice::from_ref(&row), &[], &[]);
        let query = ClaimQuery { charge: 0, ..claim_query(&["main"], 1) };
        check(storage, &[row], &query, &["a"]);
    });
}

/// Compares a generated column with the function that it stands for.
fn check_column(storage: &SqliteStorage, id: ExecutionId, column: &str, expected: Option<i64>) {
    let read = storage.with_connection(|connection| {
        connection.query_row(
            &format!("select {column} from sluicegate_execution where partition = ?1 and id = ?2"),
            (id.partition.0, id.uuid.as_bytes()),
            |row| row.get::<_, Option<i64>>(0),
        )
    });
    assert_eq!(read.unwrap().unwrap(), expected, "{column}");
}

#[test]
fn the_rank_column_is_the_rank_of_rust_to_the_ends_of_its_range() {
    on_each(|storage| {
        let flow = flow(1);
        let mut rows = Vec::new();
        for not_before in [i64::MIN, i64::MIN + 1, -1, 0, 1, NOW.0, i64::MAX - 1, i64::MAX] {
            for priority in [i32::MIN, -1, 0, 1, i32::MAX] {
                let name = format!("{not_before} {priority}");
                let not_before = Timestamp(not_before);
                rows.push(ready_execution(&flow, &name, "main", priority, not_before));
            }
        }
        submit(storage, &flow, &rows, &[], &[]);
        for row in rows {
            let rank = claim_rank(&row.execution, row.definition.priority);
            check_column(storage, row.execution.id, "claim_rank", Some(rank));
        }
    });
}

#[test]
fn the_column_of_an_attempts_end_is_that_of_rust() {
    on_each(|storage| {
        let flow = flow(1);
        let timeouts = [None, Some(0), Some(1), Some(29_999), Some(30_001), Some(u32::MAX)];
        let rows: Vec<NewExecution> = (0u8..)
            .zip(timeouts)
            .map(|(number, timeout)| {
                let mut row = ready_execution(&flow, &number.to_string(), "main", 0, Timestamp(0));
                row.execution.retry.attempt_timeout_ms = timeout;
                row
            })
            .collect();
        submit(storage, &flow, &rows, &[], &[]);
        for row in &rows {
            check_column(storage, row.execution.id, "attempt_over_at", None);
        }
        let half = ClaimQuery { now: Timestamp(i64::MAX - 7), ..claim_query(&["main"], 3) };
        let mut grants = claim(storage, &half);
        grants.extend(claim(storage, &claim_query(&["main"], 9)));
        assert_eq!(grants.len(), rows.len());
        for grant in grants {
            let over_at = grant.execution.attempt_over_at().map(|at| at.0);
            check_column(storage, grant.execution.id, "attempt_over_at", over_at);
        }
    });
}

#[test]
#[should_panic(expected = "a claim names its lanes")]
fn a_claim_without_lanes_is_refused() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    claim(&storage, &claim_query(&[], 1));
}
