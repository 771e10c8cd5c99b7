//! The model's side of a schedule: every way in which the simulated Postgres may carry a step out.
//! Never chooses one of them.

use std::collections::BTreeMap;

use sluicegate::storage::EventId;

use super::build::{Given, call, event_key};
use super::calls::{Call, Reply};
use super::names::Names;
use super::outcome::{Answer, Failure, Outcome};
use super::seen::{NewKey, Seen};
use super::words::{Control, Head, Words};
use crate::database::{Cursor, Database, ModelMutant, SessionId, Step};
use crate::history::Commit;

/// Ways to carry one step out that are followed at most.
const WAYS_MAX: usize = 4_096;

/// A statement that waits.
#[derive(Clone, Debug)]
struct Pending {
    call: Call,
    cursor: Cursor,
}

/// What a session of the schedule has open.
#[derive(Clone, Debug, Default)]
pub enum Seat {
    /// Nothing.
    #[default]
    Idle,
    /// A transaction.
    Open(Box<Open>),
    /// A reader.
    Reader(Reader),
}

/// An open reader.
#[derive(Clone, Debug)]
pub enum Reader {
    /// Each verb sees what is committed.
    Statement,
    /// All verbs see what was committed when it was opened.
    Snapshot(Box<Database>),
}

/// An open transaction.
#[derive(Clone, Debug)]
pub struct Open {
    session: SessionId,
    pending: Option<Pending>,
    /// What it holds.
    pub seen: Seen,
}

/// The simulated Postgres with the sessions of a schedule.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its rows.
    pub database: Database,
    names: Names,
    seats: Vec<Seat>,
    /// How the wait of a session ends by itself, if it does.
    expiries: Vec<Option<Failure>>,
}

/// One way in which a step may go.
#[derive(Clone, Debug)]
pub struct Way {
    /// The model afterwards.
    pub model: Model,
    /// What was seen.
    pub outcome: Outcome,
    /// A cycle of waiters had to be broken.
    pub deadlock: bool,
}

impl Model {
    /// An empty database with idle sessions, each with the end of its waits.
    pub fn new(names: Names, expiries: Vec<Option<Failure>>, mutant: Option<ModelMutant>) -> Self {
        let mut database = Database::new();
        database.mutant = mutant;
        database.add_stream(names.first_head());
        let seats = expiries.iter().map(|_| Seat::Idle).collect();
        Self { database, names, seats, expiries }
    }

    /// The names of its partition.
    pub fn names(&self) -> Names {
        self.names
    }

    /// What a session has open.
    pub fn seat(&self, seat: usize) -> &Seat {
        &self.seats[seat]
    }

    /// True if a committed row has that key.
    pub fn has_committed(&self, key: NewKey) -> bool {
        let database = &self.database;
        match key {
            NewKey::Execution(id) => database.execution(id).is_some(),
            NewKey::Group(id) => database.group(id).is_some(),
            NewKey::Edge(key) => database.edge(key).is_some(),
            NewKey::Attempt(key) => database.attempts().any(|row| row.key == key),
            NewKey::Summary(flow) => database.summaries().any(|row| row.flow == flow),
            NewKey::Event(key) => database.events().any(|row| row.event.key() == key),
        }
    }

    /// True while the session's statement waits.
    pub fn waits(&self, seat: usize) -> bool {
        matches!(&self.seats[seat], Seat::Open(open) if open.pending.is_some())
    }

    /// What the session's transaction holds; nothing outside of one.
    pub fn seen(&self, seat: usize) -> Seen {
        match &self.seats[seat] {
            Seat::Open(open) => open.seen.clone(),
            _ => Seen::default(),
        }
    }

    /// The verb of a step with its argument, or why the step may not be taken now.
    pub fn prepare(&self, seat: usize, words: &Words) -> Result<Option<Call>, String> {
        let waits = self.waits(seat);
        let wrong = |what: &str| Err(format!("`{words}` {what}"));
        match (words.head, &self.seats[seat]) {
            (Head::Control(Control::Terminate), Seat::Open(_)) => Ok(None),
            _ if waits => wrong("to a session that waits"),
            (
                Head::Control(Control::Begin | Control::Statement | Control::Snapshot),
                Seat::Idle,
            )
            | (Head::Control(Control::Commit | Control::Rollback | Control::Drop), Seat::Open(_))
            | (Head::Control(Control::Close), Seat::Reader(_)) => Ok(None),
            (Head::Control(_), _) => wrong("does not fit what the session has open"),
            (Head::Verb(verb), seat_state) => {
                let fits = matches!(
                    (super::calls::place(verb), seat_state),
                    (Some(super::calls::Place::Transaction), Seat::Open(_))
                        | (Some(super::calls::Place::Snapshot), Seat::Reader(_))
                );
                if !fits {
                    return wrong("does not fit what the session has open");
                }
                let seen = self.seen(seat);
                let mut call = call(&Given { words, names: self.names, seen: &seen })?;
                if let Call::ReadEvent(id) = &mut call {
                    *id = self.event_id(words)?;
                }
                Ok(Some(call))
            }
        }
    }

    /// The number of the event that a step names; one that is never given out if there is none.
    fn event_id(&self, words: &Words) -> Result<EventId, String> {
        let seen = Seen::default();
        let key = event_key(&Given { words, names: self.names, seen: &seen })?;
        let found = self.database.events().find(|event| event.event.key() == key);
        Ok(found.map_or(EventId(i64::MAX.unsigned_abs()), |event| event.id))
    }

    /// Every way in which a step may go that [`Model::prepare`] let through.
    pub fn ways(&self, seat: usize, words: &Words, call: Option<&Call>) -> Vec<Way> {
        let mut way = Way { model: self.clone(), outcome: Outcome::default(), deadlock: false };
        match (words.head, call) {
            (Head::Control(control), _) => way.control(seat, control),
            (Head::Verb(_), Some(call)) => way.verb(seat, call),
            (Head::Verb(_), None) => unreachable!("a verb has a call"),
        }
        let mut ways = Vec::new();
        way.settle(&mut ways);
        assert!(ways.len() < WAYS_MAX, "one step goes in more than {WAYS_MAX} ways");
        ways
    }
}

impl Way {
    fn answer(&mut self, seat: usize, answer: Answer) {
        let before = self.outcome.answers.insert(seat, answer);
        assert!(before.is_none(), "session {seat} was told twice in one step");
    }

    fn control(&mut self, seat: usize, control: Control) {
        let model = &mut self.model;
        let state = std::mem::take(&mut model.seats[seat]);
        let interrupted = matches!(&state, Seat::Open(open) if open.pending.is_some());
        match (control, state) {
            (Control::Begin, _) => {
                let session = model.database.open_session(0);
                let open = Open { session, pending: None, seen: Seen::default() };
                model.seats[seat] = Seat::Open(Box::new(open));
            }
            (Control::Statement, _) => model.seats[seat] = Seat::Reader(Reader::Statement),
            (Control::Snapshot, _) => {
                let frozen = Box::new(model.database.frozen());
                model.seats[seat] = Seat::Reader(Reader::Snapshot(frozen));
            }
            (Control::Commit, Seat::Open(open)) => {
                model.database.commit(open.session, &mut Commit::default());
            }
            (Control::Rollback | Control::Drop | Control::Terminate, Seat::Open(open)) => {
                model.database.abort(open.session);
            }
            (_, _) => {}
        }
        let answer = match interrupted {
            true => Answer::Failed(Failure::Unavailable),
            false => Answer::Done,
        };
        self.answer(seat, answer);
    }

    fn verb(&mut self, seat: usize, call: &Call) {
        match &mut self.model.seats[seat] {
            Seat::Open(open) => {
                open.pending = Some(Pending { call: call.clone(), cursor: Cursor::default() });
            }
            Seat::Reader(Reader::Statement) => {
                let result = call.scan(&self.model.database);
                self.told(seat, result);
            }
            Seat::Reader(Reader::Snapshot(frozen)) => {
                let result = call.scan(frozen);
                self.told(seat, result);
            }
            Seat::Idle => unreachable!("the step was prepared"),
        }
    }

    fn told(&mut self, seat: usize, result: sluicegate::storage::Result<Reply>) {
        let answer = match result {
            Ok(reply) => Answer::Reply(Box::new(reply.comparable())),
            Err(error) => Answer::Failed(Failure::from(&error)),
        };
        self.answer(seat, answer);
    }

    /// Lets everybody go on who may, in every order.
    fn settle(mut self, ways: &mut Vec<Way>) {
        let seats = 0..self.model.seats.len();
        let able: Vec<usize> = seats.clone().filter(|seat| self.model.may_go_on(*seat)).collect();
        if able.is_empty() {
            let expiring = seats.clone().find_map(|seat| {
                let failure = self.model.expiries[seat].filter(|_| self.model.waits(seat))?;
                Some((seat, failure))
            });
            if let Some((seat, failure)) = expiring {
                self.fail(seat, failure);
                return self.settle(ways);
            }
            self.outcome.waiting = seats.filter(|seat| self.model.waits(*seat)).collect();
            if ways.len() < WAYS_MAX {
                ways.push(self);
            }
            return;
        }
        for seat in able {
            self.clone().advance(seat, ways);
        }
    }

    /// Steps one session's statement once.
    fn advance(mut self, seat: usize, ways: &mut Vec<Way>) {
        let model = &mut self.model;
        let Seat::Open(open) = &mut model.seats[seat] else { unreachable!("it may go on") };
        let pending = open.pending.as_mut().expect("it may go on");
        let step = pending.call.step(&mut model.database, open.session, &mut pending.cursor);
        match step {
            Step::Done(Ok(reply)) => {
                let pending = open.pending.take().expect("it was there a moment ago");
                open.seen.note(&pending.call, &reply);
                self.told(seat, Ok(reply));
                self.settle(ways);
            }
            Step::Done(Err(error)) => {
                self.fail(seat, Failure::from(&error));
                self.settle(ways);
            }
            Step::Wait | Step::Yield => self.settle(ways),
            Step::Deadlock(cycle) => {
                self.deadlock = true;
                // Whoever is first in line for a row holds a lock of its own on it, for which the
                // others wait: it stands in the cycle as well. Without it the cycle is still there.
                for session in self.model.database.in_line_with(&cycle) {
                    let ahead = self.model.seat_of(session);
                    let mut way = self.clone();
                    way.fail(ahead, Failure::Deadlock);
                    way.advance(seat, ways);
                }
                for session in cycle {
                    let victim = self.model.seat_of(session);
                    let mut way = self.clone();
                    way.fail(victim, Failure::Deadlock);
                    way.settle(ways);
                }
            }
        }
    }

    /// Ends a session's transaction.
    fn fail(&mut self, seat: usize, failure: Failure) {
        let state = std::mem::take(&mut self.model.seats[seat]);
        if let Seat::Open(open) = state {
            self.model.database.abort(open.session);
        }
        self.answer(seat, Answer::Failed(failure));
    }
}

impl Model {
    fn may_go_on(&self, seat: usize) -> bool {
        match &self.seats[seat] {
            Seat::Open(open) => open.pending.is_some() && !self.database.is_blocked(open.session),
            _ => false,
        }
    }

    fn seat_of(&self, session: SessionId) -> usize {
        let found = self
            .seats
            .iter()
            .position(|seat| matches!(seat, Seat::Open(open) if open.session == session));
        found.expect("every open session has a seat")
    }
}

/// Models that no observation has told apart yet. Never empty.
#[derive(Clone, Debug)]
pub struct Candidates(Vec<Model>);

impl Candidates {
    /// One model.
    pub fn of(model: Model) -> Self {
        Self(vec![model])
    }

    /// One of them; they agree on everything that was ever seen.
    pub fn first(&self) -> &Model {
        &self.0[0]
    }

    /// All of them.
    pub fn all(&self) -> &[Model] {
        &self.0
    }

    /// Every way in which any of them may carry a step out; why not, if one of them may not.
    pub fn ways(&self, seat: usize, words: &Words) -> Result<Vec<Way>, String> {
        let mut ways = Vec::new();
        for model in &self.0 {
            let call = model.prepare(seat, words)?;
            ways.extend(model.ways(seat, words, call.as_ref()));
        }
        Ok(ways)
    }

    /// Keeps the ways that were seen; false if there is none, and then nothing changes.
    pub fn keep(&mut self, ways: Vec<Way>, seen: &Outcome) -> bool {
        let matching = ways.into_iter().filter(|way| way.outcome == *seen);
        let mut models: Vec<Model> = matching.map(|way| way.model).collect();
        if models.is_empty() {
            return false;
        }
        if models.len() > 1 {
            let mut distinct: BTreeMap<String, Model> = BTreeMap::new();
            for mut model in models {
                model.database.counters = crate::database::Counters::default();
                distinct.entry(format!("{model:?}")).or_insert(model);
            }
            models = distinct.into_values().collect();
        }
        self.0 = models;
        true
    }

    /// Keeps the models that hold for; false if none does, and then nothing changes.
    pub fn retain(&mut self, holds: impl Fn(&Model) -> bool) -> bool {
        let held: Vec<Model> = self.0.iter().filter(|model| holds(model)).cloned().collect();
        if held.is_empty() {
            return false;
        }
        self.0 = held;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(models: &mut Candidates, seat: usize, words: &str) -> Vec<Way> {
        let words = Words::parse(words).expect("these words are known");
        let ways = models.ways(seat, &words).expect("the step fits");
        let seen = ways[0].outcome.clone();
        assert!(models.keep(ways.clone(), &seen));
        ways
    }

    #[test]
    fn who_is_first_in_line_before_a_member_of_a_cycle_may_be_the_victim() {
        let model = Model::new(Names::of(7), vec![None; 4], None);
        let mut models = Candidates::of(model);
        let steps = [
            (0, "begin"),
            (0, "insert_flow"),
            (0, "insert_executions rows=c,d,s,t,u"),
            (0, "commit"),
            (1, "begin"),
            (1, "lock_executions keys=d,t"),
            (2, "begin"),
            (2, "lock_executions keys=s,t,u"),
            (0, "begin"),
            (0, "lock_executions keys=d,u"),
            (3, "begin"),
            (3, "lock_executions keys=u"),
            (3, "lock_executions keys=c,s"),
        ];
        for (seat, words) in steps {
            take(&mut models, seat, words);
        }
        // Once session 1 is gone, 0 and 2 want the row of 3, which waits for 2: of the two, who is
        // first in line stands between 2 and 3.
        let ways = take(&mut models, 1, "lock_executions keys=s");
        let failed = |way: &Way, seat| {
            way.outcome.answers.get(&seat) == Some(&Answer::Failed(Failure::Deadlock))
        };
        let victims = |way: &Way| (0..4).filter(|seat| failed(way, *seat)).collect::<Vec<_>>();
        assert!(ways.iter().any(|way| victims(way) == [0, 1, 2]), "as Postgres did once");
        assert!(ways.iter().any(|way| victims(way) == [1, 2]));
        assert!(ways.iter().all(|way| !victims(way).is_empty()));
    }
}
