//! A subscription: pages of the feed, one event at a time, waiting where there is none yet. Keeps
//! its place in memory; who wants it stored uses a [`Consumer`](super::Consumer).

use std::collections::VecDeque;

use futures_util::{Stream, stream};

use crate::environment::Environment;
use crate::error::EngineError;
use crate::feed::{self, Cursor, FeedEvent, FeedFilter, FeedSettings};
use crate::storage::Storage;

/// Reads the feed from a cursor on.
#[derive(Clone, Debug)]
pub struct Subscriber<S, E> {
    storage: S,
    environment: E,
    settings: FeedSettings,
    filter: FeedFilter,
    /// Behind the last event that was handed out.
    cursor: Cursor,
    /// Where the next page begins.
    next: Cursor,
    /// What was read and not handed out.
    read: VecDeque<FeedEvent>,
}

impl<S: Storage, E: Environment> Subscriber<S, E> {
    pub(crate) fn new(
        storage: S,
        environment: E,
        settings: FeedSettings,
        filter: FeedFilter,
        cursor: Cursor,
    ) -> Self {
        let read = VecDeque::new();
        Self { storage, environment, settings, filter, cursor, next: cursor, read }
    }

    /// Behind the last event that was handed out: to go on from here is to miss nothing.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Goes on from another cursor.
    pub fn skip_to(&mut self, cursor: Cursor) {
        self.cursor = cursor;
        self.next = cursor;
        self.read.clear();
    }

    /// The next event; waits until there is one.
    ///
    /// Every event at least once, those of one execution in their order. Cancellation: dropping the
    /// future loses no event. Errors: `CursorExpired` and `CursorLost` until [`Self::skip_to`];
    /// after any other the next call goes on where this one stood.
    pub async fn next(&mut self) -> Result<FeedEvent, EngineError> {
        loop {
            if let Some(event) = self.try_next().await? {
                return Ok(event);
            }
            self.environment.feed_noticed(self.settings.poll).await;
        }
    }

    /// The next event, or nothing if there is none yet. Cancellation and errors: as those of
    /// [`Self::next`].
    pub async fn try_next(&mut self) -> Result<Option<FeedEvent>, EngineError> {
        if self.read.is_empty() {
            let limit = self.settings.page_rows.clamp(1, feed::PAGE_ROWS_MAX);
            let page = feed::page(&self.storage, self.next, &self.filter, limit).await?;
            if page.events.is_empty() {
                // Nothing up to there matches the filter.
                self.cursor = page.next_cursor;
            }
            self.next = page.next_cursor;
            self.read = page.events.into();
        }
        let event = self.read.pop_front();
        if let Some(event) = &event {
            self.cursor = event.cursor;
        }
        Ok(event)
    }

    /// The events as a stream. An error is an item, after which the stream goes on, unless it is
    /// `CursorExpired` or `CursorLost`: those end it.
    pub fn into_stream(self) -> impl Stream<Item = Result<FeedEvent, EngineError>> + Send {
        stream::unfold(Some(self), |subscriber| async {
            let mut subscriber = subscriber?;
            let item = subscriber.next().await;
            let over = matches!(
                item,
                Err(EngineError::CursorExpired { .. } | EngineError::CursorLost { .. })
            );
            Some((item, (!over).then_some(subscriber)))
        })
    }
}
