//! One hop: lock the planned groups, then the executions, re-read, decide, write. What was not
//! planned is left; nothing waits for a lock after the first execution lock.

use std::collections::{BTreeMap, BTreeSet};

use crate::cascade::resolve::{Locked, Resolved, resolve};
use crate::error::missing_group;
use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::{ensure_rule, mutated};
use crate::operations::cancel::stops_ready;
use crate::operations::finish::{self, Move};
use crate::state::ClosePolicy;
use crate::storage::{EdgeKey, Execution, Group, PendingEdge, Result, ResultChange, Transaction};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

/// What a hop has to do, planned without locks; only chooses what to lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Upstreams that had ended and were not propagated, of one partition, in id order.
    pub upstreams: Vec<ExecutionId>,
    /// Groups that may change, in id order.
    pub groups: Vec<ExecutionId>,
    /// The groups were picked as decided with a blocked downstream.
    pub repair: bool,
}

/// What a hop did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hopped {
    /// Edges that it flipped.
    pub edges: usize,
    /// Downstreams that it released or skipped.
    pub moved: usize,
    /// Upstreams that need no further visit: propagated now or before, or no longer terminal.
    pub settled: BTreeSet<ExecutionId>,
    /// Executions that it skipped and that have edges left to resolve.
    pub skipped: Vec<ExecutionId>,
}

/// The transaction of a hop.
pub(crate) struct Hop {
    pub(crate) plan: Plan,
}

impl Body for Hop {
    type Out = Hopped;

    async fn run<T: Transaction>(&self, transaction: &mut T, run: Run) -> Result<Verdict<Hopped>> {
        let early = self.read_early(transaction).await?;
        let events = match mutated!(P60) && !self.plan.groups.is_empty() {
            true => Some(transaction.pending_edges(&self.plan.groups).await?),
            false => None,
        };
        let groups = self.lock_groups(transaction).await?;
        if mutated!(P10) && groups.len() < self.plan.groups.len() {
            let upstreams = self.plan.upstreams.clone();
            let settled = upstreams.iter().copied().collect();
            MarkPropagated { upstreams }.run(transaction, run).await?;
            return Ok(Verdict::Commit(Hopped { settled, ..Hopped::default() }));
        }
        if groups.len() < self.plan.groups.len() {
            return self.beside_missing(transaction, &groups).await.map(Verdict::Rollback);
        }
        let resolved =
            groups.values().all(|group| group.satisfied + group.unsatisfied == group.edges);
        if resolved && !groups.is_empty() && !self.plan.repair {
            // Another hop did all of it while this one waited: do not queue for its executions too.
            return Ok(Verdict::Rollback(Hopped::default()));
        }
        let executions = self.lock_executions(transaction, &groups).await?;
        let pending = match early {
            Some(early) => early,
            None if self.plan.groups.is_empty() => Vec::new(),
            None => transaction.pending_edges(&self.plan.groups).await?,
        };
        let pending = match &events {
            Some(events) => as_the_events_said(pending, events),
            None => pending,
        };
        // Only a skip is dated; a hop that merely marks upstreams reads no clock.
        let now = match pending.is_empty() && !self.plan.repair {
            true => Timestamp::default(),
            false => transaction.clock().await?,
        };
        self.advance(transaction, &groups, &executions, &pending, now).await
    }
}

impl Hop {
    /// Decides over locked rows and the pending edges of the groups, and writes what follows.
    pub(crate) async fn advance<T: Transaction>(
        &self,
        transaction: &mut T,
        groups: &BTreeMap<ExecutionId, Group>,
        executions: &BTreeMap<ExecutionId, Execution>,
        pending: &[PendingEdge],
        now: Timestamp,
    ) -> Result<Verdict<Hopped>> {
        let open = BTreeMap::new();
        let resolved = resolve(&Locked { groups, executions, pending, now, closings: &open });
        let closings = Self::closings(transaction, &resolved).await?;
        let resolved = match closings.is_empty() {
            true => resolved,
            false => resolve(&Locked { groups, executions, pending, now, closings: &closings }),
        };
        self.write(transaction, executions, resolved).await
    }

    /// How the flows in which something would become ready were closed. Asked once the executions
    /// are locked: a close that commits later waits for them, and finds what was released.
    async fn closings<T: Transaction>(
        transaction: &mut T,
        resolved: &Resolved,
    ) -> Result<BTreeMap<FlowKey, ClosePolicy>> {
        let flows: Vec<FlowKey> = resolved.released().into_iter().collect();
        if flows.is_empty() {
            return Ok(BTreeMap::new());
        }
        let closed = transaction.read_closings(&flows).await?.into_iter();
        Ok(closed.filter(|closed| stops_ready(Some(closed.1))).collect())
    }

    async fn lock_groups<T: Transaction>(
        &self,
        transaction: &mut T,
    ) -> Result<BTreeMap<ExecutionId, Group>> {
        let keys = &self.plan.groups;
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        if mutated!(P58) {
            transaction.lock_executions(&keys[..1]).await?;
        }
        let rows = if mutated!(P07) {
            let rows = transaction.read_groups(keys).await?;
            transaction.lock_groups(keys).await?;
            rows
        } else if mutated!(P57) && keys.len() > 1 {
            let (first, rest) = keys.split_at(1);
            let mut rows = transaction.lock_groups(rest).await?;
            rows.extend(transaction.lock_groups(first).await?);
            rows
        } else {
            transaction.lock_groups(keys).await?
        };
        Ok(rows.into_iter().map(|group| (group.downstream, group)).collect())
    }

    /// What a hop comes to that was planned over groups which are not there. Together with their
    /// executions they were taken away, since the flow was kept for long enough: what is left of
    /// the plan is planned anew. Alone they are damaged.
    async fn beside_missing<T: Transaction>(
        &self,
        transaction: &mut T,
        groups: &BTreeMap<ExecutionId, Group>,
    ) -> Result<Hopped> {
        let missing = self.plan.groups.iter().filter(|id| !groups.contains_key(id)).copied();
        let missing: BTreeSet<ExecutionId> = missing.collect();
        let asked: BTreeSet<ExecutionId> =
            missing.iter().chain(&self.plan.upstreams).copied().collect();
        let asked: Vec<ExecutionId> = asked.into_iter().collect();
        let found = transaction.lock_executions(&asked).await?;
        let found: BTreeSet<ExecutionId> = found.into_iter().map(|row| row.id).collect();
        match missing.intersection(&found).next() {
            Some(damaged) => Err(missing_group(*damaged)),
            None => {
                let gone = asked.into_iter().filter(|id| !found.contains(id));
                Ok(Hopped { settled: gone.collect(), ..Hopped::default() })
            }
        }
    }

    async fn lock_executions<T: Transaction>(
        &self,
        transaction: &mut T,
        groups: &BTreeMap<ExecutionId, Group>,
    ) -> Result<BTreeMap<ExecutionId, Execution>> {
        let keys: BTreeSet<ExecutionId> =
            self.plan.upstreams.iter().chain(groups.keys()).copied().collect();
        let keys: Vec<ExecutionId> = keys.into_iter().collect();
        let rows = transaction.lock_executions(&keys).await?;
        Ok(rows.into_iter().map(|row| (row.id, row)).collect())
    }

    /// The planted bug that reads the edges before their groups are locked.
    async fn read_early<T: Transaction>(
        &self,
        transaction: &mut T,
    ) -> Result<Option<Vec<PendingEdge>>> {
        if (mutated!(P56) || mutated!(P05) || mutated!(P06)) && !self.plan.groups.is_empty() {
            return transaction.pending_edges(&self.plan.groups).await.map(Some);
        }
        Ok(None)
    }

    async fn write<T: Transaction>(
        &self,
        transaction: &mut T,
        executions: &BTreeMap<ExecutionId, Execution>,
        resolved: Resolved,
    ) -> Result<Verdict<Hopped>> {
        let Resolved { flips, groups, mut moves, requests } = resolved;
        if !flips.is_empty() {
            let flipped = transaction.resolve_edges(&flips).await?;
            let asked: Vec<EdgeKey> = flips.iter().map(|flip| flip.key).collect();
            // Counters move by the rows that the guarded flip returned: under the group's lock
            // these are the rows that were decided on.
            ensure_rule!(flipped == asked, "a pending edge changed under its group's lock");
            let written = transaction.write_groups(&groups).await?;
            ensure_rule!(written == groups.len() as u64, "a locked group vanished");
        }
        let moved = moves.len();
        let settled = self.propagate(transaction, executions, &mut moves).await?;
        let moves: Vec<Move> = moves.into_values().collect();
        let skipped = moves
            .iter()
            .filter(|one| one.after.state.is_terminal() && !one.after.propagated)
            .map(|one| one.after.id)
            .filter(|id| !self.plan.upstreams.contains(id))
            .collect();
        let hopped = Hopped { edges: flips.len(), moved, settled, skipped };
        if flips.is_empty() && moves.is_empty() {
            return Ok(Verdict::Rollback(hopped));
        }
        finish::record(transaction, &moves).await?;
        if !requests.is_empty() {
            transaction.insert_sibling_requests(&requests).await?;
        }
        Ok(Verdict::Commit(hopped))
    }

    /// Marks what has no pending out-edge left among the planned upstreams and the new skips.
    async fn propagate<T: Transaction>(
        &self,
        transaction: &mut T,
        executions: &BTreeMap<ExecutionId, Execution>,
        moves: &mut BTreeMap<ExecutionId, Move>,
    ) -> Result<BTreeSet<ExecutionId>> {
        let open = |row: &Execution| row.state.is_terminal() && !row.propagated;
        let picked = self.plan.upstreams.iter();
        let mut settled: BTreeSet<ExecutionId> =
            picked.clone().filter(|id| !executions.get(id).is_some_and(open)).copied().collect();
        let skipped = moves.values().map(|one| &one.after).filter(|row| open(row));
        let candidates: BTreeSet<ExecutionId> = picked
            .filter(|id| !settled.contains(id))
            .copied()
            .chain(skipped.map(|row| row.id))
            .collect();
        if candidates.is_empty() {
            return Ok(settled);
        }
        let candidates: Vec<ExecutionId> = candidates.into_iter().collect();
        let pending = match mutated!(P02) {
            true => Vec::new(),
            false => transaction.with_pending_edges(&candidates).await?,
        };
        for id in candidates {
            if pending.binary_search(&id).is_ok() {
                continue;
            }
            if self.plan.upstreams.binary_search(&id).is_ok() {
                settled.insert(id);
            }
            match moves.get_mut(&id) {
                Some(one) => one.after.propagated = true,
                None => {
                    let before = executions[&id];
                    let after = Execution { propagated: true, ..before };
                    let one = Move { before, after, result: ResultChange::Keep, attempt: None };
                    moves.insert(id, one);
                }
            }
        }
        Ok(settled)
    }
}

/// The planted bug that takes upstreams for what was known of them when the hop was called for.
fn as_the_events_said(mut pending: Vec<PendingEdge>, events: &[PendingEdge]) -> Vec<PendingEdge> {
    for edge in &mut pending {
        if let Some(event) = events.iter().find(|event| event.key == edge.key) {
            edge.upstream_state = event.upstream_state;
            edge.upstream_incarnation = event.upstream_incarnation;
        }
    }
    pending
}

/// The planted bug that marks upstreams in a transaction of its own.
pub(crate) struct MarkPropagated {
    pub(crate) upstreams: Vec<ExecutionId>,
}

impl Body for MarkPropagated {
    type Out = ();

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<()>> {
        let rows = transaction.lock_executions(&self.upstreams).await?;
        let moves: Vec<Move> = rows
            .into_iter()
            .filter(|row| row.state.is_terminal() && !row.propagated)
            .map(|before| Move {
                before,
                after: Execution { propagated: true, ..before },
                result: ResultChange::Keep,
                attempt: None,
            })
            .collect();
        finish::record(transaction, &moves).await?;
        Ok(Verdict::Commit(()))
    }
}
