//! What happened in a universe, in the words of the storage seam: commits with the rows that they
//! changed, and what actors were told. Invariants read nothing else. Never judges.

use std::sync::Arc;

use sluicegate::identity::{ExecutionId, FlowKey, RequestId};
use sluicegate::replay::ReplayScope;
use sluicegate::state::State;
use sluicegate::state::{ClosePolicy, Outcome};
use sluicegate::storage::{
    Attempt, AttemptEnd, AttemptKey, Edge, EventId, EventKey, EventKind, EventPosition, Execution,
    Flow, Group, Input, NewEvent, Position, Reported, Request, Scope, SiblingRequest, Submission,
    SubmissionKey, Summary, Wanted,
};
use sluicegate::summary::FlowStatus;
use sluicegate::time::Timestamp;

/// Number of an actor in its universe.
pub type ActorId = u8;

/// A row before and after a commit; `before` is `None` for a new row, `after` for a deleted one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<T> {
    /// The last committed version before.
    pub before: Option<T>,
    /// The version that this commit made.
    pub after: Option<T>,
}

/// One committed transaction that wrote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commit {
    /// Who committed; a session may outlive it.
    pub actor: ActorId,
    /// The last reading of the storage's clock in this transaction.
    pub clock: Option<Timestamp>,
    /// The highest that the storage's clock has shown in this universe until now.
    pub clock_highest: Timestamp,
    /// Flows, new or changed.
    pub flows: Vec<Change<Flow>>,
    /// Executions, new or changed.
    pub executions: Vec<Change<Execution>>,
    /// Groups, new or changed.
    pub groups: Vec<Change<Group>>,
    /// Edges, new or changed.
    pub edges: Vec<Change<Edge>>,
    /// Idempotency keys, new.
    pub submissions: Vec<Submission>,
    /// Idempotency keys that retention took away.
    pub submissions_pruned: Vec<SubmissionKey>,
    /// Attempt history, new.
    pub attempts: Vec<Attempt>,
    /// Attempt history that retention took away.
    pub attempts_pruned: Vec<AttemptKey>,
    /// Events, new.
    pub events: Vec<(EventId, NewEvent)>,
    /// Events that retention took away.
    pub events_pruned: Vec<EventKey>,
    /// Where the horizon of the feed was put, if it moved.
    pub horizon: Option<Position>,
    /// Places in the feed, as they were given out.
    pub positions: Vec<EventPosition>,
    /// Flows that had been cancelled already when this transaction first read the clock, which it
    /// does before it reads how flows were closed.
    pub closed_at_clock: Vec<FlowKey>,
    /// Flows that had been cancelled already when the claim statement of this transaction began.
    pub closed_at_claim: Vec<FlowKey>,
    /// Executions that had been skipped already when this transaction last read how the executions
    /// of a flow stand.
    pub skipped_at_look: Vec<ExecutionId>,
    /// Flows that a replay has opened again since this transaction first read the clock, other than
    /// by itself.
    pub reopened: Vec<FlowKey>,
    /// Sibling requests, new or served.
    pub sibling_requests: Vec<Change<SiblingRequest>>,
    /// Requests, new or with another reply.
    pub requests: Vec<Change<Request>>,
    /// Flows that came on or went off the backlog of cancels.
    pub cancel_backlog: Vec<Change<FlowKey>>,
    /// Summaries, new or changed.
    pub summaries: Vec<Change<Summary>>,
    /// Flow changes, new.
    pub flow_changes: Vec<FlowKey>,
}

impl Commit {
    /// How many executions it ended.
    pub fn ends(&self) -> u64 {
        let ended = |change: &&Change<Execution>| {
            let is_over =
                |row: &Option<Execution>| row.as_ref().is_some_and(|row| row.state.is_terminal());
            is_over(&change.after) && !is_over(&change.before)
        };
        self.executions.iter().filter(ended).count() as u64
    }

    /// How many leases it granted.
    pub fn grants(&self) -> u64 {
        let granted = |change: &&Change<Execution>| {
            let attempt = |row: &Option<Execution>| row.as_ref().map(|row| row.attempt);
            change.after.as_ref().is_some_and(|row| row.lease.is_some())
                && attempt(&change.before) != attempt(&change.after)
        };
        self.executions.iter().filter(granted).count() as u64
    }

    /// True if it moved something of a flow that is still there. Otherwise the feed alone went on,
    /// or retention took away what was over: neither belongs to how a flow drains.
    pub fn moves_a_flow(&self) -> bool {
        fn stays<T>(changes: &[Change<T>]) -> bool {
            changes.iter().any(|change| change.after.is_some())
        }
        stays(&self.flows) || stays(&self.executions) || stays(&self.groups) || stays(&self.edges)
    }
}

/// The lease that a worker wrote under.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    /// The execution.
    pub execution: ExecutionId,
    /// Its incarnation.
    pub incarnation: u32,
    /// Its attempt.
    pub attempt: u32,
    /// Its epoch.
    pub epoch: u64,
    /// Its nonce.
    pub nonce: u64,
}

/// How long it is.
pub const RESULT_BYTES: u64 = 16;

/// What workers return from that attempt, so that a result tells whose it is.
pub fn result_of(attempt: AttemptKey) -> Arc<[u8]> {
    let AttemptKey { execution, incarnation, attempt } = attempt;
    let mut bytes = execution.uuid.as_bytes()[8..].to_vec();
    bytes.extend(incarnation.to_be_bytes());
    bytes.extend(attempt.to_be_bytes());
    bytes.into()
}

/// What an actor was told by a call that changes something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// A submit was acknowledged: with its key, the flow, and whether this call created it.
    Submitted {
        /// The idempotency key, if one was given.
        key: Option<Arc<str>>,
        /// The flow that the reply named.
        flow: FlowKey,
        /// `Created`, not `Duplicate`.
        created: bool,
        /// The call's request id.
        request: RequestId,
    },
    /// A report (complete, fail, release) was acknowledged.
    Reported {
        /// The lease that it carried.
        holder: Holder,
        /// Which report.
        end: AttemptEnd,
        /// What the reply said.
        reported: Reported,
    },
    /// The first call of a report came back as contention: nothing of it was applied.
    ReportContended {
        /// The lease that it carried.
        holder: Holder,
        /// Which report.
        end: AttemptEnd,
    },
    /// A report of progress was accepted.
    Progressed {
        /// The lease that it carried.
        holder: Holder,
        /// Its number among those of its attempt.
        sequence: u64,
    },
    /// A report, a renewal or progress was refused because the lease was lost.
    LeaseLost {
        /// The lease that it carried.
        holder: Holder,
        /// Which report; `None` for a renewal and for progress.
        end: Option<AttemptEnd>,
    },
    /// A call to cancel a flow was answered.
    FlowCancelled {
        /// The flow.
        flow: FlowKey,
        /// The id of the call.
        request: RequestId,
        /// The policy that it is closed with, as the reply said.
        policy: ClosePolicy,
        /// The members that the reply listed.
        cancelled: Vec<ExecutionId>,
        /// It said that nothing is left to cancel.
        done: bool,
    },
    /// A call to hang a tag on a flow was acknowledged.
    FlowTagged {
        /// The flow.
        flow: FlowKey,
        /// The id of the call.
        request: RequestId,
    },
    /// A call to cancel an execution was answered.
    ExecutionCancelled {
        /// The execution.
        execution: ExecutionId,
        /// How it had ended before; `None` if the call ended it.
        ended: Option<Outcome>,
    },
    /// A call to resume an execution was answered.
    Resumed {
        /// The execution.
        execution: ExecutionId,
        /// The suspension that the call named.
        epoch: u64,
        /// What the reply said; `None` if it was refused.
        reported: Option<Reported>,
    },
    /// An extension was acknowledged.
    Extended {
        /// The flow.
        flow: FlowKey,
        /// The id of the call.
        request: RequestId,
        /// The revision that the reply named.
        revision: u64,
    },
    /// An operator is about to call for a replay. Nobody is told anything: no crash takes it back.
    ReplayAsked {
        /// The flow.
        flow: FlowKey,
        /// The id of the call.
        request: RequestId,
        /// What it is to start again.
        scope: ReplayScope,
    },
    /// A call for a replay was answered.
    Replayed {
        /// The flow.
        flow: FlowKey,
        /// The id of the call.
        request: RequestId,
        /// The members that started again, as the reply said.
        members: Vec<ExecutionId>,
    },
    /// A reader was shown the flows that match a filter, while nothing moved.
    ListedFlows {
        /// Partitions, namespace and tag.
        scope: Scope,
        /// Statuses; every one if there is none.
        statuses: Vec<FlowStatus>,
        /// What was shown, in order, all pages together.
        flows: Vec<FlowKey>,
    },
    /// A call to give an execution up was acknowledged.
    GivenUp {
        /// Which execution.
        execution: ExecutionId,
        /// How it had ended before; `None` if it has failed by this.
        ended: Option<Outcome>,
    },
    /// A reader was shown the executions that match a filter, while nothing moved.
    ListedExecutions {
        /// Partitions, namespace and tag.
        scope: Scope,
        /// Only of that flow.
        flow: Option<FlowKey>,
        /// States; every one if there is none.
        states: Vec<State>,
        /// What was shown, in order, all pages together.
        executions: Vec<ExecutionId>,
    },
    /// A subscriber has opened its consumer.
    Subscribed {
        /// Which subscriber.
        subscriber: u8,
        /// The only namespace that it wants events of.
        namespace: Option<Arc<str>>,
        /// Which kinds of events it wants.
        wanted: Wanted,
        /// The place behind which it goes on.
        from: Position,
    },
    /// A subscriber was told that the events right behind its cursor are gone.
    Expired {
        /// Which subscriber.
        subscriber: u8,
        /// The place behind which the feed begins, as it was told.
        oldest: Position,
    },
    /// An event of the feed was handed to a subscriber.
    Delivered {
        /// Which subscriber.
        subscriber: u8,
        /// Its place in the feed.
        position: Position,
        /// Its flow.
        flow: FlowKey,
        /// Whose event it is.
        execution: ExecutionId,
        /// In which incarnation.
        incarnation: u32,
        /// What it says.
        kind: EventKind,
    },
    /// The storage's clock had stepped forward when a reaper came, as its process could tell.
    LetGoOn {
        /// Leases and executions that it has ended all the same.
        ended: u64,
    },
    /// A lease was granted, as the worker was told.
    Granted {
        /// The lease.
        holder: Holder,
    },
    /// A flow that the limits allow was refused as too large.
    TooLarge {
        /// How many executions it has.
        executions: usize,
    },
    /// A lease came with a payload that neither the flow nor an extension has under that name.
    Garbled {
        /// The lease.
        holder: Holder,
        /// What came.
        payload: Arc<[u8]>,
    },
    /// A lease came with inputs, or they were read under it.
    Passed {
        /// The lease.
        holder: Holder,
        /// All of them, in the order of their upstreams.
        inputs: Vec<Input>,
    },
}

#[cfg(test)]
mod tests {
    use sluicegate::identity::{FlowId, Partition};
    use sluicegate::policy::{Decision, JoinPolicy};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_what_stays_of_a_flow_is_moved() {
        let group = Group {
            downstream: ExecutionId { partition: Partition(1), uuid: Uuid::from_u128(2) },
            flow: FlowId(Uuid::from_u128(1)),
            policy: JoinPolicy::AllOf,
            edges: 1,
            satisfied: 0,
            unsatisfied: 0,
            decision: Decision::Undecided,
        };
        let commit = |before: Option<Group>, after: Option<Group>| Commit {
            groups: vec![Change { before, after }],
            ..Commit::default()
        };
        assert!(commit(None, Some(group)).moves_a_flow());
        assert!(commit(Some(group), Some(group)).moves_a_flow());
        assert!(!commit(Some(group), None).moves_a_flow(), "it was taken away");
        assert!(!Commit::default().moves_a_flow());
    }
}
