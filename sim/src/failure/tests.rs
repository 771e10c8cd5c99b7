use super::*;
use crate::plan::{Campaign, Profile};
use crate::scenario::Workload;
use crate::tape::Site;

fn plan() -> Plan {
    let campaign = Campaign {
        lane: LaneKind::Model,
        profile: Profile::Swarm,
        engine: EngineKind::Published,
        mutant: Some(Mutant::P05),
        workload: Workload::Drawn,
    };
    campaign.plan(11)
}

fn failure(seed: u64, invariant: &str, message: &str) -> Failure {
    let sighting = Sighting { invariant: invariant.into(), message: message.into() };
    let cell = |value| Cell { site: Site::Fault, arity: 9, value };
    Failure::new(seed, sighting, &plan().flow, 0xABC, (0..9).map(cell).collect())
}

pub(super) fn file() -> FailureFile {
    FailureFile::new(&failure(11, "I8", "\"stuck\"\nfor ever"), plan(), "0123abcd")
}

fn check_refused(text: &str, line: usize, words: &str) {
    let (at, reason) = FailureFile::parse(text).unwrap_err();
    assert!(reason.contains(words), "{reason}");
    assert_eq!(at, line, "{reason}");
}

#[test]
fn a_written_file_reads_back_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("I8-x.json");
    file().write_as(&path).unwrap();
    assert_eq!(FailureFile::load(&path), Ok(file()));
    let shrunk = FailureFile {
        seen: 3,
        necessary: vec![NecessaryFault { fault: "crash".into(), without: "passes".into() }],
        ..file()
    };
    shrunk.write_as(&path).unwrap();
    assert_eq!(FailureFile::load(&path), Ok(shrunk));
}

#[test]
fn a_file_without_choices_reads_back_too() {
    let empty = FailureFile { tape: Vec::new(), ..file() };
    assert_eq!(FailureFile::parse(&empty.to_text()), Ok(empty));
}

#[test]
fn a_truncated_file_is_refused_at_its_last_line() {
    let text = file().to_text();
    for keep in [text.len() / 4, text.len() / 2, text.len() - 3] {
        let cut = &text[..keep];
        let (line, reason) = FailureFile::parse(cut).unwrap_err();
        assert!(reason.contains("EOF"), "{reason}");
        assert_eq!(line, cut.matches('\n').count() + 1);
    }
    check_refused("", 1, "EOF");
}

#[test]
fn a_broken_file_is_refused_with_the_line_and_the_reason() {
    let text = file().to_text();
    let line = |field: &str| line_of(&text, field);
    let check = |from: &str, to: &str, at: usize, words: &str| {
        assert!(text.contains(from), "{from}");
        check_refused(&text.replacen(from, to, 1), at, words);
    };
    check("\"format\": 1", "\"format\": 99", 2, "format 99 is not 1");
    check("\"seed\": 11", "\"seed\": \"x\"", line("seed"), "expected u64");
    check("\"lane\": \"model\"", "\"lane\": \"moodel\"", line("lane"), "sqlite");
    check("\"lane\": \"model\"", "\"lane\": \"sqlite\"", line("lane"), "lane differs");
    check("\"mutant\": \"P05\"", "\"mutant\": \"P99\"", line("mutant"), "no planted bug `P99`");
    check("\"workers\": 2", "\"workers\": 250", line("cast"), "at most 64 actors");
    check("[\"fault\",9,8]", "[\"fault\",9,9]", line("tape"), "cell 8 chooses 9 of 9");
    check("[\"fault\",9,0]", "[\"fate\",9,0]", line("tape") + 1, "unknown variant `fate`");
    check("\"signature\"", "\"sign\"", line("signature"), "unknown field `sign`");
    check("\"trace_hash\": \"", "\"trace_hash\": \"x", line("trace_hash"), "not hexadecimal");
}

#[test]
fn what_stands_behind_a_server_is_in_the_file_and_only_a_network_has_one() {
    let (lane, engine) = (LaneKind::Network, EngineKind::Sluicegate);
    let (profile, workload) = (Profile::Quick, Workload::Drawn);
    let campaign = Campaign { lane, profile, engine, mutant: None, workload };
    let mut plans = (0..100).map(|seed| campaign.plan(seed));
    let plan = plans.find(|plan| plan.behind.is_some()).unwrap();
    let network = FailureFile::new(&failure(11, "I8", "stuck"), plan.clone(), "0123abcd");
    assert_eq!(FailureFile::parse(&network.to_text()), Ok(network.clone()));
    assert!(network.entry_name().ends_with("-network-sqlite.json"), "{}", network.entry_name());
    let refused = |plan: Plan, field: &str, words: &str| {
        let text = FailureFile { lane: plan.lane, plan, ..network.clone() }.to_text();
        check_refused(&text, line_of(&text, field), words);
    };
    refused(Plan { lane: LaneKind::Model, ..plan.clone() }, "behind", "has no server");
    refused(Plan { behind: None, ..plan }, "faults", "with simulated behind it");
}

#[test]
fn an_unreadable_file_is_named() {
    let error = FailureFile::load(Path::new("no/such/file.json")).unwrap_err().to_string();
    assert!(error.starts_with("no/such/file.json: "), "{error}");
}

#[test]
fn duplicates_fold_to_the_first_seed_in_any_order() {
    let all = [
        failure(7, "I8", "3 stranded"),
        failure(2, "I8", "1 stranded"),
        failure(5, "I3", "miscounted"),
        failure(9, "I8", "2 stranded"),
    ];
    let mut forward = Failures::default();
    let mut backward = Failures::default();
    for failure in &all {
        forward.add(failure.clone());
    }
    for failure in all.iter().rev() {
        let mut one = Failures::default();
        one.add(failure.clone());
        backward.merge(one);
    }
    assert_eq!(forward, backward);
    assert_eq!(forward.distinct().map(|failure| failure.seed).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(forward.count(), 4);
    assert_eq!(forward.exits(), [Exit::Safety, Exit::Liveness]);
}
