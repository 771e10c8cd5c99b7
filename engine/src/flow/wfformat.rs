//! `WfFormat` 1.5 documents (wfcommons.org) as specifications: structure and run times. Pure; never
//! carries files, machines or commands over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use super::{DEFAULT_NAME, EdgeSpec, ExecutionSpec, FlowFileError, FlowSpec, Payload};

const SCHEMA_VERSION: &str = "1.5";

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "schemaVersion", borrow)]
    schema_version: Text<'a>,
    workflow: Workflow<'a>,
}

#[derive(Deserialize)]
struct Workflow<'a> {
    #[serde(borrow)]
    specification: Specification<'a>,
    #[serde(default)]
    execution: Option<Execution<'a>>,
}

#[derive(Deserialize)]
struct Specification<'a> {
    #[serde(borrow)]
    tasks: Vec<Task<'a>>,
}

#[derive(Deserialize)]
struct Task<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    id: Text<'a>,
    #[serde(default)]
    parents: Vec<Text<'a>>,
    #[serde(default)]
    children: Vec<Text<'a>>,
}

#[derive(Deserialize)]
struct Execution<'a> {
    #[serde(borrow)]
    tasks: Vec<Run<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    runtime_in_seconds: &'a RawValue,
}

/// A string that still knows where in the document it stands, unless it holds an escape.
enum Text<'a> {
    Plain(&'a str),
    Unescaped(String),
}

/// Reads a document; the error says where a task, an id or the version is wrong.
pub(super) fn read(text: &str) -> Result<FlowSpec, FlowFileError> {
    let document: Document = serde_json::from_str(text)?;
    let refuse = |mark: &Text, reason| Err(FlowFileError::at(text, mark.offset(text), reason));
    let version = &document.schema_version;
    if version.get() != SCHEMA_VERSION {
        let reason = format!("schemaVersion `{}` is not {SCHEMA_VERSION}", version.get());
        return refuse(version, reason);
    }
    let tasks = &document.workflow.specification.tasks;
    let mut ids = BTreeSet::new();
    if let Some(task) = tasks.iter().find(|task| !ids.insert(task.id.get())) {
        return refuse(&task.id, format!("task `{}` is listed twice", task.id.get()));
    }
    let links = || tasks.iter().flat_map(|task| task.parents.iter().chain(&task.children));
    if let Some(id) = links().find(|id| !ids.contains(id.get())) {
        return refuse(id, format!("`{}` is not the id of a task", id.get()));
    }
    let runs = document.workflow.execution.map_or_else(Vec::new, |execution| execution.tasks);
    if let Some(run) = runs.iter().find(|run| !ids.contains(run.id.get())) {
        return refuse(&run.id, format!("`{}` is not the id of a task", run.id.get()));
    }
    let mut run_ids = BTreeSet::new();
    if let Some(run) = runs.iter().find(|run| !run_ids.insert(run.id.get())) {
        return refuse(&run.id, format!("task `{}` has two runs", run.id.get()));
    }
    if let Some((run, wrong)) = runs.iter().find_map(|run| Some((run, run.mistake()?))) {
        let reason = format!("runtimeInSeconds of task `{}` is {wrong}", run.id.get());
        return refuse(&run.id, reason);
    }
    Ok(specification(tasks, &runs))
}

fn specification(tasks: &[Task], runs: &[Run]) -> FlowSpec {
    let runtimes: BTreeMap<&str, &RawValue> =
        runs.iter().map(|run| (run.id.get(), run.runtime_in_seconds)).collect();
    let executions = tasks.iter().map(|task| {
        let mut execution = ExecutionSpec::new(task.id.get()).kind(kind(task.name.get()));
        if let Some(runtime_s) = runtimes.get(task.id.get()) {
            let payload = BTreeMap::from([("runtime_s", runtime_s)]);
            execution.payload = Payload::of(&payload).expect("a number has a form as JSON");
        }
        execution
    });
    // Documents tell each edge twice, at its parent and at its child, or only once.
    let links: BTreeSet<(&str, &str)> = tasks
        .iter()
        .flat_map(|task| {
            let id = task.id.get();
            let inbound = task.parents.iter().map(move |parent| (parent.get(), id));
            inbound.chain(task.children.iter().map(move |child| (id, child.get())))
        })
        .collect();
    let edges = links.into_iter().map(|(from, to)| EdgeSpec::new(from, to)).collect();
    FlowSpec { executions: executions.collect(), edges, ..FlowSpec::default() }
}

/// The name without the number that tells tasks of one kind apart: `_ID0000001` or `_00000001`.
fn kind(name: &str) -> &str {
    let unnumbered = name.trim_end_matches(|character: char| character.is_ascii_digit());
    let numbered = unnumbered.len() < name.len();
    let mut marks = ["_ID", "_"].into_iter().filter(|_| numbered);
    let kind = marks.find_map(|mark| unnumbered.strip_suffix(mark)).unwrap_or(name);
    if kind.is_empty() { DEFAULT_NAME } else { kind }
}

impl Run<'_> {
    /// What is wrong with its time. The text of the number itself goes into the payload.
    fn mistake(&self) -> Option<&'static str> {
        match self.runtime_in_seconds.get().parse::<f64>() {
            Ok(seconds) if seconds < 0.0 => Some("negative"),
            Ok(_) => None,
            Err(_) => Some("not a number"),
        }
    }
}

impl Text<'_> {
    fn get(&self) -> &str {
        match self {
            Text::Plain(text) => text,
            Text::Unescaped(text) => text,
        }
    }

    /// Where the string stands in the document that it was read from, or the start of it.
    fn offset(&self, document: &str) -> usize {
        match self {
            Text::Plain(text) => text.as_ptr().addr() - document.as_ptr().addr(),
            Text::Unescaped(text) => {
                document.find(&json!(text).to_string()).map_or(0, |quote| quote + 1)
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text::Plain(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text::Unescaped(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
