use super::*;
use crate::flow::Limits;

const DOCUMENT: &str = r#"{
  "name": "small",
  "schemaVersion": "1.5",
  "workflow": {
    "specification": {
      "tasks": [
        {"name": "split_ID0000001", "id": "s1", "parents": [], "children": ["w2", "w3"]},
        {"name": "work_00000002", "id": "w2", "parents": ["s1"], "children": []},
        {"name": "work", "id": "w3", "children": ["m4"], "files": ["x"]},
        {"name": "0004", "id": "m4", "parents": ["w2", "w3"]}
      ]
    },
    "execution": {
      "makespanInSeconds": 9,
      "tasks": [
        {"id": "s1", "runtimeInSeconds": 0.5},
        {"id": "w2", "runtimeInSeconds": 2}
      ]
    }
  }
}"#;

/// Directory of further documents, given when the tests are compiled.
const FOLDER: Option<&str> = option_env!("SLUICEGATE_WORKFLOWS");

fn check_refused(from: &str, to: &str, message: &str) {
    assert!(DOCUMENT.contains(from), "{from}");
    let error = FlowSpec::load(&DOCUMENT.replacen(from, to, 1)).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_document_becomes_a_flow_with_each_edge_once() {
    let spec = FlowSpec::load(DOCUMENT).unwrap();
    let executions: Vec<(&str, &str, String)> = spec
        .executions
        .iter()
        .map(|execution| {
            (execution.name.as_str(), execution.kind.as_str(), execution.payload.to_string())
        })
        .collect();
    assert_eq!(
        executions,
        [
            ("s1", "split", r#"{"runtime_s":0.5}"#.to_owned()),
            ("w2", "work", r#"{"runtime_s":2}"#.to_owned()),
            ("w3", "work", "null".to_owned()),
            ("m4", "0004", "null".to_owned()),
        ]
    );
    let edges: Vec<(&str, &str)> =
        spec.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str())).collect();
    assert_eq!(edges, [("s1", "w2"), ("s1", "w3"), ("w2", "m4"), ("w3", "m4")]);
}

#[test]
fn a_run_time_keeps_its_digits() {
    let digits = "123456789012345678901234567890.10";
    let document = DOCUMENT.replacen("onds\": 0.5", &format!("onds\": {digits}"), 1);
    let spec = FlowSpec::load(&document).unwrap();
    assert_eq!(spec.executions[0].payload.as_str(), format!("{{\"runtime_s\":{digits}}}"));
}

#[test]
fn every_document_at_hand_is_a_valid_flow() {
    let mut documents = vec![DOCUMENT.to_owned()];
    for entry in FOLDER.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            documents.push(std::fs::read_to_string(path).unwrap());
        }
    }
    for document in documents {
        let flow = FlowSpec::load(&document).unwrap().validate(&Limits::default()).unwrap();
        assert_eq!(flow.order().len(), flow.spec().executions.len());
    }
}

#[test]
fn numbers_at_the_end_of_a_name_are_no_part_of_the_kind() {
    let table = [
        ("mProject_ID0000001", "mProject"),
        ("cpuhog_chain_00000001", "cpuhog_chain"),
        ("fast2bfq", "fast2bfq"),
        ("chr21", "chr21"),
        ("_12", "default"),
        ("", "default"),
    ];
    for (name, expected) in table {
        assert_eq!(kind(name), expected, "{name}");
    }
}

#[test]
fn mistakes_in_a_document_are_refused_with_their_place() {
    check_refused("\"1.5\"", "\"1.4\"", "3:21: schemaVersion `1.4` is not 1.5");
    check_refused("[\"w2\", \"w3\"]", "[\"zz\", \"w3\"]", "7:78: `zz` is not the id of a task");
    check_refused(
        "\"parents\": [\"w2\"",
        "\"parents\": [\"z\"",
        "10:51: `z` is not the id of a task",
    );
    check_refused("[\"m4\"]", "[\"\\u006d5\"]", "1:1: `m5` is not the id of a task");
    check_refused("[\"m4\"]", "[\"m\\n5\"]", "9:52: `m\n5` is not the id of a task");
    check_refused("\"id\": \"w3\"", "\"id\": \"w2\"", "9:33: task `w2` is listed twice");
    check_refused("{\"id\": \"w2\"", "{\"id\": \"w9\"", "17:17: `w9` is not the id of a task");
    check_refused("{\"id\": \"w2\"", "{\"id\": \"s1\"", "17:17: task `s1` has two runs");
    check_refused(
        "onds\": 0.5",
        "onds\": -0.5",
        "16:17: runtimeInSeconds of task `s1` is negative",
    );
    check_refused(
        "onds\": 2",
        "onds\": \"2\"",
        "17:17: runtimeInSeconds of task `w2` is not a number",
    );
    check_refused("\"id\": \"w3\", ", "", "9:60: missing field `id`");
    check_refused("\"s1\"", "\"s1", "7:49: expected `,` or `}`");
    check_refused("  \"schemaVersion\": \"1.5\",\n", "", "20:1: missing field `schemaVersion`");
}
