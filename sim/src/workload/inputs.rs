//! Names for what edges pass on, fed by a tape. Drawn last, so that the flow is what it is without.

use sluicegate::flow::{Additions, EdgeSpec, FlowSpec, Limits};

use super::even;
use crate::history::RESULT_BYTES;
use crate::tape::Tape;

/// Names some edges of some flows and of their extensions; returns how many bytes of results a
/// lease is to carry.
pub fn name(tape: &mut Tape, flow: &mut FlowSpec, extensions: &mut [Additions]) -> u64 {
    let all = Limits::default().inputs_max_bytes;
    if even(tape, 3) != 1 {
        return all;
    }
    let added = extensions.iter_mut().flat_map(|extension| &mut extension.edges);
    flow.edges.iter_mut().chain(added).for_each(|edge| name_one(tape, edge));
    [all, RESULT_BYTES, 0][usize::from(even(tape, 3))]
}

/// The name of its upstream: no other edge into its downstream has it.
fn name_one(tape: &mut Tape, edge: &mut EdgeSpec) {
    if even(tape, 2) == 1 {
        edge.passes_as = Some(edge.from.clone());
    }
}
