//! Rows that are taken away: what covers them, and what those find who have waited for them.

use super::*;
use sluicegate::storage::{Inserted, Submission, SubmissionKey};

fn submission() -> Submission {
    let key = SubmissionKey { namespace: "tenant".into(), key: "order".into() };
    Submission { key, flow: FLOW, content_hash: [0; 32], request: request(1) }
}

#[test]
fn who_has_waited_for_a_row_that_is_gone_holds_nothing() {
    let mut db = two_joins();
    let [a, b, c] = [1, 2, 3].map(|actor| db.open_session(actor));
    done(db.lock_executions(a, &mut Cursor::default(), &ids(&[1])));
    let (mut first, mut second) = (Cursor::default(), Cursor::default());
    assert_eq!(db.lock_executions(b, &mut first, &ids(&[1])), Step::Wait);
    assert_eq!(db.lock_executions(c, &mut second, &ids(&[1])), Step::Wait);
    assert_eq!(done(db.delete_executions(a, &mut Cursor::default(), &ids(&[1, 9]))), 1);
    let report = commit(&mut db, a);
    assert_eq!(report.executions[0].after, None);
    assert_eq!(done(db.lock_executions(b, &mut first, &ids(&[1]))), []);
    assert_eq!(done(db.lock_executions(c, &mut second, &ids(&[1]))), []);
}

#[test]
fn a_key_that_is_being_taken_away_is_waited_for() {
    for commits in [false, true] {
        let mut db = two_joins();
        let a = db.open_session(1);
        done(db.insert_submission(a, &mut Cursor::default(), &submission()));
        commit(&mut db, a);
        let (a, b) = (db.open_session(1), db.open_session(2));
        done(db.lock_flow(a, &mut Cursor::default(), &FLOW));
        assert_eq!(done(db.delete_submission(a, &mut Cursor::default(), &FLOW)), 1);
        let mut waiting = Cursor::default();
        assert_eq!(db.insert_submission(b, &mut waiting, &submission()), Step::Wait);
        match commits {
            true => assert_eq!(commit(&mut db, a).submissions_pruned, [submission().key]),
            false => db.abort(a),
        }
        let expected = if commits { Inserted::New } else { Inserted::Exists };
        assert_eq!(done(db.insert_submission(b, &mut waiting, &submission())), expected);
    }
}

#[test]
#[should_panic(expected = "has not locked")]
fn edges_are_not_taken_away_without_the_lock_of_their_group() {
    let mut db = two_joins();
    let a = db.open_session(1);
    let _ = db.delete_edges(a, &mut Cursor::default(), &ids(&[3]));
}

#[test]
#[should_panic(expected = "has not locked")]
fn an_idempotency_key_is_not_taken_away_without_the_lock_of_its_flow() {
    let mut db = two_joins();
    let a = db.open_session(1);
    done(db.insert_submission(a, &mut Cursor::default(), &submission()));
    commit(&mut db, a);
    let a = db.open_session(1);
    let _ = db.delete_submission(a, &mut Cursor::default(), &FLOW);
}

#[test]
fn what_is_gone_is_in_no_index() {
    let mut db = two_joins();
    let a = db.open_session(1);
    done(db.lock_executions(a, &mut Cursor::default(), &ids(&[1, 2])));
    done(db.delete_executions(a, &mut Cursor::default(), &ids(&[1, 2])));
    commit(&mut db, a);
    let claim = claim(9);
    let a = db.open_session(1);
    assert_eq!(done(db.claim_executions(a, &mut Cursor::default(), &claim)), []);
}
