//! A schedule that was played, as a table for people and as JSON. Never plays one.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::lockstep::{Divergence, Played, Taken};
use super::outcome::Outcome;

/// Characters of an answer that are shown.
const ANSWER_CHARACTERS_MAX: usize = 400;

/// The table of a schedule.
pub fn table(played: &Played) -> String {
    let mut out = String::new();
    let last = played.taken.len().saturating_sub(1);
    for (number, taken) in played.taken.iter().enumerate() {
        let differs = number == last && matches!(played.divergence, Some(Divergence::Step));
        tell_step(&mut out, number + 1, taken, differs);
    }
    if let Some(Divergence::Committed { model, postgres }) = &played.divergence {
        line(&mut out, "committed, where the two differ:");
        for row in model {
            line(&mut out, &format!("  model     {}", super::names::shorten(row)));
        }
        for row in postgres {
            line(&mut out, &format!("  postgres  {}", super::names::shorten(row)));
        }
    }
    out
}

fn tell_step(out: &mut String, number: usize, taken: &Taken, differs: bool) {
    let step = &taken.step;
    line(out, &format!("{number:>3}  s{}  {}", step.seat + 1, step.words));
    if differs {
        for (way, outcome) in taken.expected.iter().enumerate() {
            let or = if way == 0 { "model" } else { "   or" };
            for answer in answers(outcome) {
                line(out, &format!("         {or}     {answer}"));
            }
        }
        for answer in answers(&taken.seen) {
            line(out, &format!("         postgres  {answer}"));
        }
        return;
    }
    for answer in answers(&taken.seen) {
        line(out, &format!("         {answer}"));
    }
}

/// Who was told what, and who waits.
pub fn answers(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> = outcome
        .answers
        .iter()
        .map(|(seat, answer)| {
            let text: String = answer.to_string().chars().take(ANSWER_CHARACTERS_MAX).collect();
            format!("s{} {text}", seat + 1)
        })
        .collect();
    if !outcome.waiting.is_empty() {
        let seats: Vec<String> =
            outcome.waiting.iter().map(|seat| format!("s{}", seat + 1)).collect();
        lines.push(format!("{} waits", seats.join(", ")));
    }
    lines
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes any text");
}

/// A schedule as JSON.
pub fn to_json(played: &Played) -> Value {
    let steps: Vec<Value> = played
        .taken
        .iter()
        .map(|taken| {
            let expected: Vec<Vec<String>> = taken.expected.iter().map(answers).collect();
            json!({
                "session": format!("s{}", taken.step.seat + 1),
                "step": taken.step.words.to_string(),
                "model": expected,
                "postgres": answers(&taken.seen),
            })
        })
        .collect();
    let divergence = match &played.divergence {
        None => Value::Null,
        Some(Divergence::Step) => json!("the last step"),
        Some(Divergence::Committed { model, postgres }) => {
            json!({ "committed": { "model": model, "postgres": postgres } })
        }
    };
    json!({ "sessions": played.seats, "steps": steps, "divergence": divergence })
}
