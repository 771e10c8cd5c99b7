//! What calls that change a flow have in common: each locks the flow, looks whether it has taken
//! effect before, and keeps its reply under the caller's request id. Never decides what they do.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::EngineError;
use crate::identity::{FlowKey, RequestId};
use crate::storage::{Flow, Inserted, Request, RequestKey, Result, Transaction};

/// A call with its request id and the hash of what it asks for.
pub(crate) struct Call {
    pub(crate) key: RequestKey,
    content_hash: [u8; 32],
}

/// What a call finds once it has locked its flow.
pub(crate) enum Opened {
    /// It has not taken effect.
    New(Flow),
    /// It has, and this is what it kept.
    Known(Flow, Request),
}

impl Call {
    /// The call that says these words.
    pub(crate) fn new(flow: FlowKey, request: RequestId, words: &[&str]) -> Self {
        Self { key: RequestKey { flow, request }, content_hash: content_hash(words) }
    }

    /// Locks the flow and looks for the record of the call.
    ///
    /// Errors: `FlowNotFound`; `Conflict` if the request id stands for another call.
    pub(crate) async fn open<T: Transaction>(
        &self,
        transaction: &mut T,
    ) -> Result<Result<Opened, EngineError>> {
        let Some(flow) = transaction.lock_flow(&self.key.flow).await? else {
            return Ok(Err(EngineError::FlowNotFound(self.key.flow.id)));
        };
        let known = self.known(transaction).await?;
        Ok(known.map(|known| match known {
            Some(known) => Opened::Known(flow, known),
            None => Opened::New(flow),
        }))
    }

    /// The record of the call, if it has taken effect.
    pub(crate) async fn known<T: Transaction>(
        &self,
        transaction: &mut T,
    ) -> Result<Result<Option<Request>, EngineError>> {
        let known = transaction.read_request(&self.key).await?;
        Ok(match known {
            Some(known) if known.content_hash != self.content_hash => Err(self.other_content()),
            known => Ok(known),
        })
    }

    /// Records the call; whether it is new tells a caller that does not hold the flow.
    pub(crate) async fn record<T: Transaction>(
        &self,
        transaction: &mut T,
        reply: Arc<[u8]>,
    ) -> Result<Inserted> {
        let Self { key, content_hash } = *self;
        transaction.insert_request(&Request { key, content_hash, reply }).await
    }

    /// Records the call, whose flow is locked.
    pub(crate) async fn keep<T: Transaction>(
        &self,
        transaction: &mut T,
        reply: Arc<[u8]>,
    ) -> Result<()> {
        let inserted = self.record(transaction, reply).await?;
        assert!(inserted == Inserted::New, "a request appeared under the lock of its flow");
        Ok(())
    }

    /// The request id stands for another call.
    pub(crate) fn other_content(&self) -> EngineError {
        let by = format!("request id `{}`", self.key.request);
        EngineError::Conflict { by, flow: self.key.flow.id }
    }
}

/// Tells two questions under one request id apart.
fn content_hash(words: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for word in words {
        hash.update((word.len() as u64).to_be_bytes());
        hash.update(word);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_run_into_each_other_are_told_apart() {
        assert_ne!(content_hash(&["ab", "c"]), content_hash(&["a", "bc"]));
    }
}
