//! The signature of a violation: the same for the same mistake in different universes. Pure; never
//! looks at anything but the words.

use sluicegate::flow::FlowSpec;

/// Fields of printed rows that tell one mistake from another; the rest differs by universe.
const FIELDS_KEPT: [&str; 5] = ["state", "decision", "resolution", "end", "outcome"];
/// From these words on a message speaks of its universe only.
const TAILS: [&str; 2] = ["; at work:", " over the heaviest path "];
/// Length of a printed id.
const ID_LENGTH: usize = 36;

/// Eight hexadecimal digits of the invariant and the message without ids, numbers and names.
pub fn signature(invariant: &str, message: &str, flow: &FlowSpec) -> String {
    let bytes = invariant.bytes().chain([b' ']).chain(normalised(message, flow).into_bytes());
    // FNV-1a, folded to 32 bits.
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xFFFF_FFFF))
}

/// The message with `#` for each id, number and name of an execution, and printed rows cut down to
/// the fields that matter.
fn normalised(message: &str, flow: &FlowSpec) -> String {
    let end = TAILS.iter().filter_map(|tail| message.find(tail)).min().unwrap_or(message.len());
    let text = without_rows(&without_ids(&message[..end]));
    let mut out = String::new();
    let mut word = String::new();
    for character in text.chars().chain([' ']) {
        if character.is_alphanumeric() || matches!(character, '_' | '-') {
            word.push(character);
            continue;
        }
        let named = flow.executions.iter().any(|execution| execution.name == word);
        match named {
            true => out.push('#'),
            false => push_without_numbers(&mut out, &word),
        }
        word.clear();
        out.push(character);
    }
    out
}

fn push_without_numbers(out: &mut String, word: &str) {
    for character in word.chars() {
        match character.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(character),
        }
    }
}

/// The message with `#` for each id, and printed rows cut down to the fields that matter.
pub(crate) fn essence(message: &str) -> String {
    let text = without_rows(&without_ids(message));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The length of the id that a text begins with.
pub(crate) fn id_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes().get(..ID_LENGTH)?;
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.iter().enumerate().all(fits).then_some(ID_LENGTH)
}

/// The length of the `{fp:N}:<id>` that a text begins with.
fn partitioned_id_length(text: &str) -> Option<usize> {
    let partition = text.strip_prefix("{fp:")?;
    let end = partition.find("}:")?;
    let digits = partition[..end].bytes().all(|byte| byte.is_ascii_digit());
    let id = id_length(&partition[end + 2..]).filter(|_| digits)?;
    Some("{fp:".len() + end + "}:".len() + id)
}

fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match id_length(rest).or_else(|| partitioned_id_length(rest)) {
            Some(length) => {
                out.push('#');
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

/// Of each ` { .. }` only the fields that are kept, wherever they stand in it.
fn without_rows(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0_usize;
    let mut field = String::new();
    for character in text.chars() {
        match character {
            '{' => depth += 1,
            '}' => {
                keep(&mut out, &field, depth);
                field.clear();
                depth = depth.saturating_sub(1);
            }
            ',' if depth > 0 => {
                keep(&mut out, &field, depth);
                field.clear();
            }
            _ if depth > 0 => field.push(character),
            _ => out.push(character),
        }
    }
    out
}

fn keep(out: &mut String, field: &str, depth: usize) {
    let name = field.split(':').next().unwrap_or_default().trim();
    if depth > 0 && FIELDS_KEPT.contains(&name) {
        out.push_str(field.trim());
        out.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: &str, right: &str, same: bool) {
        let flow = FlowSpec::builder().execution("fetch").execution("load").build();
        let signatures = [left, right].map(|text| signature("I8", text, &flow));
        assert_eq!(signatures[0] == signatures[1], same, "{left}\n{right}");
        assert_eq!(signatures[0].len(), 8);
    }

    const A: &str = "018cc251-f400-7000-8000-000000000001";
    const B: &str = "99f1c7a0-0d2b-5c34-9a2e-6f7d8e9fa0b1";

    #[test]
    fn ids_numbers_and_names_do_not_tell_failures_apart() {
        check(&format!("edge from {{fp:3}}:{A}"), &format!("edge from {{fp:17}}:{B}"), true);
        check("took 17 us of 4", "took 123456 us of 5", true);
        check("fetch is stuck", "load is stuck", true);
        check("17 s over the heaviest path fetch", "9 s over the heaviest path load", true);
    }

    #[test]
    fn words_and_states_do() {
        check("an edge is pending", "a group is pending", false);
        check("fetch is stuck", "fetched is stuck", false);
        let row = |state| format!("left Row {{ id: 7, state: {state}, lease: None }}");
        check(&row("Blocked"), &row("Ready"), false);
    }

    #[test]
    fn other_fields_of_printed_rows_do_not() {
        let row = |lease| format!("left Row {{ id: 7, state: Ready, lease: {lease} }}");
        check(&row("None"), &row("Some(Lease { nonce: 1 })"), true);
    }

    #[test]
    fn the_essence_of_a_message_fits_on_a_line() {
        let message = format!("left Row {{ id: {A}, state: Ready, lease: None }} of {{fp:3}}:{B}");
        assert_eq!(essence(&message), "left Row state: Ready of #");
    }

    #[test]
    fn the_invariant_is_part_of_it() {
        let flow = FlowSpec::builder().build();
        assert_ne!(signature("I1", "x", &flow), signature("I2", "x", &flow));
    }
}
