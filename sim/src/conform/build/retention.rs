//! The verbs of retention with their typed arguments: what they take away, their transaction has
//! locked, or it is nowhere.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{EndedFlow, EndedScan, EventKey, Scope, Verb};
use sluicegate::time::Timestamp;

use super::{Built, Call, Given, NOW, named};

/// The verb of a step with its argument.
pub(super) fn call(given: &Given<'_>, verb: Verb) -> Built<Call> {
    Ok(match verb {
        Verb::CountEvents => Call::CountEvents(given.executions("keys")?),
        Verb::DeleteAttempts => Call::DeleteAttempts(given.locked_executions()?),
        Verb::DeleteEdges => Call::DeleteEdges(given.locked_groups()?),
        Verb::DeleteGroups => Call::DeleteGroups(given.locked_groups()?),
        Verb::DeleteExecutions => Call::DeleteExecutions(given.locked_executions()?),
        Verb::DeleteRequests => Call::DeleteRequests(given.one_locked_flow()?),
        Verb::DeleteSubmission => Call::DeleteSubmission(given.one_locked_flow()?),
        Verb::DeleteSummary => Call::DeleteSummary(given.summarised()?.flow),
        Verb::DeleteFlow => Call::DeleteFlow(given.one_locked_flow()?),
        Verb::DeleteEvents => Call::DeleteEvents(given.events_of_the_stream()?),
        Verb::ScanEndedFlows => Call::ScanEndedFlows(given.ended_scan()?),
        other => unreachable!("{other:?} is no verb of retention"),
    })
}

/// The names that the arguments of these verbs may have.
pub(super) fn arguments(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::ScanEndedFlows => &["after", "limit", "by"],
        Verb::DeleteEvents => &["rows", "incarnation", "lease"],
        Verb::DeleteRequests | Verb::DeleteSubmission | Verb::DeleteSummary | Verb::DeleteFlow => {
            &["flow"]
        }
        _ => &["keys"],
    }
}

impl Given<'_> {
    fn locked_executions(&self) -> Built<Vec<ExecutionId>> {
        for name in self.list("keys")? {
            self.locked(name)?;
        }
        self.executions("keys")
    }

    fn locked_groups(&self) -> Built<Vec<ExecutionId>> {
        for name in self.list("keys")? {
            self.locked_group(name)?;
        }
        self.executions("keys")
    }

    fn one_locked_flow(&self) -> Built<FlowKey> {
        let flow = self.flow()?;
        self.locked_flow(flow, self.optional("flow")?.unwrap_or("f"))?;
        Ok(flow)
    }

    fn events_of_the_stream(&self) -> Built<Vec<EventKey>> {
        if self.seen.head().is_none() {
            return Err("the session has not locked the head of its stream".to_owned());
        }
        self.rows(|name| self.event_key(name))
    }

    fn ended_scan(&self) -> Built<EndedScan> {
        let partition = self.names.partition.0;
        let after = self.optional("after")?.map(named).transpose()?;
        Ok(EndedScan {
            scope: Scope { partitions: partition..partition + 1, ..Scope::default() },
            ended_by: Timestamp(self.number("by", NOW.0)?),
            after: after.map(|name| EndedFlow { ended_at: NOW, flow: self.names.flow(name) }),
            limit: self.number("limit", 100)?,
        })
    }
}
