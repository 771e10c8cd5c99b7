//! What must hold of inputs: those of a life are what its join took when it decided.

use std::collections::BTreeMap;

use sluicegate::identity::ExecutionId;
use sluicegate::storage::codes;

use super::acknowledged::flow_of;
use super::{Evidence, Finding, Verdict};
use crate::chaos::ledger::Entry;

/// Inputs as they are told: by upstream, how it ended, and the bytes of its result.
type Told = Vec<(ExecutionId, u8, u64)>;

pub(super) fn every_attempt_is_passed_the_same(evidence: &Evidence<'_>) -> Verdict {
    let mut lives: BTreeMap<(ExecutionId, u32), &Told> = BTreeMap::new();
    for (book, entry) in evidence.entries() {
        let Entry::Passed { lease, inputs } = entry else { continue };
        let Some(row) = evidence.executions.get(&lease.execution) else { continue };
        let first = lives.entry((lease.execution, lease.incarnation)).or_insert(inputs);
        if *first != inputs {
            let message = format!("{book} was passed {inputs:?}, another attempt {first:?}");
            return Err(Finding { message, flow: flow_of(evidence, lease.execution) });
        }
        let told: Vec<(ExecutionId, u8)> =
            inputs.iter().map(|(upstream, outcome, _)| (*upstream, *outcome)).collect();
        if lease.incarnation == row.incarnation && told != stored(evidence, lease.execution) {
            let stored = stored(evidence, lease.execution);
            let message = format!("{book} was passed {inputs:?}, but {stored:?} is stored");
            return Err(Finding { message, flow: flow_of(evidence, lease.execution) });
        }
    }
    Ok(())
}

/// The inputs of an execution by its edges, in the order of the upstreams.
fn stored(evidence: &Evidence<'_>, downstream: ExecutionId) -> Vec<(ExecutionId, u8)> {
    let edges = evidence.rows.edges.iter();
    let named = edges.filter(|edge| edge.key.downstream == downstream && edge.passes_as.is_some());
    let mut inputs: Vec<(ExecutionId, u8)> = named
        .filter_map(|edge| edge.input.map(|outcome| (edge.key.upstream, codes::outcome(outcome))))
        .collect();
    inputs.sort_unstable();
    inputs
}
