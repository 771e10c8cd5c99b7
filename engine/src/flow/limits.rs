//! The sizes that a flow, its texts and its results may have. Pure; says how much, checks none.

use serde::{Deserialize, Serialize};

/// Upper bounds of what one flow may hold; each is still allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Executions of a flow.
    pub executions_max: u32,
    /// Edges of a flow.
    pub edges_max: u32,
    /// Inbound edges of an execution.
    pub in_degree_max: u32,
    /// Bytes of all payloads of a flow as it is submitted, or of one extension of it.
    pub flow_max_bytes: u64,
    /// Bytes of a payload.
    pub payload_max_bytes: u64,
    /// Bytes of a result, or of what a failure leaves in its place.
    pub result_max_bytes: u64,
    /// Bytes of all results of one call that reports.
    pub reports_max_bytes: u64,
    /// Bytes of what a worker says of how far it has come.
    pub progress_max_bytes: u64,
    /// Bytes of the results that are sent along with a lease; more is read in pages under it.
    pub inputs_max_bytes: u64,
    /// How often an incarnation of an execution gives an attempt back by a release; each further
    /// release stays charged. Snoozes and suspensions are not counted.
    pub give_backs_max: u32,
    /// Bytes of the payloads that one claim brings, and again of the inputs: it grants no more
    /// leases than may have so many, but one, and what is passed on beyond is read in pages.
    pub claim_max_bytes: u64,
    /// Bytes of what one statement writes; a call that brings more is cut into several. No limit of
    /// a call: one row may be larger.
    pub statement_max_bytes: u64,
    /// Bytes of a name, kind, lane, namespace, tag, key or input name.
    pub name_max_bytes: u64,
    /// Milliseconds of a delay or a deadline.
    pub wait_max_ms: u64,
}

/// A hundred years of 365.25 days, in milliseconds: instants that lie so far ahead of a present
/// one still fit a timestamp many times over.
const CENTURY_MS: u64 = 3_155_760_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            executions_max: 100_000,
            edges_max: 1_000_000,
            in_degree_max: 10_000,
            flow_max_bytes: 1 << 30,
            payload_max_bytes: 1 << 20,
            result_max_bytes: 1 << 20,
            reports_max_bytes: 256 << 20,
            progress_max_bytes: 64 << 10,
            inputs_max_bytes: 4 << 20,
            give_backs_max: 100,
            claim_max_bytes: 1 << 30,
            statement_max_bytes: 16 << 20,
            name_max_bytes: 256,
            wait_max_ms: CENTURY_MS,
        }
    }
}
