//! Reads of transactions, scans of snapshots, and the partial indexes behind them.

use super::*;
use sluicegate::storage::{OverdueScan, Page, PlanQuery, Scope, UpstreamScan};

fn page(after: Option<u16>, limit: u32) -> Page {
    Page { scope: Scope::default(), after: after.map(id), limit }
}

fn plan(db: &Database, upstreams: &[u16], limit: u32) -> Vec<ExecutionId> {
    db.plan_groups(&PlanQuery { upstreams: ids(upstreams), limit }).unwrap()
}

fn failed(number: u16) -> NewExecution {
    member(number, State::Terminal(Outcome::Failed))
}

fn blocked(numbers: std::ops::RangeInclusive<u16>) -> impl Iterator<Item = NewExecution> {
    numbers.map(|number| member(number, State::Blocked))
}

#[test]
fn pending_edges_stand_beside_the_rows_that_the_transaction_sees() {
    let mut db = two_joins();
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock_groups(&mut db, a, &[3]);
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 3)]));
    move_to(&mut db, a, 2, State::Ready);
    let mut seen = |session| {
        let edges = done(db.pending_edges(session, &mut Cursor::default(), &ids(&[4, 3])));
        edges.iter().map(|edge| (edge.key, edge.upstream_state)).collect::<Vec<_>>()
    };
    let own =
        [(edge_key(2, 3), State::Ready), (edge_key(1, 4), DONE), (edge_key(2, 4), State::Ready)];
    assert_eq!(seen(a), own);
    let others = [edge_key(1, 3), edge_key(2, 3), edge_key(1, 4), edge_key(2, 4)];
    assert_eq!(seen(b), others.map(|key| (key, DONE)));
}

#[test]
fn an_upstream_has_pending_edges_until_the_last_is_resolved() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3, 4]);
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 3), flip(1, 4), flip(2, 3)]));
    let left = done(db.with_pending_edges(a, &mut Cursor::default(), &ids(&[2, 1, 3])));
    assert_eq!(left, ids(&[2]));
}

#[test]
fn grants_are_found_by_their_request_committed_or_own() {
    let mut db = ready_to(3);
    let a = db.open_session(1);
    done(db.claim_executions(a, &mut Cursor::default(), &claim(2)));
    let mut found = |session, number| {
        let grants = done(db.read_grants(session, &mut Cursor::default(), &request(number)));
        grants.iter().map(|grant| grant.execution.id).collect::<Vec<_>>()
    };
    assert_eq!(found(a, 7), ids(&[1, 2]));
    assert_eq!(found(a, 8), []);
    commit(&mut db, a);
    let b = db.open_session(2);
    move_to(&mut db, b, 1, State::Ready);
    let grants = done(db.read_grants(b, &mut Cursor::default(), &request(7)));
    assert_eq!(grants.len(), 1);
    assert_eq!(grants[0].execution.id, id(2));
}

#[test]
fn only_closed_flows_have_a_closing() {
    let mut db = two_joins();
    let a = db.open_session(1);
    assert_eq!(done(db.read_closings(a, &mut Cursor::default(), &[FLOW])), []);
}

#[test]
fn a_plan_goes_on_only_where_a_skip_is_certain() {
    // 1 fails; 2 is an AllOf, 3 an AllOf below it, 4 accepts a skip, 5 lies below 4.
    let members: Vec<_> = std::iter::once(failed(1)).chain(blocked(2..=5)).collect();
    let accepting = Edge { accepts: AcceptSet::ON_DONE, ..edge(3, 4) };
    let db = seeded(&members, &[edge(1, 2), edge(2, 3), accepting, edge(4, 5)]);
    assert_eq!(plan(&db, &[1], 99), ids(&[2, 3, 4]));
    assert_eq!(plan(&db, &[1], 2), ids(&[2, 3]));
    assert_eq!(plan(&db, &[2], 99), ids(&[]), "an upstream that has not ended leads nowhere");
}

#[test]
fn a_plan_stops_at_a_group_that_may_yet_be_satisfied() {
    let members: Vec<_> = std::iter::once(failed(1)).chain(blocked(2..=3)).collect();
    let mut db = seeded(&members, &[edge(1, 2), edge(2, 3)]);
    assert_eq!(plan(&db, &[1], 99), ids(&[2, 3]));
    // No verb changes a policy.
    let policy = JoinPolicy::AnyOf { on_satisfied: sluicegate::policy::OnSatisfied::LetRun };
    let slot = db.groups.find(&id(2)).unwrap();
    db.groups.row_mut(slot).committed.as_mut().unwrap().policy = policy;
    assert_eq!(plan(&db, &[1], 99), ids(&[2]));
}

#[test]
fn scans_page_in_id_order_within_their_scope() {
    let mut other = member(4, DONE);
    other.definition.namespace = "other".into();
    let mut marked = member(2, DONE);
    marked.execution.propagated = true;
    let rows = [member(5, DONE), other, member(3, DONE), marked, member(1, DONE)];
    let db = seeded(&rows, &[]);
    let scan = |page: Page, by: Option<Timestamp>| {
        db.scan_upstreams(&UpstreamScan { page, finished_by: by }).unwrap()
    };
    assert_eq!(scan(page(None, 9), None), ids(&[1, 3, 4, 5]));
    assert_eq!(scan(page(Some(1), 2), Some(NOW)), ids(&[3, 4]));
    assert_eq!(scan(page(None, 9), Some(Timestamp(NOW.0 - 1))), ids(&[]));
    let tenant = Scope { namespace: Some("tenant".into()), ..Scope::default() };
    assert_eq!(scan(Page { scope: tenant, ..page(None, 9) }, None), ids(&[1, 3, 5]));
    let tag = Scope { instance_tag: Some("env=prod".into()), ..Scope::default() };
    assert_eq!(scan(Page { scope: tag, ..page(None, 9) }, None), ids(&[]));
}

#[test]
fn a_decided_group_with_a_blocked_downstream_is_stuck() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3]);
    let decided = Group { satisfied: 2, decision: Decision::Satisfied, ..group(3, 2) };
    done(db.write_groups(a, &mut Cursor::default(), &[decided]));
    commit(&mut db, a);
    assert_eq!(db.scan_stuck_groups(&page(None, 9)), Ok(ids(&[3])));
    assert_eq!(db.scan_stuck_groups(&page(Some(3), 9)), Ok(ids(&[])));
    let a = db.open_session(1);
    move_to(&mut db, a, 3, State::Ready);
    commit(&mut db, a);
    assert_eq!(db.scan_stuck_groups(&page(None, 9)), Ok(ids(&[])));
}

#[test]
fn the_next_instant_is_the_first_at_which_a_row_can_be_claimed_or_reaped() {
    let at = |seconds: i64| Timestamp(NOW.0 + seconds * 1_000_000);
    let mut delayed = member(1, State::Ready);
    delayed.execution.not_before = at(3);
    let mut limited = member(2, State::Blocked);
    limited.execution.deadline = Some(at(20));
    let mut ended = member(3, DONE);
    ended.execution.deadline = Some(at(1));
    let mut db = seeded(&[delayed, limited, ended, member(4, State::Ready)], &[]);
    assert_eq!(db.next_interesting(NOW), Some(at(3)));
    assert_eq!(db.next_interesting(at(3)), Some(at(20)));
    let a = db.open_session(1);
    done(db.claim_executions(a, &mut Cursor::default(), &claim(1)));
    commit(&mut db, a);
    assert_eq!(db.next_interesting(at(3)), Some(at(10)), "the lease");
    assert_eq!(db.next_interesting(at(20)), None);
    let overdue = |now| db.scan_overdue(&OverdueScan { page: page(None, 9), now });
    assert_eq!(overdue(at(10)), Ok(ids(&[4])));
    assert_eq!(overdue(at(20)), Ok(ids(&[2, 4])));
}

#[test]
fn partial_indexes_equal_a_recount_after_any_commits_and_rollbacks() {
    let states = [State::Blocked, State::Ready, State::Active, DONE];
    let members: Vec<_> = (1..=12).map(|n| member(n, states[usize::from(n) % 4])).collect();
    let mut db = seeded(&members, &[]);
    let mut random = 1u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..400 {
        let a = db.open_session(1);
        if draw(3) == 0 {
            let limit = u32::try_from(draw(4)).unwrap();
            done(db.claim_executions(a, &mut Cursor::default(), &claim(limit)));
        }
        for _ in 0..draw(4) {
            let number = u16::try_from(1 + draw(12)).unwrap();
            move_to(&mut db, a, number, states[usize::try_from(draw(4)).unwrap()]);
        }
        if draw(4) == 0 {
            db.abort(a);
        } else {
            commit(&mut db, a);
        }
        let of = |wanted: &dyn Fn(&Execution) -> bool| {
            db.executions().filter(|row| wanted(row)).map(|row| row.id).collect::<Vec<_>>()
        };
        let scan = UpstreamScan { page: page(None, 99), finished_by: None };
        assert_eq!(db.scan_upstreams(&scan).unwrap(), of(&|row| row.state.is_terminal()));
        let later = Timestamp(i64::MAX);
        let overdue = db.scan_overdue(&OverdueScan { page: page(None, 99), now: later }).unwrap();
        assert_eq!(overdue, of(&|row| row.lease.is_some()));
        let mut fork = db.frozen();
        let all = fork.open_session(1);
        let grants = done(fork.claim_executions(all, &mut Cursor::default(), &claim(99)));
        let claimed: Vec<_> = grants.iter().map(|grant| grant.execution.id).collect();
        assert_eq!(claimed, of(&|row| row.state == State::Ready));
    }
}
