//! What retention takes away, of what the transaction has locked, or the lock that it lacks.

use sluicegate::storage::Verb;

use super::{DOWNSTREAMS, Dice, EXISTING, NEW, Names, Seen, Words, draw_lock, keys, words};

/// A verb of retention with drawn arguments.
pub(super) fn draw(dice: &mut Dice, verb: Verb, seen: &Seen, names: Names) -> Words {
    match verb {
        Verb::DeleteEvents if seen.head().is_none() => draw_lock(dice, Verb::LockStreamHead),
        Verb::DeleteEvents => words(verb)
            .with("rows", &keys(dice, &["a", "b", "r", "c"], 3))
            .with("incarnation", &[dice.pick(&["0", "0", "0", "1"])]),
        Verb::DeleteGroups | Verb::DeleteEdges => {
            let known = DOWNSTREAMS.iter().copied();
            let locked = known.filter(|name| seen.group(names.execution(name)).is_some());
            let locked: Vec<&str> = locked.collect();
            match locked.is_empty() {
                true => draw_lock(dice, Verb::LockGroups),
                false => words(verb).with("keys", &keys(dice, &locked, 2)),
            }
        }
        _ => {
            let known = EXISTING.iter().chain(NEW).copied();
            let locked = known.filter(|name| seen.execution(names.execution(name)).is_some());
            let locked: Vec<&str> = locked.collect();
            match locked.is_empty() {
                true => draw_lock(dice, Verb::LockExecutions),
                false => words(verb).with("keys", &keys(dice, &locked, 2)),
            }
        }
    }
}
