//! Reads for people: a flow as it stands, and why an execution stands where it stands. Never
//! changes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::draw::{self, DrawnEdge, DrawnExecution, DrawnResolution, GraphFormat};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowId, FlowKey};
use crate::policy::{Decision, JoinPolicy};
use crate::state::{Cause, ClosePolicy, Outcome, PublicState, State};
use crate::storage::{
    Decoded, Edge, EdgeKey, Execution, ExecutionView, Group, Resolution, Snapshot, StorageError,
    Unreadable, all_readable, parted,
};
use crate::time::Timestamp;

/// An execution as described.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExecutionDescription {
    /// Its id.
    pub id: ExecutionId,
    /// Its name.
    pub name: Arc<str>,
    /// The published word for its state.
    pub state: PublicState,
    /// Why it ended, once it has.
    pub cause: Option<Cause>,
    /// Its incarnation.
    pub incarnation: u32,
    /// Its last granted attempt.
    pub attempt: u32,
    /// The worker that holds its lease.
    pub worker: Option<Arc<str>>,
}

/// An execution as described by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExecutionDetails {
    /// What a description of its flow says of it.
    #[serde(flatten)]
    pub description: ExecutionDescription,
    /// Its flow.
    pub flow: FlowId,
    /// The handler that it needs.
    pub kind: Arc<str>,
    /// The queue that it is claimed from.
    pub lane: Arc<str>,
    /// Higher goes first.
    pub priority: i32,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// Deployment label, `key=value`.
    pub instance_tag: Option<Arc<str>>,
    /// Attempts charged so far.
    pub charged: u32,
    /// Not to be claimed before, on the storage's clock.
    pub not_before: Timestamp,
    /// When the reaper expires it, whatever its state, on the storage's clock.
    pub deadline: Option<Timestamp>,
    /// When it ended, once it has, on the storage's clock.
    pub finished_at: Option<Timestamp>,
    /// Whether everything that depends on it knows that it has ended.
    pub propagated: bool,
    /// Input of its handler.
    pub payload: Arc<[u8]>,
    /// What its handler returned.
    pub result: Option<Arc<[u8]>>,
    /// What its handler last said of how far it has come; gone with a replay.
    pub progress: Option<Arc<[u8]>>,
    /// The attempt that said so.
    pub progress_attempt: Option<u32>,
}

/// An edge group as described.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupDescription {
    /// Name of the downstream.
    pub downstream: Arc<str>,
    /// How it decides.
    pub policy: JoinPolicy,
    /// What it has decided.
    pub decision: Decision,
    /// Its edges.
    pub edges: u32,
    /// Edges satisfied.
    pub satisfied: u32,
    /// Edges unsatisfied.
    pub unsatisfied: u32,
}

/// A flow as it stood at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FlowDescription {
    /// Its id.
    pub id: FlowId,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// How it was closed, if it was.
    pub closing: Option<ClosePolicy>,
    /// Grows with every extension.
    pub revision: u64,
    /// Executions per published state.
    pub counts: BTreeMap<PublicState, u64>,
    /// Its executions, by name.
    pub executions: Vec<ExecutionDescription>,
    /// Its groups, by the name of the downstream.
    pub groups: Vec<GroupDescription>,
    /// Its executions that cannot be read, in id order, which are counted nowhere above: an
    /// operator has to mend them.
    pub unreadable: Vec<Unreadable<ExecutionId>>,
    /// The downstreams of its groups that cannot be read, in id order.
    pub unreadable_groups: Vec<Unreadable<ExecutionId>>,
}

/// Why an execution stands where it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum Explanation {
    /// It has ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// Why.
        cause: Option<Cause>,
        /// Whether everything that depends on it knows.
        propagated: bool,
    },
    /// It waits for these upstreams.
    WaitsFor {
        /// Upstreams that have not ended.
        running: Vec<Arc<str>>,
        /// Upstreams that have ended and whose edge the next hop resolves.
        ended: Vec<Arc<str>>,
    },
    /// Its group has decided; the next hop or tick moves it.
    Decided {
        /// What was decided.
        decision: Decision,
    },
    /// A worker may claim it.
    Claimable {
        /// The lane that a worker has to ask for.
        lane: Arc<str>,
        /// The handler that it needs.
        kind: Arc<str>,
    },
    /// It is retried later.
    Delayed {
        /// On the storage's clock.
        until: Timestamp,
        /// Attempts charged so far.
        charged: u32,
    },
    /// A worker holds its lease.
    Running {
        /// The worker.
        worker: Option<Arc<str>>,
        /// When the reaper may end it.
        expires_at: Timestamp,
    },
    /// Its lease is over by the storage's clock: the reaper ends it, unless its holder renews or
    /// reports first.
    Overdue,
    /// It waits for a resume, and for nothing else.
    Suspended {
        /// The epoch of the suspension, by which it is resumed.
        epoch: u64,
    },
    /// It, or what it depends on, cannot be read: an operator has to mend the row.
    Quarantined {
        /// Whose row, or whose group's row, it is.
        execution: ExecutionId,
        /// Where the value stands, and what it is.
        found: String,
    },
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { outcome, propagated: true, .. } => write!(f, "{}", outcome.name()),
            Self::Ended { outcome, .. } => {
                write!(f, "{}, and its out-edges wait for a hop", outcome.name())
            }
            Self::Quarantined { execution, found } => {
                write!(f, "waits for an operator: {execution} cannot be read: {found}")
            }
            Self::WaitsFor { running, ended } => {
                let waits = |names: &[Arc<str>], why: &str| format!("{} ({why})", names.join(", "));
                let parts = [(running, "not ended"), (ended, "ended, the next hop resolves it")];
                let parts = parts.iter().filter(|(names, _)| !names.is_empty());
                let parts: Vec<String> = parts.map(|(names, why)| waits(names, why)).collect();
                write!(f, "waits for {}", parts.join("; "))
            }
            Self::Decided { decision } => write!(f, "blocked although decided as {decision:?}"),
            Self::Claimable { lane, kind } => {
                write!(f, "ready for a worker of kind `{kind}` on lane `{lane}`")
            }
            Self::Delayed { until, charged } => {
                write!(f, "retried at {} us after {charged} attempts", until.0)
            }
            Self::Running { worker, expires_at } => write!(
                f,
                "leased to {} until {} us",
                worker.as_deref().unwrap_or("a worker"),
                expires_at.0
            ),
            Self::Overdue => write!(f, "its lease is over and waits for the reaper"),
            Self::Suspended { epoch } => {
                write!(f, "suspended until it is resumed at epoch {epoch}")
            }
        }
    }
}

/// Describes a flow. All reads see one instant.
pub(crate) async fn flow<R: Snapshot>(
    reader: &mut R,
    key: FlowKey,
) -> Result<FlowDescription, EngineError> {
    let row = reader.describe_flow(&key).await?.ok_or(EngineError::FlowNotFound(key.id))?;
    let now = reader.read_clock().await?;
    let (views, unreadable) = parted(reader.describe_executions(&key).await?);
    let (groups, unreadable_groups) = parted(reader.describe_groups(&key).await?);
    let names: BTreeMap<ExecutionId, Arc<str>> =
        views.iter().map(|view| (view.execution.id, Arc::clone(&view.definition.name))).collect();
    let mut executions: Vec<ExecutionDescription> =
        views.into_iter().map(|view| execution(view, now)).collect();
    executions.sort_by(|a, b| a.name.cmp(&b.name));
    let mut groups: Vec<GroupDescription> =
        groups.iter().filter_map(|one| group(one, &names)).collect();
    groups.sort_by(|a, b| a.downstream.cmp(&b.downstream));
    let mut counts = BTreeMap::new();
    for one in &executions {
        *counts.entry(one.state).or_insert(0) += 1;
    }
    Ok(FlowDescription {
        id: key.id,
        namespace: row.namespace,
        closing: row.closing,
        revision: row.revision,
        counts,
        executions,
        groups,
        unreadable,
        unreadable_groups,
    })
}

/// Describes an execution. All reads see one instant.
pub(crate) async fn execution_details<R: Snapshot>(
    reader: &mut R,
    id: ExecutionId,
) -> Result<ExecutionDetails, EngineError> {
    let view = reader.describe_execution(&id).await?;
    let view = view.ok_or(EngineError::ExecutionNotFound(id))?;
    let now = reader.read_clock().await?;
    let (row, definition) = (view.execution, view.definition.clone());
    Ok(ExecutionDetails {
        flow: row.flow,
        kind: definition.kind,
        lane: definition.lane,
        priority: definition.priority,
        namespace: definition.namespace,
        instance_tag: definition.instance_tag,
        charged: row.charged,
        not_before: row.not_before,
        deadline: row.deadline,
        finished_at: row.finished_at,
        propagated: row.propagated,
        payload: definition.payload,
        result: view.result.clone(),
        progress: view.progress.clone(),
        progress_attempt: row.progress.map(|progress| progress.attempt),
        description: execution(view, now),
    })
}

/// Draws a flow as it stands, its executions by name, and behind them by id those that cannot be
/// read. All reads see one instant.
pub(crate) async fn graph<R: Snapshot>(
    reader: &mut R,
    key: FlowKey,
    format: GraphFormat,
) -> Result<String, EngineError> {
    let described = flow(reader, key).await?;
    let edges = reader.describe_edges(&key).await?;
    let joins: BTreeMap<&str, JoinPolicy> =
        described.groups.iter().map(|group| (&*group.downstream, group.policy)).collect();
    let mut executions: Vec<DrawnExecution<'_>> = described
        .executions
        .iter()
        .map(|one| DrawnExecution {
            name: &one.name,
            state: Some(one.state),
            join: joins.get(&*one.name).copied(),
        })
        .collect();
    let ids = described.executions.iter().enumerate();
    let mut positions: BTreeMap<ExecutionId, usize> = ids.map(|(at, one)| (one.id, at)).collect();
    let unread = described.unreadable.iter().map(|row| (row.key, row.key.to_string()));
    let unread: Vec<(ExecutionId, String)> = unread.collect();
    for (id, name) in &unread {
        positions.insert(*id, executions.len());
        executions.push(DrawnExecution { name, state: None, join: None });
    }
    let drawn = |edge: &Decoded<Edge, EdgeKey>| {
        let (key, resolution) = match edge {
            Ok(Edge { key, resolution: Resolution::Pending, .. }) => {
                (key, DrawnResolution::Pending)
            }
            Ok(Edge { key, resolution: Resolution::Satisfied, .. }) => {
                (key, DrawnResolution::Satisfied)
            }
            Ok(Edge { key, resolution: Resolution::Unsatisfied, .. }) => {
                (key, DrawnResolution::Unsatisfied)
            }
            Err(row) => (&row.key, DrawnResolution::Unreadable),
        };
        Some(DrawnEdge {
            upstream: *positions.get(&key.upstream)?,
            downstream: *positions.get(&key.downstream)?,
            resolution,
        })
    };
    let mut edges: Vec<DrawnEdge> = edges.iter().filter_map(drawn).collect();
    edges.sort_unstable();
    Ok(draw::graph(format, &executions, &edges))
}

fn execution(view: ExecutionView, now: Timestamp) -> ExecutionDescription {
    let row = view.execution;
    ExecutionDescription {
        id: row.id,
        name: view.definition.name,
        state: row.state.public(row.not_before > now),
        cause: row.cause,
        incarnation: row.incarnation,
        attempt: row.attempt,
        worker: view.worker,
    }
}

fn group(group: &Group, names: &BTreeMap<ExecutionId, Arc<str>>) -> Option<GroupDescription> {
    Some(GroupDescription {
        downstream: Arc::clone(names.get(&group.downstream)?),
        policy: group.policy,
        decision: group.decision,
        edges: group.edges,
        satisfied: group.satisfied,
        unsatisfied: group.unsatisfied,
    })
}

/// Explains an execution. All reads see one instant.
pub(crate) async fn explain<R: Snapshot>(
    reader: &mut R,
    id: ExecutionId,
) -> Result<Explanation, EngineError> {
    match look(reader, id).await {
        Err(EngineError::Unreadable { execution, reason }) => {
            Ok(Explanation::Quarantined { execution, found: reason })
        }
        seen => seen,
    }
}

async fn look<R: Snapshot>(reader: &mut R, id: ExecutionId) -> Result<Explanation, EngineError> {
    let view = reader.describe_execution(&id).await?;
    let view = view.ok_or(EngineError::ExecutionNotFound(id))?;
    let now = reader.read_clock().await?;
    match view.execution.state {
        State::Blocked => blocked(reader, &view.execution).await,
        _ => Ok(standing(view, now)),
    }
}

fn standing(view: ExecutionView, now: Timestamp) -> Explanation {
    let row = view.execution;
    match row.state {
        State::Terminal(outcome) => {
            Explanation::Ended { outcome, cause: row.cause, propagated: row.propagated }
        }
        _ if row.is_overdue(now) => Explanation::Overdue,
        State::Ready if row.not_before > now => {
            Explanation::Delayed { until: row.not_before, charged: row.charged }
        }
        State::Active => Explanation::Running {
            worker: view.worker,
            expires_at: row.attempt_over_at().unwrap_or_default(),
        },
        State::Suspended => Explanation::Suspended { epoch: row.epoch },
        State::Ready | State::Blocked => {
            Explanation::Claimable { lane: view.definition.lane, kind: view.definition.kind }
        }
    }
}

async fn blocked<R: Snapshot>(reader: &mut R, row: &Execution) -> Result<Explanation, EngineError> {
    let key = row.flow_key();
    let groups = reader.describe_groups(&key).await?;
    let downstream = |group: &Decoded<Group>| match group {
        Ok(group) => group.downstream,
        Err(row) => row.key,
    };
    let Some(group) = groups.into_iter().find(|group| downstream(group) == row.id) else {
        let found = "its edge group has no row".to_owned();
        return Ok(Explanation::Quarantined { execution: row.id, found });
    };
    let group = group.map_err(StorageError::from)?;
    if group.decision != Decision::Undecided {
        return Ok(Explanation::Decided { decision: group.decision });
    }
    let (edges, unreadable) = parted(reader.describe_edges(&key).await?);
    if let Some(edge) = unreadable.into_iter().find(|edge| edge.key.downstream == row.id) {
        let found = edge.reason.into_owned();
        return Ok(Explanation::Quarantined { execution: row.id, found });
    }
    let waits =
        |edge: &&Edge| edge.key.downstream == row.id && edge.resolution == Resolution::Pending;
    let upstreams: BTreeSet<ExecutionId> =
        edges.iter().filter(waits).map(|edge| edge.key.upstream).collect();
    let views = reader.describe_executions(&key).await?.into_iter();
    let pending = views.filter(|view| {
        upstreams.contains(&match view {
            Ok(view) => view.execution.id,
            Err(row) => row.key,
        })
    });
    let pending = all_readable(pending.collect())?;
    let names = |ended: bool| {
        pending
            .iter()
            .filter(|view| view.execution.state.is_terminal() == ended)
            .map(|view| Arc::clone(&view.definition.name))
            .collect()
    };
    Ok(Explanation::WaitsFor { running: names(false), ended: names(true) })
}
