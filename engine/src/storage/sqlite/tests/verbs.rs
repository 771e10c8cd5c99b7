//! Each verb of a transaction does what its line in the table says.

use std::sync::Arc;

use super::*;
use crate::policy::OnSatisfied;
use crate::state::ClosePolicy;
use crate::storage::{
    Attempt, AttemptEnd, AttemptKey, CommitError, EdgeFlip, EventId, EventKind, ExecutionGuard,
    ExecutionWrite, Guarded, Inserted, NewEvent, PendingEdge, Reported, ResultChange,
    SiblingRequest, StorageError, Submission, SubmissionKey, all_readable,
};

#[test]
fn the_clock_is_the_injected_one() {
    on_each(|storage| {
        assert_eq!(ready(begin(storage).clock()), Ok(NOW));
        assert_eq!(ready(reader(storage).read_clock()), Ok(NOW));
    });
}

#[test]
fn the_first_writer_of_an_idempotency_key_keeps_it() {
    on_each(|storage| {
        let key = SubmissionKey { namespace: "tenant".into(), key: "order-1".into() };
        let row = |number| Submission {
            key: key.clone(),
            flow: flow_key(number),
            content_hash: [number; 32],
            request: request(1),
        };
        let mut transaction = begin(storage);
        assert_eq!(ready(transaction.read_submission(&key)), Ok(None));
        assert_eq!(ready(transaction.insert_submission(&row(1))), Ok(Inserted::New));
        assert_eq!(ready(transaction.insert_submission(&row(2))), Ok(Inserted::Exists));
        assert_eq!(ready(transaction.read_submission(&key)), Ok(Some(row(1))));
        commit(transaction);
    });
}

#[test]
fn the_first_writer_of_a_flow_keeps_it() {
    on_each(|storage| {
        let row = flow(1);
        let other = Flow { namespace: "other".into(), ..row.clone() };
        let mut transaction = begin(storage);
        assert_eq!(ready(transaction.insert_flow(&row)), Ok(Inserted::New));
        assert_eq!(ready(transaction.insert_flow(&other)), Ok(Inserted::Exists));
        assert_eq!(ready(transaction.read_flow(&row.key)), Ok(Some(row.clone())));
        assert_eq!(ready(transaction.read_flow(&flow_key(2))), Ok(None));
        commit(transaction);
        assert_eq!(ready(reader(storage).describe_flow(&row.key)), Ok(Some(row)));
    });
}

#[test]
fn executions_come_back_as_they_were_inserted_in_id_order() {
    on_each(|storage| {
        let flow = flow(1);
        let mut rows: Vec<NewExecution> = State::ALL
            .into_iter()
            .filter(|state| *state != State::Active)
            .map(|state| execution(flow.key, state.name(), state))
            .collect();
        rows[0].execution.epoch = u64::MAX;
        rows[0].execution.deadline = Some(Timestamp(-4));
        rows[0].execution.retry.backoff = crate::retry::Backoff::Fixed { delay_ms: 7 };
        rows[0].execution.retry.attempt_timeout_ms = Some(u32::MAX);
        submit(storage, &flow, &rows, &[], &[]);
        rows.sort_by_key(|row| row.execution.id);
        let expected: Vec<Execution> = rows.iter().map(|row| row.execution).collect();
        let mut keys: Vec<ExecutionId> = expected.iter().map(|row| row.id).rev().collect();
        keys.push(flow.key.execution("missing"));
        let mut transaction = begin(storage);
        assert_eq!(ready(transaction.lock_executions(&keys)), Ok(expected.clone()));
        assert_eq!(ready(transaction.take_executions(&keys)), Ok(expected));
        drop(transaction);
        let views = ready(reader(storage).describe_executions(&flow.key)).and_then(all_readable);
        let described: Vec<NewExecution> = views
            .unwrap()
            .into_iter()
            .map(|view| NewExecution { execution: view.execution, definition: view.definition })
            .collect();
        assert_eq!(described, rows);
    });
}

/// Writes `after` over the row of `before`; returns whether it took effect.
fn check_write(
    storage: &SqliteStorage,
    guard: ExecutionGuard,
    after: Execution,
    result: ResultChange,
) -> bool {
    let before = stored(storage, after.id);
    let mut transaction = begin(storage);
    let write = ExecutionWrite { guard, after, result };
    let written = ready(transaction.write_executions(&[write])).unwrap();
    commit(transaction);
    let took_effect = written == [after.id];
    assert!(took_effect || written.is_empty());
    // The retry policy is written once, by the insert.
    let expected = if took_effect { Execution { retry: before.retry, ..after } } else { before };
    assert_eq!(stored(storage, after.id), expected);
    took_effect
}

#[test]
fn a_write_changes_every_column_and_only_where_its_guard_holds() {
    on_each(|storage| {
        let flow = flow(1);
        let row = execution(flow.key, "a", State::Blocked);
        submit(storage, &flow, std::slice::from_ref(&row), &[], &[]);
        let before = row.execution;
        let after = Execution {
            state: FAILED,
            cause: Some(Cause::Sibling),
            incarnation: 2,
            propagated: true,
            has_in: !before.has_in,
            has_out: !before.has_out,
            not_before: Timestamp(77),
            deadline: Some(Timestamp(78)),
            attempt: 3,
            charged: 4,
            give_backs: 5,
            resumed: None,
            progress: None,
            epoch: 1 << 63,
            finished_at: Some(Timestamp(79)),
            retry: RetryPolicy { max_attempts: 9, ..before.retry },
            ..before
        };
        let guard = before.guard();
        for wrong in
            [ExecutionGuard { epoch: 1, ..guard }, ExecutionGuard { state: State::Ready, ..guard }]
        {
            assert!(!check_write(storage, wrong, after, ResultChange::Keep));
        }
        assert!(check_write(storage, guard, after, ResultChange::Keep));
        assert!(!check_write(storage, guard, before, ResultChange::Keep));
        assert!(check_write(storage, after.guard(), before, ResultChange::Keep));
    });
}

#[test]
fn a_write_keeps_sets_or_clears_the_result() {
    on_each(|storage| {
        let flow = flow(1);
        let row = execution(flow.key, "a", SUCCEEDED);
        submit(storage, &flow, std::slice::from_ref(&row), &[], &[]);
        let bytes: Arc<[u8]> = Arc::from(*b"done");
        for (change, expected) in [
            (ResultChange::Keep, None),
            (ResultChange::Set(bytes.clone()), Some(bytes.clone())),
            (ResultChange::Keep, Some(bytes)),
            (ResultChange::Clear, None),
        ] {
            assert!(check_write(storage, row.execution.guard(), row.execution, change));
            let view = ready(reader(storage).describe_execution(&row.execution.id)).unwrap();
            assert_eq!(view.unwrap().result, expected);
        }
    });
}

#[test]
fn a_lease_keeps_its_worker_while_it_moves_and_loses_it_when_it_ends() {
    on_each(|storage| {
        let flow = flow(1);
        let row = execution(flow.key, "a", State::Ready);
        submit(storage, &flow, std::slice::from_ref(&row), &[], &[]);
        let granted = claim(storage, &claim_query(&["main"], 1)).remove(0).execution;
        let worker = || {
            let view = ready(reader(storage).describe_execution(&granted.id)).unwrap();
            view.unwrap().worker
        };
        assert_eq!(worker().as_deref(), Some("worker"));
        let lease = granted.lease.map(|lease| crate::storage::Lease {
            expires_at: lease.expires_at + Duration::from_secs(9),
            ..lease
        });
        let renewed = Execution { lease, ..granted };
        assert!(check_write(storage, granted.guard(), renewed, ResultChange::Keep));
        assert_eq!(worker().as_deref(), Some("worker"));
        let ended = Execution { state: State::Ready, lease: None, epoch: 2, ..granted };
        assert!(check_write(storage, renewed.guard(), ended, ResultChange::Keep));
        assert_eq!(worker(), None);
    });
}

#[test]
fn written_ids_come_back_in_id_order() {
    on_each(|storage| {
        let flow = flow(1);
        let rows: Vec<NewExecution> =
            (0..9).map(|n| execution(flow.key, &n.to_string(), State::Blocked)).collect();
        submit(storage, &flow, &rows, &[], &[]);
        let writes: Vec<ExecutionWrite> = rows
            .iter()
            .map(|row| ExecutionWrite {
                guard: row.execution.guard(),
                after: Execution { state: State::Ready, ..row.execution },
                result: ResultChange::Keep,
            })
            .collect();
        let mut ids: Vec<ExecutionId> = rows.iter().map(|row| row.execution.id).collect();
        ids.sort();
        let mut transaction = begin(storage);
        assert_eq!(ready(transaction.write_executions(&writes)), Ok(ids));
    });
}

#[test]
fn an_attempt_is_recorded_with_the_worker_that_still_stands_in_its_execution() {
    on_each(|storage| {
        let flow = flow(1);
        let row = execution(flow.key, "a", State::Ready);
        submit(storage, &flow, &[row], &[], &[]);
        let granted = claim(storage, &claim_query(&["main"], 1)).remove(0).execution;
        for (number, end, reported) in [
            (1, AttemptEnd::Completed, Reported::Finished(Outcome::Skipped)),
            (2, AttemptEnd::Revoked, Reported::Requeued { delay_us: 12 }),
        ] {
            let key = AttemptKey { execution: granted.id, incarnation: 0, attempt: number };
            let attempt = Attempt {
                key,
                epoch: granted.epoch,
                nonce: u64::MAX,
                end,
                reported,
                payload_hash: u64::MAX - 1,
                granted_at: NOW,
                ended_at: NOW + Duration::from_secs(1),
            };
            let mut transaction = begin(storage);
            assert_eq!(ready(transaction.read_attempt(&key)), Ok(None));
            ready(transaction.insert_attempts(&[attempt])).unwrap();
            assert_eq!(ready(transaction.read_attempt(&key)), Ok(Some(attempt)));
            commit(transaction);
            let mut again = begin(storage);
            let refused = ready(again.insert_attempts(&[attempt]));
            assert!(matches!(refused, Err(StorageError::Corrupt(_))), "{refused:?}");
        }
        let workers =
            "select group_concat(worker || ' ' || instance, ', ') from sluicegate_attempt";
        assert_eq!(value::<String>(storage, workers), "worker instance, worker instance");
    });
}

#[test]
fn an_event_carries_the_labels_of_its_execution_and_is_written_once_an_incarnation() {
    on_each(|storage| {
        let flow = flow(1);
        let rows = ["a", "b"].map(|name| execution(flow.key, name, SUCCEEDED));
        submit(storage, &flow, &rows, &[], &[]);
        let mut ids = rows.map(|row| row.execution.id);
        ids.sort();
        let events = ids.map(|execution| NewEvent {
            execution,
            flow: flow.key.id,
            incarnation: 0,
            kind: EventKind::Completed { outcome: Outcome::Succeeded },
            occurred_at: NOW,
        });
        let mut transaction = begin(storage);
        ready(transaction.insert_events(&[events[1], events[0]])).unwrap();
        commit(transaction);
        for (id, expected) in [(1, events[0]), (2, events[1])] {
            let event = ready(reader(storage).read_event(&EventId(id))).unwrap().unwrap();
            assert_eq!((event.id, event.event), (EventId(id), expected));
            assert_eq!(&*event.namespace, "tenant");
            assert_eq!(event.instance_tag.as_deref(), Some("region=north"));
        }
        for id in [EventId(3), EventId(u64::MAX)] {
            assert_eq!(ready(reader(storage).read_event(&id)), Ok(None));
        }
        let mut again = begin(storage);
        let refused = ready(again.insert_events(&events[..1]));
        assert!(matches!(refused, Err(StorageError::Corrupt(_))), "{refused:?}");
        let mut missing = begin(storage);
        let nobody = NewEvent { execution: flow.key.execution("missing"), ..events[0] };
        let refused = ready(missing.insert_events(&[nobody])).unwrap_err();
        assert!(refused.to_string().contains("no row"), "{refused}");
    });
}

#[test]
fn groups_come_back_in_id_order_and_keep_the_counters_that_were_written() {
    on_each(|storage| {
        let flow = flow(1);
        let on_satisfied = OnSatisfied::LetRun;
        let mut rows = [
            group(flow.key, "a", JoinPolicy::AllOf, 2),
            group(flow.key, "b", JoinPolicy::AnyOf { on_satisfied }, 2),
            group(flow.key, "c", JoinPolicy::Quorum { k: 2, on_satisfied }, 3),
        ];
        submit(storage, &flow, &[], &rows, &[]);
        rows.sort_by_key(|row| row.downstream);
        let keys: Vec<ExecutionId> = rows
            .iter()
            .rev()
            .map(|row| row.downstream)
            .chain([flow.key.execution("missing")])
            .collect();
        let mut transaction = begin(storage);
        assert_eq!(ready(transaction.lock_groups(&keys)), Ok(rows.to_vec()));
        for row in &mut rows {
            row.satisfied = 1;
            row.unsatisfied = 1;
            row.decision = Decision::Impossible;
        }
        let missing = group(flow.key, "missing", JoinPolicy::AllOf, 2);
        let writes = [rows[2], rows[0], missing, rows[1]];
        assert_eq!(ready(transaction.write_groups(&writes)), Ok(3));
        assert_eq!(ready(transaction.read_groups(&keys)), Ok(rows.to_vec()));
        commit(transaction);
        let described = ready(reader(storage).describe_groups(&flow.key)).and_then(all_readable);
        assert_eq!(described, Ok(rows.to_vec()));
        assert_eq!(ready(reader(storage).describe_groups(&flow_key(2))), Ok(vec![]));
    });
}

/// A flow where `a` has failed and `b` is ready; `c` waits for both, `d` for `a`.
fn fan(storage: &SqliteStorage) -> FlowKey {
    let flow = flow(1);
    let key = flow.key;
    let executions = [
        execution(key, "a", FAILED),
        execution(key, "b", State::Ready),
        execution(key, "c", State::Blocked),
        execution(key, "d", State::Blocked),
    ];
    let groups = [group(key, "c", JoinPolicy::AllOf, 2), group(key, "d", JoinPolicy::AllOf, 1)];
    let mut edges = [
        edge(key, "a", "c", AcceptSet::ON_SUCCESS),
        edge(key, "b", "c", AcceptSet::ON_DONE),
        edge(key, "a", "d", AcceptSet::ON_FAILURE),
    ];
    edges[2].passes_as = Some("input".into());
    submit(storage, &flow, &executions, &groups, &edges);
    key
}

#[test]
fn pending_edges_show_their_upstreams_as_they_stand() {
    on_each(|storage| {
        let flow = fan(storage);
        let pending = |up, down, accepts, upstream_state| PendingEdge {
            key: edge(flow, up, down, accepts).key,
            accepts,
            upstream_state,
            upstream_incarnation: 0,
        };
        let mut expected = vec![
            pending("a", "c", AcceptSet::ON_SUCCESS, FAILED),
            pending("b", "c", AcceptSet::ON_DONE, State::Ready),
            pending("a", "d", AcceptSet::ON_FAILURE, FAILED),
        ];
        expected.sort_by_key(|edge| edge.key);
        let groups = ["d", "c", "a"].map(|name| flow.execution(name));
        assert_eq!(ready(begin(storage).pending_edges(&groups)), Ok(expected));
        spoil(storage, "delete from sluicegate_execution where name = 'b'");
        let refused = ready(begin(storage).pending_edges(&groups)).unwrap_err();
        assert!(refused.to_string().contains("execution.state holds null"), "{refused}");
    });
}

#[test]
fn an_edge_flips_once_unless_its_guard_is_let_go() {
    on_each(|storage| {
        let flow = fan(storage);
        let flip = |up, down, resolution, guarded| EdgeFlip {
            key: edge(flow, up, down, AcceptSet::ON_DONE).key,
            resolution,
            upstream_incarnation: 4,
            input: None,
            guarded,
        };
        let satisfied = flip("a", "d", Resolution::Satisfied, Guarded::Yes);
        let unsatisfied = flip("a", "c", Resolution::Unsatisfied, Guarded::Yes);
        let missing = flip("d", "c", Resolution::Satisfied, Guarded::Yes);
        let mut keys = vec![satisfied.key, unsatisfied.key];
        keys.sort();
        let upstreams = ["b", "a", "c"].map(|name| flow.execution(name));
        let mut with_pending = upstreams[..2].to_vec();
        with_pending.sort();
        let mut transaction = begin(storage);
        assert_eq!(ready(transaction.with_pending_edges(&upstreams)), Ok(with_pending));
        let flips = [satisfied, unsatisfied, missing];
        assert_eq!(ready(transaction.resolve_edges(&flips)), Ok(keys));
        assert_eq!(ready(transaction.resolve_edges(&[satisfied])), Ok(vec![]));
        let let_go = flip("a", "d", Resolution::Unsatisfied, Guarded::No);
        assert_eq!(ready(transaction.resolve_edges(&[let_go])), Ok(vec![let_go.key]));
        let left = Ok(vec![flow.execution("b")]);
        assert_eq!(ready(transaction.with_pending_edges(&upstreams)), left);
        commit(transaction);
        let edges = ready(reader(storage).describe_edges(&flow)).and_then(all_readable).unwrap();
        assert!(edges.is_sorted_by_key(|edge| edge.key));
        let described = edges.iter().find(|edge| edge.key == let_go.key).unwrap();
        assert_eq!(described.resolution, Resolution::Unsatisfied);
        assert_eq!(described.upstream_incarnation, Some(4));
        assert_eq!(described.passes_as.as_deref(), Some("input"));
        assert_eq!(edges.len(), 3);
    });
}

#[test]
fn a_sibling_request_that_exists_stays_and_change_rows_add_up() {
    on_each(|storage| {
        let flow = fan(storage);
        let row = SiblingRequest { group: flow.execution("c"), flow: flow.id };
        let mut transaction = begin(storage);
        ready(transaction.insert_sibling_requests(&[row])).unwrap();
        ready(transaction.insert_sibling_requests(&[row])).unwrap();
        ready(transaction.insert_flow_changes(&[flow, flow_key(2)])).unwrap();
        ready(transaction.insert_flow_changes(&[flow])).unwrap();
        commit(transaction);
        assert_eq!(value::<i64>(storage, "select count(*) from sluicegate_sibling_request"), 1);
        assert_eq!(value::<i64>(storage, "select count(*) from sluicegate_flow_change"), 3);
    });
}

#[test]
fn only_closed_flows_have_a_closing() {
    on_each(|storage| {
        let closings = [
            None,
            Some(ClosePolicy::FlowOnly),
            Some(ClosePolicy::CancelPending),
            Some(ClosePolicy::CancelAll),
        ];
        let mut expected = Vec::new();
        let mut keys = vec![flow_key(9)];
        for (number, closing) in (1..).zip(closings) {
            let flow = Flow { closing, ..flow(number) };
            submit(storage, &flow, &[], &[], &[]);
            keys.push(flow.key);
            expected.extend(closing.map(|closing| (flow.key, closing)));
        }
        expected.sort();
        assert_eq!(ready(begin(storage).read_closings(&keys)), Ok(expected));
    });
}

#[test]
fn live_grants_are_found_by_their_request_and_ended_ones_are_not() {
    on_each(|storage| {
        let flow = flow(1);
        let rows = ["a", "b", "c"].map(|name| execution(flow.key, name, State::Ready));
        submit(storage, &flow, &rows, &[], &[]);
        let query = claim_query(&["main"], 2);
        let mut grants = claim(storage, &query);
        claim(storage, &ClaimQuery { request: request(100), ..query.clone() });
        grants.sort_by_key(|grant| grant.execution.id);
        let found = || ready(begin(storage).read_grants(&query.request)).unwrap();
        assert_eq!(found(), grants);
        let ended = grants.remove(0).execution;
        let after = Execution { state: State::Ready, lease: None, ..ended };
        assert!(check_write(storage, ended.guard(), after, ResultChange::Keep));
        assert_eq!(found(), grants);
    });
}

#[test]
fn a_dropped_or_rolled_back_transaction_leaves_nothing() {
    on_each(|storage| {
        let row = flow(1);
        let mut dropped = begin(storage);
        ready(dropped.insert_flow(&row)).unwrap();
        drop(dropped);
        let mut rolled_back = begin(storage);
        assert_eq!(ready(rolled_back.insert_flow(&row)), Ok(Inserted::New));
        ready(rolled_back.rollback());
        assert_eq!(ready(reader(storage).describe_flow(&row.key)), Ok(None));
    });
}

#[test]
fn an_error_ends_the_transaction_and_nothing_of_it_can_be_committed() {
    on_each(|storage| {
        let row = flow(1);
        let mut transaction = begin(storage);
        ready(transaction.insert_flow(&row)).unwrap();
        let twice = group(row.key, "a", JoinPolicy::AllOf, 1);
        ready(transaction.insert_groups(&[twice])).unwrap();
        let refused = ready(transaction.insert_groups(&[twice]));
        assert!(matches!(refused, Err(StorageError::Corrupt(_))), "{refused:?}");
        let over = ready(transaction.clock());
        assert!(matches!(over, Err(StorageError::Unavailable(_))), "{over:?}");
        let commit = ready(transaction.commit());
        assert!(matches!(commit, Err(CommitError::Storage(_))), "{commit:?}");
        assert_eq!(ready(reader(storage).describe_flow(&row.key)), Ok(None));
    });
}

#[test]
#[should_panic(expected = "a key stands twice")]
fn a_key_that_stands_twice_is_refused() {
    let storage = SqliteStorage::open(inline(SqliteOptions::memory())).unwrap();
    let id = flow_key(1).execution("a");
    let _ = ready(begin(&storage).lock_executions(&[id, id]));
}
