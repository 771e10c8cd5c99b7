//! The simulator of Sluicegate: interrupts flows at every statement and judges what remains.

pub(crate) mod actors;
pub mod bench;
pub mod campaign;
pub mod cli;
pub mod database;
pub mod driver;
pub mod exhaust;
pub mod exit;
pub mod failure;
pub mod faults;
pub mod history;
pub mod invariants;
pub mod liveness;
pub mod mirror;
pub mod mutants;
pub mod oracle;
pub mod panics;
pub mod plan;
pub mod replay;
pub mod report;
pub mod run;
pub mod signature;
pub(crate) mod specimens;
pub mod strand;
pub mod tape;
pub mod workload;
