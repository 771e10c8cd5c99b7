//! Draws schedules: which session does what next, over a small population so that sessions meet.
//! Never sends anything.

mod feed;
mod flows;
mod inputs;
mod progress;
mod retention;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sluicegate::storage::{Kind, Verb};

use super::build::{Given, call};
use super::calls::{Place, place};
use super::lockstep::Source;
use super::model::{Model, Seat};
use super::names::Names;
use super::seen::{NewKey, Seen, new_keys};
use super::words::{Control, Head, Step, Words};

/// Sessions of a schedule.
const SEATS: std::ops::RangeInclusive<usize> = 2..=4;
/// Steps after the setup.
const STEPS: std::ops::RangeInclusive<usize> = 10..=24;
/// Verbs that a schedule prefers.
const FOCUS: std::ops::RangeInclusive<usize> = 1..=4;

/// Inserts that are drawn again at most, one after the other.
const REDRAWS_MAX: usize = 8;
/// Inserts of a taken key that are kept, of a hundred.
const TAKEN_PERCENT: usize = 4;

/// Upstreams and downstreams of the flow that the setup commits.
const UPSTREAMS: &[&str] = &["a", "b"];
const DOWNSTREAMS: &[&str] = &["c", "d"];
const EXISTING: &[&str] = &["a", "b", "c", "d", "r", "s", "t", "u"];
const NEW: &[&str] = &["n1", "n2", "n3"];
const NOWHERE: &str = "z1";
/// Flows that are locked; of two of them there are rows to change.
const FLOWS_TO_LOCK: &[&str] = &["f", "f", "g", "h", NOWHERE];
const REQUESTS: &[&str] = &["q1", "q2", "q3"];

/// A source of chance.
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The one of a seed.
    pub fn of(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn below(&mut self, count: usize) -> usize {
        let word = self.0.next_u32() as usize;
        word % count
    }

    fn within(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in so many of a hundred cases.
    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// Up to `most` different ones, at least one, in any order.
    fn some<T: Clone>(&mut self, of: &[T], most: usize) -> Vec<T> {
        let mut left = of.to_vec();
        let count = 1 + self.below(most.min(left.len()));
        (0..count).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}

/// A random schedule.
pub struct Drawn {
    dice: Dice,
    seats: usize,
    setup: std::vec::IntoIter<Words>,
    focus: Vec<Verb>,
    steps_left: usize,
}

impl Drawn {
    /// The schedule of a seed, and how many sessions it has.
    pub fn of(seed: u64) -> (Self, usize) {
        let mut dice = Dice::of(seed);
        let seats = dice.within(SEATS);
        let verbs: Vec<Verb> = Verb::ALL.iter().copied().filter(|v| place(*v).is_some()).collect();
        let in_transactions: Vec<Verb> =
            verbs.iter().copied().filter(|v| place(*v) == Some(Place::Transaction)).collect();
        let count = dice.within(FOCUS);
        let focus = dice.some(&in_transactions, count);
        let steps_left = dice.within(STEPS);
        let setup = setup(&mut dice).into_iter();
        (Self { dice, seats, setup, focus, steps_left }, seats)
    }

    fn next_verb(&mut self, place_of: Place) -> Verb {
        if place_of == Place::Transaction && self.dice.percent(60) {
            return self.focus[self.dice.below(self.focus.len())];
        }
        let fits = |verb: &&Verb| place(**verb) == Some(place_of);
        let verbs: Vec<Verb> = Verb::ALL.iter().filter(fits).copied().collect();
        verbs[self.dice.below(verbs.len())]
    }

    /// An insert of a key that is taken ends its transaction: most are drawn again, until their
    /// keys are new.
    fn mostly_new(&mut self, model: &Model, seen: &Seen, mut words: Words) -> Words {
        for _ in 0..REDRAWS_MAX {
            let given = Given { words: &words, names: model.names(), seen };
            let keys = match words.head {
                Head::Verb(verb) if verb.descriptor().kind == Kind::Insert => {
                    call(&given).map(|call| new_keys(&call)).unwrap_or_default()
                }
                _ => return words,
            };
            let taken = |key: &NewKey| model.has_committed(*key) || seen.has_inserted(*key);
            if !keys.iter().any(taken) || self.dice.percent(TAKEN_PERCENT) {
                return words;
            }
            let verb = self.next_verb(Place::Transaction);
            words = draw(&mut self.dice, verb, seen, model.names());
        }
        Words::control(Control::Rollback)
    }

    /// What a session with an open transaction does next.
    fn in_transaction(&mut self, seen: &Seen, names: Names) -> Words {
        if self.dice.percent(14) {
            return Words::control(match self.dice.below(100) {
                0..55 => Control::Commit,
                55..96 => Control::Rollback,
                96..98 => Control::Drop,
                _ => Control::Terminate,
            });
        }
        let verb = self.next_verb(Place::Transaction);
        draw(&mut self.dice, verb, seen, names)
    }
}

impl Source for Drawn {
    fn next(&mut self, model: &Model) -> Option<Step> {
        if let Some(words) = self.setup.next() {
            return Some(Step { seat: 0, words });
        }
        let able: Vec<usize> = (0..self.seats).filter(|seat| !model.waits(*seat)).collect();
        if self.steps_left == 0 {
            let open = |seat: &&usize| !matches!(model.seat(**seat), Seat::Idle);
            let seat = *able.iter().find(open)?;
            let control = match (model.seat(seat), self.dice.percent(60)) {
                (Seat::Reader(_), _) => Control::Close,
                (_, true) => Control::Commit,
                (_, false) => Control::Rollback,
            };
            return Some(Step { seat, words: Words::control(control) });
        }
        self.steps_left -= 1;
        let waiting: Vec<usize> = (0..self.seats).filter(|seat| model.waits(*seat)).collect();
        if !waiting.is_empty() && self.dice.percent(1) {
            let seat = waiting[self.dice.below(waiting.len())];
            return Some(Step { seat, words: Words::control(Control::Terminate) });
        }
        let seat = able[self.dice.below(able.len())];
        let words = match model.seat(seat) {
            Seat::Idle => Words::control(match self.dice.below(100) {
                0..12 => Control::Statement,
                12..20 => Control::Snapshot,
                _ => Control::Begin,
            }),
            Seat::Reader(_) if self.dice.percent(25) => Words::control(Control::Close),
            Seat::Reader(_) => {
                let verb = self.next_verb(Place::Snapshot);
                draw(&mut self.dice, verb, &Seen::default(), model.names())
            }
            Seat::Open(open) => {
                let words = self.in_transaction(&open.seen, model.names());
                self.mostly_new(model, &open.seen, words)
            }
        };
        Some(Step { seat, words })
    }
}

fn words(verb: Verb) -> Words {
    Words::verb(verb)
}

/// What every schedule starts from.
fn setup(dice: &mut Dice) -> Vec<Words> {
    let ended = ["succeeded", "failed", "skipped"];
    let state = |dice: &mut Dice| if dice.percent(50) { "ready" } else { dice.pick(&ended) };
    let (first, second) = (state(dice), state(dice));
    let closing = dice.pick(&["none", "none", "flow_only", "cancel_all"]);
    let executions = |rows: &[&str]| words(Verb::InsertExecutions).with("rows", rows);
    let mut setup = vec![
        Words::control(Control::Begin),
        words(Verb::InsertFlow),
        words(Verb::InsertFlow).with("flow", &["g"]).with("closing", &[closing]),
        words(Verb::InsertSummary),
        words(Verb::InsertSummary).with("flow", &["g"]),
        executions(&["a"]).with("state", &[first]),
        executions(&["b"]).with("state", &[second]).with("deadline", &["900000000"]),
        executions(DOWNSTREAMS).with("state", &["blocked"]),
        executions(&["r", "s"]),
        executions(&["t"]).with("flow", &["g"]).with("priority", &["1"]),
        executions(&["u"]).with("lane", &["other"]).with("kind", &["test"]),
        words(Verb::InsertGroups).with("rows", &["c"]),
        words(Verb::InsertGroups)
            .with("rows", &["d"])
            .with("policy", &[dice.pick(&["all_of", "any_of", "quorum"])]),
        words(Verb::InsertEdges).with("rows", &["a>c", "b>c", "a>d", "b>d"]),
    ];
    if dice.percent(50) {
        setup.push(words(Verb::InsertSubmission).with("key", &["k"]));
    }
    if dice.percent(30) {
        setup.push(words(Verb::InsertEvents).with("rows", &["b", "r"]));
    }
    if dice.percent(30) {
        setup.push(words(Verb::InsertSubscription).with("name", &["x"]).with("position", &["3"]));
    }
    if dice.percent(30) {
        setup.push(words(Verb::InsertEvents).with("rows", &["a"]));
        let released = words(Verb::InsertEvents).with("rows", &["a", "b"]);
        setup.push(released.with("lease", &["released"]));
        setup.push(words(Verb::InsertAttempts).with("rows", &["a"]));
    }
    if dice.percent(30) {
        let claim = words(Verb::ClaimExecutions).with("request", &["q1"]);
        setup.push(claim.with("limit", &["2"]));
    }
    if dice.percent(30) {
        setup.push(words(Verb::InsertRequest).with("request", &["q1"]));
        setup.push(words(Verb::InsertCancelBacklog).with("flows", &["f"]));
        setup.push(words(Verb::InsertSiblingRequests).with("rows", &["c"]));
    }
    setup.push(Words::control(Control::Commit));
    setup
}

/// A verb with drawn arguments. A write of rows that the transaction has not locked becomes the
/// lock that it lacks.
fn draw(dice: &mut Dice, verb: Verb, seen: &Seen, names: Names) -> Words {
    match verb.descriptor().kind {
        Kind::Write => draw_write(dice, verb, seen, names),
        Kind::Insert => draw_insert(dice, verb),
        Kind::Lock | Kind::Take => draw_lock(dice, verb),
        Kind::Read | Kind::Control => draw_read(dice, verb),
    }
}

/// Some of these, and now and then one that is nowhere.
fn keys(dice: &mut Dice, of: &[&'static str], most: usize) -> Vec<&'static str> {
    let mut keys = dice.some(of, most);
    if dice.percent(12) {
        let at = dice.below(keys.len() + 1);
        keys.insert(at, NOWHERE);
    }
    keys
}

/// What an attempt or an event is of. Rarely of no execution, which is an error.
fn ended(dice: &mut Dice) -> Vec<&'static str> {
    let mut rows = dice.some(&["a", "b", "c", "r", "s"], 3);
    if dice.percent(5) {
        rows.push(dice.pick(&["n1", NOWHERE, NOWHERE]));
    }
    rows
}

fn draw_lock(dice: &mut Dice, verb: Verb) -> Words {
    match verb {
        Verb::LockFlow => words(verb).with("flow", &[dice.pick(FLOWS_TO_LOCK)]),
        Verb::LockSummaries => words(verb).with("flows", &keys(dice, &["f", "g", "h"], 2)),
        Verb::LockStreamHead | Verb::LockUnnumberedEvents | Verb::LockSubscription => {
            feed::draw(dice, verb)
        }
        Verb::LockGroups | Verb::HoldGroups => {
            words(verb).with("keys", &keys(dice, &["c", "d", "n1"], 2))
        }
        Verb::LockExecutions | Verb::HoldExecutions | Verb::TakeExecutions => {
            let mut of = EXISTING.to_vec();
            of.extend(["n1", "n2"]);
            words(verb).with("keys", &keys(dice, &of, 3))
        }
        _ => {
            let lanes: &[&str] = match dice.below(10) {
                0 => &["other"],
                1 => &["default", "other"],
                _ => &["default"],
            };
            let mut claim = words(verb)
                .with("request", &[dice.pick(&["q1", "q2"])])
                .with("lanes", lanes)
                .with("limit", &[dice.pick(&["1", "2", "3", "8"])]);
            if dice.percent(10) {
                claim = claim.with("kinds", &["build"]);
            }
            if dice.percent(10) {
                claim = claim.with("now", &["5"]);
            }
            if dice.percent(10) {
                claim = claim.with("except", &keys(dice, EXISTING, 2));
            }
            claim
        }
    }
}

fn draw_insert(dice: &mut Dice, verb: Verb) -> Words {
    let taken = dice.percent(8);
    match verb {
        Verb::InsertSubscription => feed::draw(dice, verb),
        Verb::InsertSubmission => words(verb).with("key", &[dice.pick(&["k", "k1", "k2"])]),
        Verb::InsertFlow => words(verb).with("flow", &[dice.pick(&["f", "h", "i"])]),
        Verb::InsertExecutions if dice.percent(10) => {
            let rows: Vec<String> = (1..=9).map(|number| format!("n{number}")).collect();
            words(verb).with("rows", &rows).with("state", &["ready"])
        }
        Verb::InsertExecutions => {
            let rows = if taken { vec!["a"] } else { dice.some(NEW, 3) };
            let state = dice.pick(&["ready", "blocked", "succeeded"]);
            words(verb).with("rows", &rows).with("state", &[state])
        }
        Verb::InsertGroups => {
            let rows = if taken { vec!["c"] } else { dice.some(NEW, 3) };
            words(verb).with("rows", &rows)
        }
        Verb::InsertEdges => {
            let new = ["a>n1", "b>n1", "r>c", "s>c", "r>d", "n2>n1"];
            let rows = if taken { vec!["a>c"] } else { dice.some(&new, 3) };
            words(verb).with("rows", &rows)
        }
        Verb::InsertSummary => {
            let flow = if taken { "f" } else { dice.pick(&["h", "i", "j"]) };
            words(verb).with("flow", &[flow])
        }
        Verb::InsertFlowChanges => words(verb).with("flows", &dice.some(&["f", "g"], 2)),
        Verb::InsertRequest => words(verb)
            .with("flow", &[dice.pick(&["f", "g"])])
            .with("request", &[dice.pick(REQUESTS)]),
        Verb::InsertCancelBacklog => words(verb).with("flows", &dice.some(&["f", "g", "h"], 2)),
        Verb::InsertSiblingRequests => words(verb).with("rows", &dice.some(&["c", "d", "n1"], 3)),
        Verb::InsertAttempts => {
            let rows = ended(dice);
            let number = dice.pick(&["1", "1", "2", "3", "4"]);
            let end = dice.pick(&["completed", "released", "expired"]);
            words(verb).with("rows", &rows).with("number", &[number]).with("end", &[end])
        }
        _ => {
            let rows = ended(dice);
            let incarnation = dice.pick(&["0", "0", "1", "2"]);
            feed::of_lease(
                dice,
                words(verb).with("rows", &rows).with("incarnation", &[incarnation]),
            )
        }
    }
}

fn draw_write(dice: &mut Dice, verb: Verb, seen: &Seen, names: Names) -> Words {
    let executions: Vec<&str> = EXISTING
        .iter()
        .chain(NEW)
        .copied()
        .filter(|name| seen.execution(names.execution(name)).is_some())
        .collect();
    let groups: Vec<&str> = DOWNSTREAMS
        .iter()
        .copied()
        .filter(|name| seen.group(names.execution(name)).is_some())
        .collect();
    match verb {
        Verb::WriteSummary | Verb::DeleteFlowChanges | Verb::DeleteSummary => {
            flows::draw_summary(dice, verb, seen, names)
        }
        Verb::DeleteAttempts
        | Verb::DeleteEdges
        | Verb::DeleteGroups
        | Verb::DeleteExecutions
        | Verb::DeleteEvents => retention::draw(dice, verb, seen, names),
        Verb::WritePositions | Verb::WriteStreamHead | Verb::WriteSubscription => {
            feed::draw_write(dice, verb, seen, names)
        }
        Verb::WriteExecutions | Verb::MendExecutions if executions.is_empty() => {
            draw_lock(dice, Verb::LockExecutions)
        }
        Verb::MendExecutions => words(verb).with("rows", &keys(dice, &executions, 2)),
        Verb::WriteProgress => progress::draw(dice, verb, &executions),
        Verb::WriteExecutions => {
            let rows = keys(dice, &executions, 2);
            let leased = rows.iter().all(|name| {
                let seen = seen.execution(names.execution(name));
                seen.is_some_and(|row| row.lease.is_some())
            });
            let to = match leased && dice.percent(40) {
                true => "active",
                false => dice.pick(&["ready", "blocked", "suspended", "succeeded", "failed"]),
            };
            let mut write = words(verb).with("rows", &rows).with("to", &[to]);
            if dice.percent(15) {
                write = write.with("guard", &["stale"]);
            }
            if dice.percent(30) {
                write = write.with("result", &[dice.pick(&["set", "clear"])]);
            }
            if dice.percent(20) {
                write = write.with("propagated", &["yes"]);
            }
            if dice.percent(10) {
                write = write.with("not_before", &["2000000000"]);
            }
            write
        }
        Verb::WriteFlow
        | Verb::WriteRequest
        | Verb::DeleteCancelBacklog
        | Verb::DeleteRequests
        | Verb::DeleteSubmission
        | Verb::DeleteFlow
        | Verb::DeleteSiblingRequests => flows::draw_flow_write(dice, verb, seen, names),
        _ if groups.is_empty() => draw_lock(dice, Verb::LockGroups),
        Verb::WriteJoins => words(verb)
            .with("rows", &keys(dice, &groups, 2))
            .with("policy", &[dice.pick(&["all_of", "any_of", "quorum"])])
            .with("edges", &[dice.pick(&["2", "3"])]),
        Verb::WriteGroups => {
            let counters = [["0", "0"], ["1", "0"], ["0", "1"], ["1", "1"], ["2", "0"]];
            let [satisfied, unsatisfied] = counters[dice.below(counters.len())];
            let decision = dice.pick(&["undecided", "satisfied", "impossible"]);
            words(verb)
                .with("rows", &keys(dice, &groups, 2))
                .with("satisfied", &[satisfied])
                .with("unsatisfied", &[unsatisfied])
                .with("decision", &[decision])
        }
        _ => {
            let edges = groups.iter().flat_map(|group| {
                UPSTREAMS.iter().map(move |upstream| format!("{upstream}>{group}"))
            });
            let mut rows = dice.some(&edges.collect::<Vec<_>>(), 2);
            if dice.percent(15) {
                rows.push(format!("a>{NOWHERE}"));
            }
            if verb == Verb::ResetEdges {
                return words(verb).with("rows", &rows);
            }
            let to = dice.pick(&["satisfied", "unsatisfied"]);
            words(verb).with("rows", &rows).with("to", &[to])
        }
    }
}

/// A page of a list; the cursor is one of these.
fn draw_list(dice: &mut Dice, verb: Verb, cursors: &[&'static str]) -> Words {
    let mut list = words(verb);
    if dice.percent(30) {
        list = list.with("after", &[dice.pick(cursors)]);
    }
    if dice.percent(30) {
        list = list.with("limit", &[dice.pick(&["0", "1", "2"])]);
    }
    let states = ["ready", "blocked", "active", "succeeded", "failed", "skipped"];
    match verb {
        Verb::ListFlows if dice.percent(40) => {
            list.with("statuses", &dice.some(&["open", "completed", "failed"], 2))
        }
        Verb::ListExecutions => {
            if dice.percent(50) {
                list = list.with("flow", &[dice.pick(&["f", "g", "h"])]);
            }
            match dice.percent(40) {
                true => list.with("states", &dice.some(&states, 3)),
                false => list,
            }
        }
        _ => list,
    }
}

fn draw_read(dice: &mut Dice, verb: Verb) -> Words {
    let flow = |dice: &mut Dice| dice.pick(&["f", "f", "g", "h", "z"]);
    let some = |dice: &mut Dice| {
        let mut of = EXISTING.to_vec();
        of.extend(["n1", NOWHERE]);
        dice.pick(&of)
    };
    match verb {
        Verb::ReadSubmission => words(verb).with("key", &[dice.pick(&["k", "k1", "k2", "z1"])]),
        Verb::ReadGrants => words(verb).with("request", &[dice.pick(&["q1", "q2", "z1"])]),
        Verb::ScanFlowChanges | Verb::ListFlows => draw_list(dice, verb, &["f", "g"]),
        Verb::ListExecutions => draw_list(dice, verb, EXISTING),
        Verb::ListInEdges => {
            draw_list(dice, verb, UPSTREAMS).with("key", &[dice.pick(&["c", "d", "a", NOWHERE])])
        }
        Verb::ListOutEdges => {
            draw_list(dice, verb, DOWNSTREAMS).with("key", &[dice.pick(&["a", "b", "r", NOWHERE])])
        }
        Verb::DescribeEdge => words(verb).with("key", &[dice.pick(&["a>c", "b>d", "r>c", "a>z1"])]),
        Verb::CountExecutions => {
            let count = words(verb).with("flow", &[flow(dice)]);
            if dice.percent(50) { count.with("now", &["500"]) } else { count }
        }
        Verb::ReadFlow
        | Verb::UnhandledFailure
        | Verb::CountEdges
        | Verb::ReadStandings
        | Verb::DescribeSummary
        | Verb::DescribeFlow
        | Verb::DescribeExecutions
        | Verb::DescribeGroups
        | Verb::DescribeEdges => words(verb).with("flow", &[flow(dice)]),
        Verb::ReadRequest => {
            let request = dice.pick(&["q1", "q2", "q3", "z1"]);
            words(verb).with("flow", &[flow(dice)]).with("request", &[request])
        }
        Verb::ReadMembers => {
            let mut read = words(verb).with("flow", &[flow(dice)]);
            if dice.percent(30) {
                read = read.with("after", &[dice.pick(&["a", "c", "s"])]);
            }
            if dice.percent(30) {
                read = read.with("limit", &["2"]);
            }
            read
        }
        Verb::ScanCancelBacklog => {
            let scan = words(verb);
            let scan = if dice.percent(30) { scan.with("after", &["f"]) } else { scan };
            if dice.percent(30) { scan.with("limit", &["1"]) } else { scan }
        }
        Verb::ReadClosings => words(verb).with("flows", &keys(dice, &["f", "g", "h"], 3)),
        Verb::ReadAttempt => words(verb)
            .with("key", &[dice.pick(&["a", "b", "r", NOWHERE])])
            .with("number", &[dice.pick(&["1", "2"])]),
        Verb::ReadEvent => {
            let named = words(verb).with("key", &[dice.pick(&["a", "b", "r", NOWHERE])]);
            feed::of_lease(dice, named)
        }
        Verb::ReadSubscription | Verb::ReadFeed => feed::draw(dice, verb),
        Verb::DescribeExecution => words(verb).with("key", &[some(dice)]),
        Verb::ReadGroups | Verb::PendingEdges | Verb::ReadEdges => {
            words(verb).with("keys", &keys(dice, &["c", "d", "n1"], 3))
        }
        Verb::ReadInputs => inputs::draw(dice, verb),
        Verb::ScanEndedFlows => {
            let scan = words(verb);
            let scan = if dice.percent(30) { scan.with("after", &["f"]) } else { scan };
            let scan = if dice.percent(30) { scan.with("by", &["5"]) } else { scan };
            if dice.percent(30) { scan.with("limit", &["1"]) } else { scan }
        }
        Verb::WithPendingEdges | Verb::ReadFedGroups | Verb::ReadAncestry | Verb::CountEvents => {
            words(verb).with("keys", &keys(dice, EXISTING, 4))
        }
        Verb::PlanGroups => words(verb).with("keys", &keys(dice, &["a", "b", "r", "n2"], 3)),
        Verb::ScanUpstreams
        | Verb::ScanStuckGroups
        | Verb::ScanOverdue
        | Verb::ScanSiblingRequests => {
            let mut scan = words(verb);
            if dice.percent(30) {
                scan = scan.with("after", &[dice.pick(UPSTREAMS)]);
            }
            if dice.percent(30) {
                scan = scan.with("limit", &["1"]);
            }
            match verb {
                Verb::ScanUpstreams if dice.percent(30) => scan.with("by", &["5"]),
                Verb::ScanOverdue if dice.percent(50) => scan.with("now", &["3000000000"]),
                _ => scan,
            }
        }
        _ => words(verb),
    }
}
