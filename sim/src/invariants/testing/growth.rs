//! Extensions in hand-made histories.

use sluicegate::policy::{AcceptSet, Decision, JoinPolicy};
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{EventId, Flow, Request, RequestKey, Resolution};

use super::rows::{event, finish, newborn, pending, undecided};
use super::{Change, Commit, Observation, Story, flow_key, new, request};
use crate::oracle;

impl Story {
    /// Request 6 adds an execution behind these upstreams, and decides it if they have ended.
    pub(crate) fn extend(self, name: &str, upstreams: &[&str], policy: JoinPolicy) -> Story {
        let mut commit = Commit::default();
        let edges = u32::try_from(upstreams.len()).unwrap();
        let mut group = undecided(name, policy, edges);
        for upstream in upstreams {
            let row = self.row(upstream);
            let mut edge = pending(upstream, name, AcceptSet::ON_SUCCESS);
            if let Some(outcome) = row.state.outcome() {
                edge.resolution = oracle::resolve(edge.accepts, outcome);
                edge.upstream_incarnation = Some(row.incarnation);
                edge.input = self.input(&edge, outcome);
            }
            group.satisfied += u32::from(edge.resolution == Resolution::Satisfied);
            group.unsatisfied += u32::from(edge.resolution == Resolution::Unsatisfied);
            commit.edges.push(new(edge));
            if !row.has_out {
                commit.executions.push(self.change(upstream, |row| row.has_out = true));
            }
        }
        group.decision = oracle::decide(policy, edges, group.satisfied, group.unsatisfied);
        let mut row = newborn(name, true, false);
        match group.decision {
            Decision::Undecided => {}
            Decision::Satisfied => row.state = State::Ready,
            Decision::Impossible => {
                finish(&mut row, Outcome::Skipped, Cause::Unsatisfiable, self.now);
                let number = EventId(self.steps.len() as u64);
                commit.events.push((number, event(&row, Outcome::Skipped, self.now)));
            }
        }
        commit.executions.push(new(row));
        commit.groups.push(new(group));
        commit.sibling_requests.extend(Self::ask(&group));
        let before = self.mirror.flow(flow_key()).expect("the story has a flow").clone();
        let after = Flow { revision: before.revision + 1, ..before.clone() };
        commit.flows.push(Change { before: Some(before), after: Some(after) });
        let key = RequestKey { flow: flow_key(), request: request(6) };
        let reply = [].into();
        commit.requests.push(new(Request { key, content_hash: [0; 32], reply }));
        self.commit(commit)
    }

    /// The reply to an extension.
    pub(crate) fn extended(number: u128, revision: u64) -> Observation {
        Observation::Extended { flow: flow_key(), request: request(number), revision }
    }
}
