//! Extending a flow: executions, edges and joins added in one transaction, checked against what the
//! flow holds once that is locked. Edges of upstreams that have ended are resolved on the spot, by
//! the routine of a hop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::cascade::hop::{Hop, Plan};
use crate::error::{EngineError, invalid, missing_group};
use crate::flow::{Held, HeldEdge, Limits, ValidAdditions};
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::mutants::mutated;
use crate::operations::call::{Call, Opened};
use crate::operations::finish::{self, Move};
use crate::operations::submit::{INSERT_ROWS_MAX, definition, execution, passed_something};
use crate::policy::Decision;
use crate::reconcile::summary;
use crate::state::State;
use crate::storage::chunks::statements;
use crate::storage::{
    CountQuery, Edge, EdgeKey, Execution, Flow, Group, NewExecution, Request, Resolution, Result,
    ResultChange, StorageError, Transaction,
};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

/// The reply of an extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extended {
    /// The flow.
    pub flow: FlowKey,
    /// Its revision with these additions: one more than before.
    pub revision: u64,
}

impl Extended {
    /// The eight bytes that a request keeps of it.
    fn bytes(self) -> Arc<[u8]> {
        Arc::from(self.revision.to_be_bytes())
    }

    fn of(row: &Request) -> Result<Self> {
        let revision = row.reply.as_ref().try_into().map(u64::from_be_bytes);
        let id = row.key.request;
        let broken =
            |_| StorageError::Corrupt(format!("the reply of request {id} cannot be read").into());
        Ok(Self { flow: row.key.flow, revision: revision.map_err(broken)? })
    }
}

/// The transaction that extends a flow.
pub(crate) struct Extend {
    pub(crate) flow: FlowKey,
    pub(crate) additions: ValidAdditions,
    pub(crate) expected_revision: Option<u64>,
    pub(crate) request: RequestId,
    pub(crate) limits: Limits,
}

impl Body for Extend {
    type Out = Result<Extended, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let call = self.call();
        let flow = match call.open(transaction).await? {
            Ok(Opened::New(flow)) => flow,
            Ok(Opened::Known(_, known)) => return Ok(Verdict::Rollback(Ok(Extended::of(&known)?))),
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        };
        if let Err(refused) = self.admits(&flow) {
            return Ok(Verdict::Rollback(Err(refused)));
        }
        let summary = transaction.lock_summaries(&[self.flow]).await?;
        let summary = *summary.first().ok_or_else(|| summary::missing_summary(self.flow))?;
        let ground = self.lock(transaction).await?;
        if let Err(refused) = self.check(transaction, &ground).await? {
            return Ok(Verdict::Rollback(Err(refused)));
        }
        let now = transaction.clock().await?;
        self.write(transaction, &flow, ground, now).await?;
        if let Some(opened) = summary::reopened(&summary) {
            transaction.write_summary(&opened).await?;
        }
        transaction.insert_flow_changes(&[self.flow]).await?;
        let extended = Extended { flow: self.flow, revision: flow.revision + 1 };
        let written = transaction.write_flow(&Flow { revision: extended.revision, ..flow }).await?;
        assert!(written == 1, "a locked flow vanished");
        call.keep(transaction, extended.bytes()).await?;
        Ok(Verdict::Commit(Ok(extended)))
    }
}

/// What is locked of the flow.
struct Ground {
    /// The id of everything that the additions name, by index.
    ids: Vec<ExecutionId>,
    /// The groups of downstreams that get edges.
    groups: BTreeMap<ExecutionId, Group>,
    /// The executions that the additions name, and those that stand where they add one.
    executions: BTreeMap<ExecutionId, Execution>,
}

impl Extend {
    /// The call, in words that tell two extensions under one request id apart.
    fn call(&self) -> Call {
        let revision = format!("{:?}", self.expected_revision);
        let whole = format!("{:?}", self.additions.valid().content_hash());
        let mut names: Vec<&str> =
            self.additions.executions().iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        let mut words = vec!["extend", &revision, &whole];
        words.extend(names);
        Call::new(self.flow, self.request, &words)
    }

    /// Whether the flow may grow.
    fn admits(&self, flow: &Flow) -> Result<(), EngineError> {
        if let Some(policy) = flow.closing {
            let reason =
                format!("flow {} was closed with {} and does not grow", flow.key.id, policy.name());
            return Err(EngineError::Refused(reason));
        }
        match self.expected_revision {
            Some(expected) if expected != flow.revision => {
                let reason = format!(
                    "flow {} is at revision {}, not {expected}: read it again",
                    flow.key.id, flow.revision
                );
                Err(EngineError::Refused(reason))
            }
            _ => Ok(()),
        }
    }

    /// Locks the groups that get edges, by id, then everything that the additions name in one pass
    /// by id. What is added is named as well: it is not there, or the name is taken.
    async fn lock<T: Transaction>(&self, transaction: &mut T) -> Result<Ground> {
        let ids: Vec<ExecutionId> = (0..self.additions.named())
            .map(|index| self.flow.execution(self.additions.name(index)))
            .collect();
        let edges = || self.additions.valid().edges();
        let downstreams: BTreeSet<ExecutionId> = edges()
            .filter(|(_, to, _)| !self.additions.is_added(*to))
            .map(|(_, to, _)| ids[to])
            .collect();
        let mut groups = BTreeMap::new();
        if !downstreams.is_empty() {
            let keys: Vec<ExecutionId> = downstreams.iter().copied().collect();
            let rows = transaction.lock_groups(&keys).await?.into_iter();
            groups.extend(rows.map(|group| (group.downstream, group)));
        }
        let mut keys = ids.clone();
        if mutated!(P61) {
            // Only those whose row need not be written: they have an out-edge.
            let linked = transaction.with_pending_edges(&ids).await?;
            let added = (0..ids.len()).filter(|index| self.additions.is_added(*index));
            let added: Vec<ExecutionId> = added.map(|index| ids[index]).collect();
            keys.retain(|id| {
                downstreams.contains(id) || added.contains(id) || !linked.contains(id)
            });
        }
        keys.sort_unstable();
        let mut executions = BTreeMap::new();
        for chunk in keys.chunks(INSERT_ROWS_MAX) {
            let rows = transaction.lock_executions(chunk).await?.into_iter();
            executions.extend(rows.map(|row| (row.id, row)));
        }
        Ok(Ground { ids, groups, executions })
    }

    /// Whether the flow may have the additions, as it stands under the locks.
    async fn check<T: Transaction>(
        &self,
        transaction: &mut T,
        ground: &Ground,
    ) -> Result<Result<(), EngineError>> {
        let held = self.held(transaction, ground).await?;
        if let Err(problems) = self.additions.check(&held, &self.limits) {
            return Ok(Err(invalid(&problems)));
        }
        let existing = (0..self.additions.named()).filter(|index| !self.additions.is_added(*index));
        for index in existing.filter(|index| self.additions.valid().in_degree(*index) > 0) {
            if let Err(refused) = self.may_grow(index, ground)? {
                return Ok(Err(refused));
            }
        }
        Ok(Ok(()))
    }

    /// Reads what the additions have to be checked against.
    async fn held<T: Transaction>(&self, transaction: &mut T, ground: &Ground) -> Result<Held> {
        let ids = ground.ids.clone();
        let exists = |index: usize| {
            let unlocked = mutated!(P61) && !self.additions.is_added(index);
            ground.executions.contains_key(&ids[index]) || unlocked
        };
        let exists = (0..ids.len()).map(exists).collect();
        let counted = CountQuery { flow: self.flow, now: None };
        let counted = transaction.count_executions(&counted).await?;
        let executions = counted.iter().map(|alike| alike.executions).sum();
        let edges = transaction.count_edges(&self.flow).await?;
        let (mut inbound, mut paths) = (Vec::new(), Vec::new());
        if self.additions.leads_back() {
            let places: BTreeMap<ExecutionId, usize> =
                ids.iter().enumerate().map(|(index, id)| (*id, index)).collect();
            let groups: Vec<ExecutionId> = ground.groups.keys().copied().collect();
            let rows = transaction.read_edges(&groups).await?.into_iter();
            inbound.extend(rows.map(|edge| HeldEdge {
                downstream: places[&edge.key.downstream],
                upstream: edge.key.upstream,
                passes_as: edge.passes_as,
            }));
            let upstreams: Vec<ExecutionId> = self.upstreams(ground).into_iter().collect();
            let rows = transaction.read_ancestry(&upstreams).await?.into_iter();
            paths.extend(rows.map(|edge| (edge.upstream, edge.downstream)));
        }
        Ok(Held { ids, exists, executions, edges, inbound, paths })
    }

    /// The executions of the flow that get an out-edge.
    fn upstreams(&self, ground: &Ground) -> BTreeSet<ExecutionId> {
        let edges = self.additions.valid().edges();
        let existing = edges.filter(|(from, _, _)| !self.additions.is_added(*from));
        existing.map(|(from, _, _)| ground.ids[from]).collect()
    }

    /// Whether the join of an execution of the flow may get another edge: only while it waits.
    fn may_grow(&self, index: usize, ground: &Ground) -> Result<Result<(), EngineError>> {
        let (name, id) = (self.additions.name(index), ground.ids[index]);
        let row = &ground.executions[&id];
        let refused = |reason: String| {
            let reason = format!("`{name}` takes no new inbound edge: {reason}");
            Ok(Err(EngineError::Refused(reason)))
        };
        let Some(group) = ground.groups.get(&id) else {
            return match row.has_in {
                true => Err(missing_group(id)),
                false => refused("it was added without one, and waits for nothing".into()),
            };
        };
        match (row.state, group.decision) {
            _ if mutated!(P12) => Ok(Ok(())),
            (State::Blocked, Decision::Undecided) => Ok(Ok(())),
            (State::Blocked, decision) => refused(format!("its join is decided, {decision:?}")),
            (state, _) => refused(format!("it is {}, no longer blocked", state.name())),
        }
    }

    /// Writes the additions and resolves what can be resolved of them.
    async fn write<T: Transaction>(
        &self,
        transaction: &mut T,
        flow: &Flow,
        ground: Ground,
        now: Timestamp,
    ) -> Result<()> {
        let upstreams = self.upstreams(&ground);
        let Ground { ids, mut groups, mut executions } = ground;
        let new = self.new_executions(flow, &ids, now);
        let bytes_max = self.limits.statement_max_bytes;
        for chunk in statements(&new, bytes_max) {
            transaction.insert_executions(chunk).await?;
        }
        self.write_groups(transaction, &ids, &mut groups).await?;
        for chunk in statements(&self.new_edges(&ids), bytes_max) {
            transaction.insert_edges(chunk).await?;
        }
        let passed: BTreeSet<ExecutionId> = self.passed().iter().map(|to| ids[*to]).collect();
        let marked = executions.values_mut().filter_map(|row| {
            let before = *row;
            row.has_out |= upstreams.contains(&row.id);
            row.has_inputs |= passed.contains(&row.id);
            let one = Move { before, after: *row, result: ResultChange::Keep, attempt: None };
            (before != *row).then_some(one)
        });
        let marked: Vec<Move> = marked.collect();
        finish::write(transaction, &marked).await?;
        executions.extend(new.iter().map(|row| (row.execution.id, row.execution)));
        if !mutated!(P11) {
            let locked = |id: &ExecutionId| executions.contains_key(id);
            let upstreams = upstreams.into_iter().filter(locked).collect();
            resolve(transaction, upstreams, &groups, &executions, now).await?;
        }
        Ok(())
    }

    /// What an added edge passes something on to, by index.
    fn passed(&self) -> BTreeSet<usize> {
        passed_something(self.additions.valid().edges())
    }

    /// The new executions, in id order. They wait, if for anything, for what has not been decided.
    fn new_executions(
        &self,
        flow: &Flow,
        ids: &[ExecutionId],
        now: Timestamp,
    ) -> Vec<NewExecution> {
        let (valid, passed) = (self.additions.valid(), self.passed());
        let row = |(index, one): (usize, &crate::flow::ExecutionSpec)| {
            let blank = execution(one, flow.key, valid.in_degree(index), valid.out_degree(index));
            let delay = Duration::from_millis(one.delay_ms.unwrap_or(0));
            let deadline = one.deadline_ms.map(|ms| now + Duration::from_millis(ms));
            let has_inputs = passed.contains(&index);
            let execution = Execution { not_before: now + delay, deadline, has_inputs, ..blank };
            assert!(execution.id == ids[index], "an id derives from flow and name");
            let definition = definition(one, &flow.namespace, flow.instance_tag.as_ref());
            NewExecution { execution, definition }
        };
        let mut rows: Vec<NewExecution> =
            self.additions.executions().iter().enumerate().map(row).collect();
        rows.sort_unstable_by_key(|row| row.execution.id);
        rows
    }

    /// Writes new groups, and the number of edges of those that grow.
    async fn write_groups<T: Transaction>(
        &self,
        transaction: &mut T,
        ids: &[ExecutionId],
        groups: &mut BTreeMap<ExecutionId, Group>,
    ) -> Result<()> {
        let valid = self.additions.valid();
        let (mut new, mut grown) = (Vec::new(), Vec::new());
        for index in (0..ids.len()).filter(|index| valid.in_degree(*index) > 0) {
            let (downstream, edges) = (ids[index], valid.in_degree(index));
            if let Some(group) = groups.get_mut(&downstream) {
                group.edges += edges;
                grown.push(*group);
                continue;
            }
            let (flow, policy) = (self.flow.id, valid.policy(index));
            let (satisfied, unsatisfied, decision) = (0, 0, Decision::Undecided);
            new.push(Group { downstream, flow, policy, edges, satisfied, unsatisfied, decision });
        }
        new.sort_unstable_by_key(|group| group.downstream);
        for chunk in new.chunks(INSERT_ROWS_MAX) {
            transaction.insert_groups(chunk).await?;
        }
        for chunk in grown.chunks(INSERT_ROWS_MAX) {
            let written = transaction.write_joins(chunk).await?;
            assert!(written == chunk.len() as u64, "a locked group vanished");
        }
        groups.extend(new.into_iter().map(|group| (group.downstream, group)));
        Ok(())
    }

    /// The new edges, in key order.
    fn new_edges(&self, ids: &[ExecutionId]) -> Vec<Edge> {
        let edges = self.additions.valid().edges().map(|(from, to, edge)| Edge {
            key: EdgeKey { downstream: ids[to], upstream: ids[from] },
            accepts: edge.accepts,
            resolution: Resolution::Pending,
            upstream_incarnation: None,
            input: None,
            passes_as: edge.passes_as.as_deref().map(Into::into),
        });
        let mut edges: Vec<Edge> = edges.collect();
        edges.sort_unstable_by_key(|edge| edge.key);
        edges
    }
}

/// Resolves the edges of upstreams that have ended, and decides what they decide: the second half
/// of a hop, over rows that are locked or new.
async fn resolve<T: Transaction>(
    transaction: &mut T,
    upstreams: Vec<ExecutionId>,
    groups: &BTreeMap<ExecutionId, Group>,
    executions: &BTreeMap<ExecutionId, Execution>,
    now: Timestamp,
) -> Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let keys: Vec<ExecutionId> = groups.keys().copied().collect();
    let pending = transaction.pending_edges(&keys).await?;
    let hop = Hop { plan: Plan { upstreams, groups: keys, repair: false } };
    hop.advance(transaction, groups, executions, &pending, now).await.map(drop)
}
