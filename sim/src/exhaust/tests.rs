//! Exhaustive runs of small flows: what they find, and that pruning hides none of it.

use super::*;
use crate::driver::world::world;
use crate::tape::Cell;

fn settings(nodes: u8, faults: u32) -> Settings {
    Settings {
        nodes,
        faults,
        kinds: usual_kinds(0),
        delays: 0,
        alphabet: Alphabet::A,
        engine: EngineKind::Sluicegate,
        mutant: None,
        memo: true,
        jobs: 2,
        budget: None,
    }
}

fn check(settings: &Settings) -> Summary {
    let summary = run(settings, &|_, _| {});
    assert!(summary.complete);
    for finding in &summary.findings {
        let mut universe = Universe::new(Arc::new(finding.plan.clone())).unwrap();
        let replayed = universe.run(Tape::replay(finding.outcome.tape.clone()));
        assert_eq!(replayed.end, finding.outcome.end, "{}", finding.graph);
    }
    summary
}

fn check_memo_agrees(settings: &Settings) -> Summary {
    let pruned = check(settings);
    let whole = check(&Settings { memo: false, ..settings.clone() });
    assert_eq!(pruned.violated, whole.violated);
    assert_eq!(whole.figures().pruned, 0);
    assert!(pruned.figures().universes <= whole.figures().universes);
    pruned
}

#[test]
fn the_engine_survives_one_fault_in_every_flow_of_two_nodes() {
    let summary = check_memo_agrees(&settings(2, 1));
    assert!(summary.is_clean(), "{summary}");
    assert!(summary.figures().pruned > 0);
}

/// Few kinds, so that every universe can be run to its end.
fn few_kinds(engine: EngineKind, mutant: Option<Mutant>) -> Settings {
    let kinds = BTreeSet::from([FaultKind::Crash, FaultKind::CommitApplied]);
    Settings { kinds, engine, mutant, ..settings(3, 1) }
}

#[test]
fn the_published_protocol_fails_with_one_fault_and_pruning_hides_none_of_it() {
    let summary = check_memo_agrees(&few_kinds(EngineKind::Published, None));
    assert!(!summary.is_clean());
}

#[test]
#[cfg(feature = "mutants")]
fn a_planted_bug_is_found_and_pruning_hides_none_of_it() {
    let mutant = Mutant::ALL.iter().copied().find(|mutant| mutant.id() == "P01");
    let summary = check_memo_agrees(&few_kinds(EngineKind::Sluicegate, mutant));
    assert!(!summary.is_clean());
}

#[test]
fn the_summary_says_all_only_when_it_was() {
    let whole = check(&settings(1, 0)).to_string();
    assert!(whole.contains("all of 1 flows"), "{whole}");
    let hurried = Settings { budget: Some(Duration::ZERO), ..settings(1, 0) };
    let hurried = run(&hurried, &|_, _| {});
    assert!(!hurried.complete);
    assert!(!hurried.to_string().contains("all of 1"), "{hurried}");
}

#[test]
fn json_names_what_the_command_line_promises() {
    let json = check(&settings(2, 0)).to_json();
    let keys = ["nodes", "faults", "delays", "alphabet", "shapes", "graphs", "universes", "pruned"];
    assert!(keys.iter().all(|key| json.get(*key).is_some()), "{json}");
    assert_eq!(json["complete"], true);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let figures = |jobs| check(&Settings { jobs, ..settings(3, 0) }).passes;
    assert_eq!(figures(1), figures(3));
}

#[test]
fn a_count_under_one_deviation_agrees_with_and_without_pruning() {
    let settings = Settings { delays: 1, ..settings(2, 0) };
    assert!(check_memo_agrees(&settings).is_clean());
}

#[test]
#[cfg(feature = "mutants")]
fn a_hop_that_reads_before_it_locks_is_found_by_one_deviation() {
    let mutant = Mutant::ALL.iter().copied().find(|mutant| mutant.id() == "P05");
    let whole = Settings { mutant, delays: 1, ..settings(3, 0) };
    let summary = check_memo_agrees(&whole);
    assert_eq!(summary.passes[0].failed, 0, "{summary}");
    assert!(summary.passes[1].failed > 0, "{summary}");
}

/// Every universe of a flow: its tape, when it ended, and a hash over everything that happened.
fn universes(settings: &Settings, graph: &Graph, forks: bool) -> Vec<(Vec<Cell>, i64, u64)> {
    let plan = Arc::new(settings.plan(graph, settings.delays));
    let mut universe = Universe::new(plan).unwrap();
    universe.explorer = Some(Box::new(Explorer::new(false, forks)));
    universe.reset(Tape::quiet());
    let mut universes = Vec::new();
    loop {
        assert_eq!(universe.explore(), End::Clean);
        let cells = world(|world| world.tape.cells().to_vec());
        universes.push(world(|world| (cells, world.now, world.trace.hash())));
        if !universe.advance() {
            return universes;
        }
    }
}

#[test]
fn a_universe_that_goes_on_from_a_saved_state_is_the_one_from_the_beginning() {
    let kinds = BTreeSet::from([
        FaultKind::Crash,
        FaultKind::LingeringSession,
        FaultKind::Serialization,
        FaultKind::Pause,
        FaultKind::NoticeLate,
    ]);
    let settings = Settings { kinds, ..settings(2, 1) };
    for graph in settings.flows() {
        let [whole, forked] = [false, true].map(|forks| universes(&settings, &graph, forks));
        assert_eq!(whole.len(), forked.len());
        let differs = whole.iter().zip(&forked).find(|(whole, forked)| whole != forked);
        assert_eq!(differs, None, "{}", graph.text());
    }
}
