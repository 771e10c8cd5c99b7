//! The simulator of Sluicegate: interrupts flows at every statement and judges what remains.

pub(crate) mod actors;
pub mod database;
pub mod driver;
pub mod exhaust;
pub mod faults;
pub mod history;
pub mod invariants;
pub mod liveness;
pub mod mirror;
pub mod oracle;
pub mod plan;
pub(crate) mod specimens;
pub mod tape;
pub mod workload;
