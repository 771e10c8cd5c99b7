//! The reset set, by cases and against the rules read off every small graph.

use super::*;
use crate::identity::{FlowId, FlowKey, PartitionCount};

fn flow() -> FlowKey {
    PartitionCount::default().key(FlowId::from_parts(1, [1; 10]))
}

fn id(name: &str) -> ExecutionId {
    flow().execution(name)
}

const SUCCEEDED: State = State::Terminal(Outcome::Succeeded);
const FAILED: State = State::Terminal(Outcome::Failed);
const CANCELLED: State = State::Terminal(Outcome::Cancelled);
const EXPIRED: State = State::Terminal(Outcome::Expired);
const SKIPPED: State = State::Terminal(Outcome::Skipped);

type Member<'a> = (&'a str, State, Option<Cause>);

fn standings(members: &[Member<'_>]) -> Vec<Standing> {
    let standing = |(name, state, cause): &Member<'_>| Standing {
        id: id(name),
        state: *state,
        cause: *cause,
        incarnation: 0,
    };
    members.iter().map(standing).collect()
}

fn check(scope: ReplayScope, members: &[Member<'_>], edges: &[(&str, &str)], expected: &[&str]) {
    let edges = edges.iter().map(|(from, to)| (id(from), id(to)));
    let chosen = reset_set(scope, &standings(members), edges).expect("the first is a member");
    let expected: BTreeSet<ExecutionId> = expected.iter().map(|name| id(name)).collect();
    assert_eq!(chosen, expected, "{scope:?} of {members:?}");
}

const HANDLER: Option<Cause> = Some(Cause::Handler);
const UNSATISFIABLE: Option<Cause> = Some(Cause::Unsatisfiable);
const SIBLING: Option<Cause> = Some(Cause::Sibling);

#[test]
fn from_takes_the_execution_and_whatever_lies_below_it() {
    let members = ["a", "b", "c", "d"].map(|name| (name, SUCCEEDED, HANDLER));
    let edges = [("a", "b"), ("b", "c"), ("d", "c")];
    check(ReplayScope::From(id("b")), &members, &edges, &["b", "c"]);
    check(ReplayScope::From(id("a")), &members, &edges, &["a", "b", "c"]);
    check(ReplayScope::From(id("c")), &members, &edges, &["c"]);
}

#[test]
fn from_what_is_no_member_is_nothing() {
    let members = standings(&[("a", SUCCEEDED, HANDLER)]);
    assert_eq!(reset_set(ReplayScope::From(id("x")), &members, []), None);
}

#[test]
fn all_takes_every_member_however_it_stands() {
    let members = [
        ("a", SUCCEEDED, HANDLER),
        ("b", State::Active, None),
        ("c", State::Blocked, None),
        ("d", State::Ready, None),
    ];
    check(ReplayScope::All, &members, &[("a", "b")], &["a", "b", "c", "d"]);
}

#[test]
fn failed_starts_from_ends_that_no_other_end_explains() {
    let members = [
        ("a", FAILED, HANDLER),
        ("b", EXPIRED, Some(Cause::Deadline)),
        ("c", CANCELLED, Some(Cause::Operator)),
        ("d", CANCELLED, Some(Cause::Flow)),
        ("e", CANCELLED, SIBLING),
        ("f", SKIPPED, HANDLER),
        ("g", SUCCEEDED, HANDLER),
        ("h", State::Active, None),
    ];
    check(ReplayScope::Failed, &members, &[], &["a", "b", "c", "d"]);
}

#[test]
fn failed_goes_on_through_what_was_skipped_or_waits() {
    let members = [
        ("a", FAILED, HANDLER),
        ("b", SKIPPED, UNSATISFIABLE),
        ("c", State::Blocked, None),
        ("d", SKIPPED, UNSATISFIABLE),
    ];
    let edges = [("a", "b"), ("b", "c"), ("c", "d")];
    check(ReplayScope::Failed, &members, &edges, &["a", "b", "c", "d"]);
}

#[test]
fn what_succeeded_is_left_and_passes_nothing_on() {
    let members = [
        ("a", FAILED, HANDLER),
        ("b", SUCCEEDED, HANDLER),
        ("c", SKIPPED, UNSATISFIABLE),
        ("d", State::Ready, None),
        ("e", SKIPPED, UNSATISFIABLE),
    ];
    let edges = [("a", "b"), ("b", "c"), ("a", "d"), ("d", "e")];
    check(ReplayScope::Failed, &members, &edges, &["a"]);
}

#[test]
fn the_losers_of_a_race_run_again_with_it() {
    let members = [
        ("winner", SUCCEEDED, HANDLER),
        ("loser", CANCELLED, SIBLING),
        ("join", FAILED, HANDLER),
        ("elsewhere", CANCELLED, SIBLING),
        ("behind", SKIPPED, UNSATISFIABLE),
    ];
    let edges = [("winner", "join"), ("loser", "join"), ("loser", "behind")];
    check(ReplayScope::Failed, &members, &edges, &["behind", "join", "loser"]);
}

#[test]
fn a_damaged_edge_leads_nowhere() {
    let members = [("a", FAILED, HANDLER), ("b", SKIPPED, UNSATISFIABLE)];
    check(ReplayScope::Failed, &members, &[("a", "x"), ("x", "b")], &["a"]);
}

/// The rules as the specification words them, applied until nothing changes.
fn by_the_words(standings: &[Standing], edges: &[(usize, usize)]) -> BTreeSet<ExecutionId> {
    let mut inside = vec![false; standings.len()];
    loop {
        let before = inside.clone();
        for (place, one) in standings.iter().enumerate() {
            let above = edges.iter().any(|edge| edge.1 == place && inside[edge.0]);
            let below = edges.iter().any(|edge| edge.0 == place && inside[edge.1]);
            let from_outside = matches!(one.cause, Some(Cause::Operator | Cause::Flow));
            let sibling = one.cause == SIBLING;
            inside[place] |= match one.state {
                State::Terminal(Outcome::Failed | Outcome::Expired) => true,
                State::Terminal(Outcome::Cancelled) => from_outside || (sibling && below),
                State::Terminal(Outcome::Skipped) | State::Blocked => above,
                _ => false,
            };
        }
        if inside == before {
            let chosen = standings.iter().zip(inside).filter(|(_, inside)| *inside);
            return chosen.map(|(one, _)| one.id).collect();
        }
    }
}

#[test]
fn failed_is_what_the_rules_say_of_every_small_graph() {
    let ends: [(State, Option<Cause>); 7] = [
        (SUCCEEDED, HANDLER),
        (FAILED, HANDLER),
        (CANCELLED, SIBLING),
        (CANCELLED, Some(Cause::Flow)),
        (SKIPPED, UNSATISFIABLE),
        (State::Blocked, None),
        (State::Ready, None),
    ];
    let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    for number in 0..7usize.pow(4) {
        let ends = [0, 1, 2, 3].map(|place| ends[number / 7usize.pow(place) % 7]);
        let members = ["a", "b", "c", "d"].iter().zip(ends);
        let members: Vec<Member<'_>> =
            members.map(|(name, (state, cause))| (*name, state, cause)).collect();
        let members = standings(&members);
        for bits in 0..1u32 << pairs.len() {
            let edges = (0..pairs.len()).filter(|bit| bits & 1 << bit != 0).map(|bit| pairs[bit]);
            let edges: Vec<(usize, usize)> = edges.collect();
            let named = edges.iter().map(|(from, to)| (members[*from].id, members[*to].id));
            let chosen = reset_set(ReplayScope::Failed, &members, named);
            let expected = by_the_words(&members, &edges);
            assert_eq!(chosen, Some(expected), "{members:?} {edges:?}");
        }
    }
}
