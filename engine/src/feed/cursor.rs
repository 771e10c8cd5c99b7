//! A place in the feed of one database. Text outside, so that a service can keep it anywhere. Never
//! reads anything.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::error::EngineError;
use crate::storage::{Position, StreamHead, Timeline};

/// A place in the feed: whoever goes on from here gets every event behind it.
///
/// Prints and parses as `timeline:position`; what it says is the database's own affair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cursor {
    /// The database that the position belongs to.
    pub timeline: Timeline,
    /// The last place that is behind it.
    pub position: Position,
}

/// A text that is no cursor.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no cursor: a cursor is `timeline:position`")]
pub struct CursorError(String);

impl Cursor {
    /// Before every event that is still there.
    pub(crate) fn oldest(head: &StreamHead) -> Self {
        Self { timeline: head.timeline, position: head.horizon }
    }

    /// Behind every event that has its place.
    pub(crate) fn newest(head: &StreamHead) -> Self {
        Self { timeline: head.timeline, position: head.last }
    }

    /// Refuses a cursor from which the feed cannot go on without a gap.
    pub(crate) fn check(self, head: &StreamHead) -> Result<(), EngineError> {
        if self.timeline != head.timeline || self.position > head.last {
            return Err(EngineError::CursorLost { cursor: self, newest: Self::newest(head) });
        }
        if self.position < head.horizon {
            return Err(EngineError::CursorExpired { cursor: self, oldest: Self::oldest(head) });
        }
        Ok(())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.timeline.0.simple(), self.position.0)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let wrong = || CursorError(text.to_owned());
        let (timeline, position) = text.split_once(':').ok_or_else(wrong)?;
        let digits = !position.is_empty() && position.bytes().all(|byte| byte.is_ascii_digit());
        if !digits {
            return Err(wrong());
        }
        Ok(Self {
            timeline: Timeline(Uuid::try_parse(timeline).map_err(|_| wrong())?),
            position: Position(position.parse().map_err(|_| wrong())?),
        })
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StreamId;

    fn at(position: u64) -> Cursor {
        Cursor { timeline: Timeline(Uuid::from_u128(7)), position: Position(position) }
    }

    #[test]
    fn a_cursor_reads_as_it_is_written() {
        for cursor in [at(0), at(1), at(u64::MAX)] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
            let json = serde_json::to_string(&cursor).unwrap();
            assert_eq!(serde_json::from_str::<Cursor>(&json).unwrap(), cursor);
        }
    }

    #[test]
    fn a_text_that_is_no_cursor_is_refused() {
        let timeline = at(0).timeline.0.simple().to_string();
        for text in ["", ":", "7", "x:1", &format!("{timeline}:"), &format!("{timeline}:-1")] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError(text.to_owned())));
        }
        assert!(format!("{timeline}:+1").parse::<Cursor>().is_err());
    }

    #[test]
    fn a_cursor_goes_on_only_where_nothing_is_missing() {
        let head = StreamHead {
            stream: StreamId::EVENTS,
            timeline: at(0).timeline,
            last: Position(9),
            horizon: Position(4),
        };
        assert_eq!(at(4).check(&head), Ok(()));
        assert_eq!(at(9).check(&head), Ok(()));
        let expired = EngineError::CursorExpired { cursor: at(3), oldest: at(4) };
        assert_eq!(at(3).check(&head), Err(expired));
        let lost = |cursor| Err(EngineError::CursorLost { cursor, newest: at(9) });
        assert_eq!(at(10).check(&head), lost(at(10)));
        let elsewhere = Cursor { timeline: Timeline(Uuid::from_u128(8)), ..at(5) };
        assert_eq!(elsewhere.check(&head), lost(elsewhere));
    }
}
