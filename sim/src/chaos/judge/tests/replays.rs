//! Second lives that the judge must reject, and those that it lets pass.

use super::super::super::ledger::Scope;
use super::*;

/// That execution was replayed and completed once more.
fn again(name: &'static str) -> impl Fn(&mut Rows) {
    move |rows| {
        let key = AttemptKey { incarnation: 1, ..first(rows, name).key };
        let (granted_at, ended_at) = (Timestamp(30), Timestamp(40));
        let second = Attempt { key, epoch: 4, nonce: 79, granted_at, ended_at, ..attempt(name) };
        rows.attempts.push(second);
        rows.attempts.sort_by_key(|row| row.key);
        let row = of(rows, name);
        (row.incarnation, row.epoch, row.finished_at) = (1, 5, Some(Timestamp(40)));
        let (number, event) = event(rows.events.len() as u64 + 1, name);
        rows.events.push((number, NewEvent { incarnation: 1, ..event }));
    }
}

fn replayed(scope: Scope, names: &[&str]) -> Entry {
    let members = names.iter().map(|name| id(name)).collect();
    Entry::Replayed { flow: key().id, scope, members }
}

/// The invariants that such rows break, after those calls.
fn broken(tamper: impl Fn(&mut Rows), told: Vec<Entry>) -> Vec<&'static str> {
    let mut rows = sound();
    tamper(&mut rows);
    judge(&rows, told).iter().map(|violation| violation.invariant).collect()
}

#[test]
fn what_was_replayed_passes() {
    let told = vec![replayed(Scope::From(id("b")), &["b"])];
    assert_eq!(broken(again("b"), told), [] as [&str; 0]);
    let both = |rows: &mut Rows| {
        again("a")(rows);
        again("b")(rows);
        rows.edges[0].upstream_incarnation = Some(1);
    };
    for scope in [Scope::All, Scope::From(id("a"))] {
        assert_eq!(broken(both, vec![replayed(scope, &["a", "b"])]), [] as [&str; 0]);
    }
}

#[test]
fn a_life_that_nobody_asked_for_is_seen() {
    assert_eq!(broken(again("b"), Vec::new()), ["I2"]);
    let twice = replayed(Scope::From(id("b")), &["b"]);
    assert_eq!(broken(again("b"), vec![twice.clone(), twice]), ["I2"]);
    let unsure = Entry::Unanswered { flow: key().id, call: "replay".to_owned() };
    assert_eq!(broken(again("b"), vec![unsure]), [] as [&str; 0], "it may have been asked for");
}

#[test]
fn a_replay_that_is_lost_is_seen() {
    let told = vec![replayed(Scope::From(id("b")), &["b"])];
    assert_eq!(broken(|_| (), told), ["I19", "I2"]);
}

#[test]
fn a_replay_of_others_than_its_scope_holds_is_seen() {
    assert_eq!(broken(again("b"), vec![replayed(Scope::All, &["b"])]), ["I2"]);
    assert_eq!(broken(again("b"), vec![replayed(Scope::From(id("a")), &["b"])]), ["I2"]);
    assert_eq!(broken(again("b"), vec![replayed(Scope::Failed, &["b"])]), ["I2"]);
    let left_out = |rows: &mut Rows| {
        rows.events[0].1.kind = EventKind::Completed { outcome: Outcome::Failed };
    };
    assert!(broken(left_out, vec![replayed(Scope::Failed, &[])]).contains(&"I2"));
}

#[test]
fn a_life_without_its_event_or_its_attempts_is_seen() {
    check("I1", |rows| {
        again("b")(rows);
        rows.events.pop();
    });
    check("I1", |rows| {
        again("b")(rows);
        rows.events.remove(1);
    });
    check("I1", |rows| {
        again("b")(rows);
        rows.events[1].1.kind = EventKind::Completed { outcome: Outcome::Failed };
    });
    check("I11", |rows| {
        again("b")(rows);
        first(rows, "b").key.attempt = 2;
    });
    check("I11", |rows| {
        again("b")(rows);
        of(rows, "b").incarnation = 0;
    });
    check("I7", |rows| {
        again("b")(rows);
        of(rows, "b").epoch = 4;
    });
}

#[test]
fn an_edge_keeps_an_earlier_life_only_for_a_downstream_that_has_gone_on() {
    let told = || vec![replayed(Scope::Failed, &["a"])];
    let failed = |rows: &mut Rows| {
        again("a")(rows);
        let past = first(rows, "a");
        (past.end, past.reported) = (AttemptEnd::FailedFatal, Reported::Finished(Outcome::Failed));
        rows.events[0].1.kind = EventKind::Completed { outcome: Outcome::Failed };
        rows.edges[0].accepts = AcceptSet::ON_FAILURE;
    };
    let always = |tamper: &dyn Fn(&mut Rows)| {
        let mut rows = sound();
        failed(&mut rows);
        tamper(&mut rows);
        let books = [Book { name: "client".to_owned(), entries: told() }];
        let violations = Evidence::new(&rows, &books, seed(), None).judge(When::Always);
        violations.iter().map(|violation| violation.invariant).collect::<Vec<_>>()
    };
    assert_eq!(always(&|_| ()), [] as [&str; 0]);
    let accepts = |rows: &mut Rows| rows.edges[0].accepts = AcceptSet::ON_SUCCESS;
    assert_eq!(always(&accepts), ["I3"], "its life that resolved the edge failed");
    let early = |rows: &mut Rows| rows.edges[0].upstream_incarnation = Some(2);
    assert_eq!(always(&early), ["I3"]);
    let waiting = |rows: &mut Rows| {
        rows.groups[0].decision = Decision::Undecided;
        unend(of(rows, "b"), State::Blocked);
    };
    assert!(always(&waiting).contains(&"I3"), "it waits for the second life");
}
