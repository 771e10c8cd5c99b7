//! Durable execution of directed acyclic graphs on Postgres or SQLite behind one storage trait.

pub mod environment;
pub mod flow;
pub mod graph;
pub mod identity;
pub mod mutants;
pub mod policy;
pub mod retry;
pub mod state;
pub mod storage;
pub mod time;
