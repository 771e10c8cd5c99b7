//! A named consumer: a subscription whose cursor is stored, and moves when its events are
//! acknowledged. Whoever opens it again gets what was not acknowledged.

use crate::environment::Environment;
use crate::error::EngineError;
use crate::feed::{self, Cursor, FeedEvent, FeedFilter, FeedSettings, Subscriber};
use crate::mutants::mutated;
use crate::storage::{
    Consistency, ConsumerName, Inserted, Result, Snapshot, Storage, Subscription, Transaction,
};
use crate::transact::{Body, RetryBudget, Run, Verdict, transact};

/// Bytes of a consumer's name at most.
pub const NAME_BYTES_MAX: usize = 256;

/// The transaction that makes a consumer. A repetition finds it.
struct Create {
    row: Subscription,
}

impl Body for Create {
    type Out = Inserted;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Inserted>> {
        Ok(Verdict::Commit(transaction.insert_subscription(&self.row).await?))
    }
}

/// The transaction that moves a stored cursor. A repetition finds it moved.
struct Acknowledge {
    row: Subscription,
}

impl Body for Acknowledge {
    type Out = Option<Subscription>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Option<Subscription>>> {
        let stored = transaction.lock_subscription(&self.row.name).await?;
        let behind = stored.as_ref().is_some_and(|stored| {
            stored.timeline == self.row.timeline && stored.position < self.row.position
        });
        if !behind {
            return Ok(Verdict::Rollback(stored));
        }
        transaction.write_subscription(&self.row).await?;
        Ok(Verdict::Commit(stored))
    }
}

/// A consumer of the feed whose cursor is stored under its name.
///
/// Two processes that open one name both get every event that neither has acknowledged; the stored
/// cursor only moves forward.
#[derive(Clone, Debug)]
pub struct Consumer<S, E> {
    name: ConsumerName,
    subscriber: Subscriber<S, E>,
    storage: S,
    environment: E,
    budget: RetryBudget,
}

impl<S: Storage, E: Environment> Consumer<S, E> {
    /// Opens the consumer of that name; a new one begins with the oldest event that is left.
    pub(crate) async fn open(
        storage: S,
        environment: E,
        budget: RetryBudget,
        settings: FeedSettings,
        name: &str,
        filter: FeedFilter,
    ) -> std::result::Result<Self, EngineError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(EngineError::Invalid(format!(
                "the name of a consumer has 1 to {NAME_BYTES_MAX} bytes"
            )));
        }
        let name = ConsumerName(name.into());
        let stored = match stored(&storage, &name).await? {
            Some(stored) => stored,
            None => create(&storage, &environment, &budget, &name).await?,
        };
        let cursor = match mutated!(P47) {
            true => Cursor::newest(&feed::head(&storage).await?),
            false => Cursor { timeline: stored.timeline, position: stored.position },
        };
        let (own, clock) = (storage.clone(), environment.clone());
        let subscriber = Subscriber::new(own, clock, settings, filter, cursor);
        Ok(Self { name, subscriber, storage, environment, budget })
    }

    /// The next event; waits until there is one.
    ///
    /// Every event at least once, those of one execution in their order; not yet acknowledged.
    /// Cancellation: dropping the future loses no event. Errors: `CursorExpired` and `CursorLost`
    /// until [`Self::skip_to`]; after any other the next call goes on where this one stood.
    pub async fn next(&mut self) -> std::result::Result<FeedEvent, EngineError> {
        self.subscriber.next().await
    }

    /// The next event, or nothing if there is none yet. Cancellation and errors: as those of
    /// [`Self::next`].
    pub async fn try_next(&mut self) -> std::result::Result<Option<FeedEvent>, EngineError> {
        self.subscriber.try_next().await
    }

    /// Stores that every event handed out so far has been dealt with.
    ///
    /// Cancellation: dropping the future leaves it stored or not; calling again tells. Errors:
    /// `CursorLost` if the stored cursor belongs to another timeline or is gone.
    pub async fn acknowledge(&self) -> std::result::Result<(), EngineError> {
        let cursor = self.subscriber.cursor();
        let Cursor { timeline, position } = cursor;
        let body =
            Acknowledge { row: Subscription { name: self.name.clone(), timeline, position } };
        let stored = transact(&self.storage, &self.environment, &self.budget, &body).await?;
        match stored {
            Some(stored) if stored.timeline == timeline => Ok(()),
            stored => Err(EngineError::CursorLost {
                cursor,
                newest: stored.map_or(cursor, |stored| Cursor {
                    timeline: stored.timeline,
                    position: stored.position,
                }),
            }),
        }
    }

    /// Behind the last event that was handed out.
    pub fn cursor(&self) -> Cursor {
        self.subscriber.cursor()
    }

    /// Goes on from another cursor; [`Self::acknowledge`] stores it if it lies ahead.
    pub fn skip_to(&mut self, cursor: Cursor) {
        self.subscriber.skip_to(cursor);
    }
}

async fn stored<S: Storage>(
    storage: &S,
    name: &ConsumerName,
) -> std::result::Result<Option<Subscription>, EngineError> {
    let mut reader = storage.snapshot(Consistency::Statement).await?;
    Ok(reader.read_subscription(name).await?)
}

/// Stores a new consumer, or finds the one that somebody else has stored meanwhile.
async fn create<S: Storage, E: Environment>(
    storage: &S,
    environment: &E,
    budget: &RetryBudget,
    name: &ConsumerName,
) -> std::result::Result<Subscription, EngineError> {
    let Cursor { timeline, position } = Cursor::oldest(&feed::head(storage).await?);
    let row = Subscription { name: name.clone(), timeline, position };
    let body = Create { row };
    match transact(storage, environment, budget, &body).await? {
        Inserted::New => Ok(body.row),
        Inserted::Exists => Ok(stored(storage, name).await?.unwrap_or(body.row)),
    }
}
