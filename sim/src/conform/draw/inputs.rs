//! What is asked of the inputs of executions. Never sends it.

use sluicegate::storage::Verb;

use super::{Dice, UPSTREAMS, keys, words};
use crate::conform::words::Words;

/// The inputs of joins, in pages and under limits.
pub(super) fn draw(dice: &mut Dice, verb: Verb) -> Words {
    let mut read = words(verb).with("keys", &keys(dice, &["c", "d", "n1"], 3));
    if dice.percent(30) {
        read = read.with("after", &[dice.pick(UPSTREAMS)]);
    }
    if dice.percent(30) {
        read = read.with("limit", &[dice.pick(&["0", "1", "2"])]);
    }
    if dice.percent(50) { read.with("bytes", &[dice.pick(&["0", "2", "5"])]) } else { read }
}
