//! I15: locks are taken in one order, and contention is never told as a lost lease.

use super::{Context, Hearing, Invariant, Verdict};
use crate::history::Observation;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I15",
    title: "the lock-order graph is acyclic; contention never surfaces as a lost lease",
    commit: Some(check),
    observe: Some(check_loss),
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    context.order_violation.map_or(Ok(()), |words| Err(words.to_owned()))
}

/// A lease never comes back, so one that stands now stood when the report was refused. A renewal is
/// refused once its lease is over, reaped or not, which the committed row can not tell.
fn check_loss(hearing: &Hearing<'_>) -> Verdict {
    let Observation::LeaseLost { holder, end: Some(end) } = hearing.observation else {
        return Ok(());
    };
    if !hearing.mirror.holds(holder) {
        return Ok(());
    }
    Err(format!("{end:?} was refused as a lost lease, but the lease stands: {holder:?}"))
}

#[cfg(test)]
mod tests {
    use sluicegate::storage::AttemptEnd;

    use crate::history::Observation;
    use crate::invariants::testing::{History, Story};

    pub(super) fn rejects() -> Vec<History> {
        let story = Story::chain().grant("a");
        let holder = story.holder("a");
        let lost = Observation::LeaseLost { holder, end: Some(AttemptEnd::Completed) };
        vec![
            story.told(lost).ends("the lease stands"),
            Story::chain().grant("a").out_of_order("b before a").ends("locks in another order"),
        ]
    }
}
