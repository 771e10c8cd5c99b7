//! Sibling cancellation: which upstreams a decided join no longer needs, and the transaction that
//! cancels them. The rule depends on no order and is not transitive.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::operations::cancel::cancelled;
use crate::operations::finish::{self, Move};
use crate::policy::{Decision, OnSatisfied};
use crate::reconcile::PassesOver;
use crate::state::Cause;
use crate::storage::{Execution, FedGroup, PendingEdge, Result, SiblingRequest, Transaction};
use crate::transact::{Body, Run, Verdict};

/// What the groups that an upstream feeds make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Some group that it feeds is undecided, of whatever policy: it may be needed.
    Needed,
    /// All are decided, and one of them lets it run.
    LetRun,
    /// All are decided, none lets it run, and one asks for its end.
    Unneeded,
    /// All are decided, and none asks: they are `AllOf`.
    Unasked,
}

/// The fate of an upstream with these groups at the ends of its pending out-edges.
///
/// Needed comes first: as long as a group is undecided, its policy may be exchanged as well.
/// An edge that is resolved, by an earlier incarnation of the upstream, neither asks nor protects:
/// its group has what it wanted of it.
fn fate<'a>(groups: impl Iterator<Item = &'a FedGroup>) -> Fate {
    let (mut needed, mut let_run, mut asked) = (false, false, false);
    for group in groups {
        let decided = group.decision != Decision::Undecided;
        match group.policy.on_satisfied() {
            _ if !decided => needed = true,
            Some(OnSatisfied::LetRun) => let_run = true,
            Some(OnSatisfied::CancelRemaining) => asked = true,
            None => {}
        }
    }
    needed &= !mutated!(P26);
    let_run &= !mutated!(P27);
    match (needed, let_run, asked) {
        (true, _, _) => Fate::Needed,
        (_, true, _) => Fate::LetRun,
        (_, _, true) => Fate::Unneeded,
        (_, _, false) => Fate::Unasked,
    }
}

type Fates = BTreeMap<ExecutionId, Fate>;

fn fates(groups: &[FedGroup]) -> Fates {
    let mut fed: BTreeMap<ExecutionId, Vec<&FedGroup>> = BTreeMap::new();
    for group in groups {
        fed.entry(group.edge.upstream).or_default().push(group);
    }
    fed.into_iter().map(|(upstream, groups)| (upstream, fate(groups.into_iter()))).collect()
}

/// The transaction that serves some requests of one flow.
pub(crate) struct SiblingDrain {
    pub(crate) flow: FlowKey,
    pub(crate) requests: Vec<SiblingRequest>,
    /// Members that it cancels, at most.
    pub(crate) batch: usize,
    /// Members that it passes over, because they cannot be read.
    pub(crate) except: Vec<ExecutionId>,
}

/// What it did.
pub(crate) struct Drained {
    /// Members that it cancelled.
    pub cancelled: Vec<ExecutionId>,
    /// Requests that have nothing left to ask for.
    pub served: usize,
    /// The batch was full: there may be more to cancel.
    pub more: bool,
}

impl PassesOver for SiblingDrain {
    fn except(&self) -> &[ExecutionId] {
        &self.except
    }

    fn pass_over(&mut self, execution: ExecutionId) {
        self.except.push(execution);
    }
}

impl Body for SiblingDrain {
    type Out = Drained;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Drained>> {
        if transaction.lock_flow(&self.flow).await?.is_none() {
            // Its time was over, and nothing of it is left.
            let drained = Drained { cancelled: Vec::new(), served: 0, more: false };
            return Ok(Verdict::Rollback(drained));
        }
        let groups: Vec<ExecutionId> = self.requests.iter().map(|request| request.group).collect();
        let pending = transaction.pending_edges(&groups).await?;
        let open = pending.iter().filter(|edge| !edge.upstream_state.is_terminal());
        let open: BTreeSet<ExecutionId> = open.map(|edge| edge.key.upstream).collect();
        let open: Vec<ExecutionId> = open.into_iter().collect();
        let mut fates = match open.is_empty() {
            true => Fates::new(),
            false => self::fates(&transaction.read_fed_groups(&open).await?),
        };
        let unneeded = open.iter().filter(|id| fates.get(id) == Some(&Fate::Unneeded));
        let readable = unneeded.filter(|id| !self.except.contains(id));
        let chosen: Vec<ExecutionId> = readable.copied().take(self.batch).collect();
        let ended = match chosen.is_empty() {
            true => Ended::default(),
            false => self.cancel(transaction, &chosen, &mut fates).await?,
        };
        let served = self.served(&pending, &ended, &fates);
        if !served.is_empty() {
            transaction.delete_sibling_requests(&served).await?;
        }
        let more = chosen.len() == self.batch;
        let served = served.len();
        let nothing = ended.cancelled.is_empty() && served == 0;
        let drained = Drained { cancelled: ended.cancelled, served, more };
        Ok(if nothing { Verdict::Rollback(drained) } else { Verdict::Commit(drained) })
    }
}

/// What was chosen and has ended.
#[derive(Default)]
struct Ended {
    /// By this transaction, in id order.
    cancelled: Vec<ExecutionId>,
    /// By itself, while its lock was waited for.
    before: BTreeSet<ExecutionId>,
}

impl SiblingDrain {
    /// Locks what was chosen, looks at its groups once more, and cancels it.
    async fn cancel<T: Transaction>(
        &self,
        transaction: &mut T,
        chosen: &[ExecutionId],
        fates: &mut Fates,
    ) -> Result<Ended> {
        let rows = transaction.lock_executions(chosen).await?;
        if mutated!(P39) {
            let groups: Vec<ExecutionId> = self.requests.iter().map(|one| one.group).collect();
            transaction.lock_groups(&groups).await?;
        }
        let now = transaction.clock().await?;
        fates.extend(self::fates(&transaction.read_fed_groups(chosen).await?));
        let (ended, open): (Vec<Execution>, Vec<Execution>) =
            rows.into_iter().partition(|row| row.state.is_terminal());
        let unneeded = open.iter().filter(|row| fates.get(&row.id) == Some(&Fate::Unneeded));
        let moves: Vec<Move> = unneeded.map(|row| cancelled(row, Cause::Sibling, now)).collect();
        finish::record(transaction, &moves).await?;
        let cancelled = moves.into_iter().map(|one| one.after.id).collect();
        Ok(Ended { cancelled, before: ended.into_iter().map(|row| row.id).collect() })
    }

    /// The requests of which every upstream has ended or is let run.
    fn served(&self, pending: &[PendingEdge], ended: &Ended, fates: &Fates) -> Vec<SiblingRequest> {
        let settled = |edge: &PendingEdge| {
            let upstream = edge.key.upstream;
            edge.upstream_state.is_terminal()
                || ended.cancelled.binary_search(&upstream).is_ok()
                || ended.before.contains(&upstream)
                || fates.get(&upstream) == Some(&Fate::LetRun)
        };
        let waits: BTreeSet<ExecutionId> =
            pending.iter().filter(|edge| !settled(edge)).map(|edge| edge.key.downstream).collect();
        let served = self.requests.iter().filter(|one| !waits.contains(&one.group));
        served.copied().collect()
    }
}

/// The planted bug that takes requests away in a transaction of its own, before it serves them.
pub(crate) struct DropRequests {
    pub(crate) flow: FlowKey,
    pub(crate) requests: Vec<SiblingRequest>,
}

impl Body for DropRequests {
    type Out = ();

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<()>> {
        transaction.lock_flow(&self.flow).await?;
        transaction.delete_sibling_requests(&self.requests).await?;
        Ok(Verdict::Commit(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{FlowId, PartitionCount};
    use crate::policy::JoinPolicy;
    use crate::storage::EdgeKey;

    const RACE: JoinPolicy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };
    const LET_RUN: JoinPolicy = JoinPolicy::Quorum { k: 1, on_satisfied: OnSatisfied::LetRun };

    fn check(groups: &[(JoinPolicy, Decision)], expected: Fate) {
        let flow = PartitionCount::default().key(FlowId::from_parts(1, [1; 10]));
        let fed: Vec<FedGroup> = groups
            .iter()
            .enumerate()
            .map(|(number, (policy, decision))| FedGroup {
                edge: EdgeKey {
                    downstream: flow.execution(&number.to_string()),
                    upstream: flow.execution("x"),
                },
                policy: *policy,
                decision: *decision,
            })
            .collect();
        assert_eq!(fate(fed.iter()), expected, "{groups:?}");
        assert_eq!(fate(fed.iter().rev()), expected, "the order decides: {groups:?}");
    }

    #[test]
    fn a_decided_race_asks_whichever_way_it_was_decided() {
        check(&[(RACE, Decision::Satisfied)], Fate::Unneeded);
        check(&[(RACE, Decision::Impossible)], Fate::Unneeded);
    }

    #[test]
    fn an_undecided_group_of_any_policy_protects() {
        for policy in [RACE, LET_RUN, JoinPolicy::AllOf] {
            let groups = [(RACE, Decision::Satisfied), (policy, Decision::Undecided)];
            check(&groups, Fate::Needed);
        }
    }

    #[test]
    fn a_group_that_lets_run_protects_once_all_are_decided() {
        check(&[(RACE, Decision::Satisfied), (LET_RUN, Decision::Satisfied)], Fate::LetRun);
        check(&[(RACE, Decision::Satisfied), (LET_RUN, Decision::Impossible)], Fate::LetRun);
    }

    #[test]
    fn a_decided_group_of_all_neither_asks_nor_protects() {
        check(&[(JoinPolicy::AllOf, Decision::Impossible)], Fate::Unasked);
        let groups = [(RACE, Decision::Satisfied), (JoinPolicy::AllOf, Decision::Impossible)];
        check(&groups, Fate::Unneeded);
    }
}
