//! Calls of a client whose effects are not there, or whose failures left some.

use super::*;

/// `grown1of2` and `grown2of2` below `a`, with nothing else about them.
fn grown(rows: &mut Rows) {
    for (name, upstream) in [("grown1of2", "a"), ("grown2of2", "grown1of2")] {
        rows.executions.push(Execution { has_in: true, ..ended("a") });
        rows.executions.last_mut().unwrap().id = id(name);
        rows.names.insert(id(name), name.to_owned());
        let key = EdgeKey { downstream: id(name), upstream: id(upstream) };
        rows.edges.push(Edge { key, ..rows.edges[0].clone() });
    }
    rows.flows[0].revision = 1;
}

/// What the judge says of a call, and of the shape of extensions, about such rows.
fn judged(tamper: impl Fn(&mut Rows), entry: Option<Entry>) -> Vec<&'static str> {
    let mut rows = sound();
    tamper(&mut rows);
    let books = [Book { name: "client".to_owned(), entries: entry.into_iter().collect() }];
    let violations = Evidence::new(&rows, &books, seed(), None).judge(When::Always);
    let ours = violations.iter().map(|violation| violation.invariant);
    ours.filter(|id| ["I16", "I19"].contains(id)).collect()
}

fn extended() -> Entry {
    Entry::Extended {
        flow: key().id,
        revision: 1,
        executions: vec![id("grown1of2"), id("grown2of2")],
        edges: vec![(id("a"), id("grown1of2")), (id("grown1of2"), id("grown2of2"))],
    }
}

#[test]
fn an_extension_that_is_lost_is_seen() {
    assert_eq!(judged(grown, Some(extended())), [] as [&str; 0]);
    check_told("I19", extended());
    let without_edge = |rows: &mut Rows| {
        grown(rows);
        rows.edges.pop();
    };
    assert_eq!(judged(without_edge, Some(extended())), ["I19"]);
    let submitted = Entry::Submitted { flow: key().id, executions: 2, edges: 1 };
    assert_eq!(judged(grown, Some(submitted)), [] as [&str; 0], "it counts for itself");
}

#[test]
fn an_extension_that_is_there_in_part_is_seen() {
    let in_part = |rows: &mut Rows| {
        grown(rows);
        rows.executions.pop();
    };
    assert_eq!(judged(in_part, None), ["I19"]);
    let unmarked = |rows: &mut Rows| {
        grown(rows);
        rows.flows[0].revision = 0;
    };
    assert_eq!(judged(unmarked, None), ["I19"]);
    assert_eq!(judged(|rows| rows.flows[0].revision = 1, None), ["I19"]);
}

#[test]
fn an_extension_that_was_refused_and_is_there_is_seen() {
    let refused = |name| Entry::NotExtended { flow: key().id, executions: vec![id(name)] };
    assert_eq!(judged(|_| (), Some(refused("grown1of2"))), [] as [&str; 0]);
    assert_eq!(judged(grown, Some(refused("grown2of2"))), ["I19"]);
}

#[test]
fn a_policy_that_is_not_the_one_that_was_acknowledged_is_seen() {
    let (flow, join, policy) = (key().id, id("b"), JoinPolicy::AllOf);
    let other = JoinPolicy::Quorum { k: 1, on_satisfied: sluicegate::policy::OnSatisfied::LetRun };
    check_told("I19", Entry::PolicySet { flow, join, policy: other });
    check_told("I19", Entry::PolicyKept { flow, join, policy });
    assert_eq!(judged(|_| (), Some(Entry::PolicySet { flow, join, policy })), [] as [&str; 0]);
    let kept = Entry::PolicyKept { flow, join, policy: other };
    assert_eq!(judged(|_| (), Some(kept)), [] as [&str; 0]);
}

#[test]
fn a_cancel_of_an_execution_that_is_lost_is_seen() {
    let told =
        |had_ended| Entry::ExecutionCancelled { flow: key().id, execution: id("a"), had_ended };
    let code = |outcome| Some(codes::outcome(outcome));
    check_told("I19", told(None));
    check_told("I19", told(code(Outcome::Failed)));
    assert_eq!(judged(|_| (), Some(told(code(Outcome::Succeeded)))), [] as [&str; 0]);
    let cancelled_by = |cause| {
        move |rows: &mut Rows| {
            let row = of(rows, "a");
            (row.state, row.cause) = (State::Terminal(Outcome::Cancelled), Some(cause));
            rows.events[0].1.kind = EventKind::Completed { outcome: Outcome::Cancelled };
        }
    };
    assert_eq!(judged(cancelled_by(Cause::Operator), Some(told(None))), [] as [&str; 0]);
    assert_eq!(judged(cancelled_by(Cause::Sibling), Some(told(None))), ["I19"]);
}

#[test]
fn a_tag_that_is_lost_or_taken_back_is_seen() {
    let told = |value| Entry::Tagged { flow: key().id, tag: "a.b".to_owned(), value };
    let tagged = |value: &'static str| {
        move |rows: &mut Rows| {
            rows.flows[0].tags.insert("a.b".to_owned(), value.to_owned());
        }
    };
    check_told("I19", told(1));
    assert_eq!(judged(tagged("1"), Some(told(2))), ["I19"]);
    assert_eq!(judged(tagged("2"), Some(told(1))), [] as [&str; 0]);
}

#[test]
fn an_answer_that_no_plan_allows_is_seen() {
    let (call, error) = ("extend".to_owned(), "a conflict".to_owned());
    let erred = |unreadable| Entry::Erred {
        flow: Some(key().id),
        call: call.clone(),
        error: error.clone(),
        unreadable,
    };
    check_told("I16", erred(None));
    check_told("I16", erred(Some(id("a"))));
    let spoilt = Entry::Spoilt { execution: id("a") };
    assert_eq!(judge(&sound(), vec![spoilt, erred(Some(id("a")))]), [], "it was spoilt");
}

/// `a` failed because it could not be read.
fn given_up(rows: &mut Rows) {
    let row = of(rows, "a");
    (row.state, row.cause) = (State::Terminal(Outcome::Failed), Some(Cause::Unreadable));
    let event = rows.events.iter_mut().find(|(_, event)| event.execution == id("a")).unwrap();
    event.1.kind = EventKind::Completed { outcome: Outcome::Failed };
}

#[test]
fn an_execution_that_was_given_up_and_has_not_failed_is_seen() {
    let told = |had_ended| Entry::GivenUp { flow: key().id, execution: id("a"), had_ended };
    check_told("I19", told(None));
    check_told("I19", told(Some(codes::outcome(Outcome::Cancelled))));
    let ended = told(Some(codes::outcome(Outcome::Succeeded)));
    assert_eq!(judged(|_| (), Some(ended)), [] as [&str; 0]);
    assert_eq!(judged(given_up, Some(told(None))), [] as [&str; 0]);
    let otherwise = |rows: &mut Rows| {
        given_up(rows);
        of(rows, "a").cause = Some(Cause::Handler);
    };
    assert_eq!(judged(otherwise, Some(told(None))), ["I19"]);
}
