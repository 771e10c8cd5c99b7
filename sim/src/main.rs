//! The simulator's program.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_sim::cli::main()
}

/// Universes are many small allocations: a seventh more of them fit into a second.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
