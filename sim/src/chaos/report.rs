//! What a run came to, for people and for programs. Never decides what is good or bad beyond the
//! exit code that a violation or a fault that never struck stands for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::reconcile::Reconciler;
use sluicegate::storage::{AttemptEnd, Verb, codes};

use super::Request;
use super::faults::{self, Field, Kind};
use super::ledger::{self, Book, Entry};
use super::round::Outcome;
use crate::exit::Exit;
use crate::report::commit;
use crate::report::json::Head;

/// Said at the start of every run and in every report.
pub(super) const NOT_REPLAYABLE: &str =
    "the seed decides the plan, real processes decide the interleaving: not replayable\n";
/// What a run is vacuous without, by the words of what was acknowledged.
static ACTS: &[&str] = &[
    "submits",
    "flow_cancels",
    "execution_cancels",
    "extensions",
    "policies",
    "tags",
    "replays",
    "given_up",
    "grants",
    "inputs",
    "completes",
    "fails",
    "releases",
    "snoozes",
    "skips",
    "suspends",
    "resumes",
    "progress",
    "turnovers",
    "events",
    "acknowledgements",
    RETIRED,
    EXPIRED,
];
/// The word for flows that were taken away: those of earlier rounds, so that a single round owes
/// none.
const RETIRED: &str = "retired_flows";
/// The word for cursors in front of events that were taken away.
const EXPIRED: &str = "expired_cursors";
/// Characters of a message that a summary shows.
const MESSAGE_MAX: usize = 600;

/// A fault and how often it struck.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    id: &'static str,
    title: &'static str,
    count: u64,
    unavailable: Option<String>,
}

/// What the ticks of a reconciler came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Ticked {
    count: u64,
    /// Those that left nothing behind because it failed.
    whole: u64,
    longest: Duration,
    /// The longest that began after faults had stopped.
    longest_healed: Duration,
}

impl Ticked {
    fn of(reconciler: Reconciler, outcome: &Outcome) -> Self {
        let mut ticked = Self::default();
        for tick in outcome.ticks.iter().filter(|tick| tick.is_of(reconciler)) {
            ticked.count += u64::from(tick.has_ended());
            ticked.whole += u64::from(tick.is_whole());
            ticked.longest = ticked.longest.max(tick.lasted());
            if outcome.healed_at.is_some_and(|healed_at| tick.began_at >= healed_at) {
                ticked.longest_healed = ticked.longest_healed.max(tick.lasted());
            }
        }
        ticked
    }
}

impl std::ops::AddAssign for Ticked {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.whole += other.whole;
        self.longest = self.longest.max(other.longest);
        self.longest_healed = self.longest_healed.max(other.longest_healed);
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(super) struct Report {
    request: Request,
    rows: Vec<Row>,
    rounds: Vec<(u32, Outcome)>,
    answers: BTreeMap<String, u64>,
    told: BTreeMap<&'static str, u64>,
    ticks: BTreeMap<Reconciler, Ticked>,
    /// The names of the verbs that a process has sent.
    verbs: BTreeSet<String>,
    wall: Duration,
}

/// One line about a finished round.
pub(super) fn line(round: u32, outcome: &Outcome) -> String {
    let Outcome { flows, executions, attempts, retired, bound, path, .. } = outcome;
    let drained = match outcome.drained_after {
        Some(after) => format!("drained {:.1} s after the last fault", after.as_secs_f64()),
        None => "not drained".to_owned(),
    };
    format!(
        " round {round}: {flows} flows, {executions} executions, {attempts} attempts, {retired} \
         flows retired, {drained} (bound {} s over {path} executions), {} violations",
        bound.as_secs(),
        outcome.violations.len()
    )
}

impl Report {
    pub(super) fn new(request: &Request, field: &Field) -> Self {
        let row = |fault: &faults::Fault| Row {
            id: fault.id,
            title: fault.title,
            count: 0,
            unavailable: (fault.unavailable)(field),
        };
        Self {
            request: request.clone(),
            rows: faults::table(request.lane).iter().map(row).collect(),
            rounds: Vec::new(),
            answers: BTreeMap::new(),
            told: BTreeMap::new(),
            ticks: BTreeMap::new(),
            verbs: BTreeSet::new(),
            wall: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, round: u32, outcome: Outcome) {
        for row in &mut self.rows {
            row.count += outcome.strikes.get(row.id).copied().unwrap_or(0);
        }
        if outcome.retired > 0 {
            *self.told.entry(RETIRED).or_default() += outcome.retired as u64;
        }
        if outcome.expired {
            *self.told.entry(EXPIRED).or_default() += 1;
        }
        for one in Reconciler::ALL {
            *self.ticks.entry(*one).or_default() += Ticked::of(*one, &outcome);
        }
        self.rounds.push((round, outcome));
    }

    pub(super) fn finish(&mut self, books: &[Book], wall: Duration) {
        self.wall = wall;
        self.answers = ledger::answers(books);
        for entry in books.iter().flat_map(|book| &book.entries) {
            if let Entry::Called { verb } = entry {
                self.verbs.insert(verb.clone());
            }
            if let Some(word) = word(entry) {
                *self.told.entry(word).or_default() += 1;
            }
        }
        for fault in faults::table(self.request.lane) {
            if let Kind::Ambient(count) = fault.kind
                && let Some(row) = self.rows.iter_mut().find(|row| row.id == fault.id)
            {
                row.count = count(books);
            }
        }
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.rounds.iter().map(|(_, outcome)| outcome)
    }

    fn sum(&self, of: impl Fn(&Outcome) -> usize) -> usize {
        self.outcomes().map(of).sum()
    }

    /// Faults that could have struck and never did.
    fn missing(&self) -> Vec<&'static str> {
        let missing = self.rows.iter().filter(|row| row.unavailable.is_none() && row.count == 0);
        missing.map(|row| row.id).collect()
    }

    /// What could have been asked of the engine and was never acknowledged.
    fn undone(&self) -> Vec<&'static str> {
        let owed = |word: &&str| ![RETIRED, EXPIRED].contains(word) || self.rounds.len() > 1;
        let undone = |word: &&str| owed(word) && !self.told.contains_key(word);
        ACTS.iter().copied().filter(undone).collect()
    }

    /// Reconcilers of which no tick could be held to what it left.
    fn idle(&self) -> impl Iterator<Item = &'static str> {
        let idle = self.ticks.iter().filter(|(_, ticked)| ticked.whole == 0);
        idle.map(|(reconciler, _)| reconciler.name())
    }

    /// Verbs that no process has sent.
    fn unsent(&self) -> impl Iterator<Item = &'static str> {
        let names = Verb::ALL.iter().map(|verb| verb.descriptor().name);
        names.filter(|name| !self.verbs.contains(*name))
    }

    /// What the run stands for; a run that a violation ended early owes no faults.
    pub(super) fn exits(&self) -> Vec<Exit> {
        let violations = self.outcomes().flat_map(|outcome| &outcome.violations);
        let mut exits: Vec<Exit> = violations
            .map(|violation| match violation.invariant {
                "I8" => Exit::Liveness,
                _ => Exit::Safety,
            })
            .collect();
        let missing = self.missing().into_iter().chain(self.undone()).chain(self.idle());
        let vacuous = missing.count() > 0;
        if exits.is_empty() && vacuous {
            exits.push(Exit::Vacuous);
        }
        exits
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let mut say = |line: String| writeln!(out, "{line}").expect("a string takes every text");
        for row in &self.rows {
            match &row.unavailable {
                Some(why) => say(format!("  {:<12} not available: {why}", row.id)),
                None => say(format!("  {:<12} {:>6}  {}", row.id, row.count, row.title)),
            }
        }
        let counts = |map: Vec<(&str, u64)>| {
            let parts: Vec<String> = map.iter().map(|(word, n)| format!("{n} {word}")).collect();
            parts.join(", ")
        };
        let answers = self.answers.iter().map(|(word, n)| (word.as_str(), *n)).collect();
        say(format!("the storage answered engines: {}", counts(answers)));
        let told = self.told.iter().map(|(word, n)| (*word, *n)).collect();
        say(format!("acknowledged and found again: {}", counts(told)));
        for (reconciler, ticked) in &self.ticks {
            let Ticked { count, whole, longest, longest_healed } = ticked;
            let (name, longest) = (reconciler.name(), longest.as_millis());
            let healed = longest_healed.as_millis();
            say(format!(
                "  {name:<14} {count:>6} ticks, {whole} of them whole, the longest {longest} ms, \
                 after faults {healed} ms"
            ));
        }
        let unsent: Vec<&str> = self.unsent().collect();
        let (sent, all) = (Verb::ALL.len() - unsent.len(), Verb::ALL.len());
        let never = if unsent.is_empty() { "none".to_owned() } else { unsent.join(", ") };
        say(format!("verbs: {sent} of {all} sent, never sent: {never}"));
        for miss in self.outcomes().flat_map(|outcome| &outcome.misses) {
            say(format!("note: {miss}"));
        }
        let mut violations = 0;
        for (round, outcome) in &self.rounds {
            for violation in &outcome.violations {
                violations += 1;
                let message = &violation.finding.message;
                let message = crate::report::first_line(message, MESSAGE_MAX);
                let seed = self.request.seed;
                let (id, title) = (violation.invariant, violation.title);
                say(format!("seed {seed}, round {round}: {id} ({title}): {message}"));
            }
            if let Some(file) = &outcome.file {
                say(format!("rows: {}", file.display()));
            }
        }
        for id in self.missing() {
            say(format!("vacuous: {id} never struck"));
        }
        for word in self.undone() {
            say(format!("vacuous: 0 {word}"));
        }
        for name in self.idle() {
            say(format!("vacuous: 0 whole ticks of {name}"));
        }
        say(format!(
            "{}: {} rounds, {} flows, {} executions, {} edges, {violations} violations in {:.0} s",
            self.request.lane.name(),
            self.rounds.len(),
            self.sum(|outcome| outcome.flows),
            self.sum(|outcome| outcome.executions),
            self.sum(|outcome| outcome.edges),
            self.wall.as_secs_f64()
        ));
        out + NOT_REPLAYABLE
    }

    fn ticks_json(&self) -> BTreeMap<&'static str, Value> {
        let ticks = self.ticks.iter().map(|(reconciler, ticked)| {
            let figures = json!({
                "count": ticked.count,
                "whole": ticked.whole,
                "longest_ms": u64::try_from(ticked.longest.as_millis()).unwrap_or(u64::MAX),
                "longest_after_faults_ms":
                    u64::try_from(ticked.longest_healed.as_millis()).unwrap_or(u64::MAX),
            });
            (reconciler.name(), figures)
        });
        ticks.collect()
    }

    pub(super) fn to_json(&self, command: &str) -> Value {
        let head = Head {
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            command: command.to_owned(),
            lane: self.request.lane.name(),
            profile: "chaos",
        };
        let mut report = serde_json::to_value(&head).expect("a head is plain data");
        let available = self.rows.iter().filter(|row| row.unavailable.is_none());
        let faults: BTreeMap<&str, u64> = available.map(|row| (row.id, row.count)).collect();
        let unavailable: BTreeMap<&str, &String> =
            self.rows.iter().filter_map(|row| Some((row.id, row.unavailable.as_ref()?))).collect();
        let violations = self.rounds.iter().flat_map(|(round, outcome)| {
            outcome.violations.iter().map(move |violation| {
                json!({
                    "round": round,
                    "invariant": violation.invariant,
                    "message": violation.finding.message,
                    "file": outcome.file,
                })
            })
        });
        let drained = self.outcomes().filter_map(|outcome| outcome.drained_after).max();
        let bound = self.outcomes().map(|outcome| outcome.bound).max();
        let figures = json!({
            "seed": self.request.seed,
            "replayable": false,
            "rounds": self.rounds.len(),
            "flows": self.sum(|outcome| outcome.flows),
            "executions": self.sum(|outcome| outcome.executions),
            "edges": self.sum(|outcome| outcome.edges),
            "attempts": self.sum(|outcome| outcome.attempts),
            "faults": faults,
            "unavailable": unavailable,
            "answered": self.answers,
            "acknowledged": self.told,
            "ticks": self.ticks_json(),
            "verbs_never_sent": self.unsent().collect::<Vec<&str>>(),
            "violations": violations.collect::<Vec<Value>>(),
            "drained_s_max": drained.map(|time| time.as_secs_f64()),
            "bound_s_max": bound.map(|time| time.as_secs_f64()),
            "wall_s": self.wall.as_secs_f64(),
        });
        if let (Value::Object(report), Value::Object(figures)) = (&mut report, figures) {
            report.extend(figures);
        }
        report
    }
}

/// The word under which what was told is counted; none for what is counted elsewhere.
fn word(entry: &Entry) -> Option<&'static str> {
    Some(match entry {
        Entry::Submitted { .. } => "submits",
        Entry::FlowCancelled { .. } => "flow_cancels",
        Entry::ExecutionCancelled { .. } => "execution_cancels",
        Entry::Extended { .. } => "extensions",
        Entry::PolicySet { .. } => "policies",
        Entry::Tagged { .. } => "tags",
        Entry::Replayed { members, .. } if members.is_empty() => "empty_replays",
        Entry::Replayed { .. } => "replays",
        Entry::GivenUp { .. } => "given_up",
        Entry::NotExtended { .. } | Entry::PolicyKept { .. } => "refusals",
        Entry::Unanswered { .. } => "unanswered_calls",
        Entry::Granted { .. } => "grants",
        Entry::Passed { .. } => "inputs",
        Entry::Reported { end, .. } => match codes::attempt_end_of(i64::from(*end))? {
            AttemptEnd::Completed => "completes",
            AttemptEnd::FailedRetryable | AttemptEnd::FailedFatal => "fails",
            AttemptEnd::Released => "releases",
            AttemptEnd::Snoozed => "snoozes",
            AttemptEnd::Suspended => "suspends",
            AttemptEnd::Skipped => "skips",
            AttemptEnd::Expired | AttemptEnd::Revoked => return None,
        },
        Entry::Lost { .. } => "lost_leases",
        Entry::TurnedOver { .. } => "turnovers",
        Entry::Progressed { .. } => "progress",
        Entry::Resumed { .. } => "resumes",
        Entry::Began { .. } => "processes",
        Entry::Opened => "consumers",
        Entry::Handed(_) => "events",
        Entry::Acknowledged { .. } => "acknowledgements",
        Entry::Answered { .. }
        | Entry::Erred { .. }
        | Entry::Called { .. }
        | Entry::Spoilt { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::judge::{Finding, Violation};
    use crate::chaos::ticks::Tick;
    use crate::postgres::Server;
    use crate::real_lane::RealLane;
    use sluicegate::time::Timestamp;

    fn report(count: u64, unavailable: Option<&str>, violated: &[&'static str]) -> Report {
        let violations = violated.iter().map(|invariant| Violation {
            invariant,
            title: "it holds",
            finding: Finding { message: "it does not".to_owned(), flow: None },
        });
        let outcome = Outcome { violations: violations.collect(), ..Outcome::default() };
        let ticked = Ticked { count: 2, whole: 1, ..Ticked::default() };
        Report {
            request: Request {
                lane: RealLane::Sqlite,
                server: Server::Auto,
                budget: Duration::from_secs(1),
                seed: 7,
                mutant: None,
                json: None,
                failures: "failures".into(),
            },
            rows: vec![Row {
                id: "kill",
                title: "a kill",
                count,
                unavailable: unavailable.map(ToOwned::to_owned),
            }],
            rounds: vec![(1, outcome), (2, Outcome::default())],
            answers: BTreeMap::new(),
            told: ACTS.iter().map(|word| (*word, 1)).collect(),
            ticks: Reconciler::ALL.iter().map(|one| (*one, ticked)).collect(),
            verbs: Verb::ALL.iter().map(|verb| verb.descriptor().name.to_owned()).collect(),
            wall: Duration::from_secs(1),
        }
    }

    fn check(report: &Report, exit: Exit, words: &str) {
        assert_eq!(Exit::first_of(&report.exits()), exit);
        let text = report.text();
        assert!(text.contains(words) && text.contains("not replayable"), "{text}");
    }

    #[test]
    fn a_fault_that_never_struck_makes_a_run_vacuous_unless_it_cannot_strike() {
        check(&report(1, None, &[]), Exit::Clean, "0 violations");
        check(&report(0, None, &[]), Exit::Vacuous, "kill never struck");
        check(&report(0, Some("no disk"), &[]), Exit::Clean, "not available: no disk");
    }

    #[test]
    fn an_act_that_was_never_acknowledged_makes_a_run_vacuous() {
        for word in ACTS {
            let mut report = report(1, None, &[]);
            report.told.remove(word);
            check(&report, Exit::Vacuous, &format!("vacuous: 0 {word}"));
        }
    }

    #[test]
    fn a_single_round_takes_nothing_away_and_a_second_one_does() {
        let mut report = report(1, None, &[]);
        report.told.retain(|word, _| ![RETIRED, EXPIRED].contains(word));
        report.rounds.truncate(1);
        check(&report, Exit::Clean, "1 rounds");
        report.add(2, Outcome::default());
        check(&report, Exit::Vacuous, "vacuous: 0 retired_flows");
        report.add(3, Outcome { retired: 5, ..Outcome::default() });
        check(&report, Exit::Vacuous, "vacuous: 0 expired_cursors");
        report.add(4, Outcome { expired: true, ..Outcome::default() });
        check(&report, Exit::Clean, "1 expired_cursors");
    }

    #[test]
    fn a_reconciler_without_a_whole_tick_makes_a_run_vacuous() {
        for reconciler in Reconciler::ALL {
            let mut report = report(1, None, &[]);
            report.ticks.entry(*reconciler).or_default().whole = 0;
            check(&report, Exit::Vacuous, &format!("0 whole ticks of {}", reconciler.name()));
        }
    }

    #[test]
    fn the_longest_tick_is_told_with_the_one_after_faults() {
        let mut report = report(1, None, &[]);
        let tick = |began_s: i64, lasted_ms| {
            let began_at = Timestamp(began_s * 1_000_000);
            Tick::new(Reconciler::Reaper, began_at, Duration::from_millis(lasted_ms), 0)
        };
        let ticks = vec![tick(1, 900), tick(2, 40), tick(3, 30)];
        let healed_at = Some(Timestamp(2_000_000));
        report.add(2, Outcome { ticks, healed_at, ..Outcome::default() });
        let words = "5 ticks, 4 of them whole, the longest 900 ms, after faults 40 ms";
        check(&report, Exit::Clean, words);
        let json = &report.to_json("x")["ticks"]["reaper"];
        assert_eq!((&json["count"], &json["longest_ms"]), (&5.into(), &900.into()));
        assert_eq!(json["longest_after_faults_ms"], 40);
    }

    #[test]
    fn a_verb_that_is_never_sent_is_named() {
        let mut report = report(1, None, &[]);
        check(&report, Exit::Clean, "never sent: none");
        report.verbs.remove("lock_groups");
        check(&report, Exit::Clean, "never sent: lock_groups");
        assert_eq!(report.to_json("x")["verbs_never_sent"], json!(["lock_groups"]));
    }

    #[test]
    fn a_violation_outranks_a_flow_that_does_not_drain() {
        check(&report(0, None, &["I8"]), Exit::Liveness, "seed 7, round 1: I8");
        check(&report(0, None, &["I8", "I3"]), Exit::Safety, "I3 (it holds): it does not");
        assert_eq!(report(1, None, &["I8"]).to_json("x")["violations"][0]["invariant"], "I8");
    }
}
