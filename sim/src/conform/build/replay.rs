//! The edges that a transaction may write: those of groups that it has locked.

use sluicegate::storage::EdgeKey;

use super::{Built, Given};
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

    pub(super) fn locked_edges(&self) -> Built<Vec<EdgeKey>> {
        self.rows(|row| self.locked_edge(row))
    }
}
