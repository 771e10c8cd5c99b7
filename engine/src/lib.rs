//! Durable execution of directed acyclic graphs on Postgres or SQLite behind one storage trait.

pub mod cascade;
pub mod engine;
pub mod environment;
pub mod error;
pub mod flow;
pub mod graph;
pub mod identity;
pub mod mutants;
pub mod operations;
pub mod policy;
pub mod reconcile;
pub mod retry;
pub mod state;
pub mod storage;
pub mod time;
pub mod transact;

pub use engine::{Engine, Settings};
pub use error::EngineError;
