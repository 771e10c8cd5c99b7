//! The `run` command: a campaign, its repetition in other orders and processes, its failure files
//! and its report. Never decides what a universe does.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::campaign::{self, Order, Pass, Rates, Results, Seeds, Shard, Subject, never_over};
use crate::exit::Exit;
use crate::failure::{Failure, FailureFile, Filed, Known};
use crate::faults;
use crate::report::coverage::{Coverage, below_floor};
use crate::report::json;
use crate::report::progress::{Goal, Progress, Stopwatch};
use crate::report::text::{Campaigned, Listed, Repetition, summary};
use crate::report::{Paint, annotation, commit, complain, first_line, print, reproduction};
use crate::signature::essence;

/// Characters of a message that an annotation shows.
const ANNOTATION_MAX: usize = 200;

/// How many seeds a campaign runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// These.
    Seeds(Seeds),
    /// As many from 0 on as fit into that time.
    Budget(Duration, Shard),
}

/// Whether everything is run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// Once is enough.
    Once,
    /// In another order, on other threads, and in another process.
    Twice,
}

/// A campaign as it was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is judged.
    pub subject: Subject,
    /// How much of it.
    pub extent: Extent,
    /// On so many threads.
    pub jobs: usize,
    /// Whether it is repeated.
    pub repeat: Repeat,
    /// Where the report for programs goes.
    pub json: Option<PathBuf>,
    /// Where failure files go.
    pub failures: PathBuf,
    /// At most so many signatures are listed and written.
    pub failures_max: usize,
    /// Whether the summary is coloured.
    pub paint: Paint,
    /// Whether failures are announced to GitHub.
    pub annotate: bool,
}

/// Runs it and reports.
pub fn run(request: &Request) -> Exit {
    print(&reproduction(&request.command(request.extent)));
    match request.carry_out() {
        Ok(exit) => exit,
        Err(why) => {
            complain(&format!("error: {why}"));
            Exit::Environment
        }
    }
}

/// Runs the seeds once and prints one number for all of their traces: what the other process of
/// `--twice` does.
pub fn run_for_hash(request: &Request) -> Exit {
    let Extent::Seeds(seeds) = request.extent else { return Exit::Usage };
    match request.pass(seeds, Order::Backward, &mut Progress::silent(), &never_over) {
        Ok(results) => {
            print(&format!("{:016x}\n", results.combined_hash()));
            Exit::Clean
        }
        Err(why) => {
            complain(&format!("error: {why}"));
            Exit::Environment
        }
    }
}

impl Request {
    /// The line that repeats it.
    pub fn command(&self, extent: Extent) -> String {
        let (extent, shard) = match extent {
            Extent::Seeds(seeds) => {
                (format!("--seeds {}..{}", seeds.start, seeds.end), seeds.shard)
            }
            Extent::Budget(time, shard) => (format!("--budget {}", budget(time)), shard),
        };
        let shard = match shard == Shard::default() {
            true => String::new(),
            false => format!(" --shard {shard}"),
        };
        let twice = if self.repeat == Repeat::Twice { " --twice" } else { "" };
        format!("cargo sim run {extent}{}{shard}{twice}", self.subject.options())
    }

    fn carry_out(&self) -> Result<Exit, String> {
        let (seeds, results, wall) = self.first_pass()?;
        let repetition = match self.repeat {
            Repeat::Once => None,
            Repeat::Twice => Some(self.repetition(seeds, &results)?),
        };
        let written = self.write_failures(&results)?;
        let campaign = &self.subject.campaign;
        let coverage = Coverage::of(&results.tally, campaign.lane);
        let below_floor = below_floor(&results.tally, campaign);
        let rates = Rates::of(&results.tally, wall);
        let listed = listed(&results, &written);
        let text = summary(
            &Campaigned {
                subject: &self.subject,
                results: &results,
                rates,
                coverage: &coverage,
                below_floor: &below_floor,
                listed: &listed,
                repetition: repetition.as_ref(),
            },
            self.paint,
        );
        print(&text);
        if self.annotate {
            self.announce(&listed, &below_floor);
        }
        let command = self.command(Extent::Seeds(seeds));
        print(&reproduction(&command));
        let mismatches = repetition.map_or(0, |repetition| repetition.mismatches());
        let mut exits = results.failures.exits();
        if mismatches > 0 {
            exits.push(Exit::Nondeterminism);
        }
        if !below_floor.is_empty() {
            exits.push(Exit::Vacuous);
        }
        if let Some(path) = &self.json {
            let report = self.report(&command, &results, &written, mismatches, coverage, rates);
            if let Err(why) = json::write(path, &report) {
                complain(&format!("error: {why}"));
                exits.push(Exit::Environment);
            }
        }
        Ok(Exit::first_of(&exits))
    }

    /// Runs everything once: which seeds, what they came to, and in which time.
    fn first_pass(&self) -> Result<(Seeds, Results, Duration), String> {
        let watch = Stopwatch::start();
        let (seeds, goal) = match self.extent {
            Extent::Seeds(seeds) => (seeds, Goal::Count(seeds.count())),
            Extent::Budget(time, shard) => {
                (Seeds { start: 0, end: u64::MAX, shard }, Goal::Time(time))
            }
        };
        let over = move || match goal {
            Goal::Count(_) => false,
            Goal::Time(time) => watch.elapsed() >= time,
        };
        let mut progress = Progress::new("universes", goal);
        let results = self.pass(seeds, Order::Forward, &mut progress, &over)?;
        progress.finish();
        let seeds = seeds.first(results.tally.universes);
        Ok((seeds, results, watch.elapsed()))
    }

    fn pass(
        &self,
        seeds: Seeds,
        order: Order,
        progress: &mut Progress,
        over: &(dyn Fn() -> bool + Sync),
    ) -> Result<Results, String> {
        let pass = Pass { campaign: &self.subject.campaign, seeds, jobs: self.jobs, order, over };
        campaign::run(&pass, progress)
    }

    /// Runs everything again, in the other order here and in a process of its own, and compares.
    fn repetition(&self, seeds: Seeds, first: &Results) -> Result<Repetition, String> {
        let mut progress = Progress::new("universes again", Goal::Count(seeds.count()));
        let again = self.pass(seeds, Order::Backward, &mut progress, &never_over)?;
        progress.finish();
        let differ = first.hashes.iter().zip(&again.hashes).filter(|(one, other)| one != other);
        let seeds_differ = differ.map(|(one, _)| one.0).collect();
        let process_differs = self.other_process(seeds)? != first.combined_hash();
        Ok(Repetition { seeds: seeds_differ, process_differs })
    }

    /// The number that another process prints for the same seeds.
    fn other_process(&self, seeds: Seeds) -> Result<u64, String> {
        let this = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
        let said = |error: std::io::Error| format!("{}: {error}", this.display());
        let output = Command::new(&this)
            .args(["run", "--hash-only", "--seeds", &format!("{}..{}", seeds.start, seeds.end)])
            .args(["--shard", &seeds.shard.to_string(), "--jobs", &self.jobs.to_string()])
            .args(self.subject.arguments())
            .stderr(Stdio::inherit())
            .output()
            .map_err(said)?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let hash = u64::from_str_radix(&text, 16);
        hash.map_err(|_| format!("another process ended with {}: `{text}`", output.status))
    }

    /// Writes a file for each signature, up to the limit: the signatures with their paths.
    fn write_failures(&self, results: &Results) -> Result<Vec<Written>, String> {
        let mut written = Vec::new();
        let mut said_commit = None;
        for failure in results.failures.distinct().take(self.failures_max) {
            let commit = said_commit.get_or_insert_with(commit);
            let plan = self.subject.campaign.plan(failure.seed);
            let seen = results.failures.alike(failure);
            let file = FailureFile { seen, ..FailureFile::new(failure, plan, commit) };
            let Filed { path, known } = file.file_into(&self.failures)?;
            let signature = failure.signature.clone();
            written.push(Written { signature, path: path.display().to_string(), known });
        }
        Ok(written)
    }

    fn report(
        &self,
        command: &str,
        results: &Results,
        written: &[Written],
        mismatches: u64,
        coverage: Coverage,
        rates: Rates,
    ) -> json::Run {
        let tally = &results.tally;
        let kinds = faults::kinds(self.subject.campaign.lane).into_iter();
        let failures = results.failures.iter().map(|failure| json::FailureRow {
            seed: failure.seed,
            invariant: failure.sighting.invariant.clone(),
            signature: failure.signature.clone(),
            file: path_of(failure, written).map(str::to_owned),
        });
        json::Run {
            head: json::Head::new(command, &self.subject),
            runs: tally.universes,
            statements: tally.statements,
            hops: tally.hops,
            faults: json::Faults(kinds.map(|kind| (kind.name(), tally.struck_by(kind))).collect()),
            failures: failures.collect(),
            mismatches,
            coverage,
            wall_s: rates.wall_s,
            runs_per_s: rates.runs_per_s,
            statements_per_s: rates.statements_per_s,
            sim_s_per_s: rates.sim_s_per_s,
        }
    }

    fn announce(&self, listed: &[Listed<'_>], below_floor: &[String]) {
        for one in listed {
            let Failure { seed, sighting, .. } = one.failure;
            let message = first_line(&essence(&sighting.message), ANNOTATION_MAX);
            let options = self.subject.options();
            let text = format!("seed {seed}: {message}\ncargo sim replay {seed}{options}");
            print(&annotation(&format!("invariant {}", sighting.invariant), &text));
        }
        if !below_floor.is_empty() {
            print(&annotation("vacuous campaign", &below_floor.join(", ")));
        }
    }
}

/// A time as it is typed.
fn budget(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// A failure file.
struct Written {
    signature: String,
    path: String,
    known: Option<Known>,
}

fn path_of<'a>(failure: &Failure, written: &'a [Written]) -> Option<&'a str> {
    let found = written.iter().find(|one| one.signature == failure.signature);
    found.map(|one| one.path.as_str())
}

/// The failures that were written, each with the number of universes that share its signature.
fn listed<'a>(results: &'a Results, written: &'a [Written]) -> Vec<Listed<'a>> {
    let distinct = results.failures.distinct().take(written.len());
    let listed = distinct.map(|failure| {
        let universes = results.failures.alike(failure);
        let filed = written.iter().find(|one| one.signature == failure.signature);
        let known = filed.and_then(|one| one.known.as_ref());
        Listed { failure, universes, file: path_of(failure, written), known }
    });
    listed.collect()
}
