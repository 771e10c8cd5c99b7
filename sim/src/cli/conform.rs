//! `conform`: from its arguments to its exit code. The schedules are `crate::conform`'s.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::values;
use crate::conform::floor::Counts;
use crate::conform::run::{self, Found, Partitions, Settings, Summary};
use crate::conform::server::Address;
use crate::conform::tell;
use crate::database::ModelMutant;
use crate::exit::Exit;
use crate::report::progress::{Goal, Progress};
use crate::report::{commit, complain, json, print, reproduction};

/// Schedules at once unless told otherwise: most of the time of each is spent on waiting.
const JOBS: u16 = 6;
/// Divergences after which a run stops.
const DIVERGENCES_MAX: usize = 5;

/// What `conform` is told.
#[derive(Args, Debug)]
pub(super) struct ConformArguments {
    /// Random schedules
    #[arg(long, value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(run::SCHEDULES_MAX)))]
    schedules: u32,
    /// Seed of the first schedule; each further one has the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// A server of version 13 or later, whose superuser the URL names
    #[arg(long, value_name = "URL")]
    postgres: String,
    /// Turn a planted bug of the model on: it must be seen
    #[arg(long, value_name = "ID", value_parser = values::model_mutant)]
    mutant: Option<ModelMutant>,
    /// Schedules at once
    #[arg(long, value_name = "J", default_value_t = JOBS,
          value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where schedules go on which the two differ
    #[arg(long, value_name = "DIR", default_value = "target/sim-failures")]
    failures: PathBuf,
}

impl ConformArguments {
    fn command(&self) -> String {
        let mut line =
            format!("cargo sim conform --schedules {} --seed {}", self.schedules, self.seed);
        if let Some(mutant) = self.mutant {
            line += &[" --mutant ", mutant.id()].concat();
        }
        line + " --postgres " + &self.postgres
    }
}

pub(super) fn run(arguments: &ConformArguments) -> Result<Exit, String> {
    let command = arguments.command();
    print(&reproduction(&command));
    let address = Address {
        url: arguments.postgres.clone(),
        schema: format!("sluicegate_conform_{}", std::process::id()),
    };
    let settings = Settings {
        schedules: arguments.schedules,
        seed: arguments.seed,
        jobs: usize::from(arguments.jobs),
        mutant: arguments.mutant,
        divergences_max: if arguments.mutant.is_some() { 1 } else { DIVERGENCES_MAX },
    };
    let played = play(&address, &settings);
    let summary = match played {
        Ok(summary) => summary,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Ok(Exit::Environment);
        }
    };
    let mut exits = Vec::new();
    tell_summary(&summary);
    for found in &summary.found {
        exits.push(Exit::ModelDiffers);
        tell_found(arguments, found);
    }
    for (verb, cell) in summary.counts.missing() {
        complain(&format!("never seen: {} {}", verb.descriptor().name, cell.name()));
        exits.push(Exit::Vacuous);
    }
    if let Some(path) = &arguments.json
        && let Err(why) = json::write(path, &report(&command, &summary))
    {
        complain(&format!("error: {why}"));
        exits.push(Exit::Environment);
    }
    print(&reproduction(&command));
    Ok(Exit::first_of(&exits))
}

fn play(address: &Address, settings: &Settings) -> Result<Summary, String> {
    run::prepare(address)?;
    let partitions = Partitions::default();
    let goal = Goal::Count(u64::from(settings.schedules));
    let mut progress = Progress::new("schedules", goal);
    let summary = run::run(address, settings, &partitions, &mut progress);
    progress.finish();
    run::clean_up(address)?;
    summary
}

fn tell_summary(summary: &Summary) {
    let failures = summary.failures.iter();
    let failures: Vec<String> = failures.map(|(kind, n)| format!("{kind:?} {n}")).collect();
    print(&format!(
        "{} schedules, {} steps, {} waits, {:.0} schedules/s; failures: {}\n{} divergences\n",
        summary.schedules,
        summary.steps,
        summary.waits,
        summary.schedules_per_s(),
        failures.join(", "),
        summary.found.len(),
    ));
}

fn tell_found(arguments: &ConformArguments, found: &Found) {
    print(&format!(
        "\nthe model differs from Postgres, seed {}, {} of {} steps:\n{}",
        found.seed,
        found.played.taken.len(),
        found.steps_drawn,
        tell::table(&found.played)
    ));
    let path = arguments.failures.join(format!("conform-{}.json", found.seed));
    let mut value = tell::to_json(&found.played);
    value["seed"] = json!(found.seed);
    value["commit"] = json!(commit());
    let written = std::fs::create_dir_all(&arguments.failures)
        .map_err(|error| format!("{}: {error}", arguments.failures.display()))
        .and_then(|()| json::write(&path, &value));
    match written {
        Ok(()) => print(&format!("written to {}\n", path.display())),
        Err(why) => complain(&format!("error: {why}")),
    }
}

fn report(command: &str, summary: &Summary) -> Value {
    let counts: &Counts = &summary.counts;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "command": command,
        "lane": "postgres",
        "schedules": summary.schedules,
        "steps": summary.steps,
        "verbs": counts,
        "divergences": summary.found.len(),
        "wall_s": summary.wall.as_secs_f64(),
        "schedules_per_s": summary.schedules_per_s(),
    })
}
