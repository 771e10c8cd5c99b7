//! What is written beside a locked flow or to a locked summary, or the lock that it lacks.

use sluicegate::storage::Verb;

use super::{Dice, NOWHERE, Names, REQUESTS, Seen, Words, draw_lock, keys, words};

/// A write beside a locked flow, or the lock that it lacks.
pub(super) fn draw_flow_write(dice: &mut Dice, verb: Verb, seen: &Seen, names: Names) -> Words {
    let locked = ["f", "g", "h"].into_iter().filter(|name| seen.flow(names.flow(name)).is_some());
    let locked: Vec<&str> = locked.collect();
    if locked.is_empty() {
        return draw_lock(dice, Verb::LockFlow);
    }
    let flow = match dice.percent(15) {
        true => NOWHERE,
        false => dice.pick(&locked),
    };
    match verb {
        Verb::WriteFlow => {
            let closing = dice.pick(&["none", "flow_only", "cancel_pending", "cancel_all"]);
            let write = words(verb).with("flow", &[flow]).with("closing", &[closing]);
            let write = match dice.percent(30) {
                true => write.with("revision", &["4"]),
                false => write,
            };
            if dice.percent(30) { write.with("tag", &[dice.pick(&["x", "y"])]) } else { write }
        }
        Verb::WriteRequest => {
            let request = if dice.percent(20) { NOWHERE } else { dice.pick(REQUESTS) };
            words(verb).with("flow", &[flow]).with("request", &[request]).with("reply", &["other"])
        }
        Verb::DeleteCancelBacklog => words(verb).with("flows", &keys(dice, &locked, 2)),
        Verb::DeleteRequests | Verb::DeleteSubmission | Verb::DeleteFlow => {
            words(verb).with("flow", &[flow])
        }
        _ if !locked.contains(&"f") => draw_lock(dice, Verb::LockFlow),
        _ => words(verb).with("rows", &keys(dice, &["c", "d", "n1"], 2)),
    }
}

/// Of a summary that the transaction has locked.
pub(super) fn draw_summary(dice: &mut Dice, verb: Verb, seen: &Seen, names: Names) -> Words {
    let flows: Vec<&str> = ["f", "g", "h", "i", "j"]
        .into_iter()
        .filter(|name| seen.summary(names.flow(name)).is_some())
        .collect();
    if flows.is_empty() {
        return draw_lock(dice, Verb::LockSummaries);
    }
    let flow = if dice.percent(12) { NOWHERE } else { dice.pick(&flows) };
    let words = words(verb).with("flow", &[flow]);
    if matches!(verb, Verb::DeleteFlowChanges | Verb::DeleteSummary) {
        return words;
    }
    let status = dice.pick(&["open", "blocked", "running", "completed", "failed"]);
    words.with("status", &[status]).with("failed", &[dice.pick(&["0", "1", "7"])])
}
