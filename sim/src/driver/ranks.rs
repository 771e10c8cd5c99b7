//! The priorities of actors while a universe runs. Never decides who can go on.

use crate::plan::Priorities;

/// Ranks of the actors, the lowest first; none where nothing goes by them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    of_actor: Vec<u32>,
    /// Steps at which whoever goes on falls behind everyone, the last first.
    changes: Vec<u32>,
    step: u32,
    /// The rank of the next one that falls behind.
    behind: u32,
}

impl Ranks {
    /// Those that a universe begins with.
    pub(crate) fn new(priorities: Option<&Priorities>) -> Self {
        let Some(Priorities { order, changes }) = priorities else { return Self::default() };
        let mut ranks = vec![u32::MAX; order.len()];
        for (rank, actor) in (0..).zip(order) {
            if let Some(place) = ranks.get_mut(usize::from(*actor)) {
                *place = rank;
            }
        }
        let behind = u32::try_from(order.len()).unwrap_or(u32::MAX);
        Self { of_actor: ranks, changes: changes.iter().rev().copied().collect(), step: 0, behind }
    }

    /// True if actors go on by priority.
    pub(crate) fn rule(&self) -> bool {
        !self.of_actor.is_empty()
    }

    /// One more step.
    pub(crate) fn step(&mut self) {
        self.step = self.step.saturating_add(1);
    }

    /// The rank of an actor; one that has none comes last.
    pub(crate) fn of(&self, actor: usize) -> u32 {
        self.of_actor.get(actor).copied().unwrap_or(u32::MAX)
    }

    /// That actor goes on; where a change is due it falls behind everyone.
    pub(crate) fn went_on(&mut self, actor: usize) {
        while self.changes.last().is_some_and(|change| *change <= self.step) {
            self.changes.pop();
            if let Some(rank) = self.of_actor.get_mut(actor) {
                *rank = self.behind;
                self.behind += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_goes_on_at_a_change_falls_behind_everyone() {
        let priorities = Priorities { order: vec![2, 0, 1], changes: vec![2, 2] };
        let mut ranks = Ranks::new(Some(&priorities));
        assert!(ranks.rule());
        assert_eq!([0, 1, 2, 9].map(|actor| ranks.of(actor)), [1, 2, 0, u32::MAX]);
        ranks.step();
        ranks.went_on(2);
        assert_eq!(ranks.of(2), 0, "no change is due");
        ranks.step();
        ranks.went_on(2);
        assert!(ranks.of(2) > ranks.of(1));
        assert!(!Ranks::new(None).rule());
    }
}
