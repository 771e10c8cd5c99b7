//! `bench`: from its arguments to its exit code. What is measured is `crate::bench`'s.

use std::path::PathBuf;

use clap::Args;

use super::paint;
use crate::bench::{Profile, Request, Scale, check, drain, run as measure};
use crate::exit::Exit;
use crate::postgres::Server;
use crate::real_lane::RealLane;

#[derive(Args, Debug)]
pub(super) struct BenchArguments {
    /// Storage that is measured
    #[arg(long, value_name = "LANE", default_value = "all",
        value_parser = ["postgres", "sqlite", "all"])]
    lane: String,
    /// Database to make schemas in, or `auto` for a throwaway server
    #[arg(long, value_name = "URL|auto", default_value = "auto")]
    postgres: Server,
    /// Only these works, by name or by the beginning of it
    #[arg(long, value_name = "NAME", num_args = 1..)]
    work: Vec<String>,
    /// Runs of each work, ours and the ceiling in turn
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Seconds, or minutes with the flow of a million edges
    #[arg(long, value_name = "SCALE", default_value = "quick", value_parser = ["quick", "full"])]
    scale: String,
    /// Show count and mean time of every verb
    #[arg(long)]
    profile_statements: bool,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Drain the database whose address is read from standard input, and print the peak of memory
    #[arg(long, hide = true)]
    drain: bool,
}

pub(super) fn run(arguments: &BenchArguments) -> Result<Exit, String> {
    if arguments.drain {
        return Ok(drain());
    }
    let request = request(arguments);
    check(&request)?;
    Ok(measure(&request))
}

fn request(arguments: &BenchArguments) -> Request {
    let lanes: Vec<RealLane> = RealLane::ALL
        .into_iter()
        .filter(|lane| arguments.lane == "all" || arguments.lane == lane.name())
        .collect();
    let scale = match arguments.scale.as_str() {
        "full" => Scale::Full,
        _ => Scale::Quick,
    };
    let profile = match arguments.profile_statements {
        true => Profile::Statements,
        false => Profile::Off,
    };
    Request {
        lanes,
        postgres: arguments.postgres.clone(),
        works: arguments.work.clone(),
        repeats: arguments.repeats,
        scale,
        profile,
        json: arguments.json.clone(),
        paint: paint(),
        command: command(arguments),
    }
}

fn command(arguments: &BenchArguments) -> String {
    let BenchArguments { lane, work, repeats, scale, .. } = arguments;
    let mut line = format!("cargo perf --lane {lane} --repeats {repeats} --scale {scale}");
    if arguments.postgres != Server::Auto {
        line += &[" --postgres ", &arguments.postgres.to_string()].concat();
    }
    if arguments.profile_statements {
        line.push_str(" --profile-statements");
    }
    if !work.is_empty() {
        line += &[" --work ", &work.join(" ")].concat();
    }
    line
}
