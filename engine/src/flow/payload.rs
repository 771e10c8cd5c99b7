//! JSON text that is kept byte for byte. Pure; checks that a text is JSON, and never turns it into
//! values, which would change numbers, drop members of one name and recurse by depth.

use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::FlowFileError;

/// What a payload is where none is given.
static NULL: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("null"));

/// A JSON value as the text that it was written in: every digit, every member and every blank
/// inside it stays, however deep it nests. Two payloads are equal if their bytes are.
///
/// [`Payload::from_json`] takes a text, [`Payload::of`] anything that serializes, and `From` a
/// [`serde_json::Value`]. It is a serde type of `serde_json` itself: in a file or in a handler's
/// parameter it takes over the text that stands there. A handler that takes a `Payload` reads
/// what any submit has brought; other types read what serde can read into them, at most 127
/// levels deep.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Takes a text that is one JSON value, with no blank before or behind it. Errors: where it is
    /// none.
    pub fn from_json(text: impl Into<Arc<str>>) -> Result<Self, FlowFileError> {
        let text = text.into();
        let value: &RawValue = serde_json::from_str(&text)?;
        if value.get().len() < text.len() {
            let blank = if text.starts_with(is_blank) { 0 } else { value.get().len() };
            let reason = "white space around a payload".to_owned();
            return Err(FlowFileError::at(&text, blank, reason));
        }
        Ok(Self(text))
    }

    /// Writes a value as JSON. Errors: it has no form as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// True for `null`, which a file leaves out.
    pub fn is_null(&self) -> bool {
        *self.0 == **NULL
    }

    /// The bytes, shared.
    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        Arc::clone(&self.0).into()
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

impl Default for Payload {
    fn default() -> Self {
        Self(Arc::clone(&NULL))
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Payload {
    /// Says how large it is: what it holds is for its handler, and for no log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Box::<str>::from(value).into()))
    }
}

/// What is left to write of a value.
enum Token {
    Value(Value),
    Key(String),
    Mark(char),
}

impl From<Value> for Payload {
    /// Writes the value in its compact form. Neither this nor the end of the value recurses, so
    /// that its depth needs no stack.
    fn from(value: Value) -> Self {
        let mut text = String::new();
        let mut left = vec![Token::Value(value)];
        while let Some(token) = left.pop() {
            match token {
                Token::Mark(mark) => text.push(mark),
                Token::Key(key) => written(&mut text, format_args!("{}:", Value::String(key))),
                Token::Value(Value::Array(items)) => {
                    text.push('[');
                    left.push(Token::Mark(']'));
                    for (at, item) in items.into_iter().enumerate().rev() {
                        left.push(Token::Value(item));
                        left.extend((at > 0).then_some(Token::Mark(',')));
                    }
                }
                Token::Value(Value::Object(members)) => {
                    text.push('{');
                    left.push(Token::Mark('}'));
                    for (at, (key, member)) in members.into_iter().enumerate().rev() {
                        left.extend([Token::Value(member), Token::Key(key)]);
                        left.extend((at > 0).then_some(Token::Mark(',')));
                    }
                }
                Token::Value(scalar) => written(&mut text, format_args!("{scalar}")),
            }
        }
        Self(text.into())
    }
}

fn written(text: &mut String, what: fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes every text");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flow::{ExecutionSpec, FlowSpec, Limits};

    const DEPTH: usize = 20_000;

    /// What a parse into values would change or refuse.
    fn delicate() -> [String; 6] {
        [
            "123456789012345678901234567890".to_owned(),
            "1234567890123456.78".to_owned(),
            r#"{"a":1,"a":2}"#.to_owned(),
            "{ \"b\" : [ 1.0,\t1e400 ] , \"a\" : \"\\u00e9\\/\" }".to_owned(),
            format!("{}{}", "[".repeat(128), "]".repeat(128)),
            format!("{}7{}", "{\"a\":[".repeat(DEPTH / 2), "]}".repeat(DEPTH / 2)),
        ]
    }

    /// Runs where a recursion by depth would overflow.
    fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread.spawn(work).unwrap().join().unwrap();
    }

    fn check_kept(text: &str) {
        let payload = Payload::from_json(text).unwrap();
        assert_eq!(payload.as_str(), text);
        assert_eq!(&*payload.bytes(), text.as_bytes());
        let spec = FlowSpec::builder()
            .execution_spec(ExecutionSpec::new("a").payload(payload.clone()))
            .build();
        let file = serde_json::to_string(&spec).unwrap();
        assert!(payload.is_null() || file.contains(text), "a file holds the text as it came");
        let pretty = serde_json::to_string_pretty(&spec).unwrap();
        for file in [file, pretty] {
            let read = FlowSpec::load(&file).unwrap();
            assert!(read == spec && read.executions[0].payload.as_str() == text, "a file lost it");
        }
        assert!(spec.validate(&Limits::default()).is_ok());
    }

    #[test]
    fn a_text_is_kept_byte_for_byte_however_deep_it_nests() {
        on_a_small_stack(|| delicate().iter().for_each(|text| check_kept(text)));
    }

    #[test]
    fn a_value_of_any_depth_is_written_without_a_stack() {
        on_a_small_stack(|| {
            let deep = (0..DEPTH).fold(json!(7), |inner, level| match level % 2 {
                0 => Value::Array(vec![inner]),
                _ => Value::Object([("a".to_owned(), inner)].into_iter().collect()),
            });
            let text = format!("{}7{}", "{\"a\":[".repeat(DEPTH / 2), "]}".repeat(DEPTH / 2));
            assert!(Payload::from(deep).as_str() == text);
        });
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        let refused = |text: &str| Payload::from_json(text).unwrap_err().to_string();
        assert_eq!(refused("[1,"), "1:3: EOF while parsing a value");
        assert_eq!(refused("1 2"), "1:3: trailing characters");
        assert_eq!(refused("\n1"), "1:1: white space around a payload");
        assert_eq!(refused("{}\n"), "1:3: white space around a payload");
        assert_eq!(refused(""), "1:0: EOF while parsing a value");
    }

    #[test]
    fn a_log_shows_the_size_of_a_payload_and_nothing_of_it() {
        let payload = Payload::of("secret").unwrap();
        assert_eq!(format!("{payload:?}"), "Payload(8 bytes)");
        assert_eq!(payload.to_string(), "\"secret\"");
    }
}
