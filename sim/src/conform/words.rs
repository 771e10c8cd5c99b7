//! Steps of a schedule as text: a verb or a control word with named arguments. Pure; knows no
//! verb's arguments.

use std::fmt;

use sluicegate::storage::Verb;

/// What a session can be told beside the verbs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Control {
    /// Opens a transaction.
    Begin,
    /// Opens a reader each of whose verbs sees what had committed when it began.
    Statement,
    /// Opens a reader all of whose verbs see one instant.
    Snapshot,
    /// Ends a transaction and keeps its effects.
    Commit,
    /// Ends a transaction and drops its effects.
    Rollback,
    /// Drops a transaction without a word, as a crash does.
    Drop,
    /// Ends the session from outside, even while it waits.
    Terminate,
    /// Ends a reader.
    Close,
}

impl Control {
    /// Every control word.
    pub const ALL: [Control; 8] = [
        Control::Begin,
        Control::Statement,
        Control::Snapshot,
        Control::Commit,
        Control::Rollback,
        Control::Drop,
        Control::Terminate,
        Control::Close,
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Control::Begin => "begin",
            Control::Statement => "statement",
            Control::Snapshot => "snapshot",
            Control::Commit => "commit",
            Control::Rollback => "rollback",
            Control::Drop => "drop",
            Control::Terminate => "terminate",
            Control::Close => "close",
        }
    }
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// A control word.
    Control(Control),
    /// A verb.
    Verb(Verb),
}

/// A verb or a control word with its named arguments, each of which is a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    /// What is done.
    pub head: Head,
    arguments: Vec<(String, Vec<String>)>,
}

impl Words {
    /// A control word.
    pub fn control(control: Control) -> Self {
        Self { head: Head::Control(control), arguments: Vec::new() }
    }

    /// A verb without arguments yet.
    pub fn verb(verb: Verb) -> Self {
        Self { head: Head::Verb(verb), arguments: Vec::new() }
    }

    /// Adds an argument; nothing if the list is empty.
    #[must_use]
    pub fn with(mut self, name: &str, values: &[impl AsRef<str>]) -> Self {
        if !values.is_empty() {
            let values = values.iter().map(|value| value.as_ref().to_owned()).collect();
            self.arguments.push((name.to_owned(), values));
        }
        self
    }

    /// The values of an argument; none if it is not given.
    pub fn values(&self, name: &str) -> &[String] {
        let given = self.arguments.iter().find(|(given, _)| given == name);
        given.map_or(&[], |(_, values)| values)
    }

    /// The names of the arguments.
    pub fn given(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|(name, _)| name.as_str())
    }

    /// Every value of every argument.
    pub fn all_values(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().flat_map(|(_, values)| values.iter().map(String::as_str))
    }

    /// Reads `verb name=value,value name=value`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let head = head(words.next().ok_or("a step is empty")?)?;
        let mut arguments: Vec<(String, Vec<String>)> = Vec::new();
        for word in words {
            let (name, values) =
                word.split_once('=').ok_or_else(|| format!("`{word}` is not `name=values`"))?;
            if arguments.iter().any(|(given, _)| given == name) {
                return Err(format!("`{name}` is given twice"));
            }
            arguments.push((name.to_owned(), values.split(',').map(str::to_owned).collect()));
        }
        Ok(Self { head, arguments })
    }
}

fn head(word: &str) -> Result<Head, String> {
    if let Some(control) = Control::ALL.into_iter().find(|control| control.word() == word) {
        return Ok(Head::Control(control));
    }
    let verb = Verb::ALL.iter().find(|verb| verb.descriptor().name == word);
    verb.map(|verb| Head::Verb(*verb))
        .ok_or_else(|| format!("`{word}` is neither a verb of the table nor a control word"))
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.head {
            Head::Control(control) => f.write_str(control.word())?,
            Head::Verb(verb) => f.write_str(verb.descriptor().name)?,
        }
        for (name, values) in &self.arguments {
            write!(f, " {name}={}", values.join(","))?;
        }
        Ok(())
    }
}

/// One step: a session and what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Position of the session.
    pub seat: usize,
    /// What it does.
    pub words: Words,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_as_it_is_written() {
        for text in ["begin", "lock_groups keys=a,b", "resolve_edges rows=a>b to=satisfied"] {
            assert_eq!(Words::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_step_that_means_nothing_is_refused_by_its_word() {
        for (text, word) in [
            ("", "empty"),
            ("lock_moon keys=a", "`lock_moon`"),
            ("lock_groups a", "`a`"),
            ("lock_groups keys=a keys=b", "`keys`"),
        ] {
            let error = Words::parse(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
