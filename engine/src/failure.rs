//! What a failed execution has as its result: one line of text, as JSON, of bounded size. Pure;
//! never decides that something has failed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::said;

/// Bytes of a message that are kept; the rest is cut off.
pub const MESSAGE_MAX_BYTES: usize = 16 << 10;

/// What a failed execution has as its result, as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What the handler said, what it panicked with, or which limit has ended the execution.
    pub error: String,
}

impl Failure {
    /// With so many bytes of the message, or fewer where a character would be cut in two.
    fn cut(message: &str, bytes_max: usize) -> Arc<[u8]> {
        let failure = Failure { error: said::cut(message, bytes_max).to_owned() };
        serde_json::to_vec(&failure).expect("text is JSON").into()
    }

    /// In at most so many bytes of JSON: with less of the message, and nothing at all where not
    /// even a failure without a message fits.
    pub(crate) fn within(message: &str, json_max_bytes: u64) -> Arc<[u8]> {
        let mut kept = MESSAGE_MAX_BYTES.min(message.len());
        loop {
            let bytes = Self::cut(message, kept);
            if bytes.len() as u64 <= json_max_bytes {
                return bytes;
            }
            if kept == 0 {
                return Arc::from([]);
            }
            kept /= 2;
        }
    }
}
