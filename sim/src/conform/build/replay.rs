//! The edges that a transaction may write, those of groups that it has locked, and what is asked of
//! edges that pass something on.

use sluicegate::state::Outcome;
use sluicegate::storage::{EdgeFlip, EdgeKey, Guarded, InputQuery, Resolution};

use super::{Built, Given, named};
use crate::conform::names::NOWHERE;

impl Given<'_> {
    /// An edge whose group is locked, or one that is nowhere.
    pub(super) fn locked_edge(&self, text: &str) -> Built<EdgeKey> {
        let key = self.edge_key(text)?;
        let nowhere = text.split('>').any(|end| end.starts_with(NOWHERE));
        match nowhere || self.seen.group(key.downstream).is_some() {
            true => Ok(key),
            false => Err(format!("the session has not locked the group of edge `{text}`")),
        }
    }

    pub(super) fn flip(&self, text: &str) -> Built<EdgeFlip> {
        let key = self.locked_edge(text)?;
        let resolutions =
            [("satisfied", Resolution::Satisfied), ("unsatisfied", Resolution::Unsatisfied)];
        let resolution = self.choice("to", &resolutions)?;
        Ok(EdgeFlip {
            key,
            resolution,
            upstream_incarnation: 0,
            input: (resolution == Resolution::Satisfied).then_some(Outcome::Succeeded),
            guarded: Guarded::Yes,
        })
    }

    pub(super) fn inputs(&self) -> Built<InputQuery> {
        let after = self.optional("after")?.map(named).transpose()?;
        Ok(InputQuery {
            executions: self.executions("keys")?,
            after: after.map(|name| self.names.execution(name)),
            limit: self.number("limit", 100)?,
            bytes_max: self.number("bytes", 1_000)?,
        })
    }

    pub(super) fn locked_edges(&self) -> Built<Vec<EdgeKey>> {
        self.rows(|row| self.locked_edge(row))
    }
}
