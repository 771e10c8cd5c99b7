//! How long the statements of a universe may be. Never cuts one.

use sluicegate::flow::Limits;

/// Of so many universes one has a server that reads short statements only.
const SHORT_EVERY: u64 = 7;
/// The bytes of such a statement: of two payloads, or of three results.
const SHORT_BYTES: u64 = 50;

/// What a statement of plans that do not say so carries.
pub(super) fn max_bytes() -> u64 {
    Limits::default().statement_max_bytes
}

/// In some universes so few that flows, extensions and reports are written in several statements.
pub(super) fn bytes_of_seed(ids_seed: u64) -> u64 {
    if ids_seed % SHORT_EVERY == 4 { SHORT_BYTES } else { max_bytes() }
}
