//! `strand`: from its arguments to its exit code. What is run is `crate::strand`'s.

use clap::Args;

use super::paint;
use crate::exit::Exit;
use crate::postgres::Server;
use crate::strand::{Request, run as strand};

#[derive(Args, Debug)]
pub(super) struct StrandArguments {
    /// Runs of each shape with each kind of dispatchers
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Database to make schemas in, or `auto` for a throwaway server
    #[arg(long, value_name = "URL|auto", default_value = "auto")]
    postgres: Server,
}

pub(super) fn run(arguments: &StrandArguments) -> Exit {
    let StrandArguments { runs, postgres } = arguments;
    let request = Request {
        runs: *runs,
        postgres: postgres.clone(),
        paint: paint(),
        command: format!("cargo sim strand --runs {runs} --postgres {postgres}"),
    };
    strand(&request)
}
