//! From the named arguments of a step to the verb with its typed argument: one arm a verb. What an
//! argument leaves out has a default. Never draws anything.

mod attempts;
mod claim;
mod feed;
mod flows;
mod replay;
mod retention;
mod summaries;

use std::sync::Arc;

use sluicegate::policy::{AcceptSet, Decision, JoinPolicy, OnSatisfied};
use sluicegate::retry::RetryPolicy;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{
    AttemptKey, Definition, Edge, EdgeKey, EventKey, Execution, ExecutionWrite, Group,
    NewExecution, OverdueScan, Page, PlanQuery, Resolution, ResultChange, Scope, Submission,
    UpstreamScan, Verb,
};
use sluicegate::time::Timestamp;

use super::calls::Call;
use super::names::{NOWHERE, Names, is_name};
use super::seen::Seen;
use super::words::{Head, Words};
pub(super) use feed::lease_word;

/// What the clock of every schedule shows: nothing in it depends on the real one.
pub const NOW: Timestamp = Timestamp(1_000_000_000);

/// An epoch that no row of a schedule reaches.
const STALE: u64 = 1_000;

/// What a step may refer to.
pub struct Given<'a> {
    /// The step.
    pub words: &'a Words,
    /// Its partition.
    pub names: Names,
    /// What its transaction has locked.
    pub seen: &'a Seen,
}

type Built<T> = Result<T, String>;

/// The verb of a step with its argument. An `Err` says why it may not be sent: an argument is
/// wrong, or a write names a row that its transaction has not locked.
pub fn call(given: &Given<'_>) -> Built<Call> {
    let Head::Verb(verb) = given.words.head else {
        return Err(format!("`{}` is no verb", given.words));
    };
    given.check_arguments(verb)?;
    Ok(match verb {
        Verb::Begin | Verb::Commit | Verb::Rollback => unreachable!("control words come first"),
        Verb::Clock => Call::Clock,
        Verb::InsertSubmission => Call::InsertSubmission(given.submission()?),
        Verb::ReadSubmission => Call::ReadSubmission(given.names.key(given.name("key")?)),
        Verb::InsertFlow => Call::InsertFlow(given.new_flow()?),
        Verb::ReadFlow => Call::ReadFlow(given.flow()?),
        Verb::InsertExecutions => Call::InsertExecutions(given.rows(|row| given.member(row))?),
        Verb::InsertGroups => Call::InsertGroups(given.rows(|row| given.new_group(row))?),
        Verb::InsertEdges => Call::InsertEdges(given.rows(|row| given.new_edge(row))?),
        Verb::InsertFlowChanges => Call::InsertFlowChanges(given.flows()?),
        Verb::ReadGrants => Call::ReadGrants(given.names.request(given.name("request")?)),
        Verb::ClaimExecutions => Call::ClaimExecutions(given.claim()?),
        Verb::LockExecutions => Call::LockExecutions(given.executions("keys")?),
        Verb::HoldExecutions => Call::HoldExecutions(given.executions("keys")?),
        Verb::HoldGroups => Call::HoldGroups(given.executions("keys")?),
        Verb::MendExecutions => Call::MendExecutions(given.rows(|row| given.mended(row))?),
        Verb::TakeExecutions => Call::TakeExecutions(given.executions("keys")?),
        Verb::WriteExecutions => Call::WriteExecutions(given.rows(|row| given.write(row))?),
        Verb::InsertAttempts | Verb::WriteProgress => attempts::call(given, verb)?,
        Verb::ReadAttempt => Call::ReadAttempt(given.attempt_key_of(given.name("key")?)?),
        Verb::LockGroups => Call::LockGroups(given.executions("keys")?),
        Verb::ReadGroups => Call::ReadGroups(given.executions("keys")?),
        Verb::PendingEdges => Call::PendingEdges(given.executions("keys")?),
        Verb::ResolveEdges => Call::ResolveEdges(given.rows(|row| given.flip(row))?),
        Verb::WriteGroups => Call::WriteGroups(given.rows(|row| given.group(row))?),
        Verb::WithPendingEdges => Call::WithPendingEdges(given.executions("keys")?),
        Verb::InsertSiblingRequests => {
            Call::InsertSiblingRequests(given.rows(|row| given.sibling_request(row))?)
        }
        Verb::ReadClosings => Call::ReadClosings(given.flows()?),
        Verb::WriteJoins => Call::WriteJoins(given.rows(|row| given.join(row))?),
        Verb::LockFlow => Call::LockFlow(given.flow()?),
        Verb::WriteFlow => Call::WriteFlow(given.flow_to_write()?),
        Verb::InsertRequest => Call::InsertRequest(given.request()?),
        Verb::ReadRequest => Call::ReadRequest(given.request_key()?),
        Verb::WriteRequest => Call::WriteRequest(given.request_to_write()?),
        Verb::InsertCancelBacklog => Call::InsertCancelBacklog(given.flows()?),
        Verb::DeleteCancelBacklog => Call::DeleteCancelBacklog(given.locked_flows()?),
        Verb::ReadMembers => Call::ReadMembers(given.members()?),
        Verb::ReadFedGroups => Call::ReadFedGroups(given.executions("keys")?),
        Verb::ReadEdges => Call::ReadEdges(given.executions("keys")?),
        Verb::ReadAncestry => Call::ReadAncestry(given.executions("keys")?),
        Verb::ReadInputs => Call::ReadInputs(given.inputs()?),
        Verb::CountEdges => Call::CountEdges(given.flow()?),
        Verb::ReadStandings => Call::ReadStandings(given.flow()?),
        Verb::ResetEdges => Call::ResetEdges(given.locked_edges()?),
        Verb::DeleteSiblingRequests => Call::DeleteSiblingRequests(given.locked_siblings()?),
        Verb::ScanCancelBacklog => Call::ScanCancelBacklog(given.flow_page()?),
        Verb::ScanSiblingRequests => Call::ScanSiblingRequests(given.page()?),
        Verb::ReadClock => Call::ReadClock,
        Verb::ScanUpstreams => Call::ScanUpstreams(given.upstream_scan()?),
        Verb::ScanStuckGroups => Call::ScanStuckGroups(given.page()?),
        Verb::ScanOverdue => Call::ScanOverdue(given.overdue_scan()?),
        Verb::PlanGroups => Call::PlanGroups(given.plan()?),
        Verb::DescribeFlow => Call::DescribeFlow(given.flow()?),
        Verb::DescribeExecutions => Call::DescribeExecutions(given.flow()?),
        Verb::DescribeGroups => Call::DescribeGroups(given.flow()?),
        Verb::DescribeEdges => Call::DescribeEdges(given.flow()?),
        Verb::DescribeExecution => Call::DescribeExecution(given.one_execution("key")?),
        Verb::InsertSummary
        | Verb::LockSummaries
        | Verb::DeleteFlowChanges
        | Verb::CountExecutions
        | Verb::UnhandledFailure
        | Verb::WriteSummary
        | Verb::ScanFlowChanges
        | Verb::DescribeSummary
        | Verb::ListFlows
        | Verb::ListExecutions
        | Verb::ListInEdges
        | Verb::ListOutEdges
        | Verb::DescribeEdge => summaries::call(given, verb)?,
        Verb::InsertEvents
        | Verb::ReadEvent
        | Verb::LockStreamHead
        | Verb::LockUnnumberedEvents
        | Verb::WritePositions
        | Verb::WriteStreamHead
        | Verb::InsertSubscription
        | Verb::LockSubscription
        | Verb::WriteSubscription
        | Verb::ReadFeed
        | Verb::ReadSubscription => feed::call(given, verb)?,
        Verb::CountEvents
        | Verb::DeleteAttempts
        | Verb::DeleteEdges
        | Verb::DeleteGroups
        | Verb::DeleteExecutions
        | Verb::DeleteRequests
        | Verb::DeleteSubmission
        | Verb::DeleteSummary
        | Verb::DeleteFlow
        | Verb::DeleteEvents
        | Verb::ScanEndedFlows => retention::call(given, verb)?,
    })
}

/// The event that a step names.
pub fn event_key(given: &Given<'_>) -> Built<EventKey> {
    given.event_key(given.name("key")?)
}

/// The names that a verb's arguments may have.
pub fn arguments(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Begin | Verb::Commit | Verb::Rollback | Verb::Clock | Verb::ReadClock => &[],
        Verb::InsertSubmission => &["key", "flow"],
        Verb::ReadSubmission | Verb::DescribeExecution => &["key"],
        Verb::InsertFlow => &["flow", "closing", "request"],
        Verb::ReadFlow
        | Verb::LockFlow
        | Verb::DescribeFlow
        | Verb::DescribeExecutions
        | Verb::DescribeGroups
        | Verb::DescribeEdges
        | Verb::CountEdges
        | Verb::ReadStandings => &["flow"],
        Verb::InsertExecutions => {
            &["rows", "flow", "state", "lane", "kind", "priority", "not_before", "deadline"]
        }
        Verb::InsertGroups => &["rows", "flow", "edges", "policy"],
        Verb::InsertEdges => &["rows", "accepts"],
        Verb::InsertFlowChanges
        | Verb::ReadClosings
        | Verb::InsertCancelBacklog
        | Verb::DeleteCancelBacklog => &["flows"],
        Verb::WriteJoins => &["rows", "policy", "edges"],
        Verb::WriteFlow => &["flow", "closing", "revision", "tag"],
        Verb::InsertRequest | Verb::WriteRequest => &["flow", "request", "reply"],
        Verb::ReadRequest => &["flow", "request"],
        Verb::ReadMembers => &["flow", "after", "limit"],
        Verb::ReadGrants => &["request"],
        Verb::ClaimExecutions => &["request", "lanes", "kinds", "limit", "now", "worker"],
        Verb::HoldExecutions
        | Verb::HoldGroups
        | Verb::LockExecutions
        | Verb::TakeExecutions
        | Verb::LockGroups
        | Verb::ReadGroups
        | Verb::PendingEdges
        | Verb::WithPendingEdges
        | Verb::ReadFedGroups
        | Verb::ReadEdges
        | Verb::ReadAncestry => &["keys"],
        Verb::ReadInputs => &["keys", "after", "limit", "bytes"],
        Verb::WriteExecutions => &["rows", "to", "guard", "result", "not_before", "propagated"],
        Verb::WriteProgress => &["row", "guard", "attempt", "sequence"],
        Verb::InsertAttempts => &["rows", "number", "end"],
        Verb::ReadAttempt => &["key", "number"],
        Verb::ResolveEdges => &["rows", "to"],
        Verb::MendExecutions | Verb::ResetEdges => &["rows"],
        Verb::WriteGroups => &["rows", "satisfied", "unsatisfied", "decision"],
        Verb::InsertSiblingRequests | Verb::DeleteSiblingRequests => &["rows", "flow"],
        Verb::ScanUpstreams => &["after", "limit", "by"],
        Verb::ScanStuckGroups | Verb::ScanCancelBacklog | Verb::ScanSiblingRequests => {
            &["after", "limit"]
        }
        Verb::ScanOverdue => &["after", "limit", "now"],
        Verb::PlanGroups => &["keys", "limit"],
        Verb::InsertSummary
        | Verb::LockSummaries
        | Verb::DeleteFlowChanges
        | Verb::CountExecutions
        | Verb::UnhandledFailure
        | Verb::WriteSummary
        | Verb::ScanFlowChanges
        | Verb::DescribeSummary
        | Verb::ListFlows
        | Verb::ListExecutions
        | Verb::ListInEdges
        | Verb::ListOutEdges
        | Verb::DescribeEdge => summaries::arguments(verb),
        Verb::InsertEvents
        | Verb::ReadEvent
        | Verb::LockStreamHead
        | Verb::LockUnnumberedEvents
        | Verb::WritePositions
        | Verb::WriteStreamHead
        | Verb::InsertSubscription
        | Verb::LockSubscription
        | Verb::WriteSubscription
        | Verb::ReadFeed
        | Verb::ReadSubscription => feed::arguments(verb),
        Verb::CountEvents
        | Verb::DeleteAttempts
        | Verb::DeleteEdges
        | Verb::DeleteGroups
        | Verb::DeleteExecutions
        | Verb::DeleteRequests
        | Verb::DeleteSubmission
        | Verb::DeleteSummary
        | Verb::DeleteFlow
        | Verb::DeleteEvents
        | Verb::ScanEndedFlows => retention::arguments(verb),
    }
}

impl Given<'_> {
    fn check_arguments(&self, verb: Verb) -> Built<()> {
        let known = arguments(verb);
        let wrong = self.words.given().find(|given| !known.contains(given));
        match wrong {
            None => Ok(()),
            Some(wrong) => Err(format!(
                "{} has no argument `{wrong}`; it has {}",
                verb.descriptor().name,
                known.join(" ")
            )),
        }
    }

    fn optional(&self, argument: &str) -> Built<Option<&str>> {
        match self.words.values(argument) {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => Err(format!("`{argument}` takes one value")),
        }
    }

    fn name(&self, argument: &str) -> Built<&str> {
        let one = self.optional(argument)?;
        named(one.ok_or_else(|| format!("`{argument}` is missing"))?)
    }

    fn list(&self, argument: &str) -> Built<&[String]> {
        let values = self.words.values(argument);
        if values.is_empty() {
            return Err(format!("`{argument}` is missing"));
        }
        for (at, value) in values.iter().enumerate() {
            if values[..at].contains(value) {
                return Err(format!("`{value}` stands twice in `{argument}`"));
            }
        }
        Ok(values)
    }

    fn optional_number<T: std::str::FromStr>(&self, argument: &str) -> Built<Option<T>> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no {argument}"));
        self.optional(argument)?.map(number).transpose()
    }

    fn number<T: std::str::FromStr>(&self, argument: &str, default: T) -> Built<T> {
        Ok(self.optional_number(argument)?.unwrap_or(default))
    }

    /// One of some words; the first unless it is given.
    fn choice<T: Copy>(&self, argument: &str, words: &[(&str, T)]) -> Built<T> {
        let Some(word) = self.optional(argument)? else { return Ok(words[0].1) };
        let found = words.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            format!("`{word}` is no {argument}; write {}", known.join(", "))
        })
    }

    fn rows<T>(&self, row: impl Fn(&str) -> Built<T>) -> Built<Vec<T>> {
        self.list("rows")?.iter().map(|name| row(name)).collect()
    }

    fn executions(&self, argument: &str) -> Built<Vec<sluicegate::identity::ExecutionId>> {
        let names = self.list(argument)?.iter();
        names.map(|name| Ok(self.names.execution(named(name)?))).collect()
    }

    fn one_execution(&self, argument: &str) -> Built<sluicegate::identity::ExecutionId> {
        Ok(self.names.execution(self.name(argument)?))
    }

    fn flow(&self) -> Built<sluicegate::identity::FlowKey> {
        Ok(self.names.flow(named(self.optional("flow")?.unwrap_or("f"))?))
    }

    fn flows(&self) -> Built<Vec<sluicegate::identity::FlowKey>> {
        self.list("flows")?.iter().map(|name| Ok(self.names.flow(named(name)?))).collect()
    }

    fn upstream_scan(&self) -> Built<UpstreamScan> {
        let finished_by = self.optional_number("by")?.map(Timestamp);
        Ok(UpstreamScan { page: self.page()?, finished_by })
    }

    fn overdue_scan(&self) -> Built<OverdueScan> {
        Ok(OverdueScan { page: self.page()?, now: self.now()? })
    }

    fn plan(&self) -> Built<PlanQuery> {
        Ok(PlanQuery { upstreams: self.executions("keys")?, limit: self.number("limit", 100)? })
    }

    fn now(&self) -> Built<Timestamp> {
        Ok(Timestamp(self.number("now", NOW.0)?))
    }

    fn edge_key(&self, text: &str) -> Built<EdgeKey> {
        let ends = text.split_once('>').ok_or_else(|| format!("`{text}` is no `from>to`"))?;
        let (upstream, downstream) = (named(ends.0)?, named(ends.1)?);
        if upstream == downstream {
            return Err(format!("`{text}` leads back to where it starts"));
        }
        Ok(EdgeKey {
            downstream: self.names.execution(downstream),
            upstream: self.names.execution(upstream),
        })
    }

    fn page(&self) -> Built<Page> {
        let partition = self.names.partition.0;
        let after = self.optional("after")?.map(named).transpose()?;
        Ok(Page {
            scope: Scope {
                partitions: partition..partition + 1,
                namespace: None,
                instance_tag: None,
            },
            after: after.map(|name| self.names.execution(name)),
            limit: self.number("limit", 100)?,
        })
    }
}

/// Rows to insert.
impl Given<'_> {
    fn submission(&self) -> Built<Submission> {
        Ok(Submission {
            key: self.names.key(self.name("key")?),
            flow: self.flow()?,
            content_hash: [7; 32],
            request: self.names.request("submit"),
        })
    }

    fn member(&self, name: &str) -> Built<NewExecution> {
        let state = self.choice("state", &STATES)?;
        if state == State::Active {
            return Err("a row becomes active by a claim only".to_owned());
        }
        let ended = state.is_terminal();
        let text = |argument: &str, default: &'static str| -> Built<Arc<str>> {
            Ok(self.optional(argument)?.unwrap_or(default).into())
        };
        Ok(NewExecution {
            execution: Execution {
                id: self.names.execution(named(name)?),
                flow: self.flow()?.id,
                state,
                cause: ended.then_some(Cause::Handler),
                incarnation: 0,
                propagated: false,
                has_in: state == State::Blocked,
                has_inputs: state == State::Blocked,
                has_out: false,
                not_before: Timestamp(self.number("not_before", 0)?),
                deadline: self.optional_number("deadline")?.map(Timestamp),
                attempt: 0,
                charged: 0,
                give_backs: 0,
                resumed: None,
                progress: None,
                epoch: 0,
                lease: None,
                finished_at: ended.then_some(NOW),
                retry: RetryPolicy { attempt_timeout_ms: Some(1_000), ..RetryPolicy::default() },
            },
            definition: Definition {
                name: name.into(),
                kind: text("kind", "build")?,
                lane: text("lane", "default")?,
                priority: self.number("priority", 0)?,
                namespace: self.names.namespace(),
                instance_tag: None,
                payload: Arc::from(name.as_bytes()),
            },
        })
    }

    fn new_group(&self, name: &str) -> Built<Group> {
        let on_satisfied = OnSatisfied::LetRun;
        let policies = [
            ("all_of", JoinPolicy::AllOf),
            ("any_of", JoinPolicy::AnyOf { on_satisfied }),
            ("quorum", JoinPolicy::Quorum { k: 2, on_satisfied }),
        ];
        Ok(Group {
            downstream: self.names.execution(named(name)?),
            flow: self.flow()?.id,
            policy: self.choice("policy", &policies)?,
            edges: self.number("edges", 2)?,
            satisfied: 0,
            unsatisfied: 0,
            decision: Decision::Undecided,
        })
    }

    fn new_edge(&self, text: &str) -> Built<Edge> {
        let accepts = [
            ("success", AcceptSet::ON_SUCCESS),
            ("failure", AcceptSet::ON_FAILURE),
            ("done", AcceptSet::ON_DONE),
        ];
        Ok(Edge {
            key: self.edge_key(text)?,
            accepts: self.choice("accepts", &accepts)?,
            resolution: Resolution::Pending,
            upstream_incarnation: None,
            input: None,
            passes_as: Some("input".into()),
        })
    }

    fn attempt_key_of(&self, name: &str) -> Built<AttemptKey> {
        Ok(AttemptKey {
            execution: self.names.execution(named(name)?),
            incarnation: self.number("incarnation", 0)?,
            attempt: self.number("number", 1)?,
        })
    }
}

/// Locks and writes.
impl Given<'_> {
    /// The row as the transaction has locked it; a made-up one where nothing ever is.
    fn locked(&self, name: &str) -> Built<Execution> {
        let id = self.names.execution(named(name)?);
        if name.starts_with(NOWHERE) {
            return Ok(self.member(name)?.execution);
        }
        let seen = self.seen.execution(id).copied();
        seen.ok_or_else(|| format!("the session has not locked execution `{name}`"))
    }

    fn write(&self, name: &str) -> Built<ExecutionWrite> {
        let before = self.locked(name)?;
        let state = self.choice("to", &STATES)?;
        let mut guard = before.guard();
        if self.choice("guard", &[("current", false), ("stale", true)])? {
            guard.epoch += STALE;
        }
        let result = match self.optional("result")? {
            None => ResultChange::Keep,
            Some("set") => ResultChange::Set(Arc::from(name.as_bytes())),
            Some("clear") => ResultChange::Clear,
            Some(other) => return Err(format!("`{other}` is no result; write set or clear")),
        };
        let lease = before.lease.filter(|_| state == State::Active);
        if state == State::Active && lease.is_none() {
            return Err(format!("`{name}` has no lease to keep"));
        }
        let ended = state.is_terminal();
        let propagated = self.choice("propagated", &[("no", false), ("yes", true)])?;
        let after = Execution {
            state,
            cause: ended.then_some(Cause::Handler),
            propagated: ended && propagated,
            not_before: Timestamp(self.number("not_before", before.not_before.0)?),
            resumed: super::suspensions::resumed(&before, state),
            epoch: before.epoch + 1,
            lease,
            finished_at: ended.then_some(NOW),
            ..before
        };
        Ok(ExecutionWrite { guard, after, result })
    }

    fn locked_group(&self, name: &str) -> Built<Group> {
        if name.starts_with(NOWHERE) {
            return self.new_group(name);
        }
        let seen = self.seen.group(self.names.execution(named(name)?)).copied();
        seen.ok_or_else(|| format!("the session has not locked group `{name}`"))
    }

    fn group(&self, name: &str) -> Built<Group> {
        let before = self.locked_group(name)?;
        let decisions = [
            ("undecided", Decision::Undecided),
            ("satisfied", Decision::Satisfied),
            ("impossible", Decision::Impossible),
        ];
        let group = Group {
            satisfied: self.number("satisfied", before.satisfied)?,
            unsatisfied: self.number("unsatisfied", before.unsatisfied)?,
            decision: self.choice("decision", &decisions)?,
            ..before
        };
        match group.satisfied + group.unsatisfied <= group.edges {
            true => Ok(group),
            false => Err(format!("`{name}` has no more than {} edges", group.edges)),
        }
    }
}

const OUTCOMES: [(&str, Outcome); 5] = [
    ("succeeded", Outcome::Succeeded),
    ("failed", Outcome::Failed),
    ("cancelled", Outcome::Cancelled),
    ("expired", Outcome::Expired),
    ("skipped", Outcome::Skipped),
];

const STATES: [(&str, State); 9] = [
    ("ready", State::Ready),
    ("blocked", State::Blocked),
    ("active", State::Active),
    ("suspended", State::Suspended),
    ("succeeded", State::Terminal(Outcome::Succeeded)),
    ("failed", State::Terminal(Outcome::Failed)),
    ("cancelled", State::Terminal(Outcome::Cancelled)),
    ("expired", State::Terminal(Outcome::Expired)),
    ("skipped", State::Terminal(Outcome::Skipped)),
];

fn named(word: &str) -> Built<&str> {
    match is_name(word) {
        true => Ok(word),
        false => Err(format!("`{word}` is no name: at most 8 lower-case letters and digits")),
    }
}
