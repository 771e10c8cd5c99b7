//! Ids as names: executions by their name in the flow, flows and requests by a number. Never shows
//! an id to a reader who cannot tell it from another.

use sluicegate::flow::FlowSpec;
use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::time::Timestamp;

use crate::driver::trace::{Entry, What};
use crate::driver::world::EPOCH_US;
use crate::signature::id_length;

/// The names of one universe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    flows: Vec<(FlowKey, String)>,
    executions: Vec<(ExecutionId, String)>,
    by_text: Vec<(String, String)>,
}

/// A piece of a printed id.
enum Piece {
    Word(&'static str),
    Digits,
    Id,
    Microseconds,
    /// Microseconds that can only be an instant of the storage's clock.
    Instant,
}

/// Digits of an instant in microseconds.
const INSTANT_DIGITS: usize = 16;

/// Printed forms of ids and instants, the longest first.
const PATTERNS: &[&[Piece]] = &[
    &[
        Piece::Word("ExecutionId { partition: Partition("),
        Piece::Digits,
        Piece::Word("), uuid: "),
        Piece::Id,
        Piece::Word(" }"),
    ],
    &[
        Piece::Word("FlowKey { partition: Partition("),
        Piece::Digits,
        Piece::Word("), id: FlowId("),
        Piece::Id,
        Piece::Word(") }"),
    ],
    &[Piece::Word("FlowId("), Piece::Id, Piece::Word(")")],
    &[Piece::Word("RequestId("), Piece::Id, Piece::Word(")")],
    &[Piece::Word("{fp:"), Piece::Digits, Piece::Word("}:"), Piece::Id],
    &[Piece::Word("Timestamp("), Piece::Microseconds, Piece::Word(")")],
    &[Piece::Instant, Piece::Word(" us")],
    &[Piece::Id],
];

impl Names {
    /// The names of a flow as the entries show it submitted.
    pub(crate) fn of(spec: &FlowSpec, entries: &[Entry]) -> Names {
        let mut names = Names::default();
        for entry in entries {
            let What::Committed(commit) = &entry.what else { continue };
            let created = commit.flows.iter().filter(|change| change.before.is_none());
            for flow in created.filter_map(|change| change.after.as_ref()) {
                names.add(spec, flow.key);
            }
        }
        names.executions.sort_unstable();
        names
    }

    fn add(&mut self, spec: &FlowSpec, key: FlowKey) {
        if self.flows.iter().any(|(known, _)| *known == key) {
            return;
        }
        let nth = self.flows.len() + 1;
        let (flow, mark) = match nth {
            1 => ("the flow".to_owned(), String::new()),
            _ => (format!("flow {nth}"), format!(" of flow {nth}")),
        };
        self.by_text.push((key.id.to_string(), flow.clone()));
        self.flows.push((key, flow));
        for execution in &spec.executions {
            let id = key.execution(&execution.name);
            let name = format!("{}{mark}", execution.name);
            self.by_text.push((id.uuid.to_string(), name.clone()));
            self.executions.push((id, name));
        }
    }

    /// An execution.
    pub(crate) fn execution(&self, id: ExecutionId) -> String {
        match self.executions.binary_search_by_key(&id, |known| known.0) {
            Ok(at) => self.executions[at].1.clone(),
            Err(_) => id.to_string(),
        }
    }

    /// A flow.
    pub(crate) fn flow(&self, key: FlowKey) -> String {
        let known = self.flows.iter().find(|known| known.0 == key);
        known.map_or_else(|| key.id.to_string(), |known| known.1.clone())
    }

    /// A text with its ids as names and its instants since the start of the universe. Ids that are
    /// not known are numbered in the order in which they appear in it.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut unknown: Vec<String> = Vec::new();
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let found = PATTERNS.iter().find_map(|pattern| read(pattern, rest));
            let length = match found {
                Some((length, Read::Id(id))) => {
                    out.push_str(&self.named(id, &mut unknown));
                    length
                }
                Some((length, Read::Instant(us))) => {
                    out.push_str(&instant(Timestamp(us)));
                    length
                }
                None => {
                    out.push(next);
                    next.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        out
    }

    fn named(&self, id: &str, unknown: &mut Vec<String>) -> String {
        if let Some((_, name)) = self.by_text.iter().find(|known| known.0 == id) {
            return name.clone();
        }
        let nth = unknown.iter().position(|known| known == id).unwrap_or_else(|| {
            unknown.push(id.to_owned());
            unknown.len() - 1
        });
        format!("#{}", nth + 1)
    }
}

/// An instant of the storage's clock, counted from where the universe began.
pub(crate) fn instant(at: Timestamp) -> String {
    match at.0 {
        0 => "0".to_owned(),
        us => seconds(us - EPOCH_US),
    }
}

/// Microseconds in seconds, as short as they can be said.
pub(crate) fn seconds(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let (whole, part) = (us.unsigned_abs() / 1_000_000, us.unsigned_abs() % 1_000_000);
    let part = format!("{part:06}");
    match part.trim_end_matches('0') {
        "" => format!("{sign}{whole} s"),
        part => format!("{sign}{whole}.{part} s"),
    }
}

enum Read<'a> {
    Id(&'a str),
    Instant(i64),
}

/// Reads a pattern at the start of a text: how long it is there, and what it holds.
fn read<'a>(pattern: &[Piece], text: &'a str) -> Option<(usize, Read<'a>)> {
    let mut at = 0;
    let mut found = None;
    for piece in pattern {
        let rest = &text[at..];
        at += match piece {
            Piece::Word(word) => rest.starts_with(word).then_some(word.len())?,
            Piece::Digits => digits(rest)?,
            Piece::Id => {
                let length = id_length(rest)?;
                found = Some(Read::Id(&rest[..length]));
                length
            }
            Piece::Microseconds | Piece::Instant => {
                let length = digits(rest)?;
                if matches!(piece, Piece::Instant) && length != INSTANT_DIGITS {
                    return None;
                }
                found = Some(Read::Instant(rest[..length].parse().ok()?));
                length
            }
        };
    }
    Some((at, found?))
}

fn digits(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then_some(end)
}

#[cfg(test)]
mod tests {
    use sluicegate::identity::{FlowId, PartitionCount};

    use super::*;

    fn names() -> (Names, FlowKey) {
        let spec = FlowSpec::builder().execution("fetch").execution("load").build();
        let key = PartitionCount::default().key(FlowId::from_parts(1, [7; 10]));
        let mut names = Names::default();
        names.add(&spec, key);
        names.executions.sort_unstable();
        (names, key)
    }

    #[test]
    fn ids_become_names_however_they_are_printed() {
        let (names, key) = names();
        let fetch = key.execution("fetch");
        for printed in [fetch.to_string(), format!("{fetch:?}"), fetch.uuid.to_string()] {
            assert_eq!(names.text(&format!("<{printed}>")), "<fetch>");
        }
        for printed in [key.id.to_string(), format!("{key:?}"), format!("{:?}", key.id)] {
            assert_eq!(names.text(&printed), "the flow");
        }
        assert_eq!(names.execution(key.execution("load")), "load");
    }

    #[test]
    fn unknown_ids_are_numbered_and_instants_are_relative() {
        let (names, _) = names();
        let other = |byte| FlowId::from_parts(2, [byte; 10]);
        let text = format!("{} {} {}", other(1), other(2), other(1));
        assert_eq!(names.text(&text), "#1 #2 #1");
        let at = Timestamp(EPOCH_US + 1_500_000);
        assert_eq!(names.text(&format!("{at:?} é")), "1.5 s é");
        assert_eq!(names.text(&format!("until {} us, 200 us", at.0)), "until 1.5 s, 200 us");
        assert_eq!(seconds(-2_000_001), "-2.000001 s");
    }
}
