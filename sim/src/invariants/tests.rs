//! The table as a whole: every invariant rejects its histories, and none rejects a lawful one.

use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
use sluicegate::state::Outcome;
use sluicegate::storage::{AttemptEnd, Reported};

use super::testing::{History, LEASE, RETRY_DELAY, Story, after};
use super::{Judge, TABLE};
use crate::history::{Holder, Observation};

const ANY: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };

#[test]
fn every_invariant_rejects_its_histories_at_their_last_step() {
    for invariant in TABLE {
        let histories = (invariant.rejects)();
        assert!(!histories.is_empty(), "{} rejects nothing", invariant.id);
        for history in histories {
            let (id, name) = (invariant.id, history.name);
            let verdict = history.judge(Judge::new().only(id));
            let (at, violation) = verdict.expect_err(&format!("{id} accepts `{name}`"));
            assert_eq!(violation.invariant, id);
            assert_eq!(at + 1, history.steps.len(), "{id}, `{name}`: {violation}");
        }
    }
}

#[test]
fn every_invariant_has_a_check_and_an_id_of_its_own() {
    for (at, invariant) in TABLE.iter().enumerate() {
        let asked = [
            invariant.commit.is_some(),
            invariant.observe.is_some(),
            invariant.quiescent.is_some(),
        ];
        assert!(asked.contains(&true), "{} checks nothing", invariant.id);
        assert!(!invariant.title.is_empty());
        assert!(TABLE[..at].iter().all(|other| other.id != invariant.id), "{}", invariant.id);
    }
}

fn check_accepts(history: &History) {
    if let Err((at, violation)) = history.judge(Judge::new()) {
        panic!("`{}` at step {at}, {:?}: {violation}", history.name, history.steps[at]);
    }
}

/// a and b end so and c follows; `c_runs` says whether c is granted.
fn joined(policy: JoinPolicy, outcomes: [Outcome; 2], c_runs: bool) -> Story {
    let mut story = Story::join(policy);
    for (name, outcome) in ["a", "b"].into_iter().zip(outcomes) {
        story = story.grant(name).complete(name, outcome).hop(&[name]);
    }
    if c_runs {
        story = story.grant("c").complete("c", Outcome::Succeeded);
    }
    story.quiescent()
}

fn lawful() -> Vec<History> {
    use Outcome::{Failed, Skipped, Succeeded};
    let two = JoinPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::CancelRemaining };
    let ended = |outcome| Story::chain().grant("a").complete("a", outcome).hop(&["a"]);
    let down = |story: Story| story.grant("b").complete("b", Succeeded).quiescent();
    vec![
        down(ended(Succeeded)).ends("chain succeeds"),
        ended(Failed).quiescent().ends("failure skips its downstream"),
        ended(Skipped).quiescent().ends("the handler skips"),
        joined(JoinPolicy::AllOf, [Succeeded, Succeeded], true).ends("all of two"),
        joined(JoinPolicy::AllOf, [Failed, Succeeded], false).ends("not all of two"),
        joined(ANY, [Failed, Succeeded], true).ends("any of two, the second"),
        joined(ANY, [Succeeded, Failed], true).ends("any of two, the first"),
        joined(ANY, [Failed, Failed], false).ends("none of two"),
        joined(two, [Succeeded, Succeeded], true).ends("quorum of two"),
        joined(two, [Failed, Succeeded], false).ends("quorum lost"),
        Story::join(JoinPolicy::AllOf)
            .grant("a")
            .grant("b")
            .complete("a", Succeeded)
            .complete("b", Succeeded)
            .hop(&["a", "b"])
            .grant("c")
            .complete("c", Failed)
            .quiescent()
            .ends("one hop for two arrivals"),
        Story::flow(
            &[("a", "b", AcceptSet::ON_FAILURE), ("b", "c", AcceptSet::ON_SKIP)],
            JoinPolicy::AllOf,
        )
        .grant("a")
        .complete("a", Succeeded)
        .hop(&["a"])
        .hop(&["b"])
        .grant("c")
        .complete("c", Succeeded)
        .quiescent()
        .ends("a skip is what c waits for"),
        down(
            Story::chain()
                .grant("a")
                .end("a", AttemptEnd::FailedRetryable)
                .wait(RETRY_DELAY)
                .grant("a")
                .end("a", AttemptEnd::Released)
                .grant("a")
                .wait(LEASE / 2)
                .renew("a")
                .wait(LEASE)
                .end("a", AttemptEnd::Expired)
                .wait(RETRY_DELAY)
                .grant("a")
                .complete("a", Succeeded)
                .hop(&["a"]),
        )
        .ends("failure, release and expiry before success"),
        Story::chain()
            .tamper(|commit| {
                let rows = commit.executions.iter_mut().map(after);
                rows.for_each(|row| row.retry.max_attempts = 1);
            })
            .grant("a")
            .wait(LEASE)
            .complete("a", Outcome::Expired)
            .hop(&["a"])
            .quiescent()
            .ends("the last lease expires"),
        replies(),
    ]
}

fn replies() -> History {
    let story = Story::chain().told(Story::submitted(1, true)).told(Story::submitted(2, false));
    let story = story.grant("a");
    let holder = story.holder("a");
    let reported = Reported::Finished(Outcome::Failed);
    let acknowledged = Observation::Reported { holder, end: AttemptEnd::FailedFatal, reported };
    let zombie = Holder { attempt: 0, epoch: 0, ..holder };
    story
        .told(Observation::Granted { holder })
        .told(Observation::LeaseLost { holder: zombie, end: Some(AttemptEnd::Completed) })
        .told(Observation::LeaseLost { holder, end: None })
        .complete("a", Outcome::Failed)
        .told(acknowledged.clone())
        .told(acknowledged)
        .told(Observation::LeaseLost { holder, end: Some(AttemptEnd::Completed) })
        .told(Observation::LeaseLost { holder, end: None })
        .hop(&["a"])
        .quiescent()
        .ends("replies, repeated and refused")
}

#[test]
fn lawful_histories_are_accepted_by_every_invariant() {
    lawful().iter().for_each(check_accepts);
}

#[test]
fn reset_judge_forgets_the_universe_before() {
    let mut judge = Judge::new();
    for history in lawful() {
        judge.reset();
        assert_eq!(history.judge(judge.clone()).err(), None, "{}", history.name);
        for step in &history.steps {
            if let super::testing::Step::Commit(commit, _) = step {
                assert_eq!(judge.commit(commit, None), Ok(()), "{}", history.name);
            }
        }
    }
}

#[test]
fn published_design_is_judged_without_the_propagated_flag() {
    let unpropagated = Story::chain()
        .grant("a")
        .complete("a", Outcome::Failed)
        .hop(&["a"])
        .tamper(|commit| {
            commit.executions.iter_mut().for_each(|change| after(change).propagated = false);
        })
        .quiescent()
        .ends("nothing is ever propagated");
    assert_eq!(unpropagated.judge(Judge::new().without("I21")).err(), None);
    let (_, violation) = unpropagated.judge(Judge::new()).unwrap_err();
    assert_eq!(violation.invariant, "I8");
}

#[test]
#[should_panic(expected = "no invariant `I99`")]
fn unknown_ids_are_refused() {
    let _ = Judge::new().without("I99");
}
