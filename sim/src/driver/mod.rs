//! The event-skipping driver: one statement a step, every statement a scheduling and a fault point.
//! Runs one universe from its plan and its tape, and reports what became of it.

mod damage;
mod disk_faults;
pub(crate) mod draw;
mod durable;
pub(crate) mod news;
pub(crate) mod phases;
pub(crate) mod ranks;
pub(crate) mod readers;
pub(crate) mod schedule;
pub(crate) mod sqlite_lane;
pub mod statement;
pub(crate) mod strike;
pub mod tally;
pub mod trace;
pub(crate) mod turns;
pub mod universe;
pub mod world;

pub use universe::{End, Outcome, Universe};
