//! What a log or a stored error says of a value that it is about: where and of which shape, not
//! which, unless that is asked for; and no more of it than a line. Pure.

use serde_json::error::Category;

/// Whether messages about payloads, inputs, progress and panics may quote values. Such a message is
/// stored as the result of an execution, and stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quoting {
    /// They say what was expected, and where something else stood.
    #[default]
    LeftOut,
    /// They say what stood there too.
    Kept,
}

/// Bytes of a message that go into a log.
pub(crate) const LOGGED_MAX_BYTES: usize = 1 << 10;

/// What stands for a value.
#[cfg(any(test, feature = "system"))]
const LEFT_OUT: char = '\u{2026}';

/// The shapes that serde names in front of a value.
const SHAPES: &[&str] = &[
    "Option value",
    "boolean",
    "byte array",
    "character",
    "enum",
    "floating point",
    "integer",
    "map",
    "newtype struct",
    "newtype variant",
    "null",
    "sequence",
    "string",
    "struct variant",
    "tuple variant",
    "unit value",
    "unit variant",
];

/// The first bytes of a message, fewer where a character would be cut in two.
pub(crate) fn cut(message: &str, bytes_max: usize) -> &str {
    let mut end = message.len().min(bytes_max);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// Why a value cannot be read from JSON, or written as it.
#[cfg(any(test, feature = "system"))]
pub(crate) fn of_json(error: &serde_json::Error, quoting: Quoting) -> String {
    match quoting {
        Quoting::Kept => error.to_string(),
        Quoting::LeftOut => worded(error, of_data),
    }
}

/// Why text is no specification: its fields have the names of our types and the messages of these
/// are ours, so that they are told, and values are not.
pub(crate) fn of_specification(error: &serde_json::Error) -> String {
    worded(error, |reason| shape(reason).unwrap_or_else(|| cut(reason, LOGGED_MAX_BYTES).into()))
}

fn worded(error: &serde_json::Error, of_data: impl Fn(&str) -> String) -> String {
    let text = error.to_string();
    if error.classify() != Category::Data {
        return text;
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(reason) => of_data(reason) + &place,
        None => of_data(&text),
    }
}

/// What was expected, which serde says last; a value before it may hold the same words.
fn expected(reason: &str) -> &str {
    reason.rfind(", expected ").map_or("", |at| &reason[at..])
}

/// What is said of a value of another shape, without the value.
fn shape(reason: &str) -> Option<String> {
    let prefixes = ["invalid type", "invalid value", "invalid length", "unknown variant"];
    let prefix = prefixes.into_iter().find(|prefix| reason.starts_with(prefix))?;
    let found = reason[prefix.len()..].strip_prefix(": ").and_then(|found| {
        SHAPES.iter().find(|shape| found.strip_prefix(**shape).is_some_and(ends_word))
    });
    let found = found.map_or_else(String::new, |found| format!(": {found}"));
    Some(format!("{prefix}{found}{}", expected(reason)))
}

/// What serde says of data, as far as it speaks of the type: the name of a field that is missing is
/// the type's, that of one too many is the value's.
#[cfg(any(test, feature = "system"))]
fn of_data(reason: &str) -> String {
    if let Some(said) = shape(reason) {
        return said;
    }
    if reason.starts_with("unknown field") {
        return format!("unknown field{}", expected(reason));
    }
    let names_field = |prefix: &str| {
        let name = reason.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(" `"));
        let name = name.and_then(|rest| rest.strip_suffix('`'));
        let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        name.is_some_and(|name| name.bytes().all(of_a_name))
    };
    match names_field("missing field") || names_field("duplicate field") {
        true => reason.to_owned(),
        false => "it is refused by its type".to_owned(),
    }
}

fn ends_word(rest: &str) -> bool {
    rest.starts_with([' ', ',']) || rest.is_empty()
}

/// What a handler panicked with. Of what an assertion or an `unwrap` prints, whatever is quoted is
/// left out: texts, and the messages of errors.
#[cfg(any(test, feature = "system"))]
pub(crate) fn of_panic(text: &str, quoting: Quoting) -> String {
    if quoting == Quoting::Kept {
        return text.to_owned();
    }
    let mut said = String::with_capacity(text.len());
    let mut quote = None;
    let mut escaped = false;
    for character in text.chars() {
        match quote {
            None => {
                said.push(character);
                if matches!(character, '"' | '`') {
                    quote = Some(character);
                    said.push(LEFT_OUT);
                }
            }
            Some(_) if escaped => escaped = false,
            Some('"') if character == '\\' => escaped = true,
            Some(opened) if character == opened => {
                said.push(character);
                quote = None;
            }
            Some(_) => {}
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only reading it is of interest")]
    struct Mail {
        to: String,
        copies: u8,
        by: Option<Way>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(rename_all = "lowercase")]
    enum Way {
        Air,
        Sea,
    }

    #[derive(Deserialize, Debug)]
    #[serde(try_from = "String")]
    struct Picky;

    impl TryFrom<String> for Picky {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            Err(format!("missing field {text}, expected none"))
        }
    }

    fn check<T: DeserializeOwned + std::fmt::Debug>(text: &str, said: &str) {
        let error = serde_json::from_str::<T>(text).unwrap_err();
        assert_eq!(of_json(&error, Quoting::LeftOut), said, "{error}");
        assert_eq!(of_json(&error, Quoting::Kept), error.to_string());
    }

    #[test]
    fn of_data_the_shape_is_told_and_the_place_and_no_value() {
        check::<u8>("\"pa, expected s\"", "invalid type: string, expected u8 at line 1 column 16");
        check::<String>("4111", "invalid type: integer, expected a string at line 1 column 4");
        check::<u8>("4111", "invalid value: integer, expected u8 at line 1 column 4");
        check::<(u8, u8)>("[7]", "invalid length, expected a tuple of size 2 at line 1 column 3");
        check::<Way>(
            "\"post, expected\"",
            "unknown variant, expected `air` or `sea` at line 1 column 16",
        );
        check::<Mail>(
            "{\"pass\": 1}",
            "unknown field, expected one of `to`, `copies`, `by` at line 1 column 7",
        );
        check::<Mail>("{\"to\": \"me\"}", "missing field `copies` at line 1 column 12");
        check::<Picky>("\"pass\"", "it is refused by its type");
        check::<Mail>("{\"to\": }", "expected value at line 1 column 8");
    }

    #[test]
    fn of_a_panic_what_is_quoted_is_left_out() {
        let said = |text| of_panic(text, Quoting::LeftOut);
        assert_eq!(said("no paper"), "no paper");
        let unwrapped = r#"on an `Err` value: Error("string \"pass\", no", line: 1)"#;
        assert_eq!(said(unwrapped), "on an `\u{2026}` value: Error(\"\u{2026}\", line: 1)");
        assert_eq!(said("left: \"pass"), "left: \"\u{2026}");
        assert_eq!(of_panic(unwrapped, Quoting::Kept), unwrapped);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("aä", 3), "aä");
    }
}
