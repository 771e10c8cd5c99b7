//! One schedule on the model and on Postgres, one step at a time, until they differ or it ends.
//! Never chooses a step.

use std::collections::BTreeSet;

use sluicegate::identity::ExecutionId;
use sluicegate::state::State;
use sluicegate::storage::{EventId, Verb};

use super::build::{Given, event_key};
use super::calls::Call;
use super::committed;
use super::floor::{Answered, Cell, Counts};
use super::model::{Candidates, Model, Seat};
use super::names::Names;
use super::outcome::{Answer, Failure, Outcome};
use super::seen::Seen;
use super::server::{Server, Trouble, WaitLimits};
use super::words::{Control, Head, Step, Words};
use crate::database::ModelMutant;

/// Steps of one schedule at most, those that end its transactions included.
const STEPS_MAX: usize = 400;

/// Where the steps of a schedule come from.
pub trait Source {
    /// The next step for a model that has come so far; nothing if only the ends are left.
    fn next(&mut self, model: &Model) -> Option<Step>;
}

/// Steps that are written down; those that do not fit are left out.
pub struct Written<'a>(pub std::slice::Iter<'a, Step>);

impl Source for Written<'_> {
    fn next(&mut self, _: &Model) -> Option<Step> {
        self.0.next().cloned()
    }
}

/// A step that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Which.
    pub step: Step,
    /// What the model might have done.
    pub expected: Vec<Outcome>,
    /// What Postgres did.
    pub seen: Outcome,
}

/// Where the two part.
#[derive(Clone, Debug)]
pub enum Divergence {
    /// At the last step that was taken.
    Step,
    /// In what is committed: lines that only the model has, and that only Postgres has.
    Committed {
        /// Of the model.
        model: Vec<String>,
        /// Of Postgres.
        postgres: Vec<String>,
    },
}

/// A schedule that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// Its partition.
    pub partition: u16,
    /// Its sessions.
    pub seats: usize,
    /// What was done.
    pub taken: Vec<Taken>,
    /// Steps that did not fit and were left out, with the reason.
    pub refused: Vec<(Step, String)>,
    /// Where the two part, if they do.
    pub divergence: Option<Divergence>,
}

/// A schedule in play.
struct Game<'a> {
    server: &'a mut Server,
    counts: &'a mut Counts,
    names: Names,
    candidates: Candidates,
    /// The verbs that wait, by session.
    pending: Vec<Option<(Words, Call)>>,
    played: Played,
}

/// What a schedule is played with.
pub struct Table<'a> {
    /// The partition, which nobody else has used.
    pub partition: u16,
    /// One for each session.
    pub limits: &'a [WaitLimits],
    /// A planted bug of the model.
    pub mutant: Option<ModelMutant>,
}

/// Plays a schedule on both.
pub async fn play(
    server: &mut Server,
    table: &Table<'_>,
    source: &mut dyn Source,
    counts: &mut Counts,
) -> Trouble<Played> {
    let names = Names::of(table.partition);
    let expiries = table.limits.iter().map(|limits| limits.expiry()).collect();
    let seats = table.limits.len();
    server.make_stream(names.first_head()).await?;
    let mut game = Game {
        server,
        counts,
        names,
        candidates: Candidates::of(Model::new(names, expiries, table.mutant)),
        pending: vec![None; seats],
        played: Played {
            partition: table.partition,
            seats,
            taken: Vec::new(),
            refused: Vec::new(),
            divergence: None,
        },
    };
    let mut steps = 0;
    let mut ends = false;
    while game.played.divergence.is_none() {
        let drawn = if ends { None } else { source.next(game.candidates.first()) };
        ends = drawn.is_none();
        let Some(step) = drawn.or_else(|| closing(game.candidates.first(), seats)) else { break };
        steps += 1;
        assert!(steps <= STEPS_MAX, "a schedule has more than {STEPS_MAX} steps");
        game.take(step).await?;
    }
    if game.played.divergence.is_none() {
        game.compare_committed().await?;
    }
    Ok(game.played)
}

/// The step that ends what one of the sessions has open.
fn closing(model: &Model, seats: usize) -> Option<Step> {
    (0..seats).find_map(|seat| {
        let control = match model.seat(seat) {
            Seat::Open(_) if !model.waits(seat) => Control::Rollback,
            Seat::Reader(_) => Control::Close,
            _ => return None,
        };
        Some(Step { seat, words: Words::control(control) })
    })
}

impl Game<'_> {
    async fn take(&mut self, step: Step) -> Trouble<()> {
        let Step { seat, words } = &step;
        let seat = *seat;
        let ways = match self.candidates.ways(seat, words) {
            Ok(ways) => ways,
            Err(why) => {
                self.played.refused.push((step, why));
                return Ok(());
            }
        };
        let mut expected: Vec<&Outcome> = Vec::new();
        for way in &ways {
            if !expected.contains(&&way.outcome) {
                expected.push(&way.outcome);
            }
        }
        let before = self.candidates.first().clone();
        let call = before.prepare(seat, words).expect("every candidate let it through");
        let seen = match (words.head, &call) {
            (Head::Control(control), _) => self.server.take(seat, Err(control), &expected).await?,
            (Head::Verb(_), None) => unreachable!("a verb has a call"),
            (Head::Verb(_), Some(call)) => {
                let real = self.as_postgres_numbers_it(words, call.clone()).await?;
                self.server.take(seat, Ok(real), &expected).await?
            }
        };
        let expected = expected.into_iter().cloned().collect();
        self.played.taken.push(Taken { step: step.clone(), expected, seen: seen.clone() });
        if !self.candidates.keep(ways, &seen) {
            self.played.divergence = Some(Divergence::Step);
            return Ok(());
        }
        self.count(&before, &step, call, &seen);
        Ok(())
    }

    /// Numbers of events are the database's own.
    async fn as_postgres_numbers_it(&mut self, words: &Words, call: Call) -> Trouble<Call> {
        let Call::ReadEvent(_) = call else { return Ok(call) };
        let seen = Seen::default();
        let key = event_key(&Given { words, names: self.names, seen: &seen })?;
        let id: EventId = self.server.event_id(key).await?;
        Ok(Call::ReadEvent(id))
    }

    fn count(&mut self, before: &Model, step: &Step, call: Option<Call>, seen: &Outcome) {
        let how_freed = match step.words.head {
            Head::Control(Control::Commit) => Cell::WaitsCommit,
            _ => Cell::WaitsRollback,
        };
        if let (Head::Control(control), Some(Answer::Done)) =
            (step.words.head, seen.answers.get(&step.seat))
        {
            match control {
                Control::Begin => self.counts.hit(Verb::Begin, Cell::Free),
                Control::Commit => self.counts.hit(Verb::Commit, Cell::Free),
                Control::Rollback => self.counts.hit(Verb::Rollback, Cell::Free),
                _ => {}
            }
        }
        if let Some(call) = call {
            self.pending[step.seat] = Some((step.words.clone(), call));
        }
        for (seat, answer) in &seen.answers {
            let Some((words, call)) = self.pending[*seat].take() else { continue };
            let how = if *seat == step.seat { Cell::Free } else { how_freed };
            let answered = Answered {
                words: &words,
                call: &call,
                answer,
                how,
                held: &held_by_others(before, *seat, self.played.seats),
                keys_new: requests_are_new(before, &call),
            };
            self.counts.note(&answered);
        }
    }

    async fn compare_committed(&mut self) -> Trouble<()> {
        let partition = self.names.partition;
        let postgres = self.server.committed(partition.0).await?;
        let equal = |model: &Model| committed::of_model(&model.database, partition) == postgres;
        if self.candidates.retain(equal) {
            return Ok(());
        }
        let model = committed::of_model(&self.candidates.first().database, partition);
        let only = |of: &[String], other: &[String]| {
            of.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        self.played.divergence = Some(Divergence::Committed {
            model: only(&model, &postgres),
            postgres: only(&postgres, &model),
        });
        Ok(())
    }
}

/// Ready executions that other sessions hold.
fn held_by_others(model: &Model, seat: usize, seats: usize) -> BTreeSet<ExecutionId> {
    let others = (0..seats).filter(|other| *other != seat);
    let ids = others
        .flat_map(|other| model.seen(other).executions().map(|row| row.id).collect::<Vec<_>>());
    let ready = |id: &ExecutionId| {
        model.database.execution(*id).is_some_and(|row| row.state == State::Ready)
    };
    ids.filter(ready).collect()
}

fn requests_are_new(model: &Model, call: &Call) -> bool {
    match call {
        Call::InsertSiblingRequests(rows) => {
            let mut known = model.database.sibling_requests();
            !known.any(|known| rows.iter().any(|row| row.group == known.group))
        }
        Call::InsertCancelBacklog(flows) => {
            !model.database.cancel_backlog().any(|known| flows.contains(&known))
        }
        _ => true,
    }
}

impl Played {
    /// The steps that were taken.
    pub fn steps(&self) -> Vec<Step> {
        self.taken.iter().map(|taken| taken.step.clone()).collect()
    }

    /// Failures that Postgres answered with.
    pub fn failures(&self) -> impl Iterator<Item = Failure> {
        self.taken.iter().flat_map(|taken| taken.seen.answers.values()).filter_map(|answer| {
            match answer {
                Answer::Failed(failure) => Some(*failure),
                _ => None,
            }
        })
    }
}
