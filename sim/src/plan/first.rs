//! The kind of a universe's first fault: what strikes at few points would hardly be seen among all
//! that may strike at a statement. Follows from the seed; never a choice.

use std::collections::BTreeSet;

use super::{Backend, Commits, LaneKind};
use crate::faults::FaultKind;
use crate::random::SplitMix;

/// Kinds that strike at few points, or where few flows have something for them.
const RARE: [FaultKind; 4] = [
    FaultKind::CommitApplied,
    FaultKind::CommitLost,
    FaultKind::RequestDeleted,
    FaultKind::RequestDeleted,
];
/// On a network also what lasts beyond a lease: half of its universes end before such a fault that
/// comes late has shown anything.
const RARE_ON_A_NETWORK: [FaultKind; 2] = [FaultKind::Pause, FaultKind::Partition];
/// Of so many universes without a seldom kind one begins with a rare one.
const RARE_EVERY: u64 = 3;

/// Of so many universes one is refused by its server now and then: each refusal is another way to a
/// transaction that begins anew, and among them what is left of the others would hardly be seen.
const REFUSED_EVERY: u64 = 6;

/// True if the server of that universe may refuse.
pub(super) fn is_refused(ids_seed: u64) -> bool {
    ids_seed % REFUSED_EVERY == 1
}

/// Seldom kinds come first where they come at all, then those by which a server refuses, and rare
/// ones now and then: among all of the kinds that may strike at a statement they would hardly be
/// seen.
pub(super) fn first_fault(
    ids_seed: u64,
    faults: &BTreeSet<FaultKind>,
    commits: Commits,
    (lane, behind): (LaneKind, Option<Backend>),
) -> Option<FaultKind> {
    // A tail that is lost takes no damage with it: nothing is damaged there.
    let strikes = |kind: &FaultKind| commits == Commits::Synchronous || !kind.damages();
    let seldom = faults.iter().copied().filter(|kind| kind.is_seldom() && strikes(kind));
    let mut among: Vec<FaultKind> = seldom.collect();
    let number = SplitMix(ids_seed ^ 0x4649_5253_5446_4155).next();
    if among.is_empty() {
        among = faults.iter().copied().filter(|kind| kind.refusal().is_some()).collect();
    }
    if among.is_empty() && number.is_multiple_of(RARE_EVERY) {
        // Few universes have a file behind a server, and there what finds it busy is rare too.
        let rare = RARE.into_iter().chain(behind.map(|_| FaultKind::Busy));
        let network = RARE_ON_A_NETWORK.into_iter().filter(|_| lane == LaneKind::Network);
        let rare = rare.chain(network);
        among = rare.filter(|kind| faults.contains(kind) && strikes(kind)).collect();
    }
    let kinds = u64::try_from(among.len()).unwrap_or(0).max(1);
    let chosen = usize::try_from(number / RARE_EVERY % kinds).unwrap_or(0);
    among.get(chosen).copied()
}
