//! The turn-over of a worker: reports what it has done and claims what it does next, in one
//! transaction. Adds no decision of its own.

use crate::identity::ExecutionId;
use crate::operations::claim::{Claim, flows_of};
use crate::operations::finish;
use crate::operations::inputs::{Claimed, Found};
use crate::operations::report::{Reply, Reporting};
use crate::reconcile::PassesOver;
use crate::storage::{Result, Transaction};
use crate::transact::{Body, Run, Verdict};

/// The transaction of reports and the claim that follows them.
pub(crate) struct CompleteAndClaim {
    pub(crate) reporting: Reporting,
    pub(crate) claim: Claim,
}

impl PassesOver for CompleteAndClaim {
    fn except(&self) -> &[ExecutionId] {
        self.claim.except()
    }

    fn pass_over(&mut self, execution: ExecutionId) {
        self.claim.pass_over(execution);
    }
}

impl Body for CompleteAndClaim {
    type Out = (Vec<Reply>, Vec<Claimed>);

    /// The reports lock first, for they may wait; the claim passes over what is locked. After a
    /// lost answer the attempts tell of the reports, and the request id tells of the claim.
    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let settled = self.reporting.settle(transaction).await?;
        let mut flows = self.reporting.write(transaction, &settled.moves).await?;
        let mut grants = self.claim.earlier(transaction, run).await?;
        let mut found = Found::Again;
        let mut changed = !settled.moves.is_empty();
        if grants.is_empty() {
            let now = match settled.now {
                Some(now) => now,
                None => transaction.clock().await?,
            };
            grants = self.claim.grant(transaction, now).await?;
            found = Found::Granted;
            flows.extend(flows_of(&grants));
            changed |= !grants.is_empty();
        }
        finish::record_changes(transaction, &flows).await?;
        let claimed = self.claim.carry(transaction, grants, found).await?;
        let out = (settled.replies, claimed);
        Ok(if changed { Verdict::Commit(out) } else { Verdict::Rollback(out) })
    }
}
