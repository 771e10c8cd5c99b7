//! The planted bugs of the model: each does what its row says, and nothing while it is off.

use super::*;
use crate::database::ModelMutant;

/// Group 3 is held; a second session locks groups 3 and 9, of which 9 commits before 3 is free.
fn lock_across_a_commit(mutant: Option<ModelMutant>) -> Step<Result<Vec<Group>>> {
    let mut db = two_joins();
    db.mutant = mutant;
    let (holder, waiter, third) = (db.open_session(1), db.open_session(2), db.open_session(3));
    lock_groups(&mut db, holder, &[3]);
    done(db.insert_groups(third, &mut Cursor::default(), &[group(9, 1)]));
    let mut cursor = Cursor::default();
    let step = db.lock_groups(waiter, &mut cursor, &ids(&[3, 9]));
    if step != Step::Wait {
        return step;
    }
    commit(&mut db, third);
    commit(&mut db, holder);
    match db.is_blocked(waiter) {
        true => Step::Wait,
        false => db.lock_groups(waiter, &mut cursor, &ids(&[3, 9])),
    }
}

#[test]
fn a_lock_that_chooses_again_finds_what_committed_meanwhile() {
    assert_eq!(done(lock_across_a_commit(None)).len(), 1);
    assert_eq!(done(lock_across_a_commit(Some(ModelMutant::M02))).len(), 2);
}

#[test]
fn a_waiter_that_is_never_woken_stays_blocked() {
    assert_eq!(lock_across_a_commit(Some(ModelMutant::M03)), Step::Wait);
}

#[test]
fn a_lock_that_ends_early_holds_nobody_up_until_its_row_is_written() {
    let mut db = two_joins();
    db.mutant = Some(ModelMutant::M04);
    let (first, second) = (db.open_session(1), db.open_session(2));
    lock_groups(&mut db, first, &[3]);
    assert_eq!(lock_groups(&mut db, second, &[3]).len(), 1);
    done(db.write_groups(second, &mut Cursor::default(), &[group(3, 2)]));
    assert_eq!(db.lock_groups(first, &mut Cursor::default(), &ids(&[3])), Step::Wait);
}

#[test]
fn a_claim_that_stops_at_a_held_row_gets_nothing_behind_it() {
    for (mutant, granted) in [(None, 1), (Some(ModelMutant::M05), 0)] {
        let mut db = ready_to(2);
        db.mutant = mutant;
        let (holder, claimer) = (db.open_session(1), db.open_session(2));
        lock(&mut db, holder, &[1]);
        let grants = done(db.claim_executions(claimer, &mut Cursor::default(), &claim(2)));
        assert_eq!(grants.len(), granted, "{mutant:?}");
    }
}

#[test]
fn a_join_that_is_read_again_finds_what_committed_meanwhile() {
    for (mutant, joins) in [(None, false), (Some(ModelMutant::M01), true)] {
        let mut db = ready_to(1);
        db.mutant = mutant;
        let (holder, waiter, third) = (db.open_session(1), db.open_session(2), db.open_session(3));
        done(db.insert_events(holder, &mut Cursor::default(), &[event(1)]));
        done(db.insert_executions(third, &mut Cursor::default(), &[member(9, State::Ready)]));
        let (mut cursor, rows) = (Cursor::default(), [event(1), event(9)]);
        assert_eq!(db.insert_events(waiter, &mut cursor, &rows), Step::Wait);
        commit(&mut db, third);
        db.abort(holder);
        let inserted = db.insert_events(waiter, &mut cursor, &rows);
        assert_eq!(matches!(inserted, Step::Done(Ok(()))), joins, "{mutant:?}");
    }
}
