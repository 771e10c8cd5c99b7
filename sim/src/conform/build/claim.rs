//! The claim of a schedule.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::storage::ClaimQuery;

use super::{Built, Given};

impl Given<'_> {
    pub(super) fn claim(&self) -> Built<ClaimQuery> {
        let texts = |argument: &str| -> Vec<Arc<str>> {
            self.words.values(argument).iter().map(|text| text.as_str().into()).collect()
        };
        let mut lanes = texts("lanes");
        if lanes.is_empty() {
            lanes.push("default".into());
        }
        let partition = self.names.partition.0;
        Ok(ClaimQuery {
            request: self.names.request(self.name("request")?),
            worker: self.optional("worker")?.unwrap_or("worker").into(),
            instance: "1".into(),
            namespace: None,
            partitions: partition..partition + 1,
            lanes,
            kinds: texts("kinds"),
            except: self
                .words
                .values("except")
                .iter()
                .map(|one| self.names.execution(one))
                .collect(),
            limit: self.number("limit", 1)?,
            now: self.now()?,
            lease: Duration::from_secs(10),
            nonce: 99,
            charge: 1,
        })
    }
}
