//! Durable execution of directed acyclic graphs on Postgres or SQLite behind one storage trait.

pub mod cascade;
pub mod draw;
pub mod engine;
pub mod environment;
pub mod error;
pub mod failure;
pub mod feed;
pub mod flow;
pub mod graph;
pub mod identity;
#[cfg(feature = "system")]
mod measure;
pub mod mutants;
pub mod operations;
mod pace;
pub mod policy;
pub mod reconcile;
pub mod replay;
pub mod retry;
pub mod said;
#[cfg(feature = "system")]
pub mod signal;
pub mod state;
pub mod storage;
pub mod summary;
pub mod time;
pub mod transact;
#[cfg(feature = "system")]
pub mod worker;

pub use engine::{Engine, Settings};
pub use error::EngineError;
