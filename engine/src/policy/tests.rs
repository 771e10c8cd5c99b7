use super::*;
use serde_json::{from_value, json, to_value};

const EDGES_MAX: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    Pending,
    Satisfied,
    Unsatisfied,
}

/// Every policy that a group of so many edges may have.
fn policies(edges: u32) -> Vec<JoinPolicy> {
    let on_satisfied = OnSatisfied::LetRun;
    let quorums = (1..=edges).map(|k| JoinPolicy::Quorum { k, on_satisfied });
    [JoinPolicy::AllOf, JoinPolicy::AnyOf { on_satisfied }].into_iter().chain(quorums).collect()
}

/// Every list of so many letters.
fn words<T: Copy>(letters: &[T], length: u32) -> Vec<Vec<T>> {
    (0..length).fold(vec![Vec::new()], |words, _| {
        let longer =
            |word: Vec<T>| letters.iter().map(move |letter| [word.as_slice(), &[*letter]].concat());
        words.into_iter().flat_map(longer).collect()
    })
}

/// Whether a fully resolved group releases its downstream, read off the words of the policy.
fn releases(policy: JoinPolicy, satisfied: &[bool]) -> bool {
    match policy {
        JoinPolicy::AllOf => satisfied.iter().all(|edge| *edge),
        JoinPolicy::AnyOf { .. } => satisfied.contains(&true),
        JoinPolicy::Quorum { k, .. } => {
            satisfied.iter().filter(|edge| **edge).count() >= usize::try_from(k).unwrap()
        }
    }
}

/// Decides by trying every way in which the pending edges may still be resolved.
fn oracle(policy: JoinPolicy, group: &[Edge]) -> Decision {
    let mut endings = vec![Vec::new()];
    for edge in group {
        let resolutions: &[bool] = match edge {
            Edge::Pending => &[true, false],
            Edge::Satisfied => &[true],
            Edge::Unsatisfied => &[false],
        };
        let longer = |ending: Vec<bool>| {
            resolutions.iter().map(move |edge| [ending.as_slice(), &[*edge]].concat())
        };
        endings = endings.into_iter().flat_map(longer).collect();
    }
    let released = endings.iter().filter(|ending| releases(policy, ending)).count();
    match released {
        0 => Decision::Impossible,
        all if all == endings.len() => Decision::Satisfied,
        _ => Decision::Undecided,
    }
}

fn decide(policy: JoinPolicy, group: &[Edge]) -> Decision {
    let count = |kind| u32::try_from(group.iter().filter(|edge| **edge == kind).count()).unwrap();
    let edges = u32::try_from(group.len()).unwrap();
    policy.decide(edges, count(Edge::Satisfied), count(Edge::Unsatisfied))
}

#[test]
fn every_decision_up_to_six_edges_is_the_one_that_no_completion_can_change() {
    let mut checked = 0;
    for edges in 1..=EDGES_MAX {
        let groups = words(&[Edge::Pending, Edge::Satisfied, Edge::Unsatisfied], edges);
        for policy in policies(edges) {
            for group in &groups {
                assert_eq!(decide(policy, group), oracle(policy, group), "{policy:?} {group:?}");
                checked += 1;
            }
        }
    }
    let expected: u32 = (1..=EDGES_MAX).map(|edges| 3u32.pow(edges) * (edges + 2)).sum();
    assert_eq!(checked, expected);
}

#[test]
fn a_decision_never_changes_whatever_the_order_of_later_resolutions() {
    for edges in 1..=EDGES_MAX {
        for policy in policies(edges) {
            for order in words(&[Edge::Satisfied, Edge::Unsatisfied], edges) {
                let mut decided = Decision::Undecided;
                for resolved in 0..=order.len() {
                    let pending = vec![Edge::Pending; order.len() - resolved];
                    let now = decide(policy, &[&order[..resolved], &pending].concat());
                    let kept = decided == Decision::Undecided || now == decided;
                    assert!(kept, "{policy:?} {order:?}: {decided:?} became {now:?}");
                    decided = now;
                }
                assert_ne!(decided, Decision::Undecided, "{policy:?} {order:?}");
            }
        }
    }
}

#[test]
fn what_happens_to_losers_does_not_change_a_decision() {
    let [cancel, run] = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun];
    for (satisfied, unsatisfied) in [(0, 0), (1, 0), (0, 1), (2, 1), (0, 3), (1, 2), (3, 0)] {
        let decide = |policy: JoinPolicy| policy.decide(3, satisfied, unsatisfied);
        assert_eq!(
            decide(JoinPolicy::AnyOf { on_satisfied: cancel }),
            decide(JoinPolicy::AnyOf { on_satisfied: run })
        );
        assert_eq!(
            decide(JoinPolicy::Quorum { k: 2, on_satisfied: cancel }),
            decide(JoinPolicy::Quorum { k: 2, on_satisfied: run })
        );
    }
}

#[test]
#[should_panic(expected = "more edges are resolved than the group has: 2 + 1 of 2")]
fn more_resolutions_than_edges_are_our_own_mistake() {
    JoinPolicy::AllOf.decide(2, 2, 1);
}

#[test]
fn presets_accept_the_outcomes_of_the_specification() {
    let (yes, no) = (true, false);
    let table = [
        ("on_success", [yes, no, no, no, no]),
        ("on_failure", [no, yes, no, yes, no]),
        ("on_skip", [no, no, no, no, yes]),
        ("on_done", [yes, yes, yes, yes, yes]),
        ("none_failed", [yes, no, no, no, yes]),
    ];
    let outcomes = [
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Expired,
        Outcome::Skipped,
    ];
    for ((name, accepted), (preset, set)) in table.into_iter().zip(AcceptSet::PRESETS) {
        assert_eq!(name, preset);
        assert_eq!(outcomes.map(|outcome| set.contains(outcome)), accepted, "{name}");
    }
}

#[test]
fn accept_sets_round_trip_through_bits_and_json() {
    for bits in 0..32 {
        let set = AcceptSet::from_bits(bits).unwrap();
        assert_eq!(set.bits(), bits);
        assert_eq!(AcceptSet::of(&set.outcomes().collect::<Vec<_>>()), set);
        assert_eq!(from_value::<AcceptSet>(to_value(set).unwrap()).unwrap(), set);
    }
    assert_eq!(AcceptSet::from_bits(32), None);
    assert_eq!(to_value(AcceptSet::NONE_FAILED).unwrap(), json!("none_failed"));
    let unnamed = AcceptSet::of(&[Outcome::Cancelled, Outcome::Failed]);
    assert_eq!(to_value(unnamed).unwrap(), json!(["failed", "cancelled"]));
    let error = from_value::<AcceptSet>(json!("on_sucess")).unwrap_err().to_string();
    assert!(error.starts_with("unknown accept set `on_sucess`: use one of on_success"), "{error}");
}

#[test]
fn join_policies_round_trip_through_json() {
    let run = OnSatisfied::LetRun;
    let cancel = OnSatisfied::CancelRemaining;
    let table = [
        (JoinPolicy::AllOf, json!({"join": "all_of"})),
        (
            JoinPolicy::AnyOf { on_satisfied: run },
            json!({"join": "any_of", "on_satisfied": "let_run"}),
        ),
        (
            JoinPolicy::Quorum { k: 2, on_satisfied: cancel },
            json!({"join": "quorum", "k": 2, "on_satisfied": "cancel_remaining"}),
        ),
    ];
    for (policy, text) in table {
        assert_eq!(to_value(policy).unwrap(), text);
        assert_eq!(from_value::<JoinPolicy>(text).unwrap(), policy);
    }
    let short = from_value::<JoinPolicy>(json!({"join": "quorum", "k": 2})).unwrap();
    assert_eq!(short, JoinPolicy::Quorum { k: 2, on_satisfied: cancel });
}

#[test]
fn unknown_policies_and_fields_are_refused() {
    let texts = [
        json!({"join": "most_of"}),
        json!({"join": "quorum"}),
        json!({"join": "quorum", "k": -1}),
        json!({"join": "quorum", "k": 4_294_967_296_u64}),
        json!({"join": "any_of", "k": 2}),
        json!({"join": "all_of", "k": 2}),
    ];
    for text in texts {
        assert!(from_value::<JoinPolicy>(text.clone()).is_err(), "{text}");
    }
}
