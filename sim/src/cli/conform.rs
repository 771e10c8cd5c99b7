//! `conform`: from its arguments to its exit code. The schedules are `crate::conform`'s.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::values;
use crate::conform::floor::Counts;
use crate::conform::golden::{self, Golden, Ran};
use crate::conform::run::{self, Found, Partitions, Settings, Summary};
use crate::conform::server::Address;
use crate::conform::tell;
use crate::database::ModelMutant;
use crate::exit::Exit;
use crate::postgres::Server;
use crate::report::progress::{Goal, Progress};
use crate::report::{commit, complain, json, print, reproduction};

/// Schedules at once unless told otherwise: most of the time of each is spent on waiting.
const JOBS: u16 = 6;
/// Settings of a throwaway cluster: it need not survive anything.
const SETTINGS: &[(&str, &str)] = &[("fsync", "off"), ("deadlock_timeout", "1ms")];
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
    /// A server to work on: a throwaway cluster, or one that runs and whose superuser the URL names
    #[arg(long, value_name = "URL|auto", default_value = "auto")]
    postgres: Server,
    /// Only this golden case
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Where the golden cases are
    #[arg(long, value_name = "DIR", default_value = "fixtures/isolation")]
    specs: PathBuf,
    /// Write the golden outcomes from what Postgres does
    #[arg(long, conflicts_with = "mutant")]
    record: bool,
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
        if self.postgres != Server::Auto {
            line += &[" --postgres ", &self.postgres.to_string()].concat();
        }
        if let Some(spec) = &self.spec {
            line += &[" --spec ", &spec.display().to_string()].concat();
        }
        line
    }
}

pub(super) fn run(arguments: &ConformArguments) -> Exit {
    let command = arguments.command();
    print(&reproduction(&command));
    let (ran, summary) = match play(arguments) {
        Ok(played) => played,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Exit::Environment;
        }
    };
    let mut exits = Vec::new();
    tell_summary(&summary);
    for found in &summary.found {
        exits.push(Exit::ModelDiffers);
        tell_found(arguments, found);
    }
    for ran in &ran {
        tell_ran(ran);
        exits.extend((!ran.differs.is_empty()).then_some(Exit::ModelDiffers));
    }
    exits.extend(short_of(arguments, &summary, exits.is_empty()));
    if let Some(path) = &arguments.json
        && let Err(why) = json::write(path, &report(&command, &summary, &ran))
    {
        complain(&format!("error: {why}"));
        exits.push(Exit::Environment);
    }
    print(&reproduction(&command));
    Exit::first_of(&exits)
}

/// What the run did not reach: cells of the floor, or a planted bug. A single golden case has no
/// floor, and neither has a run that stopped at a difference.
fn short_of(arguments: &ConformArguments, summary: &Summary, clean: bool) -> Option<Exit> {
    if let (Some(mutant), true) = (arguments.mutant, clean) {
        complain(&format!("{} was not seen: {}", mutant.id(), mutant.defect()));
        return Some(Exit::Vacuous);
    }
    if arguments.spec.is_some() || arguments.schedules == 0 || !summary.found.is_empty() {
        return None;
    }
    let missing = summary.counts.missing();
    for (verb, cell) in &missing {
        complain(&format!("never seen: {} {}", verb.descriptor().name, cell.name()));
    }
    (!missing.is_empty()).then_some(Exit::Vacuous)
}

fn play(arguments: &ConformArguments) -> Result<(Vec<Ran>, Summary), String> {
    let provided = arguments.postgres.provide("conform", SETTINGS).map_err(|e| e.to_string())?;
    let address = Address { url: provided.url().to_owned(), schema: provided.schema().to_owned() };
    run::prepare(&address)?;
    let partitions = Partitions::default();
    let mut counts = Counts::default();
    let ran = play_specs(arguments, &address, &partitions, &mut counts)?;
    let settings = Settings {
        schedules: if arguments.spec.is_some() { 0 } else { arguments.schedules },
        seed: arguments.seed,
        jobs: usize::from(arguments.jobs),
        mutant: arguments.mutant,
        divergences_max: if arguments.mutant.is_some() { 1 } else { DIVERGENCES_MAX },
    };
    if settings.schedules == 0 {
        return Ok((ran, Summary::default()));
    }
    let goal = Goal::Count(u64::from(settings.schedules));
    let mut progress = Progress::new("schedules", goal);
    let summary = run::run(&address, &settings, &partitions, &mut progress);
    progress.finish();
    Ok((ran, summary?))
}

fn play_specs(
    arguments: &ConformArguments,
    address: &Address,
    partitions: &Partitions,
    counts: &mut Counts,
) -> Result<Vec<Ran>, String> {
    let files = match &arguments.spec {
        Some(file) => vec![file.clone()],
        None => golden::files(&arguments.specs)?,
    };
    let golden = if arguments.record { Golden::Record } else { Golden::Compare };
    run::runtime()?.block_on(async {
        let mut ran = Vec::new();
        for file in &files {
            let mutant = arguments.mutant;
            let one = golden::run(address, partitions, file, mutant, golden, counts).await?;
            let seen = mutant.is_some() && !one.differs.is_empty();
            ran.push(one);
            if seen {
                break;
            }
        }
        Ok(ran)
    })
}

fn tell_ran(ran: &Ran) {
    for why in &ran.differs {
        print(&format!("golden case {}: {why}\n", ran.name));
    }
    for played in &ran.divergences {
        print(&tell::table(played));
    }
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

fn report(command: &str, summary: &Summary, ran: &[Ran]) -> Value {
    let differing = ran.iter().filter(|ran| !ran.differs.is_empty()).count();
    let specs: Vec<Value> = ran
        .iter()
        .map(|ran| {
            json!({
                "name": ran.name,
                "permutations": ran.permutations,
                "differs": ran.differs,
            })
        })
        .collect();
    let counts: &Counts = &summary.counts;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "command": command,
        "lane": "postgres",
        "schedules": summary.schedules,
        "steps": summary.steps,
        "verbs": counts,
        "divergences": summary.found.len() + differing,
        "specs": specs,
        "wall_s": summary.wall.as_secs_f64(),
        "schedules_per_s": summary.schedules_per_s(),
    })
}
