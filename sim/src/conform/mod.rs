//! The simulated Postgres held to the real one: the same schedule of verbs on both, one step at a
//! time. Never runs the engine.

pub mod build;
pub mod calls;
pub mod committed;
pub mod draw;
pub mod floor;
pub mod golden;
pub mod lockstep;
pub mod model;
pub mod names;
pub mod outcome;
pub mod run;
pub mod seen;
pub mod server;
pub mod spec;
mod suspensions;
pub mod tell;
pub mod words;
