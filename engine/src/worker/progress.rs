//! How a handler says how far it has come, and learns how far the attempt before it came. Repeats
//! nothing beyond what the engine does.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::EngineError;
use crate::environment::Host;
use crate::operations::claim::LeaseToken;
use crate::said::{self, Quoting};
use crate::storage::Storage;
use crate::worker::station::Station;

/// Why progress was not stored, or cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// It has no JSON form.
    #[error("progress has no form as JSON: {0}")]
    Unencodable(String),
    /// What is stored is not what the handler takes it for.
    #[error("progress is of another type: {0}")]
    Undecodable(String),
    /// The engine refused it or could not be asked; nothing has changed, unless the outcome of the
    /// commit is unknown.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// What of an engine progress needs, its types forgotten.
trait Line: Send + Sync {
    fn report(&self, token: LeaseToken, sequence: u64, value: Arc<[u8]>) -> Answer<'_, ()>;
    fn last(&self, token: LeaseToken) -> Answer<'_, Option<Arc<[u8]>>>;
}

impl<S: Storage, H: Host> Line for Station<S, H> {
    fn report(&self, token: LeaseToken, sequence: u64, value: Arc<[u8]>) -> Answer<'_, ()> {
        Box::pin(self.engine.progress(token, sequence, value))
    }

    fn last(&self, token: LeaseToken) -> Answer<'_, Option<Arc<[u8]>>> {
        Box::pin(async move {
            let details = self.engine.describe_execution(token.execution).await?;
            Ok(details.progress.filter(|_| details.description.incarnation == token.incarnation))
        })
    }
}

/// The progress of one attempt.
pub(super) struct Reporter {
    line: Arc<dyn Line>,
    token: LeaseToken,
    quoting: Quoting,
    /// Of the last report.
    sequence: AtomicU64,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reporter").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Reporter {
    pub(super) fn new<S: Storage, H: Host>(
        station: &Arc<Station<S, H>>,
        token: LeaseToken,
    ) -> Self {
        let line: Arc<dyn Line> = Arc::<Station<S, H>>::clone(station);
        Self { line, token, quoting: station.settings.quoting, sequence: AtomicU64::new(0) }
    }

    pub(super) async fn report<T: Serialize>(&self, value: &T) -> Result<(), ProgressError> {
        let unencodable = |error: serde_json::Error| {
            ProgressError::Unencodable(said::of_json(&error, self.quoting))
        };
        let value = serde_json::to_vec(value).map_err(unencodable)?;
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(self.line.report(self.token, sequence, value.into()).await?)
    }

    pub(super) async fn last<T: DeserializeOwned>(&self) -> Result<Option<T>, ProgressError> {
        let Some(value) = self.line.last(self.token).await? else { return Ok(None) };
        let undecodable = |error: serde_json::Error| {
            ProgressError::Undecodable(said::of_json(&error, self.quoting))
        };
        serde_json::from_slice(&value).map(Some).map_err(undecodable)
    }
}
