//! A round: flows are submitted while every fault of the lane strikes once, in an order drawn from
//! the seed, and what earlier rounds left is taken away meanwhile; then faults stop, everything
//! must drain within the bound, and is judged.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::Engine;
use sluicegate::environment::{Environment, SystemEnvironment};
use sluicegate::flow::ValidFlow;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::time::Timestamp;
use tokio::task::JoinHandle;

use super::client::Client;
use super::database::STATEMENT_TIMEOUT;
use super::faults::{self, Field, Kind};
use super::judge::{self, Evidence, Finding, Healed, Past, Seen, Violation, When};
use super::reader::Reader;
use super::remains;
use super::rows::{self, Rows, Unread};
use super::ticks::{Logs, Tick};
use super::work::{self, SNOOZE, WORK_MAX};
use super::{LEASE, SIGMA, TICK_LONGEST, counts, engine_settings, ledger};
use crate::liveness::{Bounds, Following, Node, Settings};
use crate::real_lane::RealLane;
use crate::report::progress::Stopwatch;

/// The wait between two looks at what is left.
const LOOK_AFTER: Duration = Duration::from_millis(250);
/// Every so many looks the rows are judged.
const LOOKS_BY_JUDGEMENT: u32 = 4;
/// From ready to granted while workers answer: executions queue for slots.
const CLAIM_DELAY: Duration = Duration::from_secs(5);
/// So long no tick of a reconciler need come to its end once faults have stopped, besides twice as
/// long as its ticks were then measured to last.
const PATIENCE: Duration = Duration::from_secs(10);
/// The wait between two strikes.
const BREATH: Duration = Duration::from_millis(150);
/// How often reading the database is tried once faults have stopped.
const READS_MAX: u32 = 50;
/// Stuck executions that are explained.
const EXPLAINED_MAX: usize = 5;

/// What everything that a round needs stands in.
pub(super) struct Scene {
    pub(super) lane: RealLane,
    pub(super) seed: u64,
    pub(super) field: Field,
    pub(super) client: Arc<Client>,
    pub(super) reader: Arc<Reader>,
    pub(super) ticks: Logs,
    /// What is to go while this round runs.
    pub(super) past: Past,
    pub(super) storage: BoxStorage,
    pub(super) failures: PathBuf,
}

/// What a round came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) flows: usize,
    pub(super) executions: usize,
    pub(super) edges: usize,
    pub(super) attempts: usize,
    /// Flows of earlier rounds that were taken away.
    pub(super) retired: usize,
    /// A consumer was told that events which it had not seen were gone.
    pub(super) expired: bool,
    pub(super) strikes: BTreeMap<&'static str, u64>,
    pub(super) misses: Vec<String>,
    pub(super) bound: Duration,
    pub(super) path: usize,
    pub(super) drained_after: Option<Duration>,
    /// The ticks of the round.
    pub(super) ticks: Vec<Tick>,
    /// When faults stopped, on the storage's clock.
    pub(super) healed_at: Option<Timestamp>,
    pub(super) violations: Vec<Violation>,
    pub(super) file: Option<PathBuf>,
}

/// Something that is done beside the faults until it is told to stop.
struct Companion {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Companion {
    fn begin<F: Future<Output = ()> + Send + 'static>(
        does: impl FnOnce(Arc<AtomicBool>) -> F,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        Self { task: tokio::spawn(does(Arc::clone(&stop))), stop }
    }

    /// Tells it to stop, and waits until it has.
    async fn end(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::SeqCst);
        (&mut self.task).await.map_err(|error| error.to_string())
    }
}

impl Drop for Companion {
    /// A round that ends early leaves nobody behind.
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Outcome {
    fn count(&mut self, rows: &Rows) {
        self.flows = rows.flows.len();
        self.executions = rows.executions.len();
        self.edges = rows.edges.len();
        self.attempts = rows.attempts.len();
    }
}

impl Scene {
    /// Runs a round. An `Err` is the machine's, not the engine's.
    pub(super) async fn round(
        &mut self,
        round: u32,
        say: &mut impl FnMut(&str),
    ) -> Result<Outcome, String> {
        (self.field.round, self.field.namespace) = (round, work::namespace(round));
        let mut outcome = Outcome::default();
        self.retire(&mut outcome).await?;
        if !outcome.violations.is_empty() {
            return Ok(outcome);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (client, stopped) = (Arc::clone(&self.client), Arc::clone(&stop));
        let submitting = tokio::spawn(async move { client.submit(round, &stopped).await });
        let (client, reader) = (Arc::clone(&self.client), Arc::clone(&self.reader));
        let attendant = Companion::begin(|stop| async move { client.attend(round, &stop).await });
        let reader = Companion::begin(|stop| async move { reader.read(&stop).await });
        self.strike_all(&mut outcome, say).await?;
        stop.store(true, Ordering::SeqCst);
        if !outcome.violations.is_empty() {
            submitting.abort();
            return Ok(outcome);
        }
        self.field.fleet.tend()?;
        let flows = submitting.await.map_err(|error| error.to_string())?;
        let bounds = bounds(&flows);
        (outcome.bound, outcome.path) = (bounds.l2, bounds.path.len());
        self.drain(&bounds, [attendant, reader], &mut outcome, say).await?;
        Ok(outcome)
    }

    async fn strike_all(
        &mut self,
        outcome: &mut Outcome,
        say: &mut impl FnMut(&str),
    ) -> Result<(), String> {
        let mut order: Vec<usize> = (0..faults::table(self.lane).len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.field.draw(at + 1));
        }
        tokio::time::sleep(LEASE / 4).await;
        let parts = order.len();
        for (part, at) in (1..).zip(order) {
            self.retire_part(part, parts);
            let fault = &faults::table(self.lane)[at];
            let Kind::Struck(strike) = fault.kind else { continue };
            if (fault.unavailable)(&self.field).is_some() {
                continue;
            }
            match strike(&mut self.field).await {
                Ok(times) => *outcome.strikes.entry(fault.id).or_default() += times,
                Err(why) => outcome.misses.push(format!("{}: {why}", fault.id)),
            }
            say(&format!("  {}: {}", fault.id, outcome.strikes.get(fault.id).unwrap_or(&0)));
            tokio::time::sleep(BREATH).await;
            self.field.fleet.tend()?;
            if self.judged_now(outcome).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Judges what holds at every instant, if the database answers; true if something does not.
    async fn judged_now(&mut self, outcome: &mut Outcome) -> bool {
        let namespace = Some(self.field.namespace.as_str());
        match rows::read(&self.field.database, namespace).await {
            Ok(rows) => {
                let mut violations = Evidence::new(&rows, &[], self.seed, None).judge(When::Always);
                violations.extend(self.judge_remains().await);
                outcome.count(&rows);
                self.found(outcome, violations, &rows);
            }
            Err(Unread::Illegal(why)) => outcome.violations.push(illegal(why)),
            Err(Unread::Unavailable(_)) => {}
        }
        self.accidents(outcome);
        !outcome.violations.is_empty()
    }

    fn accidents(&mut self, outcome: &mut Outcome) {
        for message in self.field.fleet.accidents.drain(..) {
            let finding = Finding { message, flow: None };
            let (invariant, title) = ("panic", "no process panics");
            outcome.violations.push(Violation { invariant, title, finding });
        }
    }

    async fn drain(
        &mut self,
        bounds: &Bounds,
        companions: [Companion; 2],
        outcome: &mut Outcome,
        say: &mut impl FnMut(&str),
    ) -> Result<(), String> {
        let namespace = self.field.namespace.clone();
        let Some(mut healed) = self.heal(&namespace, bounds, outcome).await? else {
            return Ok(());
        };
        let clock = Stopwatch::start();
        let mut looks = 0;
        while clock.elapsed() < bounds.l2 {
            let left = counts::undrained(&self.field.database, &namespace).await;
            if left == Ok(0) && self.is_retired().await {
                outcome.drained_after = Some(clock.elapsed());
                break;
            }
            looks += 1;
            if looks % LOOKS_BY_JUDGEMENT == 0 {
                say(&format!("  draining: {} executions left", left.unwrap_or(-1)));
                self.judge_draining(&namespace, &mut healed, outcome).await?;
                if !outcome.violations.is_empty() {
                    return Ok(());
                }
            }
            tokio::time::sleep(LOOK_AFTER).await;
            self.field.fleet.tend()?;
        }
        for companion in companions {
            companion.end().await?;
        }
        self.judge_drained(&namespace, healed, outcome).await
    }

    /// Faults have stopped: from now on bounds are held to. None if rows cannot be read.
    async fn heal(
        &mut self,
        namespace: &str,
        bounds: &Bounds,
        outcome: &mut Outcome,
    ) -> Result<Option<Healed>, String> {
        let mut ticks = Vec::new();
        let rows = match self.rows(Some(namespace), &mut ticks).await? {
            Ok(rows) => rows,
            Err(unread) => return unreadable(unread, outcome).map(|()| None),
        };
        outcome.healed_at = Some(rows.now);
        let seen = Evidence::new(&rows, &[], self.seed, None).seen(&Seen::new());
        Ok(Some(Healed { at: rows.now, l1: bounds.l1, patience: PATIENCE, ticks, seen }))
    }

    /// Judges what holds while flows drain.
    async fn judge_draining(
        &mut self,
        namespace: &str,
        healed: &mut Healed,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let rows = match self.rows(Some(namespace), &mut healed.ticks).await? {
            Ok(rows) => rows,
            Err(unread) => return unreadable(unread, outcome),
        };
        let evidence = Evidence::new(&rows, &[], self.seed, Some(healed));
        let (mut violations, seen) = (evidence.judge(When::Always), evidence.seen(&healed.seen));
        healed.seen = seen;
        violations.extend(self.judge_remains().await);
        self.found(outcome, violations, &rows);
        self.accidents(outcome);
        if !outcome.violations.is_empty() {
            outcome.ticks.clone_from(&healed.ticks);
            self.explain(outcome, &rows).await;
        }
        Ok(())
    }

    /// The last judgement of a round: its flows have drained, and nothing of any round is lost.
    async fn judge_drained(
        &mut self,
        namespace: &str,
        mut healed: Healed,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let books = self.past.leave_out(ledger::read_all(&self.field.ledgers)?);
        let rows = self.rows(Some(namespace), &mut healed.ticks).await?;
        let all = self.rows(None, &mut healed.ticks).await?;
        let (rows, all) = match (rows, all) {
            (Ok(rows), Ok(all)) => (rows, all),
            (Err(unread), _) | (_, Err(unread)) => return unreadable(unread, outcome),
        };
        outcome.count(&rows);
        let told = Evidence::new(&all, &books, self.seed, Some(&healed)).judge(When::Always);
        self.found(outcome, told, &all);
        let evidence = Evidence::new(&rows, &books, self.seed, Some(&healed));
        self.found(outcome, evidence.judge(When::Drained), &rows);
        outcome.ticks = healed.ticks;
        let remains = remains::read(&self.field.database).await?;
        self.found(outcome, judge::judge_retired(&all, &remains, &self.past), &all);
        let lagged = self.reader.lag().await?;
        outcome.expired = lagged.expired.is_some();
        self.found(outcome, judge::judge_lagged(lagged, &remains).into_iter().collect(), &all);
        let left = all.flows.iter().filter(|row| self.past.flows.contains(&row.id)).count();
        outcome.retired = self.past.due.saturating_sub(left);
        if !outcome.violations.is_empty() {
            self.explain(outcome, &rows).await;
        }
        Ok(())
    }

    /// Reads rows once faults have stopped, and before them the ticks that had ended by then; the
    /// database may still be recovering.
    async fn rows(
        &mut self,
        namespace: Option<&str>,
        ticks: &mut Vec<Tick>,
    ) -> Result<Result<Rows, Unread>, String> {
        let mut last = Unread::Unavailable("nobody asked".to_owned());
        for _ in 0..READS_MAX {
            ticks.extend(self.ticks.read_on()?);
            match rows::read(&self.field.database, namespace).await {
                Err(Unread::Unavailable(why)) => last = Unread::Unavailable(why),
                read => return Ok(read),
            }
            SystemEnvironment::new().sleep(LOOK_AFTER).await;
        }
        Ok(Err(last))
    }

    /// Keeps violations, with the rows of the flows that show them in a file.
    fn found(&self, outcome: &mut Outcome, violations: Vec<Violation>, rows: &Rows) {
        if violations.is_empty() {
            return;
        }
        let name = format!("chaos-{}-{}-{}.txt", self.lane.name(), self.seed, self.field.namespace);
        let path = self.failures.join(name);
        let text: String = violations.iter().map(|violation| dump(violation, rows)).collect();
        let written = std::fs::create_dir_all(&self.failures)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()));
        match written {
            Ok(()) => outcome.file = Some(path),
            Err(why) => outcome.misses.push(why),
        }
        outcome.violations.extend(violations);
    }

    /// Why what is stuck is stuck, in the engine's own words.
    async fn explain(&self, outcome: &mut Outcome, rows: &Rows) {
        let engine = Engine::new(self.storage.clone(), SystemEnvironment::new(), engine_settings());
        let stuck =
            rows.executions.iter().filter(|row| !row.state.is_terminal() || !row.propagated);
        let mut said = Vec::new();
        for row in stuck.take(EXPLAINED_MAX) {
            let why = match engine.explain(row.id).await {
                Ok(explanation) => explanation.to_string(),
                Err(error) => error.to_string(),
            };
            said.push(format!("{} ({}): {why}", row.id, rows.names[&row.id]));
        }
        if let Some(violation) = outcome.violations.iter_mut().find(|one| one.invariant == "I8") {
            violation.finding.message.push_str("; ");
            violation.finding.message.push_str(&said.join("; "));
        }
    }
}

/// A database that does not come back after faults does not drain.
pub(super) fn unreadable(unread: Unread, outcome: &mut Outcome) -> Result<(), String> {
    match unread {
        Unread::Illegal(why) => outcome.violations.push(illegal(why)),
        Unread::Unavailable(why) => return Err(format!("the database does not answer: {why}")),
    }
    Ok(())
}

fn illegal(message: String) -> Violation {
    let (invariant, title) = ("I9", "every stored value is one that an engine writes");
    Violation { invariant, title, finding: Finding { message, flow: None } }
}

fn dump(violation: &Violation, rows: &Rows) -> String {
    let Violation { invariant, title, finding } = violation;
    let mut text = format!("{invariant}: {title}\n{}\n", finding.message);
    let Some(flow) = finding.flow else { return text };
    let members = rows.executions.iter().filter(|row| row.flow == flow);
    text.extend([format!("\nflow {flow} at {} us\n", rows.now.0)]);
    for row in members {
        let id = row.id;
        let name = rows.names.get(&id).map_or("?", String::as_str);
        text.extend([format!("\n{name} = {row:?}\n")]);
        let group = rows.groups.iter().filter(|group| group.downstream == id);
        text.extend(group.map(|group| format!("  {group:?}\n")));
        let edges = rows.edges.iter().filter(|edge| edge.key.downstream == id);
        text.extend(edges.map(|edge| format!("  {edge:?}\n")));
        let attempts = rows.attempts.iter().filter(|attempt| attempt.key.execution == id);
        text.extend(attempts.map(|attempt| format!("  {attempt:?}\n")));
        let events = rows.events.iter().filter(|(_, event)| event.execution == id);
        text.extend(events.map(|event| format!("  {event:?}\n")));
    }
    text
}

/// The bounds of the flow that may take longest.
fn bounds(flows: &[ValidFlow]) -> Bounds {
    let settings = Settings {
        session_limit: STATEMENT_TIMEOUT,
        // No row is pushed back, so that none fails for longer.
        backoff_longest: Duration::ZERO,
        clock_step: Duration::ZERO,
        stale_after: SIGMA,
        claim_delay: CLAIM_DELAY,
        attempt_limit: WORK_MAX + LEASE,
        tick: TICK_LONGEST,
        // Only the first attempt may be given back. If it is suspended, it is resumed within the
        // time of a tick, which it does not need.
        give_backs: 1,
        snooze_longest: SNOOZE,
        following: Following::Yes,
    };
    let all = flows.iter().map(|flow| {
        let spec = flow.spec();
        let nodes: Vec<Node<'_>> = spec.executions.iter().map(Node::of).collect();
        let at: BTreeMap<&str, usize> =
            spec.executions.iter().enumerate().map(|(at, one)| (one.name.as_str(), at)).collect();
        let edges: Vec<(usize, usize)> =
            spec.edges.iter().map(|edge| (at[edge.from.as_str()], at[edge.to.as_str()])).collect();
        Bounds::of(&nodes, &edges, &settings)
    });
    all.max_by_key(|bounds| bounds.l2).expect("a round submits flows")
}
