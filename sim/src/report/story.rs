//! One universe as a story: its flow, who did what when, the faults, and what is wrong at the end.
//! The same bytes for the same universe; never shows wall time or an id that has a name.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sluicegate::flow::{Additions, EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy, OnSatisfied};
use sluicegate::replay::ReplayScope;
use sluicegate::retry::RetryPolicy;
use sluicegate::state::Outcome;
use sluicegate::storage::{Verb, Wanted};

use crate::driver::trace::{Entry, What};
use crate::faults::FaultKind;
use crate::history::Observation;
use crate::plan::Backend;
use crate::replay::{Recorded, Verdict};
use crate::report::names::{Names, seconds};
use crate::report::rows::brief;
use crate::report::text::invariant;
use crate::report::{Paint, reproduction};

mod commit;

/// Executions that a story draws and lists; the rest is counted.
const EXECUTIONS_SHOWN: usize = 60;
/// Executions whose end a story explains; the rest is counted.
const STUCK_SHOWN: usize = 20;
/// Columns of the time and the actor.
const MARGIN: usize = 32;

/// How much of what happened is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// What changed something, what went wrong, and what actors were told.
    Changes,
    /// Every statement and every turn as well.
    Statements,
}

/// What a story says besides what happened.
pub struct Frame<'a> {
    /// Which universe it is.
    pub title: &'a str,
    /// The line that repeats the command.
    pub command: &'a str,
    /// What the replay says of the failure file that it was made from.
    pub verdict: Option<&'a Verdict>,
    /// How much is told.
    pub detail: Detail,
}

/// Tells a universe.
pub fn tell(recorded: &Recorded, frame: &Frame<'_>, paint: Paint) -> String {
    let names = Names::of(&recorded.plan.whole(), &recorded.entries);
    let mut story = Story {
        out: String::new(),
        recorded,
        names,
        paint,
        last: BTreeMap::new(),
        committed: None,
    };
    story.out.push_str(&reproduction(frame.command));
    story.header(frame.title);
    story.timeline(frame.detail);
    story.ending(frame.verdict);
    story.out.push_str(&reproduction(frame.command));
    story.out
}

/// Tells some of what happened in a universe, statement by statement.
pub fn moments(recorded: &Recorded, entries: std::ops::Range<usize>) -> String {
    let mut story = Story {
        out: String::new(),
        recorded,
        names: Names::of(&recorded.plan.whole(), &recorded.entries),
        paint: Paint::Off,
        last: BTreeMap::new(),
        committed: None,
    };
    for entry in &recorded.entries[entries] {
        story.happened(entry, Detail::Statements);
    }
    story.out
}

struct Story<'a> {
    out: String,
    recorded: &'a Recorded,
    names: Names,
    paint: Paint,
    /// The last statement of each actor in its present turn.
    last: BTreeMap<u8, Verb>,
    /// When and by whom the last commit was made.
    committed: Option<(i64, u8)>,
}

impl Story<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn header(&mut self, title: &str) {
        let plan = &self.recorded.plan;
        let (lane, engine) = (plan.lane.name(), plan.engine.name());
        let mutant = plan.mutant.as_ref().map_or_else(String::new, |id| format!(", mutant {id}"));
        let behind = match plan.behind {
            Some(Backend::Sqlite) => " with SQLite behind its server",
            Some(Backend::Simulated) | None => "",
        };
        let heading = format!("{title}: lane {lane}{behind}, engine {engine}{mutant}");
        self.line(&self.paint.strong(&heading));
        let flow = draw(&plan.flow);
        self.out.push_str(&flow);
        for (nth, extension) in plan.extensions.iter().enumerate() {
            self.line(&format!("  extension {}: {}", nth + 1, added(extension)));
        }
        let cast = plan.cast;
        self.line(&format!(
            "actors: {} clients, {} workers, {} dispatchers, {} reconcilers, {} projectors, \
             {} sequencers, {} subscribers, {} resumers",
            cast.clients,
            cast.workers,
            cast.dispatchers,
            cast.reconcilers,
            cast.projectors,
            cast.sequencers,
            cast.subscribers,
            cast.resumers
        ));
        let kinds: Vec<&str> = plan.faults.iter().map(|kind| kind.name()).collect();
        self.line(&match plan.faults_max {
            0 => "faults: none".to_owned(),
            _ if kinds.is_empty() => "faults: none".to_owned(),
            most => format!("faults: at most {most}, of {}", kinds.join(", ")),
        });
        if plan.heal_after > 0 {
            self.line(&format!(
                "faults stop and every actor restarts after {} steps",
                plan.heal_after
            ));
        }
        self.out.push('\n');
    }

    fn timeline(&mut self, detail: Detail) {
        let recorded = self.recorded;
        let mut parts = 0;
        for entry in &recorded.entries {
            if let What::Healed(part) = entry.what {
                parts += 1;
                let back = if parts > 1 { "back to where faults stopped: " } else { "" };
                let text = format!("-- faults have stopped; {back}{part} --");
                self.say(entry, None, &self.paint.strong(&text));
                continue;
            }
            self.happened(entry, detail);
        }
        self.out.push('\n');
    }

    fn happened(&mut self, entry: &Entry, detail: Detail) {
        let all = detail == Detail::Statements;
        match &entry.what {
            What::Began => {
                self.last.remove(&entry.actor);
                if all {
                    self.act(entry, &self.paint.faint("begins a turn"));
                }
            }
            What::Ended(true) if all => self.act(entry, &self.paint.faint("ends its turn")),
            What::Ended(true) | What::Healed(_) => {}
            What::Ended(false) => self.act(entry, "gives its turn up, to try again"),
            What::Statement(verb, well) => {
                self.last.insert(entry.actor, *verb);
                let name = verb.descriptor().name;
                match well {
                    true if all => self.act(entry, &self.paint.faint(name)),
                    true => {}
                    false => self.act(entry, &format!("`{name}` fails")),
                }
            }
            What::Waits(verb) => {
                let name = verb.descriptor().name;
                let held = match verb {
                    Verb::Begin => "the only writer of the file",
                    _ => "a row lock",
                };
                self.act(entry, &format!("waits for {held} in `{name}`"));
            }
            What::Fault(kind) => self.fault(entry, *kind),
            What::Committed(commit) => {
                self.committed = Some((entry.at_us, entry.actor));
                let lines = commit::lines(commit, &self.names);
                for (at, line) in lines.iter().enumerate() {
                    match at {
                        0 => self.act(entry, line),
                        _ => self.line(&format!("{:MARGIN$}{line}", "")),
                    }
                }
                if lines.is_empty() && all {
                    self.act(entry, &self.paint.faint("commits what nobody reads"));
                }
            }
            // A commit that was just told says the same.
            What::Told(_) if !all && self.committed == Some((entry.at_us, entry.actor)) => {}
            What::Told(observation) => {
                let told = self.told(observation);
                self.act(entry, &told);
            }
            What::Storage(what) => {
                let actor = self.actor(entry);
                self.say(entry, None, &format!("the storage {what}: {actor}"));
            }
        }
    }

    fn fault(&mut self, entry: &Entry, kind: FaultKind) {
        let after = match (kind, self.last.get(&entry.actor)) {
            (FaultKind::NoticeLost | FaultKind::NoticeDuplicated | FaultKind::NoticeLate, _)
            | (_, None) => String::new(),
            (_, Some(verb)) => format!("; its last statement: `{}`", verb.descriptor().name),
        };
        let text = format!("FAULT {}: {}{after}", kind.name(), kind.what());
        self.act(entry, &self.paint.alarm(&text));
    }

    fn told(&self, observation: &Observation) -> String {
        let name = |holder: &crate::history::Holder| {
            format!("{} (attempt {})", self.names.execution(holder.execution), holder.attempt)
        };
        match observation {
            Observation::Submitted { flow, created: true, .. } => {
                format!("is told that it created {}", self.names.flow(*flow))
            }
            Observation::Submitted { flow, .. } => {
                format!("is told that {} exists", self.names.flow(*flow))
            }
            Observation::FlowCancelled { policy, cancelled, done, .. } => {
                let progress = if *done { "done" } else { "in progress" };
                let count = cancelled.len();
                format!("is told that {} cancelled {count} members, {progress}", policy.name())
            }
            Observation::FlowTagged { flow, .. } => {
                format!("is told that {} has its tag", self.names.flow(*flow))
            }
            Observation::ExecutionCancelled { execution, ended: None } => {
                format!("is told that it cancelled {}", self.names.execution(*execution))
            }
            Observation::ExecutionCancelled { execution, ended: Some(outcome) } => {
                let name = self.names.execution(*execution);
                format!("is told that {name} had ended as {}", outcome.name())
            }
            Observation::Resumed { execution, epoch, reported } => {
                let name = self.names.execution(*execution);
                let told = match reported {
                    Some(reported) => commit::resumed(*reported),
                    None => "refused".to_owned(),
                };
                format!("is told of the resume of {name} at epoch {epoch}: {told}")
            }
            Observation::ReplayAsked { scope, .. } => match scope {
                ReplayScope::From(first) => {
                    format!("calls for a replay from {}", self.names.execution(*first))
                }
                ReplayScope::All => "calls for a replay of everything".to_owned(),
                ReplayScope::Failed => "calls for a replay of what failed".to_owned(),
            },
            Observation::GivenUp { execution, ended } => {
                let name = self.names.execution(*execution);
                match ended {
                    None => format!("is told that {name} was given up"),
                    Some(outcome) => format!("is told that {name} had ended: {}", outcome.name()),
                }
            }
            Observation::Replayed { members, .. } => {
                format!("is told that {} executions start again", members.len())
            }
            Observation::Expired { oldest, .. } => {
                format!("is told that events are gone up to place {}", oldest.0)
            }
            Observation::Subscribed { namespace, wanted, .. } => {
                let wanted = match wanted {
                    Wanted::Completions => "",
                    Wanted::Leases => " of leases",
                    Wanted::Everything => " of everything",
                };
                match namespace {
                    None => format!("opens its consumer{wanted}"),
                    Some(namespace) => {
                        format!("opens its consumer{wanted} in namespace `{namespace}`")
                    }
                }
            }
            Observation::Delivered { position, execution, kind, .. } => {
                let name = self.names.execution(*execution);
                format!("is handed event {}: {name} {}", position.0, commit::happened(*kind))
            }
            Observation::Extended { flow, revision, .. } => {
                let flow = self.names.flow(*flow);
                format!("is told that it extended {flow} to revision {revision}")
            }
            Observation::Passed { holder, inputs } => {
                format!("is passed {} inputs of {}", inputs.len(), name(holder))
            }
            Observation::Granted { holder } => format!("is given {}", name(holder)),
            Observation::TooLarge { executions } => too_large(*executions),
            Observation::Garbled { holder, payload } => garbled(payload, &name(holder)),
            Observation::Reported { holder, end, reported } => {
                format!("is told of {}: {}", name(holder), commit::ended(*end, *reported))
            }
            Observation::Progressed { holder, sequence } => {
                format!("is told that step {sequence} is noted: {}", name(holder))
            }
            Observation::ReportContended { holder, .. } => {
                format!("is told of contention: {}", name(holder))
            }
            Observation::LeaseLost { holder, .. } => {
                format!("is told that its lease is lost: {}", name(holder))
            }
            Observation::LetGoOn { ended } => {
                format!("sees that the clock has stepped forward, and ends {ended} leases")
            }
            Observation::ListedFlows { flows, .. } => format!("is shown {} flows", flows.len()),
            Observation::ListedExecutions { executions, .. } => {
                format!("is shown {} executions", executions.len())
            }
        }
    }

    fn ending(&mut self, verdict: Option<&Verdict>) {
        let recorded = self.recorded;
        if !recorded.stuck.is_empty() {
            self.line(&self.paint.strong("not ended:"));
            for (name, why) in recorded.stuck.iter().take(STUCK_SHOWN) {
                let text = format!("  {name}: {}", self.names.text(why));
                self.line(&text);
            }
            more(&mut self.out, recorded.stuck.len(), STUCK_SHOWN);
        }
        match &recorded.sighting {
            None => self.line("every invariant holds, and the flow drained"),
            Some(seen) => {
                let title = invariant(&seen.invariant);
                self.line(&self.paint.alarm(&format!("violated: {title}")));
                let message = brief(&self.names.text(&seen.message));
                self.line(&format!("  {message}"));
            }
        }
        if let Some(bounds) = &recorded.bounds {
            self.line(&format!("bounds: {bounds}"));
        }
        self.line(&format!("trace: {:016x}", recorded.trace_hash));
        if let Some(verdict) = verdict {
            self.line(&self.paint.strong(&format!("verdict: {}", verdict.text())));
        }
    }

    fn actor(&self, entry: &Entry) -> String {
        let name = self.recorded.actors.get(usize::from(entry.actor));
        name.cloned().unwrap_or_else(|| format!("actor {}", entry.actor))
    }

    fn act(&mut self, entry: &Entry, text: &str) {
        let actor = self.actor(entry);
        self.say(entry, Some(&actor), text);
    }

    fn say(&mut self, entry: &Entry, actor: Option<&str>, text: &str) {
        let (whole, part) = (entry.at_us / 1_000_000, entry.at_us % 1_000_000);
        let actor = actor.unwrap_or_default();
        writeln!(self.out, "{whole:>8}.{part:06} s  {actor:<12} {text}")
            .expect("a string takes any text");
    }
}

/// The flow, an execution a line with what it waits for.
fn draw(flow: &FlowSpec) -> String {
    let mut out = String::new();
    let (executions, edges) = (flow.executions.len(), flow.edges.len());
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(&format!("flow: {executions} executions, {edges} edges"));
    let shown = flow.executions.iter().take(EXECUTIONS_SHOWN);
    let width = shown.clone().map(|one| one.name.chars().count()).max().unwrap_or(0);
    for execution in shown {
        let inbound: Vec<&EdgeSpec> =
            flow.edges.iter().filter(|edge| edge.to == execution.name).collect();
        let policy = flow.groups.get(&execution.name).copied().unwrap_or_default();
        let join = join(policy, &inbound);
        let text = format!("  {:<width$}  {join}{}", execution.name, limits(execution));
        line(text.trim_end());
    }
    more(&mut out, executions, EXECUTIONS_SHOWN);
    out
}

/// What an extension adds, in one line.
fn added(extension: &Additions) -> String {
    let executions = extension.executions.iter().map(|one| one.name.clone());
    let edges = extension.edges.iter().map(|edge| format!("{} -> {}", edge.from, edge.to));
    let joins = extension.groups.iter().map(|(name, policy)| format!("{name} by {policy:?}"));
    executions.chain(edges).chain(joins).collect::<Vec<_>>().join(", ")
}

fn more(out: &mut String, count: usize, shown: usize) {
    if count > shown {
        writeln!(out, "  and {} more", count - shown).expect("a string takes any text");
    }
}

fn join(policy: JoinPolicy, inbound: &[&EdgeSpec]) -> String {
    if inbound.is_empty() {
        return "starts at once".to_owned();
    }
    let edges: Vec<String> = inbound.iter().map(|edge| upstream(edge)).collect();
    let (need, on_satisfied) = match policy {
        JoinPolicy::AllOf => ("all".to_owned(), None),
        JoinPolicy::AnyOf { on_satisfied } => ("any".to_owned(), Some(on_satisfied)),
        JoinPolicy::Quorum { k, on_satisfied } => (k.to_string(), Some(on_satisfied)),
    };
    let rest = match on_satisfied {
        None => "",
        Some(OnSatisfied::CancelRemaining) => ", cancels the rest",
        Some(OnSatisfied::LetRun) => ", lets the rest run",
    };
    format!("<- {need} of {}{rest}", edges.join(", "))
}

/// An upstream, with the outcomes that it must end in unless that is success.
fn upstream(edge: &EdgeSpec) -> String {
    if edge.accepts == AcceptSet::ON_SUCCESS {
        return edge.from.clone();
    }
    let preset = AcceptSet::PRESETS.iter().find(|preset| preset.1 == edge.accepts);
    let accepts = match preset {
        Some((name, _)) => (*name).to_owned(),
        None => edge.accepts.outcomes().map(Outcome::name).collect::<Vec<_>>().join("|"),
    };
    format!("{} [{accepts}]", edge.from)
}

fn limits(execution: &ExecutionSpec) -> String {
    let RetryPolicy { max_attempts, attempt_timeout_ms, .. } = execution.retry;
    let mut limits = vec![match max_attempts {
        1 => "1 attempt".to_owned(),
        more => format!("{more} attempts"),
    }];
    let ms = |ms: u64| seconds(i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX));
    if let Some(limit) = attempt_timeout_ms {
        limits.push(format!("each at most {}", ms(u64::from(limit))));
    }
    if let Some(deadline) = execution.deadline_ms {
        limits.push(format!("deadline {}", ms(deadline)));
    }
    if let Some(delay) = execution.delay_ms {
        limits.push(format!("waits {} before its first claim", ms(delay)));
    }
    format!("  ({})", limits.join(", "))
}

/// A decision in words.
fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::Undecided => "undecided",
        Decision::Satisfied => "satisfied",
        Decision::Impossible => "impossible",
    }
}

fn too_large(executions: usize) -> String {
    format!("is told that a flow of {executions} executions is too large")
}

fn garbled(payload: &[u8], holder: &str) -> String {
    format!("is handed `{}` with {holder}", String::from_utf8_lossy(payload))
}

#[cfg(test)]
mod tests;
