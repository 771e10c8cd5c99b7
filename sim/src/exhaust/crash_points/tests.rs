//! Crash points of the flow of one node: that nothing is lost at them, and that a loss is seen.

use super::*;
use crate::exhaust::disk::explore;
use crate::exhaust::graphs::{Alphabet, graphs};
use crate::exhaust::name;
use crate::exhaust::report::message;

fn settings() -> DiskSettings {
    DiskSettings { nodes: 1, alphabet: Alphabet::A, mutant: None, memo: true, jobs: 1 }
}

fn graph() -> Graph {
    graphs(1, Alphabet::A).remove(0)
}

#[test]
fn nothing_is_lost_at_any_crash_point_and_memory_of_equal_disks_hides_nothing() {
    let (counted, findings) = crash_points(&settings(), &graph());
    assert!(findings.is_empty(), "{:?}", findings[0].outcome.end);
    assert!(counted.failed == 0 && !counted.cut_short && counted.points > 500, "{counted:?}");
    let (whole, _) = crash_points(&DiskSettings { memo: false, ..settings() }, &graph());
    assert_eq!((whole.points, whole.failed), (counted.points, 0));
    assert!(counted.images < whole.images, "{counted:?} {whole:?}");
}

#[test]
fn crash_points_are_the_operations_that_universes_are_struck_at() {
    let plan = settings().plan(&graph(), None);
    let recorded = universe(&plan).run_recorded(Tape::quiet(), |_| {});
    for fault in [FaultKind::PowerCut, FaultKind::ProcessCrash] {
        let trouble = fault.trouble().unwrap();
        let moments = recorded.recording.moments.iter();
        let count = moments.filter(|moment| trouble.strikes(moment.operation)).count();
        let explored = explore(&settings(), &graph(), fault, [0, 0]);
        assert_eq!(explored.struck, u64::try_from(count).unwrap(), "{fault:?}");
    }
}

#[test]
fn a_device_that_lies_is_seen_and_so_is_that_the_universes_know_nothing_of_it() {
    let (counted, findings) = of_disk(&settings(), &graph(), |disk| disk.syncs_ignored = true);
    assert!(counted.failed > 0, "{counted:?}");
    assert_eq!(findings.len(), FINDINGS_PER_FLOW_MAX);
    for finding in findings {
        let end = &finding.outcome.end;
        assert_eq!(name(end), "I19");
        assert!(message(end).contains("must agree"), "{end:?}");
    }
}

#[test]
fn a_state_that_the_judge_does_not_know_is_no_measure() {
    let plan = settings().plan(&graph(), None);
    let mut recorded = universe(&plan).run_recorded(Tape::quiet(), |_| {});
    let anchor = |mirrors: &[_]| Pass::new(&recorded.recording, true).anchor(mirrors);
    assert_eq!(anchor(&recorded.mirrors), None);
    recorded.mirrors.swap(0, 1);
    assert!(anchor(&recorded.mirrors).is_some());
}

#[cfg(feature = "mutants")]
fn check_seen(id: &str) {
    use sluicegate::mutants::Mutant;
    let mutant = Mutant::ALL.iter().copied().find(|mutant| mutant.id() == id);
    let (counted, findings) = crash_points(&DiskSettings { mutant, ..settings() }, &graph());
    assert!(counted.failed > 0, "{counted:?}");
    for finding in findings {
        let end = &finding.outcome.end;
        assert_eq!(name(end), "I19");
        assert!(!message(end).contains("must agree"), "{end:?}");
        let replayed = universe(&finding.plan).run(Tape::replay(finding.outcome.tape.clone()));
        assert_eq!(replayed.end, *end);
    }
}

#[test]
#[cfg(feature = "mutants")]
fn commits_that_are_acknowledged_before_they_are_synced_are_seen() {
    check_seen("S31");
}

#[test]
#[cfg(feature = "mutants")]
fn what_is_read_before_it_is_synced_is_seen() {
    check_seen("S32");
}
