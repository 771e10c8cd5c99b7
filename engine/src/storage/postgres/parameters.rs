//! The parameters of a statement, in the order in which it numbers them. Never sends anything.

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgBindIterExt, PgHasArrayType, Postgres};
use sqlx::{Arguments, Encode, Type};

use crate::identity::{ExecutionId, FlowKey};
use crate::storage::{EventKey, Result, StorageError, codes};

/// Parameters, added one by one; the first that cannot be written is the error of all.
#[derive(Default)]
pub(super) struct Parameters {
    arguments: PgArguments,
    refused: Option<BoxDynError>,
}

impl Parameters {
    /// No parameters yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// One value.
    pub(super) fn value<'q, T: Encode<'q, Postgres> + Type<Postgres>>(mut self, value: T) -> Self {
        if let Err(error) = self.arguments.add(value) {
            self.refused.get_or_insert(error);
        }
        self
    }

    /// One column of the rows of a call, as an array.
    pub(super) fn column<'q, T, I>(self, values: I) -> Self
    where
        I: Iterator<Item = T>,
        T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType,
    {
        self.value(values.bind_iter())
    }

    /// The two columns of a list of executions.
    pub(super) fn executions<'a>(self, ids: impl Iterator<Item = &'a ExecutionId> + Clone) -> Self {
        self.column(ids.clone().map(|id| i32::from(id.partition.0))).column(ids.map(|id| id.uuid))
    }

    /// The six columns of a list of events.
    pub(super) fn events(self, keys: impl Iterator<Item = EventKey> + Clone) -> Self {
        let change = |key: EventKey| key.lease.map_or(0, |lease| codes::lease_change(lease.change));
        let leases = keys.clone().map(|key| codes::lease_event(key.lease));
        self.column(keys.clone().map(|key| i32::from(key.execution.partition.0)))
            .column(keys.clone().map(|key| key.execution.uuid))
            .column(keys.clone().map(|key| i64::from(key.incarnation)))
            .column(leases.clone().map(|lease| lease.attempt))
            .column(keys.map(move |key| i16::from(change(key))))
            .column(leases.map(|lease| lease.expires_at))
    }

    /// The two columns of a list of flows.
    pub(super) fn flows(self, keys: &[FlowKey]) -> Self {
        self.column(keys.iter().map(|key| i32::from(key.partition.0)))
            .column(keys.iter().map(|key| key.id.0))
    }

    /// The key of a flow.
    pub(super) fn flow(self, key: FlowKey) -> Self {
        self.value(i32::from(key.partition.0)).value(key.id.0)
    }

    /// What is sent along with the statement. What cannot be written is beyond the length that a
    /// value may have.
    pub(super) fn finish(self) -> Result<PgArguments> {
        match self.refused {
            None => Ok(self.arguments),
            Some(error) => Err(StorageError::TooLarge(error.to_string().into())),
        }
    }
}
