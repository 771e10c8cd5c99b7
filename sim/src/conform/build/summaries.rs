//! The verbs of summaries and lists with their typed arguments.

use sluicegate::identity::FlowKey;
use sluicegate::state::State;
use sluicegate::storage::{
    ChangeId, CountQuery, EdgeListing, ExecutionListing, FlowListing, Summary, Verb,
};
use sluicegate::summary::{FlowStatus, StateCounts};
use sluicegate::time::Timestamp;

use super::{Built, Call, Given, NOW, NOWHERE, STATES, named};

/// The verb of a step with its argument.
pub(super) fn call(given: &Given<'_>, verb: Verb) -> Built<Call> {
    Ok(match verb {
        Verb::InsertSummary => Call::InsertSummary(given.summary(given.flow()?)?),
        Verb::LockSummaries => Call::LockSummaries(given.flows()?),
        Verb::DeleteFlowChanges => Call::DeleteFlowChanges(given.summarised()?.flow),
        Verb::CountExecutions => Call::CountExecutions(CountQuery {
            flow: given.flow()?,
            now: given.optional_number("now")?.map(Timestamp),
        }),
        Verb::UnhandledFailure => Call::UnhandledFailure(given.flow()?),
        Verb::WriteSummary => {
            let Summary { flow, last_change, .. } = given.summarised()?;
            Call::WriteSummary(Summary { last_change, ..given.summary(flow)? })
        }
        Verb::ScanFlowChanges => Call::ScanFlowChanges(given.flow_page()?),
        Verb::DescribeSummary => Call::DescribeSummary(given.flow()?),
        Verb::ListFlows => {
            let statuses = given.some_of("statuses", &STATUSES)?;
            Call::ListFlows(FlowListing { page: given.flow_page()?, statuses })
        }
        Verb::ListExecutions => {
            let one = given.optional("flow")?.is_some();
            Call::ListExecutions(ExecutionListing {
                page: given.page()?,
                flow: if one { Some(given.flow()?) } else { None },
                states: given.some_of("states", &STATES)?,
            })
        }
        Verb::ListInEdges => Call::ListInEdges(given.edge_listing()?),
        Verb::ListOutEdges => Call::ListOutEdges(given.edge_listing()?),
        Verb::DescribeEdge => {
            let key = given.optional("key")?.ok_or("`key` is missing")?;
            Call::DescribeEdge(given.edge_key(key)?)
        }
        other => unreachable!("{other:?} is no verb of summaries and lists"),
    })
}

/// The names that the arguments of these verbs may have.
pub(super) fn arguments(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::InsertSummary | Verb::WriteSummary => &["flow", "status", "ready", "failed"],
        Verb::LockSummaries => &["flows"],
        Verb::CountExecutions => &["flow", "now"],
        Verb::ScanFlowChanges => &["after", "limit"],
        Verb::ListFlows => &["after", "limit", "statuses"],
        Verb::ListExecutions => &["after", "limit", "flow", "states"],
        Verb::ListInEdges | Verb::ListOutEdges => &["key", "after", "limit"],
        Verb::DescribeEdge => &["key"],
        _ => &["flow"],
    }
}

impl Given<'_> {
    fn summary(&self, flow: FlowKey) -> Built<Summary> {
        let mut counts = StateCounts::default();
        counts.add(State::Ready, self.number("ready", 3)?);
        counts.add(State::ALL[5], self.number("failed", 0)?);
        let status = self.choice("status", &STATUSES)?;
        let ended_at = status.is_terminal().then_some(NOW);
        Ok(Summary { flow, counts, status, ended_at, last_change: ChangeId(0) })
    }

    /// The summary that the transaction has locked; a made-up one where nothing ever is.
    pub(super) fn summarised(&self) -> Built<Summary> {
        let flow = self.flow()?;
        if self.optional("flow")?.is_some_and(|name| name.starts_with(NOWHERE)) {
            return self.summary(flow);
        }
        let seen = self.seen.summary(flow).copied();
        seen.ok_or_else(|| "the session has not locked the summary of that flow".to_owned())
    }

    fn edge_listing(&self) -> Built<EdgeListing> {
        let after = self.optional("after")?.map(named).transpose()?;
        Ok(EdgeListing {
            execution: self.names.execution(self.name("key")?),
            after: after.map(|name| self.names.execution(name)),
            limit: self.number("limit", 100)?,
        })
    }

    /// Some of some words; none unless it is given.
    fn some_of<T: Copy>(&self, argument: &str, words: &[(&str, T)]) -> Built<Vec<T>> {
        let one = |word: &String| {
            let found = words.iter().find(|(known, _)| known == word);
            found.map(|(_, value)| *value).ok_or_else(|| format!("`{word}` is no {argument}"))
        };
        self.words.values(argument).iter().map(one).collect()
    }
}

const STATUSES: [(&str, FlowStatus); 6] = [
    ("open", FlowStatus::Open),
    ("blocked", FlowStatus::Blocked),
    ("running", FlowStatus::Running),
    ("completed", FlowStatus::Completed),
    ("cancelled", FlowStatus::Cancelled),
    ("failed", FlowStatus::Failed),
];
