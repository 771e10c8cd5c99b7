//! Printed rows in messages, cut to what a reader needs. Pure; leaves every other text alone.

/// Fields that tell a reader nothing in a story.
const NEVER: [&str; 10] = [
    "flow",
    "has_in",
    "has_inputs",
    "has_out",
    "retry",
    "request",
    "nonce",
    "payload_hash",
    "passes_as",
    "input",
];
/// Values that say that there is nothing to say.
const EMPTY: [&str; 4] = ["None", "false", "0", "[]"];

/// The text with `Row { a: 1, b: None }` as `Row { a: 1 }`.
pub(crate) fn brief(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" { ") {
        let body = &rest[at + 3..];
        let Some(end) = closing(body) else { break };
        out.push_str(&rest[..at]);
        out.push_str(" { ");
        let fields: Vec<String> =
            fields(body[..end].trim_end()).into_iter().filter_map(kept).collect();
        out.push_str(&fields.join(", "));
        out.push_str(" }");
        rest = &body[end + 1..];
    }
    out.push_str(rest);
    out
}

/// The field as it is shown, if it is.
fn kept(field: &str) -> Option<String> {
    let Some((name, value)) = field.split_once(": ") else { return Some(field.to_owned()) };
    if NEVER.contains(&name) || EMPTY.contains(&value) {
        return None;
    }
    let value = value.strip_prefix("Some(").and_then(|inner| inner.strip_suffix(')'));
    let value = value.unwrap_or(&field[name.len() + 2..]);
    Some(format!("{name}: {}", brief(value)))
}

/// Where the brace closes that was opened before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_u32;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The fields between two braces.
fn fields(text: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                fields.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(text[start..].trim());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_what_is_set_and_lose_what_is_not() {
        let row = "left Row { id: a, flow: the flow, cause: None, lease: Some(Lease { nonce: 3, \
                   until: 2 s }), all: [1, 2], attempt: 0 } under None, and { so on";
        let brief = brief(row);
        assert_eq!(
            brief,
            "left Row { id: a, lease: Lease { until: 2 s }, all: [1, 2] } under None, and { so on"
        );
    }

    #[test]
    fn text_without_rows_stays_as_it_is() {
        for text in ["", "plain", "{fp:3}", "a { b", "é {} }"] {
            assert_eq!(brief(text), text);
        }
    }
}
