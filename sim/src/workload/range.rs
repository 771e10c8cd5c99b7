//! What a flow may ask for that no universe would come to the end of. Pure; the tests hold every
//! other value of every field to the promise.

use sluicegate::flow::ExecutionSpec;
use sluicegate::retry::RetryPolicy;

/// An attempt limit below this, in milliseconds, may end every attempt: handlers take as long.
const TIMEOUT_SHORT_MS: u32 = 100;
/// Attempts of an execution whose every attempt may be ended by its limit.
const ATTEMPTS_SHORT_MAX: u32 = 50;

/// Why no universe of that flow would end, if it would not: every attempt may be ended by its own
/// limit, and there are too many of them.
pub fn endless(executions: &[ExecutionSpec]) -> Option<String> {
    let endless = executions.iter().find(|one| is_endless(one.retry))?;
    let RetryPolicy { max_attempts, attempt_timeout_ms, .. } = endless.retry;
    let timeout_ms = attempt_timeout_ms.unwrap_or_default();
    Some(format!(
        "execution `{}` has {max_attempts} attempts of {timeout_ms} ms each: handlers take up to \
         {TIMEOUT_SHORT_MS} ms here and longer, so that its universes would not end; allow \
         {ATTEMPTS_SHORT_MAX} attempts at most, or {TIMEOUT_SHORT_MS} ms at least",
        endless.name
    ))
}

fn is_endless(retry: RetryPolicy) -> bool {
    let short = retry.attempt_timeout_ms.is_some_and(|limit_ms| limit_ms < TIMEOUT_SHORT_MS);
    short && retry.max_attempts > ATTEMPTS_SHORT_MAX
}

#[cfg(test)]
mod tests;
