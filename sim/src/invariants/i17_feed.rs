//! I17: the feed hands every event to every subscriber, in the order of its execution.

use sluicegate::storage::{EventKey, EventPosition, Position};

use super::{Context, Heard, Hearing, Invariant, Quiescent, Verdict};
use crate::history::Observation;
use crate::mirror::Mirror;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I17",
    title: "every subscriber sees every event, in per-execution order, whatever the commit order",
    commit: Some(check_places),
    observe: Some(check_told),
    quiescent: Some(check_rest),
    #[cfg(test)]
    rejects: tests::rejects,
};

/// Places are given out once each, without a gap, in the order in which they commit; so that who
/// has come to one of them has passed over nothing.
fn check_places(context: &Context<'_>) -> Verdict {
    let given = context.mirror.positions();
    let known = given.len() - context.commit.positions.len();
    for (at, one) in given.iter().enumerate().skip(known) {
        check_place(context.mirror, &given[..at], *one)?;
    }
    check_pruned(context)
}

/// Events go from the oldest on: none is left in front of one that is gone, and the horizon stands
/// at the last of them. In front of events that are there it would hide them.
fn check_pruned(context: &Context<'_>) -> Verdict {
    let (mirror, commit) = (context.mirror, context.commit);
    for key in &commit.events_pruned {
        if !mirror.positions().iter().any(|given| given.key == *key) {
            return Err(format!("{key:?} was pruned before it had its place in the feed"));
        }
    }
    if commit.events_pruned.is_empty() && commit.horizon.is_none() {
        return Ok(());
    }
    if commit.horizon != Some(mirror.pruned_to()) {
        let (moved, gone) = (commit.horizon, mirror.pruned_to());
        return Err(format!("the horizon moved to {moved:?}, and events are gone up to {gone:?}"));
    }
    let before = mirror.positions().iter().filter(|given| given.position < mirror.pruned_to());
    let mut kept = before.filter(|given| given.position > mirror.forgotten().position);
    match kept.find(|given| !mirror.is_event_gone(&given.key)) {
        Some(left) => Err(format!("events behind {left:?} were pruned, and it is left")),
        None => Ok(()),
    }
}

/// A place behind which a subscriber is to go on: everything before it is gone.
fn check_beginning(mirror: &Mirror, subscriber: u8, from: Position) -> Verdict {
    match from <= mirror.pruned_to() {
        true => Ok(()),
        false => Err(format!(
            "subscriber {subscriber} is to go on behind place {}, and events are gone up to {}",
            from.0,
            mirror.pruned_to().0
        )),
    }
}

fn check_place(mirror: &Mirror, before: &[EventPosition], one: EventPosition) -> Verdict {
    let EventPosition { key, position } = one;
    let next = before.len() as u64 + 1;
    if position.0 != next {
        return Err(format!("{key:?} got place {} of the feed where {next} is next", position.0));
    }
    let Some(event) = mirror.event(&key) else {
        return Err(format!("{key:?} got place {next} of the feed and was never committed"));
    };
    let behind = |other: &EventKey| {
        let events = mirror.event(other);
        *other == key || events.is_some_and(|events| events.order() > event.order())
    };
    let own = before.iter().filter(|other| other.key.execution == key.execution);
    let later = own.into_iter().find(|other| behind(&other.key));
    match later {
        Some(other) => Err(format!("{key:?} got place {next} of the feed behind {other:?}")),
        None => Ok(()),
    }
}

fn check_told(hearing: &Hearing<'_>) -> Verdict {
    match *hearing.observation {
        Observation::Subscribed { subscriber, from, .. } => match hearing.told.heard(subscriber) {
            None => check_beginning(hearing.mirror, subscriber, from),
            Some(_) => Ok(()),
        },
        Observation::Expired { subscriber, oldest } => {
            check_beginning(hearing.mirror, subscriber, oldest)
        }
        _ => check_delivery(hearing),
    }
}

fn check_delivery(hearing: &Hearing<'_>) -> Verdict {
    let Observation::Delivered { subscriber, position, execution, incarnation, kind, .. } =
        *hearing.observation
    else {
        return Ok(());
    };
    let mirror = hearing.mirror;
    let given = mirror.positions().iter().find(|given| given.position == position);
    let right = given.is_some_and(|given| {
        (given.key.execution, given.key.incarnation) == (execution, incarnation)
            && mirror.event(&given.key).is_some_and(|events| events.kind == kind)
    });
    if !right {
        return Err(format!(
            "subscriber {subscriber} is handed {kind:?} of {execution} at place {}, where \
             {given:?} stands",
            position.0
        ));
    }
    let heard = hearing.told.heard(subscriber);
    let Some(heard) = heard.filter(|heard| heard.namespace.is_none()) else { return Ok(()) };
    let passed = missing(heard, mirror).find(|missing| *missing < position);
    match passed {
        Some(missing) => Err(format!(
            "subscriber {subscriber} is handed place {} and was never handed {}",
            position.0, missing.0
        )),
        None => Ok(()),
    }
}

/// Places of events that a subscriber of every namespace has not got, and should have: an event
/// that is gone is missing too, unless it was told.
fn missing<'a>(heard: &'a Heard, mirror: &'a Mirror) -> impl Iterator<Item = Position> {
    let forgotten = mirror.forgotten().position.max(heard.from);
    let places = mirror.positions().iter();
    let places =
        places.filter(|given| heard.wants(&given.key) && !mirror.is_event_lost(&given.key));
    places
        .map(|given| given.position)
        .filter(move |position| *position > forgotten && !heard.has(*position))
}

fn check_rest(rest: &Quiescent<'_>) -> Verdict {
    let (mirror, subscribers) = (rest.mirror, rest.told.subscribers());
    if subscribers.is_empty() {
        return Ok(());
    }
    let placed = |event: EventKey| mirror.positions().iter().any(|given| given.key == event);
    if let Some(event) = mirror.events_left().find(|event| !placed(*event)) {
        return Err(format!("{event:?} never gets a place in the feed"));
    }
    for heard in subscribers.iter().filter(|heard| heard.namespace.is_none()) {
        if let Some(position) = missing(heard, mirror).next() {
            let subscriber = heard.subscriber;
            return Err(format!("subscriber {subscriber} is never handed place {}", position.0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::Outcome;
    use sluicegate::storage::Position;

    use crate::history::Observation;
    use crate::invariants::Judge;
    use crate::invariants::testing::{History, Story};

    /// Both ends of a chain have their places; a subscriber has opened its consumer.
    fn placed() -> Story {
        let story = Story::chain().grant("a").complete("a", Outcome::Succeeded).hop(&["a"]);
        let story = story.grant("b").complete("b", Outcome::Succeeded);
        story.place(&[("a", 1), ("b", 2)]).told(Story::subscribed(0, None))
    }

    fn hand(story: Story, name: &str, place: u64) -> Story {
        let delivered = story.delivered(0, name, place);
        story.told(delivered)
    }

    /// a has ended twice, and neither event has its place.
    fn replayed() -> Story {
        let failed = Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        let again = failed.asks(ReplayScope::Failed).again(&["a", "b"]);
        again.grant("a").complete("a", Outcome::Succeeded)
    }

    #[test]
    fn each_life_has_its_event_in_order() {
        let history = replayed()
            .place(&[("a", 1), ("b", 2)])
            .place_in(1, &[("a", 3)])
            .ends("one life after the other");
        assert_eq!(history.judge(Judge::new()), Ok(()));
    }

    pub(super) fn rejects() -> Vec<History> {
        let ended = || Story::chain().grant("a").complete("a", Outcome::Succeeded);
        let elsewhere = match placed().delivered(0, "a", 1) {
            Observation::Delivered { subscriber, flow, execution, incarnation, kind, .. } => {
                Observation::Delivered {
                    subscriber,
                    flow,
                    execution,
                    incarnation,
                    kind,
                    position: Position(9),
                }
            }
            other => other,
        };
        vec![
            ended().place(&[("a", 2)]).ends("a gap"),
            placed().place(&[("a", 2)]).ends("a place given twice"),
            placed().place(&[("a", 3)]).ends("two places of one event"),
            replayed()
                .place_in(1, &[("a", 1)])
                .place(&[("a", 2)])
                .ends("an earlier life behind a later one"),
            replayed().place_in(2, &[("a", 1)]).ends("a place of a life that was not"),
            Story::chain().place(&[("a", 1)]).ends("a place of no event"),
            placed().told(elsewhere).ends("a place that nobody gave out"),
            hand(placed(), "b", 1).ends("an event at another's place"),
            hand(placed(), "b", 2).ends("an event is passed over"),
            hand(placed(), "a", 1).quiescent().ends("an event is never handed out"),
            placed().prune_events(&["b"]).ends("an event is left in front of one that is gone"),
            placed()
                .prune_events(&["a"])
                .tamper(|commit| commit.horizon = None)
                .ends("the horizon stays behind what is gone"),
            placed()
                .prune_events(&["a"])
                .tamper(|commit| commit.events_pruned.clear())
                .ends("the horizon stands in front of an event that is there"),
            ended().prune_events(&["a"]).ends("an event goes before it has its place"),
            placed()
                .told(Observation::Expired { subscriber: 0, oldest: Position(1) })
                .ends("a subscriber is told that what is there is gone"),
            ended().told(Story::subscribed(0, None)).quiescent().ends("an event without a place"),
        ]
    }
}
