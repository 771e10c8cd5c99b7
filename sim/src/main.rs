//! The simulator's program.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_sim::cli::main()
}
