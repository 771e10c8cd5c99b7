//! The verbs of the feed with drawn arguments.

use sluicegate::storage::{EventKey, Verb};

use super::{Dice, EXISTING, NOWHERE, keys, words};
use crate::conform::build::lease_word;
use crate::conform::names::Names;
use crate::conform::seen::Seen;
use crate::conform::words::Words;

/// Consumers, the last of whom nobody ever makes.
const CONSUMERS: &[&str] = &["x", "y", NOWHERE];
/// Whom they lock: one of them more often, so that they meet.
const LOCKED: &[&str] = &["x", "x", "x", "y", NOWHERE];

/// A lock, an insert or a read.
pub(super) fn draw(dice: &mut Dice, verb: Verb) -> Words {
    match verb {
        Verb::LockStreamHead => of_stream(dice, verb),
        Verb::LockUnnumberedEvents => words(verb).with("limit", &[dice.pick(&["1", "2", "9"])]),
        Verb::InsertSubscription => words(verb)
            .with("name", &[dice.pick(&CONSUMERS[..2])])
            .with("position", &[dice.pick(&["0", "3"])]),
        Verb::ReadFeed => {
            let feed = of_stream(dice, verb).with("after", &[dice.pick(&["0", "0", "1", "2"])]);
            let feed = match dice.percent(30) {
                true => feed.with("limit", &["1"]),
                false => feed,
            };
            match dice.percent(40) {
                true => feed.with("wanted", &[dice.pick(&["completions", "leases"])]),
                false => feed,
            }
        }
        _ => words(verb).with("name", &[dice.pick(LOCKED)]),
    }
}

/// The event of an end, and now and then one of a lease.
pub(super) fn of_lease(dice: &mut Dice, named: Words) -> Words {
    match dice.percent(25) {
        true => named.with("lease", &[dice.pick(&["released", "renewed", "expired"])]),
        false => named,
    }
}

/// The stream of the schedule, and now and then one that nobody has made.
fn of_stream(dice: &mut Dice, verb: Verb) -> Words {
    match dice.percent(12) {
        true => words(verb).with("stream", &[NOWHERE]),
        false => words(verb),
    }
}

/// A write with drawn arguments; of what the transaction has not locked, the lock that it lacks.
pub(super) fn draw_write(dice: &mut Dice, verb: Verb, seen: &Seen, names: Names) -> Words {
    let position = dice.pick(&["1", "2", "3", "4", "5"]);
    match verb {
        Verb::WritePositions => {
            // All of the rows are of the incarnation, and say of a lease, what a locked one does.
            let locked: Vec<EventKey> = seen.events().iter().copied().collect();
            let (incarnation, told) = match locked.is_empty() {
                true => (0, None),
                false => {
                    let event = locked[dice.below(locked.len())];
                    (event.incarnation, event.lease)
                }
            };
            let events: Vec<&str> = EXISTING
                .iter()
                .copied()
                .filter(|name| {
                    seen.events().iter().any(|event| {
                        event.execution == names.execution(name)
                            && event.incarnation == incarnation
                            && event.lease == told
                    })
                })
                .collect();
            // What is nowhere needs no lock.
            if events.is_empty() && dice.percent(20) {
                return words(verb).with("rows", &[NOWHERE]).with("position", &[position]);
            }
            if events.is_empty() {
                return draw(dice, Verb::LockUnnumberedEvents);
            }
            let mut rows = keys(dice, &events, 3);
            // Events are seldom locked, so that what is rare beside them would never be drawn.
            if dice.percent(30) && !rows.contains(&NOWHERE) {
                rows.push(NOWHERE);
            }
            words(verb)
                .with("rows", &rows)
                .with("incarnation", &[incarnation.to_string()])
                .with("lease", &[lease_word(told)])
                .with("position", &[position])
        }
        Verb::WriteStreamHead if seen.head().is_none() => draw(dice, Verb::LockStreamHead),
        Verb::WriteStreamHead => of_stream(dice, verb)
            .with("position", &[position])
            .with("horizon", &[dice.pick(&["0", "0", "1"])]),
        _ => {
            let known = |name: &&&str| seen.subscription(&names.consumer(name)).is_some();
            let mut names: Vec<&str> = CONSUMERS.iter().filter(known).copied().collect();
            if names.is_empty() {
                return draw(dice, Verb::LockSubscription);
            }
            if dice.percent(40) {
                names = vec![NOWHERE];
            }
            words(verb).with("name", &[dice.pick(&names)]).with("position", &[position])
        }
    }
}
