//! Exchanging the policy of an edge group, as long as nothing was decided by it. Checked under the
//! locks of flow and group.

use std::sync::Arc;

use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::operations::call::{Call, Opened};
use crate::policy::{Decision, JoinPolicy};
use crate::storage::{Group, Result, Transaction};
use crate::transact::{Body, Run, Verdict};

/// What a call to set a policy found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicySet {
    /// The group has it now.
    Set,
    /// The group had it.
    AlreadySet,
}

/// The transaction that exchanges a policy. It asks for no sibling cancel: while the group is
/// undecided, the requests of the races that share its upstreams stay.
pub(crate) struct SetPolicy {
    pub(crate) flow: FlowKey,
    pub(crate) downstream: ExecutionId,
    pub(crate) policy: JoinPolicy,
    pub(crate) request: RequestId,
}

impl Body for SetPolicy {
    type Out = Result<PolicySet, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let words =
            ["set_edge_group_policy", &self.downstream.to_string(), &format!("{:?}", self.policy)];
        let call = Call::new(self.flow, self.request, &words);
        match call.open(transaction).await? {
            Ok(Opened::New(_)) => {}
            Ok(Opened::Known(..)) => return Ok(Verdict::Rollback(Ok(PolicySet::Set))),
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        }
        let groups = transaction.lock_groups(&[self.downstream]).await?;
        let Some(before) = groups.first().filter(|group| group.flow == self.flow.id) else {
            let missing = EngineError::ExecutionNotFound(self.downstream);
            return Ok(Verdict::Rollback(Err(missing)));
        };
        if before.policy == self.policy {
            return Ok(Verdict::Rollback(Ok(PolicySet::AlreadySet)));
        }
        if let Err(reason) = self.check(before) {
            return Ok(Verdict::Rollback(Err(reason)));
        }
        let after = Group { policy: self.policy, ..*before };
        let written = transaction.write_joins(&[after]).await?;
        assert!(written == 1, "a locked group vanished");
        call.keep(transaction, Arc::from([])).await?;
        Ok(Verdict::Commit(Ok(PolicySet::Set)))
    }
}

impl SetPolicy {
    /// Whether the group may have the policy now.
    fn check(&self, group: &Group) -> Result<(), EngineError> {
        if !self.policy.fits(group.edges) {
            let reason = format!(
                "{:?} does not fit group {}, which has {} edges",
                self.policy, self.downstream, group.edges
            );
            return Err(EngineError::Invalid(reason));
        }
        let resolved = group.satisfied + group.unsatisfied;
        if group.decision != Decision::Undecided || resolved > 0 {
            let reason = format!(
                "group {} is {:?} with {resolved} of {} edges resolved; a policy is set before",
                self.downstream, group.decision, group.edges
            );
            return Err(EngineError::Refused(reason));
        }
        Ok(())
    }
}
