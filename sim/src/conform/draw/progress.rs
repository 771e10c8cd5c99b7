//! What a worker says of how far it has come. Never sends it.

use sluicegate::storage::Verb;

use super::{Dice, NOWHERE, draw_lock, words};
use crate::conform::words::Words;

/// Of one of these executions, which the transaction has locked, or the lock that it lacks.
pub(super) fn draw(dice: &mut Dice, verb: Verb, locked: &[&str]) -> Words {
    if locked.is_empty() {
        return draw_lock(dice, Verb::LockExecutions);
    }
    let row = if dice.percent(12) { NOWHERE } else { dice.pick(locked) };
    let mut write = words(verb).with("row", &[row]).with("attempt", &[dice.pick(&["1", "2"])]);
    if dice.percent(15) {
        write = write.with("guard", &["stale"]);
    }
    write.with("sequence", &[dice.pick(&["0", "1", "2"])])
}
