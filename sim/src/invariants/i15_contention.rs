//! I15: locks are taken in one order, and nothing but the end of a lease is told as its loss.

use super::{Context, Hearing, Invariant, Verdict};
use crate::history::Observation;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I15",
    title: "the lock-order graph is acyclic; a lease is told as lost only once it ended",
    commit: Some(check),
    observe: Some(check_loss),
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    context.order_violation.map_or(Ok(()), |words| Err(words.to_owned()))
}

/// A lease never comes back, so one that stands now stood when the call was refused, be it a
/// report, a renewal or progress: neither contention nor a clock has ended it.
fn check_loss(hearing: &Hearing<'_>) -> Verdict {
    let Observation::LeaseLost { holder, end } = hearing.observation else {
        return Ok(());
    };
    if !hearing.mirror.holds(holder) {
        return Ok(());
    }
    let refused = end.map_or_else(|| "a renewal, or progress,".into(), |end| format!("{end:?}"));
    Err(format!("{refused} was refused as a lost lease, but the lease stands: {holder:?}"))
}

#[cfg(test)]
mod tests {
    use sluicegate::storage::AttemptEnd;

    use crate::history::Observation;
    use crate::invariants::testing::{History, LEASE, Story};

    pub(super) fn rejects() -> Vec<History> {
        let story = Story::chain().grant("a");
        let holder = story.holder("a");
        let lost = Observation::LeaseLost { holder, end: Some(AttemptEnd::Completed) };
        vec![
            story.told(lost).ends("the lease stands"),
            Story::chain()
                .grant("a")
                .wait(LEASE)
                .told(Observation::LeaseLost { holder, end: None })
                .ends("a renewal refused although nothing has ended the lease"),
            Story::chain().grant("a").out_of_order("b before a").ends("locks in another order"),
        ]
    }
}
