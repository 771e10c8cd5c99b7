//! The tags of a flow: names with values that an operator hangs on it. Pure; how they are stored is
//! one text, and no filter reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What operators have noted on a flow, by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tags(Arc<BTreeMap<Arc<str>, Arc<str>>>);

impl Tags {
    /// The value under a name, if there is one.
    pub fn get(&self, tag: &str) -> Option<&Arc<str>> {
        self.0.get(tag)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(tag, value)| (&**tag, &**value))
    }

    /// These, with that value under that name.
    #[must_use]
    pub fn with(&self, tag: &str, value: &str) -> Self {
        let mut tags = (*self.0).clone();
        tags.insert(tag.into(), value.into());
        Self(Arc::new(tags))
    }

    /// As they are stored: a JSON object, or nothing if there are none.
    pub fn text(&self) -> Option<String> {
        let map: BTreeMap<&str, &str> = self.iter().collect();
        let text = serde_json::to_string(&map).expect("a map of texts is JSON");
        (!map.is_empty()).then_some(text)
    }

    /// What is stored, read back; `None` for a text that no engine writes.
    pub fn of_text(stored: Option<&str>) -> Option<Self> {
        let Some(text) = stored else { return Some(Self::default()) };
        let map: BTreeMap<String, String> = serde_json::from_str(text).ok()?;
        let shared = map.into_iter().map(|(tag, value)| (tag.into(), value.into()));
        Some(Self(Arc::new(shared.collect()))).filter(|tags| !tags.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_read_back() {
        let one = Tags::default().with("billing.team", "größe \"7\"\n");
        let two = one.with("billing.plan", "");
        for tags in [Tags::default(), one, two] {
            assert_eq!(Tags::of_text(tags.text().as_deref()), Some(tags));
        }
    }

    #[test]
    fn a_text_that_no_engine_writes_is_refused() {
        for text in ["", "null", "{}", "[]", "{\"a.b\":1}", "{\"a.b\":\"c\"} x"] {
            assert_eq!(Tags::of_text(Some(text)), None, "{text}");
        }
    }
}
