//! The simulator of Sluicegate: interrupts flows at every statement and judges what remains.

pub mod database;
pub mod history;
pub mod invariants;
pub mod liveness;
pub mod mirror;
pub mod oracle;
