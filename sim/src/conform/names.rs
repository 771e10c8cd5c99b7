//! Short names for identifiers, so that a schedule reads and sorts by them. A partition of its own
//! keeps a schedule apart from every other. Never meets a database.

use std::sync::Arc;

use sluicegate::identity::{ExecutionId, FlowId, FlowKey, Partition, RequestId};
use sluicegate::storage::{ConsumerName, Position, StreamHead, StreamId, SubmissionKey, Timeline};
use uuid::Uuid;

/// Leading bytes that the id of a flow shares with those of its executions.
const SHARED_BYTES: usize = 6;

/// Bytes of a name; the last two of the sixteen hold the partition.
pub const NAME_BYTES_MAX: usize = 8;

/// First letter of names under which nothing is ever inserted.
pub const NOWHERE: char = 'z';

/// Far from the streams that schedules make.
const NOBODYS_STREAM: u32 = 1_000_000;
/// Positions between the streams of two partitions.
const POSITIONS: u64 = 1_000_000;

/// The identifiers of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    /// Which.
    pub partition: Partition,
}

impl Names {
    /// The names of that partition.
    pub fn of(partition: u16) -> Self {
        Self { partition: Partition(partition) }
    }

    /// A flow.
    pub fn flow(self, name: &str) -> FlowKey {
        FlowKey { partition: self.partition, id: FlowId(self.uuid(name)) }
    }

    /// An execution, or the group of its inbound edges.
    pub fn execution(self, name: &str) -> ExecutionId {
        ExecutionId { partition: self.partition, uuid: self.uuid(name) }
    }

    /// A request.
    pub fn request(self, name: &str) -> RequestId {
        RequestId(self.uuid(name))
    }

    /// The only namespace.
    pub fn namespace(self) -> Arc<str> {
        format!("p{}", self.partition.0).into()
    }

    /// The stream of this partition, which its events are numbered in; or one that nobody makes.
    pub fn stream(self, name: &str) -> StreamId {
        let own = 1 + u32::from(self.partition.0);
        StreamId(if name.starts_with(NOWHERE) { own + NOBODYS_STREAM } else { own })
    }

    /// Where the stream of this partition begins: above those of the partitions before.
    pub fn first_head(self) -> StreamHead {
        StreamHead {
            stream: self.stream("own"),
            timeline: Timeline(self.uuid("time")),
            last: self.position(0),
            horizon: self.position(0),
        }
    }

    /// A position in the stream of this partition.
    pub fn position(self, number: u64) -> Position {
        Position(u64::from(self.partition.0) * POSITIONS + number)
    }

    /// A consumer.
    pub fn consumer(self, name: &str) -> ConsumerName {
        ConsumerName(format!("p{}/{name}", self.partition.0).into())
    }

    /// An idempotency key.
    pub fn key(self, name: &str) -> SubmissionKey {
        SubmissionKey { namespace: self.namespace(), key: name.into() }
    }

    /// The letters of a name come first, so that identifiers sort as names do; but before them what
    /// the ids of a flow and of its executions share.
    fn uuid(self, name: &str) -> Uuid {
        let mut bytes = [0; 16];
        bytes[SHARED_BYTES..SHARED_BYTES + name.len()].copy_from_slice(name.as_bytes());
        bytes[14..].copy_from_slice(&self.partition.0.to_be_bytes());
        Uuid::from_bytes(bytes)
    }
}

/// True if the word is a name.
pub fn is_name(word: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !word.is_empty() && word.len() <= NAME_BYTES_MAX && word.chars().all(letters)
}

/// Replaces identifiers in the debug text of a value by their names, for people.
pub fn shorten(text: &str) -> String {
    const UUID_LETTERS: usize = 36;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let name = rest.get(..UUID_LETTERS).and_then(|word| named(word.parse().ok()?));
        match name {
            Some(name) => {
                out += &name;
                rest = &rest[UUID_LETTERS..];
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

fn named(uuid: Uuid) -> Option<String> {
    let bytes = uuid.as_bytes().strip_prefix(&[0; SHARED_BYTES])?;
    let letters = bytes.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&bytes[..letters]).ok()?;
    is_name(name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_sort_as_their_names_and_read_as_them() {
        let names = Names::of(7);
        let sorted = ["a", "a1", "b", "zz"].map(|name| names.execution(name));
        assert!(sorted.is_sorted());
        let text = format!("{:?}", names.request("a1"));
        assert_eq!(shorten(&text), "RequestId(a1)");
        assert_eq!(shorten("no name"), "no name");
    }

    #[test]
    fn partitions_share_no_identifier() {
        assert_ne!(Names::of(1).request("a"), Names::of(2).request("a"));
        assert_ne!(Names::of(1).key("a"), Names::of(2).key("a"));
    }

    #[test]
    fn a_name_is_short_and_plain() {
        assert!(is_name("a1") && is_name("z"));
        for word in ["", "A", "a-b", "123456789"] {
            assert!(!is_name(word), "{word}");
        }
    }
}
