//! The command line: parses, checks what the parser cannot, and dispatches. Never runs a universe
//! itself.

mod bench;
mod chaos;
mod commands;
mod conform;
mod exhaust;
mod reports;
mod shrink;
mod strand;
mod values;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use sluicegate::flow::{FlowFileError, FlowSpec, Limits};
use sluicegate::mutants::Mutant;

use crate::campaign::{Seeds, Shard, Subject};
use crate::exit::Exit;
use crate::files::read_text;
use crate::panics;
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::report::list::HAS_MUTANTS;
use crate::report::{Paint, complain};
use crate::run::{self, Extent, Repeat, Request};
use crate::scenario::{Scenario, Workload};
use crate::workload::range::endless;
use crate::workload::short_retries;

/// The idempotency key of a user's flow that has none: two clients submit it.
const FLOW_KEY: &str = "the-flow";

/// Interrupts flows at every statement and judges what remains.
#[derive(Parser, Debug)]
#[command(name = "cargo sim", bin_name = "cargo sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// A campaign: many universes, each from its seed
    Run(RunArguments),
    /// One universe, as a readable timeline
    Replay(ReplayArguments),
    /// A smaller failure file, with the faults that are necessary
    Shrink(shrink::ShrinkArguments),
    /// Where a failing universe became one that fails whatever happens next
    Cause(shrink::CauseArguments),
    /// Lanes, profiles, faults, verbs, invariants, mutants, scenarios
    List(ListArguments),
    /// Planted bugs: each must be seen, and first by an invariant that it names
    Mutants(MutantsArguments),
    /// Public bug reports as campaigns: the engine passes, specimens with their faults fail
    Reports(reports::ReportsArguments),
    /// Every graph up to a size, every fault point, every outcome
    Exhaust(ExhaustArguments),
    /// The same schedules of verbs on the simulated Postgres and on a real one
    Conform(conform::ConformArguments),
    /// Hops, tasks and submits by second, beside what the storage itself can do
    Bench(bench::BenchArguments),
    /// The joins on which the published system strands, driven by dispatchers alone
    Strand(strand::StrandArguments),
    /// Real servers, real processes and real faults: same engine, same invariants
    Chaos(chaos::ChaosArguments),
    /// A worker process of `chaos`
    #[command(hide = true, name = crate::chaos::WORKER_COMMAND)]
    ChaosWorker,
}

#[derive(Args, Debug)]
struct RunArguments {
    /// Seeds from A to before B [default: 0..1000]
    #[arg(long, value_name = "A..B", value_parser = values::range, conflicts_with = "budget")]
    seeds: Option<values::Range>,
    /// Seeds from 0 on for so long, such as 60s
    #[arg(long, value_name = "TIME", value_parser = values::budget)]
    budget: Option<Duration>,
    #[command(flatten)]
    subject: SubjectArguments,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Only every n-th seed, from the i-th on
    #[arg(long, value_name = "i/n", value_parser = values::shard)]
    shard: Option<Shard>,
    /// Run everything again in another order and in another process, and compare the traces
    #[arg(long)]
    twice: bool,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where failure files go
    #[arg(long, value_name = "DIR", default_value = "target/sim-failures")]
    failures: PathBuf,
    /// Signatures that are listed and written at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    failures_max: usize,
    /// Print one number for all traces and nothing else
    #[arg(long, hide = true, conflicts_with_all = ["budget", "twice", "json"])]
    hash_only: bool,
}

#[derive(Args, Debug)]
struct SubjectArguments {
    /// Storage and time [default: model]
    #[arg(long, value_name = "LANE", value_parser = values::lane())]
    lane: Option<LaneKind>,
    /// Size and hostility of the universes [default: quick]
    #[arg(long, value_name = "PROFILE", value_parser = values::profile())]
    profile: Option<Profile>,
    /// The protocol that is judged [default: sluicegate]
    #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
    engine: Option<EngineKind>,
    /// Turn a planted bug on
    #[arg(long, value_name = "ID", value_parser = values::mutant)]
    mutant: Option<Mutant>,
    /// A flow of your own instead of drawn ones: a FlowSpec or a WfFormat 1.5 document. It gets an
    /// idempotency key if it has none, and executions without a retry policy get short delays
    #[arg(long, value_name = "FILE")]
    flow: Option<PathBuf>,
    /// A public bug report with its flow, actors and faults: a file of `fixtures/reports`
    #[arg(long, value_name = "FILE", conflicts_with = "flow")]
    scenario: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ReplayArguments {
    /// A seed, or a failure file
    #[arg(value_name = "SEED|FILE")]
    what: String,
    /// Tell every statement
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    subject: SubjectArguments,
}

#[derive(Args, Debug)]
struct ListArguments {
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct MutantsArguments {
    /// Only this one
    #[arg(long, value_name = "ID", value_parser = values::mutant)]
    only: Option<Mutant>,
    /// In that lane, which may be blind to some [default: each where it shows]
    #[arg(long, value_name = "LANE", value_parser = values::lane())]
    lane: Option<LaneKind>,
    /// Seeds that each profile tries at most
    #[arg(long, value_name = "A..B", value_parser = values::range, default_value = "0..30000")]
    seeds: values::Range,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ExhaustArguments {
    /// Every graph of up to so many nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) nodes: u8,
    /// `model`: statements; `sqlite`: operations on the disk, one of which goes wrong
    #[arg(long, value_name = "L", default_value = "model", value_parser = values::lane())]
    pub(crate) lane: LaneKind,
    /// Up to so many faults in each universe
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) faults: u32,
    /// Up to so many deviations from the default schedule
    #[arg(long, value_name = "D", default_value_t = 0)]
    pub(crate) delays: u32,
    /// Accept sets and quorums: A the default ones, B all presets
    #[arg(long, value_name = "A", default_value = "A", value_parser = ["A", "B"])]
    pub(crate) alphabet: String,
    /// The protocol that is judged
    #[arg(long, value_name = "E", default_value = "sluicegate", value_parser = values::engine())]
    pub(crate) engine: EngineKind,
    /// A planted bug that is on
    #[arg(long, value_name = "ID", value_parser = values::mutant)]
    pub(crate) mutant: Option<Mutant>,
    /// Explore states, or recover disks, again that were seen before
    #[arg(long)]
    pub(crate) no_memo: bool,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Where failure files go
    #[arg(long, value_name = "DIR", default_value = "target/sim-failures")]
    pub(crate) failures: PathBuf,
}

/// Parses the arguments of the process and does what they ask for.
pub fn main() -> ExitCode {
    panics::keep_quiet();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    // A panic of a universe is a finding of its campaign; one beside them is a defect of this
    // program, of which the exit code of a panic would say nothing.
    let done = panics::guarded(|| dispatch(cli.command));
    let exit = match done {
        Ok(Ok(exit)) => exit,
        Ok(Err(why)) => {
            complain(&format!("error: {why}"));
            Exit::Usage
        }
        Err(said) => {
            complain(&format!("error: the simulator has a defect, please report it: {said}"));
            Exit::Safety
        }
    };
    exit.into()
}

/// An `Err` is a mistake of the user's.
fn dispatch(command: Command) -> Result<Exit, String> {
    match command {
        Command::Run(arguments) => {
            let hash_only = arguments.hash_only;
            let request = request(arguments)?;
            Ok(match hash_only {
                true => run::run_for_hash(&request),
                false => run::run(&request),
            })
        }
        Command::Replay(arguments) => commands::replay(&arguments),
        Command::Shrink(arguments) => shrink::run(&arguments),
        Command::Cause(arguments) => shrink::run_cause(&arguments),
        Command::List(arguments) => Ok(commands::list(arguments.json)),
        Command::Mutants(arguments) => commands::mutants(&arguments),
        Command::Reports(arguments) => reports::run(&arguments),
        Command::Exhaust(arguments) => exhaust::run(&arguments),
        Command::Conform(arguments) => Ok(conform::run(&arguments)),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Strand(arguments) => Ok(strand::run(&arguments)),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::ChaosWorker => crate::chaos::work_until_orphaned(),
    }
}

/// Prints what the parser says, and, where it does not, what exists.
fn refuse(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell if this fails.
    let _ = error.print();
    let cli = Cli::command();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let asked = std::env::args().nth(1).unwrap_or_default();
            let command = cli.find_subcommand(asked).unwrap_or(&cli);
            let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
            let flags = flags.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
            complain(&format!("options that exist: {}", flags.collect::<Vec<_>>().join(" ")));
        }
        ErrorKind::InvalidSubcommand => {
            let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
            let names = shown.map(clap::Command::get_name);
            complain(&format!("commands that exist: {}", names.collect::<Vec<_>>().join(" ")));
        }
        _ => {}
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()))
}

fn request(arguments: RunArguments) -> Result<Request, String> {
    let shard = arguments.shard.unwrap_or_default();
    let extent = match arguments.budget {
        Some(time) => Extent::Budget(time, shard),
        None => {
            let range = arguments.seeds.unwrap_or(values::Range { start: 0, end: 1_000 });
            Extent::Seeds(seeds(range, shard))
        }
    };
    Ok(Request {
        subject: arguments.subject.subject()?,
        extent,
        jobs: jobs(arguments.jobs),
        repeat: if arguments.twice { Repeat::Twice } else { Repeat::Once },
        json: arguments.json,
        failures: arguments.failures,
        failures_max: arguments.failures_max,
        paint: paint(),
        annotate: is_set("GITHUB_ACTIONS"),
    })
}

fn seeds(range: values::Range, shard: Shard) -> Seeds {
    Seeds { start: range.start, end: range.end, shard }
}

fn jobs(asked: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from)
}

/// Colour is for terminals, and for those who want it.
fn paint() -> Paint {
    match std::io::stdout().is_terminal() && !is_set("NO_COLOR") {
        true => Paint::On,
        false => Paint::Off,
    }
}

#[expect(clippy::disallowed_methods, reason = "where the process runs decides how it reports")]
fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty())
}

impl SubjectArguments {
    fn subject(&self) -> Result<Subject, String> {
        if self.mutant.is_some() && !HAS_MUTANTS {
            return Err("this build holds no planted bugs: feature `mutants` is off".to_owned());
        }
        let workload = match (&self.flow, &self.scenario) {
            (Some(flow), _) => Workload::Flow(load_flow(flow)?),
            (_, Some(scenario)) => Workload::Scenario(Arc::new(Scenario::load(scenario)?)),
            _ => Workload::Drawn,
        };
        let campaign = Campaign {
            lane: self.lane.unwrap_or(LaneKind::Model),
            profile: self.profile.unwrap_or(Profile::Quick),
            engine: self.engine.unwrap_or_default(),
            mutant: self.mutant,
            workload,
        };
        let named = |option: &'static str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| (option, path.display().to_string()))
        };
        let file = named("--flow", &self.flow).or(named("--scenario", &self.scenario));
        Ok(Subject { campaign, file })
    }

    /// The first option that was given, by name.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--lane", self.lane.is_some()),
            ("--profile", self.profile.is_some()),
            ("--engine", self.engine.is_some()),
            ("--mutant", self.mutant.is_some()),
            ("--flow", self.flow.is_some()),
            ("--scenario", self.scenario.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Reads a user's flow and refuses one that is not valid. It gets an idempotency key if it has
/// none, because several clients submit it; retry policies at their default get short delays, so
/// that a universe does not spend its time waiting.
fn load_flow(path: &Path) -> Result<FlowSpec, String> {
    let file = path.display();
    let text = read_text(path).map_err(|why| format!("{file}: {why}"))?;
    let mut flow = FlowSpec::load(&text).map_err(|error| {
        let FlowFileError { line, column, reason, .. } = error;
        format!("{file}:{}:{}: {reason}", line.max(1), column.max(1))
    })?;
    flow.clone().validate(&Limits::default()).map_err(|invalid| format!("{file}: {invalid}"))?;
    if let Some(why) = endless(&flow.executions) {
        return Err(format!("{file}: {why}"));
    }
    flow.idempotency_key.get_or_insert_with(|| FLOW_KEY.to_owned());
    for execution in &mut flow.executions {
        if execution.retry == sluicegate::retry::RetryPolicy::default() {
            execution.retry = short_retries(execution.retry.max_attempts);
        }
    }
    Ok(flow)
}

#[cfg(test)]
mod tests;
