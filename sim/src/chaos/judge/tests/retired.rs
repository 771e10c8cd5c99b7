//! Retention that takes too much, too little, or a part.

use super::super::super::ledger::Book;
use super::super::super::reader::Lagged;
use super::super::super::remains::Remains;
use super::super::retired::{self, Past};
use super::*;

/// Two events were over, and are gone; the flow of [`sound`] came later, with two of its own.
fn remains() -> Remains {
    Remains { horizon: 2, places: vec![3, 4], ..Remains::default() }
}

fn past() -> Past {
    let flows = [FlowId::from_parts(2, [8; 10])].into();
    Past { by: Timestamp(5), flows, horizon: 2, ..Past::default() }
}

fn judged(tamper: impl Fn(&mut Remains)) -> Vec<&'static str> {
    let mut remains = remains();
    tamper(&mut remains);
    let violations = retired::judge_drained(&sound(), &remains, &past());
    violations.iter().map(|violation| violation.invariant).collect()
}

#[test]
fn what_is_over_and_gone_as_a_whole_passes() {
    assert_eq!(judged(|_| ()), [] as [&str; 0]);
    assert_eq!(judged(|remains| remains.unplaced = 1), [] as [&str; 0], "it has just happened");
}

#[test]
fn a_part_that_is_left_alone_is_seen() {
    assert_eq!(judged(|remains| remains.alone = vec![("attempt", 1)]), ["I20"]);
}

#[test]
fn an_event_that_is_gone_without_the_horizon_or_behind_another_is_seen() {
    assert_eq!(judged(|remains| remains.places = vec![4]), ["I17"], "its horizon stays");
    assert_eq!(judged(|remains| remains.places = vec![2, 3, 4]), ["I17"], "hidden by it");
    assert_eq!(judged(|remains| remains.places = vec![3, 5]), ["I17"], "out of the middle");
}

#[test]
fn an_event_that_is_gone_and_was_not_over_is_seen() {
    let taken = |remains: &mut Remains| {
        (remains.horizon, remains.places) = (3, vec![4]);
    };
    assert_eq!(judged(taken), ["I20", "I8"]);
    let mut remains = remains();
    taken(&mut remains);
    let while_it_drains = retired::judge(&remains, &past());
    assert_eq!(while_it_drains.len(), 1, "{while_it_drains:?}");
}

#[test]
fn what_was_over_and_is_left_is_seen_once_it_must_be_gone() {
    let left = |remains: &mut Remains| {
        (remains.horizon, remains.places) = (1, vec![2, 3, 4]);
    };
    assert_eq!(judged(left), ["I8"]);
    let mut before = remains();
    left(&mut before);
    assert_eq!(retired::judge(&before, &past()), [], "it may yet go");
    let flows = [key().id].into();
    let violations = retired::judge_drained(&sound(), &remains(), &Past { flows, ..past() });
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].finding.flow, Some(key().id));
}

#[test]
fn everything_that_there_is_may_go_and_what_went_before_stays_gone() {
    let both = past().and(&sound(), &remains());
    assert_eq!((both.by, both.due, both.horizon), (NOW, 1, 4));
    assert_eq!(both.from, Timestamp(20));
    assert_eq!(both.flows, [key().id, FlowId::from_parts(2, [8; 10])].into());
    assert_eq!(both.executions, [id("a"), id("b")].into());
    let later = both.clone().and(&Rows::default(), &Remains { horizon: 9, ..Remains::default() });
    assert_eq!((later.due, later.horizon, later.flows), (0, 9, both.flows));
}

#[test]
fn what_goes_part_by_part_goes_from_the_oldest_on_and_no_further_than_all() {
    let past = Past { from: Timestamp(100), by: Timestamp(400), ..Past::default() };
    let parts: Vec<i64> = (0..=3).map(|part| past.until(part, 3).0).collect();
    assert_eq!(parts, [100, 200, 300, 400]);
    assert_eq!((past.until(7, 3), past.until(0, 0)), (past.by, past.by));
}

#[test]
fn a_book_is_believed_about_flows_that_went_and_about_no_others() {
    let gone = Past::default().and(&sound(), &remains());
    let erred = Entry::Erred {
        flow: Some(key().id),
        call: "extend".to_owned(),
        error: "not found".to_owned(),
        unreadable: None,
    };
    let flow = FlowId::from_parts(2, [8; 10]);
    let other = Entry::Submitted { flow, executions: 2, edges: 1 };
    let entries = [told(), vec![erred.clone(), other.clone()], handed(&sound())].concat();
    let book = |entries| vec![Book { name: "one".to_owned(), entries }];
    let kept = gone.leave_out(book(entries));
    assert_eq!(kept, book([vec![erred, other], handed(&sound())].concat()));
    let nothing = Rows { now: NOW, ..Rows::default() };
    let violations = Evidence::new(&nothing, &kept, seed(), None).judge(When::Always);
    let seen: Vec<&str> = violations.iter().map(|violation| violation.invariant).collect();
    assert_eq!(seen, ["I19", "I16"], "{violations:?}");
}

#[test]
fn a_consumer_that_is_led_over_a_gap_unawares_is_seen() {
    let led = |stored, expired, next| {
        retired::judge_lagged(Lagged { stored, expired, next }, &remains()).is_some()
    };
    assert!(!led(0, Some(2), Some(3)), "it was told, and goes on behind the gap");
    assert!(!led(2, None, Some(3)), "it had seen all of it");
    assert!(!led(4, None, None), "there is nothing more");
    assert!(led(0, None, Some(3)), "it was not told");
    assert!(led(1, None, None), "it was told of nothing");
    assert!(led(0, Some(1), Some(3)), "it was told to go on in front of the gap");
    assert!(led(0, Some(3), Some(4)), "it was told to pass over what is there");
    assert!(led(0, Some(2), Some(4)), "it was handed another one");
    assert!(led(2, Some(2), Some(3)), "it had seen all of it, and was told otherwise");
    assert!(led(3, None, None), "one that is there was kept from it");
}
