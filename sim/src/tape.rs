//! The choice tape: every choice of a universe is a cell, and 0 is the quiet choice. Random mode
//! fills it, counting mode runs through all of it, replay reads it. Never interprets a choice.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// Where a choice is made; part of a cell, so that a replay notices when it has strayed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Site {
    /// A property of the universe: its flow, its actors, its faults.
    Plan,
    /// Which actor goes on.
    Schedule,
    /// What befalls a statement.
    Fault,
    /// What befalls a lock wait.
    Wait,
    /// Who is chosen as deadlock victim.
    Victim,
    /// What befalls a notification.
    Notice,
    /// What a handler reports.
    Outcome,
    /// How long a handler works.
    Work,
    /// How a fault goes on: how long, how far.
    Detail,
    /// Whether a worker repeats a call.
    Repeat,
    /// Whether faults stop here, while universes are counted.
    Heal,
    /// Whether a worker claims along with its report.
    TurnOver,
    /// When an operator acts, and how.
    Operate,
    /// Whether a worker suspends its execution, and how it is resumed.
    Suspend,
    /// Whether a worker says how far it has come, and under which number.
    Progress,
}

/// One choice: `value` of `0..arity`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Site, u16, u16)", into = "(Site, u16, u16)")]
pub struct Cell {
    /// Where.
    pub site: Site,
    /// Among how many.
    pub arity: u16,
    /// Which.
    pub value: u16,
}

impl Cell {
    /// True if a fault strikes by it.
    pub fn is_fault(&self) -> bool {
        self.value > 0 && matches!(self.site, Site::Fault | Site::Wait | Site::Notice)
    }
}

impl From<(Site, u16, u16)> for Cell {
    fn from((site, arity, value): (Site, u16, u16)) -> Self {
        Self { site, arity, value }
    }
}

impl From<Cell> for (Site, u16, u16) {
    fn from(cell: Cell) -> Self {
        (cell.site, cell.arity, cell.value)
    }
}

/// How likely random mode leaves the quiet choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chance {
    /// All values alike.
    Even,
    /// Another value than 0 with this probability, in 65 536ths.
    Of(u16),
}

#[derive(Clone, Debug)]
enum Source {
    /// Past the end reads 0.
    Quiet,
    /// Past the end is drawn.
    Random(Box<ChaCha8Rng>),
    /// Past the end is taken from these numbers, in order; 0 and whatever lies past them is quiet.
    Numbers(Vec<u32>, usize),
    /// Past the end is taken from these cells as far as they fit; then it is quiet.
    Given(Vec<Cell>, usize),
}

/// Cells that an edited tape looks past for one of the wanted site.
const LOOKAHEAD: usize = 64;

/// The choices of one universe.
#[derive(Clone, Debug)]
pub struct Tape {
    cells: Vec<Cell>,
    at: usize,
    source: Source,
    strayed: Option<String>,
}

impl Tape {
    /// An empty tape on which every choice is quiet; with [`Tape::advance`] it counts.
    pub fn quiet() -> Self {
        Self { cells: Vec::new(), at: 0, source: Source::Quiet, strayed: None }
    }

    /// A tape that replays these cells and is quiet afterwards.
    pub fn replay(cells: Vec<Cell>) -> Self {
        Self { cells, ..Self::quiet() }
    }

    /// A tape that replays these cells and is drawn from a seed afterwards.
    pub fn continued(cells: Vec<Cell>, seed: u64, stream: u64) -> Self {
        Self { cells, ..Self::random(seed, stream) }
    }

    /// A tape that takes its choices from the cells of another universe, or from edited ones, as
    /// far as they fit: each from the next one of its site, quiet where none is near. It never
    /// strays, and its own cells are those that were chosen.
    pub fn edited(cells: Vec<Cell>) -> Self {
        Self { source: Source::Given(cells, 0), ..Self::quiet() }
    }

    /// A tape filled from a seed; equal seeds and streams give equal tapes.
    pub fn random(seed: u64, stream: u64) -> Self {
        let mut tape = Self::quiet();
        tape.reseed(seed, stream);
        tape
    }

    /// A tape whose choices come from a generator outside, one number each. Smaller numbers and
    /// fewer of them are quieter, so that a shrinker of lists of numbers shrinks the universe.
    pub fn numbers(numbers: Vec<u32>) -> Self {
        Self { source: Source::Numbers(numbers, 0), ..Self::quiet() }
    }

    /// Starts over with another seed, keeping the allocation.
    pub fn reseed(&mut self, seed: u64, stream: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        self.cells.clear();
        self.at = 0;
        self.strayed = None;
        self.source = Source::Random(Box::new(random));
    }

    /// The choices made or read so far, and those still to be read.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// How many cells were drawn since the start.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Goes back or on to a cell, as a restored state needs it.
    pub fn seek(&mut self, at: usize) {
        assert!(at <= self.cells.len(), "cell {at} is past the end");
        self.at = at;
    }

    /// True if every choice from here on is a new one.
    pub fn at_end(&self) -> bool {
        self.at == self.cells.len()
    }

    /// Why the tape no longer fits what is run, if it does not.
    pub fn strayed(&self) -> Option<&str> {
        self.strayed.as_deref()
    }

    /// Chooses one of `0..arity`. A choice of one leaves no cell.
    pub fn draw(&mut self, site: Site, arity: u16, chance: Chance) -> u16 {
        if arity <= 1 {
            return 0;
        }
        if let Some(cell) = self.cells.get(self.at) {
            self.at += 1;
            if cell.arity == arity && cell.site == site {
                return cell.value;
            }
            if self.strayed.is_none() {
                self.strayed = Some(format!(
                    "cell {} is {:?} of {}, but {site:?} of {arity} is asked",
                    self.at - 1,
                    cell.site,
                    cell.arity
                ));
            }
            return 0;
        }
        let value = match &mut self.source {
            Source::Quiet => 0,
            Source::Random(random) => pick(random.next_u32(), arity, chance),
            Source::Numbers(numbers, at) => {
                let number = numbers.get(*at).copied().unwrap_or(0);
                *at += 1;
                pick(quiet_at_zero(number, chance), arity, chance)
            }
            Source::Given(given, at) => {
                let near = given[*at..].iter().take(LOOKAHEAD);
                match near.clone().position(|cell| cell.site == site) {
                    Some(skipped) => {
                        let value = given[*at + skipped].value;
                        *at += skipped + 1;
                        if value < arity { value } else { 0 }
                    }
                    None => 0,
                }
            }
        };
        self.cells.push(Cell { site, arity, value });
        self.at += 1;
        value
    }

    /// Counts on: the next tape in order, from its start; false when all were seen.
    pub fn advance(&mut self) -> bool {
        while let Some(mut cell) = self.cells.pop() {
            if cell.value + 1 < cell.arity {
                cell.value += 1;
                self.cells.push(cell);
                self.at = 0;
                return true;
            }
        }
        false
    }
}

/// Turns a number of which 0 is to be the quiet one into random bits that are picked from.
fn quiet_at_zero(number: u32, chance: Chance) -> u32 {
    match chance {
        Chance::Even => number >> 16,
        Chance::Of(_) => !number,
    }
}

fn pick(random: u32, arity: u16, chance: Chance) -> u16 {
    let scale = |bits: u32, range: u16| {
        let product = u64::from(bits & 0xFFFF) * u64::from(range);
        u16::try_from(product >> 16).expect("the product is below the range")
    };
    match chance {
        Chance::Even => scale(random, arity),
        Chance::Of(odds) if random >> 16 < u32::from(odds) => 1 + scale(random, arity - 1),
        Chance::Of(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_tape_replays_the_same_choices() {
        let mut tape = Tape::random(7, 1);
        let drawn: Vec<u16> =
            (2..40).map(|arity| tape.draw(Site::Plan, arity, Chance::Even)).collect();
        let mut replay = Tape::replay(tape.cells().to_vec());
        let again: Vec<u16> =
            (2..40).map(|arity| replay.draw(Site::Plan, arity, Chance::Even)).collect();
        assert_eq!(drawn, again);
        assert_eq!(replay.strayed(), None);
        assert_eq!(replay.draw(Site::Plan, 9, Chance::Even), 0, "past the end is quiet");
    }

    #[test]
    fn an_edited_tape_takes_what_fits_and_keeps_what_was_chosen() {
        let cell = |site, arity, value| Cell { site, arity, value };
        let given = vec![
            cell(Site::Fault, 9, 5),
            cell(Site::Schedule, 3, 1),
            cell(Site::Fault, 9, 7),
            cell(Site::Work, 5, 4),
        ];
        let mut tape = Tape::edited(given);
        let mut draw = |site, arity| tape.draw(site, arity, Chance::Even);
        assert_eq!(draw(Site::Schedule, 4), 1, "a cell of another site is passed over");
        assert_eq!(draw(Site::Notice, 4), 0, "none of that site is near");
        assert_eq!(draw(Site::Fault, 8), 7);
        assert_eq!(draw(Site::Work, 3), 0, "there are not so many choices any more");
        assert_eq!(draw(Site::Work, 3), 0, "past the end is quiet");
        assert_eq!(tape.strayed(), None);
        let values: Vec<u16> = tape.cells().iter().map(|cell| cell.value).collect();
        assert_eq!(values, [1, 0, 7, 0, 0]);
    }

    #[test]
    fn a_continued_tape_replays_its_cells_and_draws_the_rest() {
        let cells = vec![Cell { site: Site::Fault, arity: 3, value: 2 }];
        let mut tape = Tape::continued(cells.clone(), 1, 0);
        assert_eq!(tape.draw(Site::Fault, 3, Chance::Of(0)), 2);
        let drawn: Vec<u16> = (0..9).map(|_| tape.draw(Site::Work, 9, Chance::Even)).collect();
        let mut other = Tape::continued(cells, 2, 0);
        other.draw(Site::Fault, 3, Chance::Of(0));
        let others: Vec<u16> = (0..9).map(|_| other.draw(Site::Work, 9, Chance::Even)).collect();
        assert_ne!(drawn, others);
    }

    #[test]
    fn a_tape_that_does_not_fit_says_so() {
        let mut tape = Tape::replay(vec![Cell { site: Site::Fault, arity: 3, value: 2 }]);
        assert_eq!(tape.draw(Site::Fault, 4, Chance::Even), 0);
        assert!(tape.strayed().is_some());
    }

    #[test]
    fn small_numbers_are_quiet() {
        let mut tape = Tape::numbers(vec![0, 0, u32::MAX, u32::MAX]);
        let mut draw = |chance| tape.draw(Site::Fault, 4, chance);
        assert_eq!([draw(Chance::Even), draw(Chance::Of(60_000))], [0, 0]);
        assert_eq!([draw(Chance::Even), draw(Chance::Of(60_000))], [3, 1]);
        assert_eq!([draw(Chance::Even), draw(Chance::Of(60_000))], [0, 0], "past the end");
    }

    #[test]
    fn counting_visits_every_combination_once() {
        let mut tape = Tape::quiet();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let first = tape.draw(Site::Plan, 2, Chance::Even);
            let second = tape.draw(Site::Plan, 2 + first, Chance::Even);
            assert!(seen.insert((first, second)));
            if !tape.advance() {
                break;
            }
        }
        assert_eq!(seen.len(), 2 + 3);
    }

    #[test]
    fn the_quiet_choice_is_left_about_as_often_as_asked() {
        let mut tape = Tape::random(1, 0);
        let left =
            (0..10_000).filter(|_| tape.draw(Site::Fault, 4, Chance::Of(6_554)) != 0).count();
        assert!((800..1_200).contains(&left), "{left}");
    }
}
