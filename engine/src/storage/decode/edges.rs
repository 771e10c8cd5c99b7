//! Edges and what is read along them. Never decides anything.

use super::{Columns, FromColumns, Read, row_of, total};
use crate::storage::{Edge, EdgeKey, FedGroup, Input, PendingEdge, Result, codes};

impl FromColumns for EdgeKey {
    const TABLE: &'static str = "edge";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        row.edge_key()
    }
}

impl FromColumns for Edge {
    const TABLE: &'static str = "edge";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(Edge {
            key: row.edge_key()?,
            accepts: row.accepts()?,
            resolution: row.code("resolution", codes::resolution_of)?,
            upstream_incarnation: row.optional_u32("upstream_incarnation")?,
            input: row.optional_code("input", codes::outcome_of)?,
            passes_as: row.text("passes_as")?,
        })
    }
}

impl FromColumns for PendingEdge {
    const TABLE: &'static str = "edge";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let (key, accepts) = (row.edge_key()?, row.accepts()?);
        *row.table() = "execution";
        Ok(PendingEdge {
            key,
            accepts,
            upstream_state: row.state()?,
            upstream_incarnation: row.u32("incarnation")?,
        })
    }
}

impl FromColumns for Input {
    const TABLE: &'static str = "edge";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let key = row.edge_key()?;
        row_of(key.downstream, input(row, key))
    }
}

/// An input whose ends have been read; what cannot be read of it is its downstream's trouble.
fn input(row: &mut impl Columns, key: EdgeKey) -> Result<Input> {
    Ok(Input {
        key,
        name: row.name("passes_as")?,
        outcome: row.code("input", codes::outcome_of)?,
        bytes: total(row, "bytes")?,
        result: row.bytes("result", |bytes| Some(bytes.into()))?,
    })
}

impl FromColumns for FedGroup {
    const TABLE: &'static str = "edge";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let edge = row.edge_key()?;
        *row.table() = "edge_group";
        let policy = row.join_policy()?;
        Ok(FedGroup { edge, policy, decision: row.code("decision", codes::decision_of)? })
    }
}
