//! Identifiers and the partition that every row of a flow carries. Pure; never draws randomness.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The bits that an execution id shares with the id of its flow.
const FLOW_BITS: u128 = u128::MAX << 80;
/// Version and variant of an execution id.
const VERSION_8: u128 = 8 << 76;
const VARIANT: u128 = 0b10 << 62;
/// The bits behind the variant.
const SECOND_BITS: u128 = (1 << 62) - 1;

/// Routing key of a flow: a number below the partition count of the database.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Partition(pub u16);

/// How many partitions a database has; fixed when its schema is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartitionCount(u16);

/// Identifier of a flow: a UUID v7 made from the injected clock and randomness.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FlowId(pub Uuid);

/// A flow together with its partition, which leads every key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FlowKey {
    /// Partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub id: FlowId,
}

/// Identifier of an execution; prints as `{fp:N}:<uuid>`, and N is read from it, never recomputed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExecutionId {
    /// Partition of the flow that the execution belongs to.
    pub partition: Partition,
    /// Derived from the flow and the name of the execution.
    pub uuid: Uuid,
}

/// Identifier of one changing call; stored with its effect, so that a re-run finds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RequestId(pub Uuid);

/// Text that is not the printed form of an identifier.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseIdError {
    text: String,
    expected: &'static str,
}

/// Parses the digits of `{fp:N}`.
fn parse_partition(text: &str) -> Option<Partition> {
    let digits = text.strip_prefix("{fp:")?.strip_suffix('}')?;
    let plain = digits == "0" || !digits.starts_with(['0', '+']);
    plain.then(|| digits.parse().ok().map(Partition)).flatten()
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{fp:{}}}", self.0)
    }
}

impl FromStr for Partition {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse_partition(text)
            .ok_or_else(|| ParseIdError { text: text.into(), expected: "a partition `{fp:N}`" })
    }
}

impl Default for PartitionCount {
    fn default() -> Self {
        Self(256)
    }
}

impl PartitionCount {
    /// A count in `1..=65535`; `None` for zero.
    pub fn new(count: u16) -> Option<Self> {
        (count > 0).then_some(Self(count))
    }

    /// The number of partitions.
    pub fn get(self) -> u16 {
        self.0
    }

    /// Partition of a flow: CRC-16/XMODEM over the 16 bytes of its id, modulo the count.
    pub fn of(self, flow: FlowId) -> Partition {
        Partition(crc16_xmodem(flow.0.as_bytes()) % self.0)
    }

    /// The flow with its partition.
    pub fn key(self, flow: FlowId) -> FlowKey {
        FlowKey { partition: self.of(flow), id: flow }
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection, no final xor.
pub fn crc16_xmodem(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

impl FlowId {
    /// A UUID v7 of the given instant (milliseconds since the Unix epoch) and random bits.
    pub fn from_parts(unix_ms: u64, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid())
    }
}

impl FlowKey {
    /// Derives the identifier of the execution with that name; the same name gives the same id.
    ///
    /// A UUID v8 (RFC 9562, 5.8): the first 48 bits are those of the flow id, of which they are the
    /// time, and the others are the first of the UUID v5 of flow and name. So the rows of a flow
    /// lie together in every index by key, the newest flows at its end, and no other index is
    /// needed to find them.
    pub fn execution(self, name: &str) -> ExecutionId {
        let digest = Uuid::new_v5(&self.id.0, name.as_bytes()).as_u128();
        let flow = self.id.0.as_u128() & FLOW_BITS;
        let (first, second) = (digest >> 116 << 64, digest >> 54 & SECOND_BITS);
        let uuid = Uuid::from_u128(flow | VERSION_8 | first | VARIANT | second);
        ExecutionId { partition: self.partition, uuid }
    }

    /// The identifiers among which those of the flow's executions are; some of other flows, made
    /// in the same millisecond, may be there too.
    pub fn execution_range(self) -> RangeInclusive<Uuid> {
        let first = self.id.0.as_u128() & FLOW_BITS;
        Uuid::from_u128(first)..=Uuid::from_u128(first | !FLOW_BITS)
    }
}

impl ExecutionId {
    /// The identifiers among which those of its flow's executions are, its own included.
    pub fn sibling_range(self) -> RangeInclusive<Uuid> {
        let first = self.uuid.as_u128() & FLOW_BITS;
        Uuid::from_u128(first)..=Uuid::from_u128(first | !FLOW_BITS)
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.uuid)
    }
}

impl FromStr for ExecutionId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let error =
            || ParseIdError { text: text.into(), expected: "an execution id `{fp:N}:<uuid>`" };
        let (partition, uuid) = text.split_once("}:").ok_or_else(error)?;
        let partition = parse_partition(&format!("{partition}}}")).ok_or_else(error)?;
        let uuid = Uuid::try_parse(uuid).map_err(|_| error())?;
        Ok(Self { partition, uuid })
    }
}

impl Serialize for ExecutionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ExecutionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Routes flows and executions to partitions, and partitions to shares of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartitionRouter {
    count: PartitionCount,
}

impl PartitionRouter {
    /// A router for a database with that many partitions.
    pub fn new(count: PartitionCount) -> Self {
        Self { count }
    }

    /// The flow's partition.
    pub fn flow(&self, flow: FlowId) -> Partition {
        self.count.of(flow)
    }

    /// The partition that the execution's id carries.
    pub fn execution(&self, execution: ExecutionId) -> Partition {
        execution.partition
    }

    /// The partitions of share `index` of `shares`: contiguous, disjoint, together all of them.
    pub fn share(&self, index: u16, shares: u16) -> Range<u16> {
        self.share_of(&(0..u16::MAX), index, shares)
    }

    /// Share `index` of `shares` of those partitions of a range that exist: contiguous, disjoint,
    /// together all of them.
    pub fn share_of(&self, range: &Range<u16>, index: u16, shares: u16) -> Range<u16> {
        assert!(index < shares, "share {index} of {shares} does not exist");
        let end = range.end.min(self.count.get());
        let start = range.start.min(end);
        let bound = |i: u16| {
            let bound = u32::from(end - start) * u32::from(i) / u32::from(shares);
            start + u16::try_from(bound).expect("a bound is at most the count")
        };
        bound(index)..bound(index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_matches_the_published_check_values() {
        assert_eq!(crc16_xmodem(b"123456789"), 0x31C3);
        assert_eq!(crc16_xmodem(b""), 0x0000);
        assert_eq!(crc16_xmodem(b"A"), 0x58E5);
        assert_eq!(crc16_xmodem(&[0; 16]), 0x0000);
        assert_eq!(crc16_xmodem(&[0xFF; 16]), 0x0041);
    }

    #[test]
    fn printed_ids_parse_back() {
        let key = PartitionCount::default().key(FlowId::from_parts(1_700_000_000_000, [7; 10]));
        let id = key.execution("build");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(key.partition.to_string().parse(), Ok(key.partition));
        assert_eq!(id.partition, key.partition);
    }

    #[test]
    fn executions_of_a_flow_lie_together_and_apart_from_those_of_later_flows() {
        let partitions = PartitionCount::default();
        let key = partitions.key(FlowId::from_parts(1_700_000_000_000, [7; 10]));
        let later = partitions.key(FlowId::from_parts(1_700_000_000_001, [7; 10]));
        let same = partitions.key(FlowId::from_parts(1_700_000_000_000, [8; 10]));
        let mut ids = std::collections::BTreeSet::new();
        for name in (0..1_000).map(|number| number.to_string()) {
            let id = key.execution(&name).uuid;
            assert_eq!(id.get_version_num(), 8);
            assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
            assert!(key.execution_range().contains(&id));
            assert!(!later.execution_range().contains(&id));
            assert_ne!(same.execution(&name).uuid, id);
            ids.insert(id);
        }
        assert_eq!(ids.len(), 1_000);
        assert!(later.execution("0").uuid > *ids.last().unwrap());
    }

    #[test]
    fn malformed_ids_are_refused_by_name() {
        for text in ["", "{fp:}", "{fp:65536}", "{fp:01}", "{fp:+1}", "fp:1", "{xp:1}", "{fp:1"] {
            assert!(text.parse::<Partition>().is_err(), "{text}");
            let error = format!("{text}:x").parse::<ExecutionId>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn shares_cover_every_partition_once() {
        for count in [1, 2, 255, 256, 65_535] {
            let router = PartitionRouter::new(PartitionCount::new(count).unwrap());
            for shares in [1, 2, 3, 7, 300] {
                let mut next = 0;
                for index in 0..shares {
                    let share = router.share(index, shares);
                    assert_eq!(share.start, next);
                    next = share.end;
                }
                assert_eq!(next, count);
            }
        }
    }

    #[test]
    fn a_share_of_a_range_is_of_partitions_that_exist() {
        let router = PartitionRouter::new(PartitionCount::new(8).unwrap());
        let shares = |range| [0, 1, 2].map(|index| router.share_of(&range, index, 3));
        assert_eq!(shares(0..u16::MAX), [0..2, 2..5, 5..8]);
        assert_eq!(shares(5..6), [5..5, 5..5, 5..6]);
        assert_eq!(shares(9..20), [8..8, 8..8, 8..8]);
    }
}
