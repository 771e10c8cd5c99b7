//! Every field of a flow over its whole range: labels, priorities, delays, deadlines, attempts.
//! Follows from the seed and is no choice, so that the shapes of flows are what they are without.

use std::sync::Arc;

use sluicegate::flow::{Additions, ExecutionSpec, FlowSpec, Limits};
use sluicegate::identity::FlowId;
use sluicegate::retry::{Backoff, RetryPolicy};

use crate::random::SplitMix;

/// Of so many universes one has fields out of the ordinary.
const WIDE_EVERY: u64 = 4;
/// Of so many executions of such a universe one has a given field out of the ordinary.
const FIELD_EVERY: u64 = 3;
/// An attempt limit below this, in milliseconds, may end every attempt: handlers take as long.
const TIMEOUT_SHORT_MS: u32 = 100;
/// Attempts of an execution whose every attempt may be ended by its limit.
const ATTEMPTS_SHORT_MAX: u32 = 50;

const DAY_MS: u64 = 86_400_000;
const LABELS: [&str; 4] = ["gpu", "Größe λ", " spaced out ", "a/b:c{d}%_\\'\""];
const PRIORITIES: [i32; 4] = [i32::MAX, i32::MIN, -1, 7];
const ATTEMPTS: [u32; 5] = [1, 2, 50, 300, u32::MAX];
const TIMEOUTS_MS: [u32; 5] = [1, 99, 500, 12_000, u32::MAX];
const BACKOFFS: [Backoff; 7] = [
    Backoff::Fixed { delay_ms: 0 },
    Backoff::Fixed { delay_ms: 200_000 },
    Backoff::Fixed { delay_ms: u32::MAX },
    Backoff::Exponential { initial_ms: 0, factor: 1, cap_ms: 0 },
    Backoff::Exponential { initial_ms: 5_000, factor: 3, cap_ms: 1_000 },
    Backoff::Exponential { initial_ms: 1, factor: u32::MAX, cap_ms: 3_600_000 },
    Backoff::Exponential { initial_ms: u32::MAX, factor: u32::MAX, cap_ms: u32::MAX },
];

/// Widens the fields of one universe in four.
pub fn widen(flow: &mut FlowSpec, extensions: &mut [Additions], ids_seed: u64) {
    let mut numbers = SplitMix(ids_seed ^ 0x5749_4445_5249_4E47);
    if numbers.next().is_multiple_of(WIDE_EVERY) {
        let numbers = &mut numbers;
        widen_flow(flow, numbers);
        let added = extensions.iter_mut().flat_map(|extension| &mut extension.executions);
        flow.executions.iter_mut().chain(added).for_each(|one| widen_execution(one, numbers));
    }
}

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

fn widen_flow(flow: &mut FlowSpec, numbers: &mut SplitMix) {
    if let Some(label) = label(numbers) {
        flow.namespace = label;
    }
    flow.instance_tag = match numbers.next() % 4 {
        0 => None,
        1 => Some("a==".to_owned()),
        2 => Some(format!("{}={}", LABELS[0], LABELS[1])),
        _ => flow.instance_tag.take(),
    };
    match numbers.next() % 4 {
        0 => {
            // The caller's own id makes two submissions one, as a key does.
            let bytes = u128::from(numbers.next()).to_be_bytes();
            let (_, random) = bytes.split_last_chunk::<10>().expect("sixteen bytes");
            flow.flow_id = Some(FlowId::from_parts(numbers.next() % (1 << 48), *random));
            flow.idempotency_key = None;
        }
        1 => flow.idempotency_key = Some(longest_label()),
        _ => {}
    }
}

fn widen_execution(one: &mut ExecutionSpec, numbers: &mut SplitMix) {
    one.lane = label(numbers).unwrap_or_else(|| one.lane.clone());
    one.kind = label(numbers).unwrap_or_else(|| one.kind.clone());
    one.priority = pick(&PRIORITIES, numbers).unwrap_or(one.priority);
    one.delay_ms = pick(&waits_ms(), numbers).or(one.delay_ms);
    one.deadline_ms = pick(&waits_ms(), numbers).or(one.deadline_ms);
    let retry = &mut one.retry;
    retry.max_attempts = pick(&ATTEMPTS, numbers).unwrap_or(retry.max_attempts);
    retry.backoff = pick(&BACKOFFS, numbers).unwrap_or(retry.backoff);
    retry.attempt_timeout_ms = pick(&TIMEOUTS_MS, numbers).or(retry.attempt_timeout_ms);
    if is_endless(*retry) {
        retry.max_attempts = ATTEMPTS_SHORT_MAX;
    }
}

fn waits_ms() -> [u64; 5] {
    [0, 1, 200_000, DAY_MS, Limits::default().wait_max_ms]
}

/// A name, kind, lane, namespace or key as long as one may be.
fn longest_label() -> String {
    let bytes = usize::try_from(Limits::default().name_max_bytes).unwrap_or(usize::MAX);
    "x".repeat(bytes)
}

fn label(numbers: &mut SplitMix) -> Option<String> {
    let labels: Vec<Arc<str>> =
        LABELS.into_iter().map(Arc::from).chain([longest_label().into()]).collect();
    pick(&labels, numbers).map(|label| label.to_string())
}

/// One of the values, now and then.
fn pick<T: Clone>(values: &[T], numbers: &mut SplitMix) -> Option<T> {
    let number = numbers.next();
    let count = u64::try_from(values.len()).unwrap_or(1);
    let at = usize::try_from(number / FIELD_EVERY % count).unwrap_or(0);
    number.is_multiple_of(FIELD_EVERY).then(|| values[at].clone())
}

#[cfg(test)]
mod tests;
