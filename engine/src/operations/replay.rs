//! Replaying executions of a flow: they start again in a new incarnation, in one transaction. What
//! is read before the locks only chooses what to lock; joins of what starts again are decided anew,
//! by the routine of a hop, from their upstreams as they stand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::cascade::hop::{Hop, Plan};
use crate::error::{EngineError, missing_group};
use crate::identity::{ExecutionId, FlowId, FlowKey, RequestId};
use crate::mutants::mutated;
use crate::operations::call::{Call, Opened};
use crate::operations::finish::{self, Move};
use crate::operations::submit::INSERT_ROWS_MAX;
use crate::policy::Decision;
use crate::reconcile::summary;
use crate::replay::{ReplayScope, Standing, reset_set};
use crate::state::State;
use crate::storage::{
    Contention, EdgeKey, Execution, ExecutionView, Flow, Group, PendingEdge, Request, Result,
    ResultChange, SiblingRequest, Snapshot, StorageError, Transaction, all_readable,
};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

/// The reply of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// The flow.
    pub flow: FlowKey,
    /// The executions that started again, in id order.
    pub members: Vec<ExecutionId>,
}

impl Replayed {
    /// The ids, of sixteen bytes each.
    fn bytes(&self) -> Arc<[u8]> {
        self.members.iter().flat_map(|id| id.uuid.into_bytes()).collect()
    }

    fn of(row: &Request) -> Result<Self> {
        let (ids, rest) = row.reply.as_chunks::<16>();
        if !rest.is_empty() {
            let id = row.key.request;
            let broken = format!("the reply of request {id} cannot be read");
            return Err(StorageError::Corrupt(broken.into()));
        }
        let flow = row.key.flow;
        let id = |bytes: &[u8; 16]| ExecutionId {
            partition: flow.partition,
            uuid: Uuid::from_bytes(*bytes),
        };
        Ok(Self { flow, members: ids.iter().map(id).collect() })
    }
}

/// What a replay would start again, all of one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayPreview {
    /// The flow.
    pub flow: FlowKey,
    /// The executions that would start again, in id order.
    pub members: Vec<ReplayMember>,
}

/// An execution that a replay would start again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayMember {
    /// Its id.
    pub id: ExecutionId,
    /// Its name.
    pub name: Arc<str>,
    /// Its state.
    pub state: State,
}

impl ReplayMember {
    /// It runs, so that nothing is replayed until it has ended.
    pub fn is_in_the_way(&self) -> bool {
        is_running(self.state)
    }
}

/// True if an execution in that state keeps what holds it from being replayed.
fn is_running(state: State) -> bool {
    matches!(state, State::Active | State::Suspended)
}

/// Reads what a replay of that scope would start again.
pub(crate) async fn preview<R: Snapshot>(
    reader: &mut R,
    flow: FlowKey,
    scope: ReplayScope,
) -> Result<ReplayPreview, EngineError> {
    if reader.describe_flow(&flow).await?.is_none() {
        return Err(EngineError::FlowNotFound(flow.id));
    }
    let views = all_readable(reader.describe_executions(&flow).await?)?;
    let edges = reader.describe_edges(&flow).await?;
    let standing = |row: &Execution| {
        let Execution { id, state, cause, incarnation, .. } = *row;
        Standing { id, state, cause, incarnation }
    };
    let standings: Vec<Standing> = views.iter().map(|view| standing(&view.execution)).collect();
    let keys = edges.iter().map(|edge| edge.as_ref().map_or_else(|row| row.key, |edge| edge.key));
    let edges = keys.map(|key| (key.upstream, key.downstream));
    let chosen = reset_set(scope, &standings, edges).ok_or_else(|| not_a_member(scope))?;
    let members = views.into_iter().filter(|view| chosen.contains(&view.execution.id));
    let member = |view: ExecutionView| ReplayMember {
        id: view.execution.id,
        name: view.definition.name,
        state: view.execution.state,
    };
    Ok(ReplayPreview { flow, members: members.map(member).collect() })
}

/// A scope that starts from what the flow does not have.
fn not_a_member(scope: ReplayScope) -> EngineError {
    match scope {
        ReplayScope::From(execution) => EngineError::ExecutionNotFound(execution),
        ReplayScope::All | ReplayScope::Failed => unreachable!("only `From` names an execution"),
    }
}

/// The transaction that replays.
pub(crate) struct Replay {
    pub(crate) flow: FlowKey,
    pub(crate) scope: ReplayScope,
    pub(crate) request: RequestId,
}

/// What was chosen without a lock.
struct Choice {
    flow: FlowKey,
    /// Every execution of the flow.
    standings: Vec<Standing>,
    /// Every edge of the flow, in key order; they stay as long as the flow is locked.
    edges: Vec<EdgeKey>,
}

/// What is locked of the flow.
struct Ground {
    /// The groups of what was chosen, and those that it feeds.
    groups: BTreeMap<ExecutionId, Group>,
    /// What was chosen, and the upstreams of its groups.
    executions: BTreeMap<ExecutionId, Execution>,
}

impl Body for Replay {
    type Out = Result<Replayed, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let call = Call::new(self.flow, self.request, &["replay", &self.scope.words()]);
        let flow = match call.open(transaction).await? {
            Ok(Opened::New(flow)) => flow,
            Ok(Opened::Known(_, known)) => return Ok(Verdict::Rollback(Ok(Replayed::of(&known)?))),
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        };
        let summary = transaction.lock_summaries(&[self.flow]).await?;
        let summary = *summary.first().ok_or_else(|| summary::missing_summary(self.flow))?;
        let choice = self.choose(transaction).await?;
        let Some(chosen) = choice.reset_set(self.scope, &choice.standings) else {
            return Ok(Verdict::Rollback(Err(not_a_member(self.scope))));
        };
        let ground = choice.lock(transaction, &chosen).await?;
        let standings = transaction.read_standings(&self.flow).await?;
        let members = choice.reset_set(self.scope, &standings).unwrap_or_default();
        if !members.is_subset(&chosen) {
            // More has ended since; locking it now would be out of order.
            return Err(StorageError::Contention(Contention::Serialization));
        }
        let replayed = Replayed { flow: self.flow, members: members.iter().copied().collect() };
        if members.is_empty() {
            return Ok(Verdict::Rollback(Ok(replayed)));
        }
        let mut rows = members.iter().filter_map(|id| ground.executions.get(id));
        if let Some(row) = rows.find(|row| is_running(row.state)) {
            let (execution, state) = (row.id, row.state);
            let running = EngineError::Running { execution, state };
            return Ok(Verdict::Rollback(Err(running)));
        }
        let now = transaction.clock().await?;
        open(transaction, flow).await?;
        choice.start_again(transaction, &members, ground, now).await?;
        if let Some(opened) = summary::reopened(&summary) {
            transaction.write_summary(&opened).await?;
        }
        transaction.insert_flow_changes(&[self.flow]).await?;
        call.keep(transaction, replayed.bytes()).await?;
        Ok(Verdict::Commit(Ok(replayed)))
    }
}

impl Replay {
    /// Reads the whole flow without a lock.
    async fn choose<T: Transaction>(&self, transaction: &mut T) -> Result<Choice> {
        let standings = transaction.read_standings(&self.flow).await?;
        let mut edges = Vec::new();
        for chunk in standings.chunks(INSERT_ROWS_MAX) {
            let downstreams: Vec<ExecutionId> = chunk.iter().map(|one| one.id).collect();
            let read = transaction.read_edges(&downstreams).await?;
            edges.extend(read.into_iter().map(|edge| edge.key));
        }
        Ok(Choice { flow: self.flow, standings, edges })
    }
}

/// Opens a flow that was closed; whoever cancels it no longer has anything to go on with.
async fn open<T: Transaction>(transaction: &mut T, flow: Flow) -> Result<()> {
    if flow.closing.is_none() {
        return Ok(());
    }
    let key = flow.key;
    let written = transaction.write_flow(&Flow { closing: None, closed_by: None, ..flow }).await?;
    assert!(written == 1, "a locked flow vanished");
    transaction.delete_cancel_backlog(&[key]).await.map(drop)
}

impl Choice {
    fn reset_set(
        &self,
        scope: ReplayScope,
        standings: &[Standing],
    ) -> Option<BTreeSet<ExecutionId>> {
        let edges = self.edges.iter().map(|edge| (edge.upstream, edge.downstream));
        reset_set(scope, standings, edges)
    }

    /// The edges into these, in key order.
    fn edges_into(&self, members: &BTreeSet<ExecutionId>) -> Vec<EdgeKey> {
        self.edges.iter().filter(|edge| members.contains(&edge.downstream)).copied().collect()
    }

    /// Locks the groups of what was chosen and those that it feeds, by id, then what was chosen and
    /// the upstreams of its groups in one pass by id.
    async fn lock<T: Transaction>(
        &self,
        transaction: &mut T,
        chosen: &BTreeSet<ExecutionId>,
    ) -> Result<Ground> {
        let groups: BTreeSet<ExecutionId> = self
            .edges
            .iter()
            .filter(|edge| chosen.contains(&edge.downstream) || chosen.contains(&edge.upstream))
            .map(|edge| edge.downstream)
            .collect();
        let groups: Vec<ExecutionId> = groups.into_iter().collect();
        let mut ground = Ground { groups: BTreeMap::new(), executions: BTreeMap::new() };
        for chunk in groups.chunks(INSERT_ROWS_MAX) {
            let rows = transaction.lock_groups(chunk).await?.into_iter();
            ground.groups.extend(rows.map(|group| (group.downstream, group)));
        }
        if let Some(missing) = groups.iter().find(|id| !ground.groups.contains_key(id)) {
            return Err(missing_group(*missing));
        }
        let mut executions = chosen.clone();
        if !mutated!(P67) {
            executions.extend(self.edges_into(chosen).into_iter().map(|edge| edge.upstream));
        }
        let executions: Vec<ExecutionId> = executions.into_iter().collect();
        for chunk in executions.chunks(INSERT_ROWS_MAX) {
            let rows = transaction.lock_executions(chunk).await?.into_iter();
            ground.executions.extend(rows.map(|row| (row.id, row)));
        }
        Ok(ground)
    }

    /// Starts the members again: their rows, their edges, their groups, and what follows at once
    /// from upstreams that are not among them.
    async fn start_again<T: Transaction>(
        &self,
        transaction: &mut T,
        members: &BTreeSet<ExecutionId>,
        ground: Ground,
        now: Timestamp,
    ) -> Result<()> {
        let Ground { mut groups, mut executions } = ground;
        let moves: Vec<Move> = members.iter().map(|id| again(&executions[id], now)).collect();
        for chunk in moves.chunks(INSERT_ROWS_MAX) {
            finish::write(transaction, chunk).await?;
        }
        executions.extend(moves.into_iter().map(|one| (one.after.id, one.after)));
        let edges = self.edges_into(members);
        for chunk in edges.chunks(INSERT_ROWS_MAX) {
            let found = transaction.reset_edges(chunk).await?;
            assert!(found == chunk.len() as u64, "an edge of a locked group vanished");
        }
        groups.retain(|downstream, _| members.contains(downstream));
        for group in groups.values_mut() {
            (group.satisfied, group.unsatisfied) = (0, 0);
            group.decision = Decision::Undecided;
        }
        let rows: Vec<Group> = groups.values().copied().collect();
        for chunk in rows.chunks(INSERT_ROWS_MAX) {
            let written = transaction.write_groups(chunk).await?;
            assert!(written == chunk.len() as u64, "a locked group vanished");
        }
        withdraw(transaction, &rows).await?;
        let upstreams: BTreeSet<ExecutionId> = edges.iter().map(|edge| edge.upstream).collect();
        let outside = upstreams.difference(members).copied().collect();
        self.decide(transaction, outside, &groups, &executions, now).await?;
        let shared: Vec<ExecutionId> = upstreams.union(members).copied().collect();
        ask_again(transaction, self.flow.id, &shared).await
    }

    /// Resolves what can be resolved and decides what follows, as the second half of a hop does.
    async fn decide<T: Transaction>(
        &self,
        transaction: &mut T,
        outside: Vec<ExecutionId>,
        groups: &BTreeMap<ExecutionId, Group>,
        executions: &BTreeMap<ExecutionId, Execution>,
        now: Timestamp,
    ) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let keys: Vec<ExecutionId> = groups.keys().copied().collect();
        let mut pending = Vec::new();
        for chunk in keys.chunks(INSERT_ROWS_MAX) {
            pending.extend(transaction.pending_edges(chunk).await?);
        }
        if mutated!(P67) {
            self.recall(&mut pending);
        }
        let locked = |id: &ExecutionId| executions.contains_key(id);
        let upstreams = outside.into_iter().filter(locked).collect();
        let hop = Hop { plan: Plan { upstreams, groups: keys, repair: false } };
        hop.advance(transaction, groups, executions, &pending, now).await.map(drop)
    }

    /// The planted bug that takes the upstreams for what they were before anything was locked.
    fn recall(&self, pending: &mut [PendingEdge]) {
        for edge in pending {
            let before = self.standings.iter().find(|one| one.id == edge.key.upstream);
            if let Some(before) = before.filter(|one| one.incarnation == edge.upstream_incarnation)
            {
                edge.upstream_state = before.state;
            }
        }
    }
}

/// The start of an execution in its next incarnation. A deadline that has passed is lifted: it
/// would end the execution before it began.
fn again(before: &Execution, now: Timestamp) -> Move {
    let after = Execution {
        state: if before.has_in { State::Blocked } else { State::Ready },
        cause: None,
        incarnation: before.incarnation + u32::from(!mutated!(P52)),
        propagated: false,
        not_before: now,
        deadline: before.deadline.filter(|deadline| *deadline > now),
        attempt: 0,
        charged: 0,
        give_backs: 0,
        progress: None,
        epoch: before.epoch + 1,
        lease: None,
        finished_at: None,
        ..*before
    };
    Move { before: *before, after, result: ResultChange::Clear, attempt: None }
}

/// Takes back what these groups asked for by decisions that no longer stand.
async fn withdraw<T: Transaction>(transaction: &mut T, groups: &[Group]) -> Result<()> {
    let request = |group: &Group| SiblingRequest { group: group.downstream, flow: group.flow };
    let requests: Vec<SiblingRequest> = groups.iter().map(request).collect();
    for chunk in requests.chunks(INSERT_ROWS_MAX) {
        transaction.delete_sibling_requests(chunk).await?;
    }
    Ok(())
}

/// Lets decided races ask once more for the end of these: their requests were served as things
/// stood before. Nobody else writes or serves them while the flow is locked.
async fn ask_again<T: Transaction>(
    transaction: &mut T,
    flow: FlowId,
    upstreams: &[ExecutionId],
) -> Result<()> {
    let mut races = BTreeSet::new();
    for chunk in upstreams.chunks(INSERT_ROWS_MAX) {
        let fed = transaction.read_fed_groups(chunk).await?.into_iter();
        let decided = fed.filter(|group| {
            group.decision != Decision::Undecided && group.policy.cancels_remaining()
        });
        races.extend(decided.map(|group| group.edge.downstream));
    }
    let requests: Vec<SiblingRequest> =
        races.into_iter().map(|group| SiblingRequest { group, flow }).collect();
    for chunk in requests.chunks(INSERT_ROWS_MAX) {
        transaction.insert_sibling_requests(chunk).await?;
    }
    Ok(())
}
