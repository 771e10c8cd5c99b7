//! A builder of hand-made histories: lawful steps by name, and ways to tamper with the last one.
//! Never runs an engine.

mod damage;
mod feed;
mod growth;
mod leases;
mod progress;
mod replays;
mod retention;
mod rows;
mod suspensions;

use std::sync::Arc;
use std::time::Duration;

use sluicegate::identity::{ExecutionId, FlowId, FlowKey, PartitionCount, RequestId};
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy, OnSatisfied};
use sluicegate::state::{Cause, ClosePolicy, Outcome, State};
use sluicegate::storage::{
    Attempt, AttemptEnd, Edge, EdgeKey, EventId, Execution, Flow, Group, Lease, LeaseChange,
    NewEvent, Reported, Request, RequestKey, Resolution, SiblingRequest, Summary,
};
use sluicegate::time::{Timestamp, micros};
use uuid::Uuid;

use self::rows::{event, finish, flow_row, newborn, pending, submission, undecided};
use super::{Judge, Violation, attempt_key, i10_summary};
use crate::history::{Change, Commit, Holder, Observation};
use crate::mirror::{Damaged, Mirror};
use crate::oracle;

/// How long each lease of a story lasts.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// The delay before each retry of a story.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(2);

const START: Timestamp = Timestamp(1_700_000_000_000_000);
const ATTEMPTS_MAX: u32 = 4;

/// One step of a history.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A transaction committed; the lock-order graph may object.
    Commit(Box<Commit>, Option<&'static str>),
    /// An actor was told something.
    Told(Observation),
    /// The database crashed and recovered, with these rows.
    Recovered(Box<Mirror>),
    /// A row was damaged.
    Damaged(Damaged),
    /// Nothing moves any more.
    Quiescent,
}

/// A named, finished history.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// What is special about it.
    pub(crate) name: &'static str,
    /// Its steps, in order.
    pub(crate) steps: Vec<Step>,
}

impl History {
    /// Judges every step; the position and the violation of the first one that is rejected.
    pub(crate) fn judge(&self, mut judge: Judge) -> Result<(), (usize, Violation)> {
        for (at, step) in self.steps.iter().enumerate() {
            let verdict = match step {
                Step::Commit(commit, order) => judge.commit(commit, *order),
                Step::Told(observation) => judge.observe(observation),
                Step::Damaged(damaged) => {
                    judge.damaged(*damaged);
                    Ok(())
                }
                Step::Recovered(mirror) => judge.recovered(Mirror::clone(mirror)),
                Step::Quiescent => judge.quiescent(),
            };
            verdict.map_err(|violation| (at, violation))?;
        }
        Ok(())
    }
}

/// A history in the making.
pub(crate) struct Story {
    mirror: Mirror,
    steps: Vec<Step>,
    now: Timestamp,
    /// The feed tells of grants and renewals.
    telling: bool,
}

/// The new version of a change.
pub(crate) fn after<T>(change: &mut Change<T>) -> &mut T {
    change.after.as_mut().expect("the row was not deleted")
}

pub(crate) fn flow_key() -> FlowKey {
    PartitionCount::default().key(FlowId::from_parts(1, [3; 10]))
}

pub(crate) fn id(name: &str) -> ExecutionId {
    flow_key().execution(name)
}

fn request(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

fn new<T>(row: T) -> Change<T> {
    Change { before: None, after: Some(row) }
}

impl Story {
    /// Nothing has happened.
    pub(crate) fn empty() -> Story {
        Story { mirror: Mirror::default(), steps: Vec::new(), now: START, telling: false }
    }

    /// a -> b was submitted.
    pub(crate) fn chain() -> Story {
        Story::flow(&[("a", "b", AcceptSet::ON_SUCCESS)], JoinPolicy::AllOf)
    }

    /// a -> c and b -> c were submitted.
    pub(crate) fn join(policy: JoinPolicy) -> Story {
        let accepts = AcceptSet::ON_SUCCESS;
        Story::flow(&[("a", "c", accepts), ("b", "c", accepts)], policy)
    }

    /// These edges were submitted, with one policy for every group.
    pub(crate) fn flow(edges: &[(&str, &str, AcceptSet)], policy: JoinPolicy) -> Story {
        let mut names: Vec<&str> = edges.iter().flat_map(|edge| [edge.0, edge.1]).collect();
        names.sort_unstable();
        names.dedup();
        let inbound = |name| edges.iter().filter(|edge| edge.1 == name).count();
        let mut commit = Commit::default();
        for name in names {
            let has_out = edges.iter().any(|edge| edge.0 == name);
            commit.executions.push(new(newborn(name, inbound(name) > 0, has_out)));
            if inbound(name) > 0 {
                let edges = u32::try_from(inbound(name)).unwrap();
                commit.groups.push(new(undecided(name, policy, edges)));
            }
        }
        commit.edges = edges.iter().map(|edge| new(pending(edge.0, edge.1, edge.2))).collect();
        commit.flows.push(new(flow_row()));
        commit.submissions.push(submission(flow_key()));
        Story::empty().commit(commit)
    }

    fn commit(mut self, mut commit: Commit) -> Story {
        commit.clock = Some(self.now);
        commit.clock_highest = self.now;
        self.mirror.apply(&commit);
        self.steps.push(Step::Commit(Box::new(commit), None));
        self
    }

    /// Time passes.
    pub(crate) fn wait(mut self, duration: Duration) -> Story {
        self.now = self.now + duration;
        self
    }

    fn row(&self, name: &str) -> Execution {
        *self.mirror.execution(id(name)).expect("the story knows that execution")
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Execution)) -> Change<Execution> {
        let before = self.row(name);
        let mut row = before;
        change(&mut row);
        Change { before: Some(before), after: Some(row) }
    }

    /// A worker is granted the execution.
    pub(crate) fn grant(self, name: &str) -> Story {
        let (granted_at, expires_at) = (self.now, self.now + LEASE);
        self.alter(name, |row| {
            row.state = State::Active;
            row.attempt += 1;
            row.charged += 1;
            row.epoch += 1;
            let nonce = 0xA5A5_0000 + row.epoch;
            row.lease = Some(Lease { nonce, request: request(9), granted_at, expires_at });
        })
        .told_of_lease(name, LeaseChange::Acquired)
    }

    /// The attempt row that ends the live lease of an execution.
    fn attempt(&self, name: &str, end: AttemptEnd, reported: Reported) -> Attempt {
        let row = self.row(name);
        let Holder { epoch, nonce, .. } = self.holder(name);
        let granted_at = row.lease.unwrap().granted_at;
        let (key, ended_at) = (attempt_key(&row), self.now);
        Attempt { key, epoch, nonce, end, reported, payload_hash: 0, granted_at, ended_at }
    }

    /// The active execution ends, by its worker, the reaper or an operator, as the outcome has it.
    pub(crate) fn complete(self, name: &str, outcome: Outcome) -> Story {
        let (end, cause) = match outcome {
            Outcome::Succeeded => (AttemptEnd::Completed, Cause::Handler),
            Outcome::Skipped => (AttemptEnd::Skipped, Cause::Handler),
            Outcome::Failed => (AttemptEnd::FailedFatal, Cause::Handler),
            Outcome::Expired => (AttemptEnd::Expired, Cause::AttemptsExhausted),
            Outcome::Cancelled => (AttemptEnd::Revoked, Cause::Operator),
        };
        let mut commit = Commit::default();
        commit.attempts.push(self.attempt(name, end, Reported::Finished(outcome)));
        commit.events.push(self.completion(name, outcome));
        match end {
            AttemptEnd::Expired => commit.events.push(self.lease_event(name, LeaseChange::Expired)),
            AttemptEnd::Revoked => commit.events.push(self.lease_event(name, LeaseChange::Revoked)),
            _ => {}
        }
        commit.executions.push(self.change(name, |row| finish(row, outcome, cause, self.now)));
        self.commit(commit)
    }

    /// The attempt ends, and the execution is ready again.
    pub(crate) fn end(self, name: &str, end: AttemptEnd) -> Story {
        let row = self.row(name);
        let delay = match end {
            AttemptEnd::Released => Duration::ZERO,
            _ => row.retry.backoff.delay(row.id, row.attempt),
        };
        let reported = Reported::Requeued { delay_us: micros(delay) };
        let mut commit = Commit::default();
        commit.attempts.push(self.attempt(name, end, reported));
        commit.events.push(self.lease_event(
            name,
            match end {
                AttemptEnd::Expired => LeaseChange::Expired,
                AttemptEnd::Revoked => LeaseChange::Revoked,
                _ => LeaseChange::Released,
            },
        ));
        commit.executions.push(self.change(name, |row| {
            row.state = State::Ready;
            row.lease = None;
            row.epoch += 1;
            row.not_before = self.now + delay;
            let released = end == AttemptEnd::Released;
            row.charged -= u32::from(released || end == AttemptEnd::Snoozed);
            row.give_backs += u32::from(released);
        }));
        self.commit(commit)
    }

    /// A hop flips every out-edge of these terminal executions, decides and propagates.
    pub(crate) fn hop(self, upstreams: &[&str]) -> Story {
        let outcome = |name| self.row(name).state.outcome().expect("the story ended it");
        let upstreams: Vec<(&str, Outcome)> =
            upstreams.iter().map(|name| (*name, outcome(name))).collect();
        self.hop_as(&upstreams)
    }

    /// A hop that takes these outcomes for those of its upstreams.
    pub(crate) fn hop_as(self, upstreams: &[(&str, Outcome)]) -> Story {
        let mut commit = Commit::default();
        for (name, outcome) in upstreams {
            let upstream = self.row(name);
            for edge in self.mirror.edges_from(upstream.id) {
                let mut flipped = edge.clone();
                flipped.resolution = oracle::resolve(edge.accepts, *outcome);
                flipped.upstream_incarnation = Some(upstream.incarnation);
                flipped.input = self.input(&flipped, *outcome);
                commit.edges.push(Change { before: Some(edge.clone()), after: Some(flipped) });
            }
            commit.executions.push(self.change(name, |row| row.propagated = true));
        }
        let mut downstreams: Vec<ExecutionId> =
            commit.edges.iter_mut().map(|change| after(change).key.downstream).collect();
        downstreams.sort_unstable();
        downstreams.dedup();
        for downstream in downstreams {
            self.decide(downstream, &mut commit);
        }
        self.commit(commit)
    }

    /// What an edge passes on that is resolved now.
    fn input(&self, edge: &Edge, outcome: Outcome) -> Option<Outcome> {
        let group = self.mirror.group(edge.key.downstream);
        let open = group.is_none_or(|group| group.decision == Decision::Undecided);
        (open && edge.resolution == Resolution::Satisfied).then_some(outcome)
    }

    fn decide(&self, downstream: ExecutionId, commit: &mut Commit) {
        let before = *self.mirror.group(downstream).expect("edges have a group");
        let mut group = before;
        for edge in commit.edges.iter_mut().map(after) {
            if edge.key.downstream == downstream {
                group.satisfied += u32::from(edge.resolution == Resolution::Satisfied);
                group.unsatisfied += u32::from(edge.resolution == Resolution::Unsatisfied);
            }
        }
        group.decision =
            oracle::decide(group.policy, group.edges, group.satisfied, group.unsatisfied);
        commit.groups.push(Change { before: Some(before), after: Some(group) });
        if before.decision == Decision::Undecided {
            commit.sibling_requests.extend(Self::ask(&group));
        }
        let row = *self.mirror.execution(downstream).expect("a group has a downstream");
        if row.state != State::Blocked || group.decision == Decision::Undecided {
            return;
        }
        let mut moved = row;
        if group.decision == Decision::Satisfied {
            (moved.state, moved.not_before) = (State::Ready, self.now);
        } else {
            finish(&mut moved, Outcome::Skipped, Cause::Unsatisfiable, self.now);
            let number = EventId(self.steps.len() as u64);
            commit.events.push((number, event(&row, Outcome::Skipped, self.now)));
        }
        commit.executions.push(Change { before: Some(row), after: Some(moved) });
    }

    /// A request row where a decided join leaves upstreams that it no longer needs.
    fn ask(group: &Group) -> Option<Change<SiblingRequest>> {
        let asks = group.policy.on_satisfied() == Some(OnSatisfied::CancelRemaining);
        let open = group.satisfied + group.unsatisfied < group.edges;
        let request = SiblingRequest { group: group.downstream, flow: group.flow };
        (asks && open && group.decision != Decision::Undecided).then(|| new(request))
    }

    /// The execution is cancelled for this reason; a live lease is revoked.
    fn cancel(&self, name: &str, cause: Cause, commit: &mut Commit) {
        let outcome = Outcome::Cancelled;
        if self.row(name).lease.is_some() {
            let reported = Reported::Finished(outcome);
            commit.attempts.push(self.attempt(name, AttemptEnd::Revoked, reported));
            commit.events.push(self.lease_event(name, LeaseChange::Revoked));
        }
        commit.events.push(self.completion(name, outcome));
        commit.executions.push(self.change(name, |row| finish(row, outcome, cause, self.now)));
    }

    /// A decided join cancels an execution.
    pub(crate) fn cancel_sibling(self, name: &str) -> Story {
        let mut commit = Commit::default();
        self.cancel(name, Cause::Sibling, &mut commit);
        self.commit(commit)
    }

    /// The request of a decided join is taken away.
    pub(crate) fn serve(self, name: &str) -> Story {
        let before = Some(*self.mirror.sibling_request(id(name)).expect("the join has asked"));
        let sibling_requests = vec![Change { before, after: None }];
        self.commit(Commit { sibling_requests, ..Commit::default() })
    }

    /// The request of a decided join whose upstreams have all ended is taken away, if it has one.
    pub(crate) fn serve_what_is_left(self, name: &str) -> Story {
        match self.mirror.sibling_request(id(name)) {
            Some(_) => self.serve(name),
            None => self,
        }
    }

    /// Request 5 closes the flow, cancels these members and leaves so many to be looked at.
    pub(crate) fn close(self, policy: ClosePolicy, names: &[&str], remaining: u64) -> Story {
        let mut commit = Commit::default();
        for name in names {
            self.cancel(name, Cause::Flow, &mut commit);
        }
        let closed = Flow { closing: Some(policy), closed_by: Some(request(5)), ..flow_row() };
        commit.flows.push(Change { before: Some(flow_row()), after: Some(closed) });
        let ids = names.iter().flat_map(|name| id(name).uuid.into_bytes());
        let reply = remaining.to_be_bytes().into_iter().chain(ids).collect();
        let key = RequestKey { flow: flow_key(), request: request(5) };
        commit.requests.push(new(Request { key, content_hash: [0; 32], reply }));
        self.commit(commit)
    }

    /// A member is cancelled with its flow, by another transaction than the cancel.
    pub(crate) fn cancelled_with_its_flow(self, name: &str) -> Story {
        let mut commit = Commit::default();
        self.cancel(name, Cause::Flow, &mut commit);
        self.commit(commit)
    }

    /// The record of request 5 names another member, and nothing else happens.
    pub(crate) fn cancels_more(self, name: &str) -> Story {
        let key = RequestKey { flow: flow_key(), request: request(5) };
        let before = self.mirror.request(key).expect("the story closed the flow").clone();
        let ids = before.reply.iter().copied().chain(id(name).uuid.into_bytes());
        let after = Request { reply: ids.collect(), ..before.clone() };
        let requests = vec![Change { before: Some(before), after: Some(after) }];
        self.commit(Commit { requests, ..Commit::default() })
    }

    /// The flow is open again.
    pub(crate) fn reopen(self) -> Story {
        let before = self.mirror.flow(flow_key()).cloned();
        let flows = vec![Change { before, after: Some(flow_row()) }];
        self.commit(Commit { flows, ..Commit::default() })
    }

    /// The flow has that tag, and nothing tells who set it.
    pub(crate) fn tag(self, tag: &str) -> Story {
        let before = self.mirror.flow(flow_key()).cloned();
        let after = before.clone().map(|flow| Flow { tags: flow.tags.with(tag, "x"), ..flow });
        let flows = vec![Change { before, after }];
        self.commit(Commit { flows, ..Commit::default() })
    }

    /// The reply to request 6.
    pub(crate) fn flow_tagged() -> Observation {
        Observation::FlowTagged { flow: flow_key(), request: request(6) }
    }

    /// The flow comes on the backlog.
    pub(crate) fn backlog(self) -> Story {
        let cancel_backlog = vec![new(flow_key())];
        self.commit(Commit { cancel_backlog, ..Commit::default() })
    }

    /// The reply to request 5.
    pub(crate) fn flow_cancelled(policy: ClosePolicy, names: &[&str], done: bool) -> Observation {
        let cancelled = names.iter().map(|name| id(name)).collect();
        let (flow, request) = (flow_key(), request(5));
        Observation::FlowCancelled { flow, request, policy, cancelled, done }
    }

    /// The reply to a call to cancel an execution.
    pub(crate) fn execution_cancelled(name: &str, ended: Option<Outcome>) -> Observation {
        Observation::ExecutionCancelled { execution: id(name), ended }
    }

    fn completion(&self, name: &str, outcome: Outcome) -> (EventId, NewEvent) {
        (EventId(self.steps.len() as u64), event(&self.row(name), outcome, self.now))
    }

    /// The execution changes, and nothing else.
    pub(crate) fn alter(self, name: &str, change: impl FnOnce(&mut Execution)) -> Story {
        let executions = vec![self.change(name, change)];
        self.commit(Commit { executions, ..Commit::default() })
    }

    /// The group changes, and nothing else.
    pub(crate) fn alter_group(self, name: &str, change: impl FnOnce(&mut Group)) -> Story {
        let before = *self.mirror.group(id(name)).expect("the story knows that group");
        let mut group = before;
        change(&mut group);
        let groups = vec![Change { before: Some(before), after: Some(group) }];
        self.commit(Commit { groups, ..Commit::default() })
    }

    /// The edge changes, and nothing else.
    pub(crate) fn alter_edge(
        self,
        upstream: &str,
        downstream: &str,
        change: impl FnOnce(&mut Edge),
    ) -> Story {
        let key = EdgeKey { downstream: id(downstream), upstream: id(upstream) };
        let before = self.mirror.edge(key).expect("the story knows that edge").clone();
        let mut edge = before.clone();
        change(&mut edge);
        let edges = vec![Change { before: Some(before), after: Some(edge) }];
        self.commit(Commit { edges, ..Commit::default() })
    }

    /// The edge is satisfied and counted, whatever its upstream says.
    pub(crate) fn flip(self, upstream: &str, downstream: &str) -> Story {
        let mut story = self.alter_edge(upstream, downstream, |edge| {
            edge.resolution = Resolution::Satisfied;
            edge.upstream_incarnation = Some(0);
        });
        let before = *story.mirror.group(id(downstream)).unwrap();
        let group = Group { satisfied: before.satisfied + 1, ..before };
        let change = Change { before: Some(before), after: Some(group) };
        story.last_commit().groups.push(change);
        story.retake()
    }

    /// A pending edge is added, and nothing else.
    pub(crate) fn add_edge(self, upstream: &str, downstream: &str) -> Story {
        let edges = vec![new(pending(upstream, downstream, AcceptSet::ON_SUCCESS))];
        self.commit(Commit { edges, ..Commit::default() })
    }

    /// A report under the lease that ended last is accepted.
    pub(crate) fn record(self, name: &str, end: AttemptEnd) -> Story {
        let row = self.row(name);
        let last = *self.mirror.attempt(attempt_key(&row)).expect("an attempt ended");
        let reported = Reported::Finished(Outcome::Succeeded);
        let mut commit = Commit::default();
        commit.attempts.push(Attempt { end, reported, ..last });
        commit.events.push(self.completion(name, Outcome::Succeeded));
        commit.executions.push(self.change(name, |row| {
            finish(row, Outcome::Succeeded, Cause::Handler, self.now);
        }));
        self.commit(commit)
    }

    /// The history row of the last attempt is overwritten.
    pub(crate) fn rewrite_attempt(self, name: &str, change: impl Fn(&mut Attempt)) -> Story {
        let row = self.row(name);
        let mut attempt = *self.mirror.attempt(attempt_key(&row)).expect("an attempt ended");
        change(&mut attempt);
        self.commit(Commit { attempts: vec![attempt], ..Commit::default() })
    }

    /// The story's idempotency key is stored for another flow.
    pub(crate) fn submit_again(self) -> Story {
        let flow = PartitionCount::default().key(FlowId::from_parts(2, [4; 10]));
        self.commit(Commit { submissions: vec![submission(flow)], ..Commit::default() })
    }

    /// The reply to the submit of a story's flow, which is request 1.
    pub(crate) fn submitted(number: u128, created: bool) -> Observation {
        let (key, flow) = (Some(Arc::from("key")), flow_key());
        Observation::Submitted { key, flow, created, request: request(number) }
    }

    /// An actor is told this.
    pub(crate) fn told(mut self, observation: Observation) -> Story {
        self.steps.push(Step::Told(observation));
        self
    }

    /// The database crashes, and of this story what an earlier one knows is left.
    pub(crate) fn recovers(mut self, earlier: Story) -> Story {
        self.steps.push(Step::Recovered(Box::new(earlier.mirror)));
        self
    }

    /// The projector brings every summary up to date.
    pub(crate) fn project(self) -> Story {
        let flows = self.mirror.flows().iter();
        let summaries: Vec<Change<Summary>> = flows
            .map(|flow| Change {
                before: self.mirror.summary(flow.key).copied(),
                after: Some(i10_summary::recount(&self.mirror, flow.key)),
            })
            .collect();
        self.commit(Commit { summaries, ..Commit::default() })
    }

    /// Nothing moves any more, and the projector has seen it.
    pub(crate) fn quiescent(self) -> Story {
        self.project().rests()
    }

    /// Nothing moves any more.
    pub(crate) fn rests(mut self) -> Story {
        self.steps.push(Step::Quiescent);
        self
    }

    fn last_commit(&mut self) -> &mut Commit {
        let last = self.steps.last_mut();
        let Some(Step::Commit(commit, _)) = last else { panic!("the last step is a commit") };
        commit
    }

    /// Changes the last commit after the fact.
    pub(crate) fn tamper(mut self, tamper: impl FnOnce(&mut Commit)) -> Story {
        tamper(self.last_commit());
        self.retake()
    }

    /// Makes the changed last commit what later steps build on.
    fn retake(mut self) -> Story {
        let commit = self.last_commit().clone();
        self.mirror.apply(&commit);
        self
    }

    /// The last commit changes this execution besides.
    pub(crate) fn besides(self, name: &str, change: impl FnOnce(&mut Execution)) -> Story {
        let change = self.change(name, change);
        self.tamper(|commit| commit.executions.push(change))
    }

    /// The lock-order graph objects to the last commit.
    pub(crate) fn out_of_order(mut self, words: &'static str) -> Story {
        let last = self.steps.last_mut();
        let Some(Step::Commit(_, order)) = last else { panic!("the last step is a commit") };
        *order = Some(words);
        self
    }

    /// The finished history.
    pub(crate) fn ends(self, name: &'static str) -> History {
        History { name, steps: self.steps }
    }
}
