//! Specifications as text, and where in the text a mistake is. Pure; never opens a file.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::{FlowSpec, wfformat};
use crate::policy::JoinPolicy;
use crate::said;

/// Text that is not a specification: where, and why. Prints as `line:column: reason`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{column}: {reason}")]
#[non_exhaustive]
pub struct FlowFileError {
    /// Line, from 1.
    pub line: usize,
    /// Byte of the line, from 1; 0 for the line break before it.
    pub column: usize,
    /// What is wrong there.
    pub reason: String,
}

impl FlowSpec {
    /// Reads a specification from its JSON form.
    pub fn from_json(text: &str) -> Result<FlowSpec, FlowFileError> {
        check_object(text)?;
        Ok(serde_json::from_str(text)?)
    }

    /// Reads a specification from its JSON form or from a `WfFormat` 1.5 document (wfcommons.org).
    ///
    /// A task of such a document becomes an execution named by the task's id, its kind the task's
    /// name without the number at its end, its payload `{"runtime_s": seconds}`.
    pub fn load(text: &str) -> Result<FlowSpec, FlowFileError> {
        check_object(text)?;
        let marks: WfFormatMarks = serde_json::from_str(text)?;
        match marks {
            WfFormatMarks { schema_version: None, workflow: None } => Self::from_json(text),
            _ => wfformat::read(text),
        }
    }
}

/// Refuses text that is JSON, but no object. A reader of fields would name a type of this program,
/// or take the items of an array for fields.
fn check_object(text: &str) -> Result<(), FlowFileError> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(offset) = text.bytes().position(|byte| !blank(&byte)) else {
        // That the text ends is what the reader says.
        return Ok(());
    };
    let found = match text.as_bytes()[offset] {
        b'{' => return Ok(()),
        b'[' => "an array",
        b'"' => "a string",
        b'n' => "null",
        b't' | b'f' => "a boolean",
        b'-' | b'0'..=b'9' => "a number",
        _ => "no JSON",
    };
    let reason = format!("a flow is a JSON object, in braces; this is {found}");
    Err(FlowFileError::at(text, offset, reason))
}

/// The fields by which a `WfFormat` document is told from a specification.
#[derive(Deserialize)]
struct WfFormatMarks {
    #[serde(rename = "schemaVersion")]
    schema_version: Option<IgnoredAny>,
    workflow: Option<IgnoredAny>,
}

impl FlowFileError {
    /// A mistake at a byte of the text.
    pub(super) fn at(text: &str, offset: usize, reason: String) -> Self {
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        Self { line, column: offset - line_start + 1, reason }
    }
}

impl From<serde_json::Error> for FlowFileError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = said::of_specification(&error);
        let reason = text.strip_suffix(&format!(" at line {line} column {column}"));
        Self { line, column, reason: reason.unwrap_or(&text).to_owned() }
    }
}

/// Reads groups and refuses a name that comes twice, of which JSON would silently keep the last.
pub(super) fn unique_groups<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, JoinPolicy>, D::Error> {
    deserializer.deserialize_map(UniqueGroups)
}

struct UniqueGroups;

impl<'de> Visitor<'de> for UniqueGroups {
    type Value = BTreeMap<String, JoinPolicy>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from downstream names to join policies")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut groups = BTreeMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            if groups.contains_key(&name) {
                return Err(A::Error::custom(format!("group `{name}` is set twice")));
            }
            let policy = entries.next_value()?;
            groups.insert(name, policy);
        }
        Ok(groups)
    }
}
