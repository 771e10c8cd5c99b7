use super::*;
use crate::campaign::tape;
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::replay::record;
use crate::scenario::Workload;

fn campaign(engine: EngineKind) -> Campaign {
    let (lane, profile) = (LaneKind::Model, Profile::Quick);
    Campaign { lane, profile, engine, mutant: None, workload: Workload::Drawn }
}

fn story(engine: EngineKind, seed: u64, detail: Detail) -> (Recorded, String) {
    let recorded = record(campaign(engine).plan(seed), tape(seed)).unwrap();
    let frame = Frame { title: "universe", command: "cargo sim", verdict: None, detail };
    let text = tell(&recorded, &frame, Paint::Off);
    (recorded, text)
}

/// The first seed on which the specimen fails after a fault.
fn failing() -> u64 {
    let fails = |seed: &u64| {
        let recorded = story(EngineKind::Published, *seed, Detail::Changes).0;
        let struck = recorded.entries.iter().any(|entry| matches!(entry.what, What::Fault(_)));
        struck && recorded.sighting.is_some()
    };
    (0..500).find(fails).expect("the published protocol fails")
}

#[test]
fn a_story_is_the_same_bytes_each_time() {
    let seed = failing();
    for detail in [Detail::Changes, Detail::Statements] {
        let first = story(EngineKind::Published, seed, detail).1;
        assert_eq!(first, story(EngineKind::Published, seed, detail).1);
    }
}

#[test]
fn a_story_names_the_fault_the_invariant_and_no_id() {
    let (recorded, text) = story(EngineKind::Published, failing(), Detail::Statements);
    let seen = recorded.sighting.unwrap();
    assert!(text.contains(&format!("violated: {}", invariant(&seen.invariant))), "{text}");
    assert!(text.contains("FAULT "), "{text}");
    assert!(text.contains("submits the flow: "), "{text}");
    assert!(!text.contains("uuid") && !text.contains("{fp:"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn every_statement_is_told_only_when_asked_for() {
    let seed = 3;
    let (recorded, all) = story(EngineKind::Sluicegate, seed, Detail::Statements);
    let (_, changes) = story(EngineKind::Sluicegate, seed, Detail::Changes);
    let statements = recorded.entries.iter();
    let count = statements.filter(|entry| matches!(entry.what, What::Statement(..))).count();
    assert!(all.lines().count() >= changes.lines().count() + count / 2);
    assert!(changes.contains("every invariant holds"), "{changes}");
}
