//! The table as a whole: every invariant rejects its histories, and none rejects a lawful one.

use sluicegate::mutants::Mutant;
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy, OnSatisfied};
use sluicegate::state::{ClosePolicy, Outcome, State};
use sluicegate::storage::{AttemptEnd, Execution, Reported};

use super::testing::{History, LEASE, RETRY_DELAY, Story, after};
use super::{Judge, TABLE};
use crate::history::{Commit, Holder, Observation};
use crate::mirror::Damaged;

const ANY: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };

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
    story = story.serve_what_is_left("c");
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
        Story::join(RACE)
            .grant("b")
            .grant("a")
            .complete("a", Succeeded)
            .hop(&["a"])
            .cancel_sibling("b")
            .serve("c")
            .hop(&["b"])
            .grant("c")
            .complete("c", Succeeded)
            .quiescent()
            .ends("a race cancels its loser"),
        Story::chain()
            .close(ClosePolicy::CancelPending, &["a", "b"], 0)
            .told(Story::flow_cancelled(ClosePolicy::CancelPending, &["a", "b"], true))
            .hop(&["a"])
            .quiescent()
            .ends("a flow is cancelled"),
        Story::chain()
            .grant("a")
            .extend("x", &["a", "b"], JoinPolicy::AllOf)
            .told(Story::extended(6, 1))
            .told(Story::extended(6, 1))
            .complete("a", Succeeded)
            .hop(&["a"])
            .grant("b")
            .complete("b", Failed)
            .hop(&["b"])
            .quiescent()
            .ends("a flow grows while it runs"),
        down(
            ended(Succeeded)
                .extend("x", &["a"], JoinPolicy::AllOf)
                .grant("x")
                .complete("x", Failed),
        )
        .ends("what is added behind an end is ready at once"),
        ended(Failed)
            .extend("x", &["a"], JoinPolicy::AllOf)
            .quiescent()
            .ends("what is added behind a failure is skipped at once"),
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
        timed_out().hop(&["a"]).quiescent().ends("the last lease expires"),
        replies(),
        damaged(),
    ]
}

/// The group of b cannot be read.
fn damaged() -> History {
    let story = Story::chain().grant("a").complete("a", Outcome::Succeeded);
    let story = story.damaged("b", Damaged::GroupUnreadable).quiescent();
    story.ends("what cannot be read waits, and what depends on it")
}

/// The only attempt of a ran out of time.
fn timed_out() -> Story {
    let story = Story::chain().tamper(|commit| {
        let rows = commit.executions.iter_mut().map(after);
        rows.for_each(|row| row.retry.max_attempts = 1);
    });
    story.grant("a").wait(LEASE).complete("a", Outcome::Expired)
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
        .told(Observation::LeaseLost { holder: zombie, end: None })
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
        judge.reset(false);
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

/// What a planted bug of the cascade would leave behind, up to the commit that shows it.
fn planted_in_cascades() -> Vec<(Mutant, History)> {
    use Outcome::{Failed, Skipped, Succeeded};
    let ended = |outcome| Story::chain().grant("a").complete("a", outcome);
    let joined = |outcome| Story::join(ANY).grant("a").grant("b").complete("a", outcome);
    let second_hop = |story: Story| story.complete("b", Succeeded).hop(&["b"]);
    let started = || joined(Succeeded).hop(&["a"]).grant("c");
    let decided =
        |decision| move |commit: &mut Commit| after(&mut commit.groups[0]).decision = decision;
    let fires_again = |row: &mut Execution| (row.state, row.lease) = (State::Ready, None);
    vec![
        (Mutant::P01, ended(Succeeded).alter("a", |row| row.propagated = true).ends("marked")),
        (Mutant::P05, joined(Failed).hop(&["a"]).alter_edge("a", "c", |_| {}).ends("twice")),
        (
            Mutant::P06,
            joined(Failed).hop(&["a"]).alter_group("c", |row| row.unsatisfied = 2).ends("counted"),
        ),
        (Mutant::P08, second_hop(started()).besides("c", fires_again).ends("fires again")),
        (
            Mutant::P09,
            second_hop(started().end("c", AttemptEnd::FailedRetryable))
                .besides("c", |row| row.not_before = row.not_before - RETRY_DELAY)
                .ends("fires again"),
        ),
        (
            Mutant::P15,
            ended(Failed).hop(&["a"]).tamper(decided(Decision::Undecided)).ends("ignored"),
        ),
        (Mutant::P16, ended(Skipped).hop_as(&[("a", Succeeded)]).ends("skip as success")),
        (Mutant::P17, timed_out().hop_as(&[("a", Succeeded)]).ends("expiry as success")),
        (
            Mutant::P18,
            joined(Failed).hop(&["a"]).tamper(decided(Decision::Impossible)).ends("at once"),
        ),
        (
            Mutant::P19,
            ended(Failed).hop(&["a"]).tamper(|commit| commit.events.clear()).ends("no event"),
        ),
        (Mutant::P54, ended(Failed).project().hop(&["a"]).rests().ends("counted before")),
        (Mutant::P57, Story::chain().out_of_order("groups b, a").ends("locks out of order")),
    ]
}

/// What a planted bug of an attempt would leave behind, up to the commit or reply that shows it.
fn planted_in_attempts() -> Vec<(Mutant, History)> {
    let granted = || Story::chain().grant("a");
    let expired = || granted().wait(LEASE).end("a", AttemptEnd::Expired);
    let first_row = |tamper: fn(&mut Execution)| {
        move |commit: &mut Commit| tamper(after(&mut commit.executions[0]))
    };
    let zombie = Observation::Reported {
        holder: granted().holder("a"),
        end: AttemptEnd::Completed,
        reported: Reported::Finished(Outcome::Succeeded),
    };
    let second = || expired().wait(RETRY_DELAY).grant("a").complete("a", Outcome::Succeeded);
    let renewed = granted().wait(LEASE / 2).renew("a").wait(LEASE / 2);
    let failed = granted().end("a", AttemptEnd::FailedRetryable);
    vec![
        (Mutant::P32, second().told(zombie).ends("zombie of attempt 1")),
        (Mutant::P33, expired().record("a", AttemptEnd::Completed).ends("after the reaper")),
        (Mutant::P34, expired().tamper(first_row(|row| row.epoch -= 1)).ends("same epoch")),
        (Mutant::P35, renewed.end("a", AttemptEnd::Expired).ends("renewed in between")),
        (Mutant::P36, timed_out().tamper(|commit| commit.events.clear()).ends("no event")),
        (
            Mutant::P37,
            failed
                .tamper(first_row(|row| row.not_before = row.not_before - RETRY_DELAY))
                .ends("no delay"),
        ),
        (Mutant::P38, granted().tamper(first_row(|row| row.charged = 0)).ends("not charged")),
    ]
}

#[test]
fn planted_bugs_are_named_by_an_invariant_of_their_list() {
    for (mutant, history) in planted_in_cascades().into_iter().chain(planted_in_attempts()) {
        let (id, name) = (mutant.id(), history.name);
        let (at, violation) = history.judge(Judge::new()).expect_err(&format!("{id}, `{name}`"));
        let named = mutant.seen_by().split(' ').any(|id| id == violation.invariant);
        assert!(named, "{id}, `{name}`, of {}: {violation}", mutant.seen_by());
        assert_eq!(at + 1, history.steps.len(), "{id}, `{name}`: {violation}");
    }
}
