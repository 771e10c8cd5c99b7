//! Scratch.
use sluicegate_sim::driver::{End, Universe};
use sluicegate_sim::plan::*;
use sluicegate_sim::tape::Tape;
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let lane = if args[1] == "sqlite" { LaneKind::Sqlite } else { LaneKind::Model };
    let (a, b): (u64, u64) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let engine = if args.get(4).is_some_and(|x| x == "published") {
        EngineKind::Published
    } else {
        EngineKind::Sluicegate
    };
    let campaign = Campaign {
        lane,
        profile: if std::env::args().any(|x| x == "swarm") {
            Profile::Swarm
        } else {
            Profile::Quick
        },
        engine,
        mutant: args
            .get(5)
            .and_then(|m| sluicegate::mutants::Mutant::ALL.iter().find(|x| x.id() == m).copied()),
        flow: None,
    };
    let t = std::time::Instant::now();
    let mut bad = 0;
    for seed in a..b {
        let plan = campaign.plan(seed);
        let mut universe = Universe::new(Arc::new(plan)).unwrap();
        universe.keep_entries(b - a == 1);
        let outcome = universe.run(Tape::random(seed, 1));
        if outcome.end != End::Clean {
            bad += 1;
            if bad < 10 {
                println!("{seed}: {:?} {:?}", outcome.end, outcome.stuck);
            }
        }
        if b - a == 1 {
            for e in &outcome.entries {
                println!("{:?}", e);
            }
            println!("{:?}", universe.names());
        }
    }
    let tally = Universe::take_tally();
    let s = t.elapsed().as_secs_f64();
    println!(
        "bad {bad} universes/s {} statements/s {}",
        (b - a) as f64 / s,
        tally.statements as f64 / s
    );
    println!("{tally:?}");
}
