//! Submitting a flow: the whole graph in one transaction, once per key. Never changes a flow that
//! exists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::error::EngineError;
use crate::flow::{EdgeSpec, ExecutionSpec, Payload, ValidFlow};
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::mutants::mutated;
use crate::policy::Decision;
use crate::reconcile::summary;
use crate::state::State;
use crate::storage::chunks::statements;
use crate::storage::{
    Contention, Definition, Edge, EdgeKey, Execution, Flow, Group, Inserted, NewExecution,
    Resolution, Result, StorageError, Submission, SubmissionKey, Summary, Transaction,
};
use crate::summary::Tally;
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

pub use crate::storage::INSERT_ROWS_MAX;

/// The reply of a submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// This call wrote the flow.
    Created(FlowKey),
    /// The same content was submitted before, under the same key or id.
    Duplicate(FlowKey),
}

impl Submitted {
    /// The flow, whoever wrote it.
    pub fn flow(self) -> FlowKey {
        match self {
            Submitted::Created(flow) | Submitted::Duplicate(flow) => flow,
        }
    }
}

/// The rows of a flow, ready to be inserted; times are relative until the storage's clock is known.
pub(crate) struct Submit {
    flow: Flow,
    submission: Option<Submission>,
    executions: Vec<NewExecution>,
    /// Per execution: delay before it may run, and time until its deadline.
    times: Vec<(Duration, Option<Duration>)>,
    groups: Vec<Group>,
    edges: Vec<Edge>,
    summary: Summary,
    /// Bytes of what one statement writes.
    statement_max_bytes: u64,
}

impl Submit {
    /// Turns a valid flow into rows. Rows are in key order, so that index insertion is local.
    pub(crate) fn new(
        valid: &ValidFlow,
        key: FlowKey,
        request: RequestId,
        statement_max_bytes: u64,
    ) -> Self {
        let spec = valid.spec();
        let namespace: Arc<str> = spec.namespace.as_str().into();
        let instance_tag: Option<Arc<str>> = spec.instance_tag.as_deref().map(Into::into);
        let content_hash = valid.content_hash();
        let ids: Vec<ExecutionId> =
            spec.executions.iter().map(|execution| key.execution(&execution.name)).collect();
        let mut rows: Vec<(NewExecution, (Duration, Option<Duration>))> = Vec::new();
        let passed = passed_something(valid.edges());
        for (index, one) in spec.executions.iter().enumerate() {
            let blank = execution(one, key, valid.in_degree(index), valid.out_degree(index));
            let execution = Execution { has_inputs: passed.contains(&index), ..blank };
            let definition = definition(one, &namespace, instance_tag.as_ref());
            let delay = Duration::from_millis(one.delay_ms.unwrap_or(0));
            let times = (delay, one.deadline_ms.map(Duration::from_millis));
            rows.push((NewExecution { execution, definition }, times));
        }
        rows.sort_unstable_by_key(|row| row.0.execution.id);
        let (executions, times): (Vec<NewExecution>, Vec<_>) = rows.into_iter().unzip();
        let groups = groups(valid, &ids, key);
        let mut edges: Vec<Edge> = valid
            .edges()
            .map(|(from, to, edge)| Edge {
                key: EdgeKey { downstream: ids[to], upstream: ids[from] },
                accepts: edge.accepts,
                resolution: Resolution::Pending,
                upstream_incarnation: None,
                input: None,
                passes_as: edge.passes_as.as_deref().map(Into::into),
            })
            .collect();
        edges.sort_unstable_by_key(|edge| edge.key);
        let submission = spec.idempotency_key.as_deref().map(|text| Submission {
            key: SubmissionKey { namespace: Arc::clone(&namespace), key: text.into() },
            flow: key,
            content_hash,
            request,
        });
        let flow = Flow {
            key,
            namespace,
            instance_tag,
            closing: None,
            closed_by: None,
            revision: 0,
            tags: crate::storage::Tags::default(),
            content_hash,
            request,
            created_at: Timestamp::default(),
        };
        let mut tally = Tally::default();
        for row in &executions {
            tally.counts.add(row.execution.state, 1);
        }
        let summary = summary::first(key, &tally);
        Self { flow, submission, executions, times, groups, edges, summary, statement_max_bytes }
    }

    /// The reply if the flow exists already: ours from an earlier run, the same, or another.
    fn existing(
        &self,
        by: &str,
        flow: FlowKey,
        content_hash: [u8; 32],
        request: RequestId,
    ) -> Verdict<Result<Submitted, EngineError>> {
        Verdict::Rollback(if request == self.flow.request {
            Ok(Submitted::Created(flow))
        } else if content_hash == self.flow.content_hash {
            Ok(Submitted::Duplicate(flow))
        } else {
            Err(EngineError::Conflict { by: by.into(), flow: flow.id })
        })
    }

    fn timed_executions(&self, now: Timestamp) -> Vec<NewExecution> {
        let mut rows = self.executions.clone();
        for (row, (delay, deadline)) in rows.iter_mut().zip(&self.times) {
            row.execution.not_before = now + *delay;
            row.execution.deadline = deadline.map(|deadline| now + deadline);
        }
        rows
    }
}

impl Body for Submit {
    type Out = Result<Submitted, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        if mutated!(P55)
            && let Some(submission) = &self.submission
            && transaction.read_submission(&submission.key).await?.is_none()
        {
            transaction.insert_submission(submission).await?;
        } else if let Some(submission) = &self.submission
            && transaction.insert_submission(submission).await? == Inserted::Exists
        {
            let row = transaction.read_submission(&submission.key).await?.ok_or_else(pruned)?;
            let by = format!("idempotency key `{}`", submission.key.key);
            return Ok(self.existing(&by, row.flow, row.content_hash, row.request));
        }
        // The clock comes after the statement that may have waited for the key.
        let now = transaction.clock().await?;
        let flow = Flow { created_at: now, ..self.flow.clone() };
        if transaction.insert_flow(&flow).await? == Inserted::Exists {
            let row = transaction.read_flow(&flow.key).await?.ok_or_else(pruned)?;
            let by = format!("flow id `{}`", flow.key.id);
            return Ok(self.existing(&by, row.key, row.content_hash, row.request));
        }
        // Counts the flow as it is written here, so that the projector need not be told.
        transaction.insert_summary(&self.summary).await?;
        for chunk in statements(&self.timed_executions(now), self.statement_max_bytes) {
            transaction.insert_executions(chunk).await?;
        }
        for chunk in self.groups.chunks(INSERT_ROWS_MAX) {
            transaction.insert_groups(chunk).await?;
        }
        for chunk in statements(&self.edges, self.statement_max_bytes) {
            transaction.insert_edges(chunk).await?;
        }
        Ok(Verdict::Commit(Ok(Submitted::Created(flow.key))))
    }
}

/// The groups of a flow, in id order, from the ids of its executions by index.
fn groups(valid: &ValidFlow, ids: &[ExecutionId], flow: FlowKey) -> Vec<Group> {
    let waiting = (0..ids.len()).filter(|index| valid.in_degree(*index) > 0);
    let mut groups: Vec<Group> = waiting
        .map(|index| Group {
            downstream: ids[index],
            flow: flow.id,
            policy: valid.policy(index),
            edges: valid.in_degree(index),
            satisfied: 0,
            unsatisfied: 0,
            decision: Decision::Undecided,
        })
        .collect();
    groups.sort_unstable_by_key(|group| group.downstream);
    groups
}

/// What was there when it was looked for is gone a statement later: retention has taken it away
/// in between. The whole call is made again.
fn pruned() -> StorageError {
    StorageError::Contention(Contention::Serialization)
}

/// The executions, by index, into which an edge leads that has a name for what it passes on.
pub(crate) fn passed_something<'a>(
    edges: impl Iterator<Item = (usize, usize, &'a EdgeSpec)>,
) -> BTreeSet<usize> {
    edges.filter(|(_, _, edge)| edge.passes_as.is_some()).map(|(_, to, _)| to).collect()
}

/// A new execution with so many edges into and out of it; its times are not known yet, and nothing
/// is passed to it.
pub(crate) fn execution(
    one: &ExecutionSpec,
    flow: FlowKey,
    in_degree: u32,
    out_degree: u32,
) -> Execution {
    let has_in = in_degree > 0;
    Execution {
        id: flow.execution(&one.name),
        flow: flow.id,
        state: if has_in { State::Blocked } else { State::Ready },
        cause: None,
        incarnation: 0,
        propagated: false,
        has_in,
        has_inputs: false,
        has_out: out_degree > 0,
        not_before: Timestamp::default(),
        deadline: None,
        attempt: 0,
        charged: 0,
        give_backs: 0,
        resumed: None,
        progress: None,
        epoch: 0,
        lease: None,
        finished_at: None,
        retry: one.retry,
    }
}

/// The constant part of a new execution, with the labels of its flow.
pub(crate) fn definition(
    one: &ExecutionSpec,
    namespace: &Arc<str>,
    instance_tag: Option<&Arc<str>>,
) -> Definition {
    Definition {
        name: one.name.as_str().into(),
        kind: one.kind.as_str().into(),
        lane: one.lane.as_str().into(),
        priority: one.priority,
        namespace: Arc::clone(namespace),
        instance_tag: instance_tag.cloned(),
        payload: payload(&one.payload),
    }
}

/// The bytes as they were brought; the planted bug reads them into values and writes those.
fn payload(brought: &Payload) -> Arc<[u8]> {
    if mutated!(E23)
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(brought.as_str())
    {
        return Payload::from(value).bytes();
    }
    brought.bytes()
}
