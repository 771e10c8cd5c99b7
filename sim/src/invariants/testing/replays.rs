//! Replays in hand-made histories.

use sluicegate::policy::Decision;
use sluicegate::replay::ReplayScope;
use sluicegate::state::{Outcome, State};
use sluicegate::storage::{Execution, Flow, Request, RequestKey, Resolution, Summary};
use sluicegate::summary::FlowStatus;

use super::{Story, flow_key, id, new, request};
use crate::history::{Change, Commit, Observation};
use crate::oracle;

impl Story {
    /// a -> b, of which a has failed and b was skipped, started again as a whole.
    pub(crate) fn second_life() -> Story {
        let failed = Story::chain().grant("a").complete("a", Outcome::Failed).hop(&["a"]);
        failed.asks(ReplayScope::Failed).again(&["a", "b"])
    }

    /// Request 6 is to replay this.
    pub(crate) fn asks(self, scope: ReplayScope) -> Story {
        self.told(Observation::ReplayAsked { flow: flow_key(), request: request(6), scope })
    }

    /// The reply to request 6.
    pub(crate) fn replayed(names: &[&str]) -> Observation {
        let members = names.iter().map(|name| id(name)).collect();
        Observation::Replayed { flow: flow_key(), request: request(6), members }
    }

    /// Request 6 starts these again and opens the flow. Their joins are decided by upstreams that
    /// are not among them and have ended; none of that may skip one of them.
    pub(crate) fn again(self, names: &[&str]) -> Story {
        let skipped = |row: &&Execution| row.state == State::Terminal(Outcome::Skipped);
        let skipped = self.mirror.executions().iter().filter(skipped).map(|row| row.id);
        let mut commit = Commit { skipped_at_look: skipped.collect(), ..Commit::default() };
        let among = |execution| names.iter().any(|name| id(name) == execution);
        for name in names {
            let mut group = self.mirror.group(id(name)).copied();
            if let Some(group) = &mut group {
                (group.satisfied, group.unsatisfied) = (0, 0);
            }
            for edge in self.mirror.edges_into(id(name)) {
                let mut after = edge.clone();
                (after.resolution, after.upstream_incarnation) = (Resolution::Pending, None);
                let upstream = self.mirror.execution(edge.key.upstream).expect("it has ends");
                if let Some(outcome) = upstream.state.outcome().filter(|_| !among(upstream.id)) {
                    after.resolution = oracle::resolve(edge.accepts, outcome);
                    after.upstream_incarnation = Some(upstream.incarnation);
                } else {
                    after.input = None;
                }
                if let Some(group) = &mut group {
                    group.satisfied += u32::from(after.resolution == Resolution::Satisfied);
                    group.unsatisfied += u32::from(after.resolution == Resolution::Unsatisfied);
                }
                commit.edges.push(Change { before: Some(edge.clone()), after: Some(after) });
            }
            let decision = group.map_or(Decision::Satisfied, |group| {
                oracle::decide(group.policy, group.edges, group.satisfied, group.unsatisfied)
            });
            if let Some(mut group) = group {
                group.decision = decision;
                let before = self.mirror.group(id(name)).copied();
                commit.groups.push(Change { before, after: Some(group) });
            }
            assert!(decision != Decision::Impossible, "`{name}` would be skipped");
            commit.executions.push(self.change(name, |row| {
                row.state = State::Blocked;
                if decision == Decision::Satisfied {
                    row.state = State::Ready;
                }
                row.incarnation += 1;
                row.epoch += 1;
                (row.attempt, row.charged, row.give_backs) = (0, 0, 0);
                (row.cause, row.finished_at, row.lease) = (None, None, None);
                (row.propagated, row.not_before) = (false, self.now);
            }));
        }
        let edges_from = |name: &&str| self.mirror.edges_from(id(name));
        let mut asking: Vec<_> = names
            .iter()
            .flat_map(edges_from)
            .filter(|edge| edge.resolution == Resolution::Pending && !among(edge.key.downstream))
            .filter(|edge| self.mirror.sibling_request(edge.key.downstream).is_none())
            .filter_map(|edge| self.mirror.group(edge.key.downstream))
            .copied()
            .collect();
        asking.dedup();
        commit.sibling_requests.extend(asking.iter().filter_map(Self::ask));
        let flow = self.mirror.flow(flow_key()).expect("the story submitted it");
        if flow.closing.is_some() {
            let open = Flow { closing: None, closed_by: None, ..flow.clone() };
            commit.flows.push(Change { before: Some(flow.clone()), after: Some(open) });
        }
        let summary = self.mirror.summary(flow_key());
        if let Some(before) = summary.filter(|summary| summary.ended_at.is_some()) {
            let open = Summary { status: FlowStatus::Open, ended_at: None, ..*before };
            commit.summaries.push(Change { before: Some(*before), after: Some(open) });
        }
        for flow in self.mirror.cancel_backlog() {
            commit.cancel_backlog.push(Change { before: Some(*flow), after: None });
        }
        let ids: std::collections::BTreeSet<_> = names.iter().map(|name| id(name)).collect();
        let reply = ids.iter().flat_map(|id| id.uuid.into_bytes()).collect();
        let key = RequestKey { flow: flow_key(), request: request(6) };
        commit.requests.push(new(Request { key, content_hash: [0; 32], reply }));
        self.commit(commit)
    }
}
