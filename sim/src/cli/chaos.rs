//! `chaos`: from its arguments to its exit code. The rounds are `crate::chaos`'s.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluicegate::mutants::Mutant;

use super::values;
use crate::chaos::{Request, run as rounds};
use crate::exit::Exit;
use crate::postgres::Server;
use crate::real_lane::RealLane;
use crate::report::list::HAS_MUTANTS;

#[derive(Args, Debug)]
pub(super) struct ChaosArguments {
    /// Rounds for so long, such as 300s; one at least
    #[arg(long, value_name = "TIME", value_parser = values::budget, default_value = "60s")]
    budget: Duration,
    /// On a real Postgres, or on a file that processes share
    #[arg(long, value_name = "LANE", default_value = "postgres",
        value_parser = values::real_lane())]
    lane: RealLane,
    /// A server, or `auto` for a throwaway cluster
    #[arg(long, value_name = "URL|auto", default_value = "auto")]
    postgres: Server,
    /// Decides flows, outcomes and the order of faults [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A planted bug that is on in every worker
    #[arg(long, value_name = "ID", value_parser = values::mutant)]
    mutant: Option<Mutant>,
    /// Write the report for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the rows of offending flows go
    #[arg(long, value_name = "DIR", default_value = "target/sim-failures")]
    failures: PathBuf,
}

pub(super) fn run(arguments: &ChaosArguments) -> Result<Exit, String> {
    if arguments.mutant.is_some() && !HAS_MUTANTS {
        return Err("this build holds no planted bugs: feature `mutants` is off".to_owned());
    }
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => getrandom::u32().map_err(|error| error.to_string())?.into(),
    };
    Ok(rounds(&Request {
        lane: arguments.lane,
        server: arguments.postgres.clone(),
        budget: arguments.budget,
        seed,
        mutant: arguments.mutant,
        json: arguments.json.clone(),
        failures: arguments.failures.clone(),
    }))
}
