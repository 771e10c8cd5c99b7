//! In which order actors go on where no choice says otherwise, and how often a choice may. Pure.

use serde::{Deserialize, Serialize};

use crate::random::SplitMix;

/// Steps of a universe for each of its executions, about.
const STEPS_PER_EXECUTION: u64 = 60;
/// Deviations of a universe whose deviations are bounded, at most.
const DELAYS_MAX: u64 = 6;
/// Points at which priorities change, at most.
const CHANGES_MAX: u64 = 3;

/// Actors by priority: whoever can go on and has the highest one does, and at a few steps it falls
/// behind everyone else. Finds a bug that takes d such points with a probability that is bounded
/// from below (Burckhardt and others, "A Randomized Scheduler with Probabilistic Guarantees of
/// Finding Bugs", 2010).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Priorities {
    /// Positions among the actors, the highest priority first.
    pub order: Vec<u8>,
    /// Steps at which whoever goes on loses its priority, in order.
    pub changes: Vec<u32>,
}

/// How a universe is scheduled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// An actor goes on until it cannot; choices deviate as often as the odds say.
    Free,
    /// So do they, but only so often and far apart (Emmi and others, "Delay-Bounded Scheduling",
    /// 2011).
    Bounded {
        /// Deviations, at most.
        delays_max: u32,
        /// How likely one is, in 65 536ths.
        odds: u16,
    },
    /// By priorities, and no choice deviates.
    Priorities(Priorities),
}

impl Order {
    /// That of a seed: one universe in four has priorities, one in four bounds its deviations.
    pub(super) fn of_seed(ids_seed: u64, actors: u8, executions: usize) -> Self {
        let mut random = SplitMix(ids_seed ^ 0x5343_4845_4455_4C45);
        let steps = STEPS_PER_EXECUTION * (executions as u64).max(1);
        match random.next() % 4 {
            0 => {
                let mut order: Vec<u8> = (0..actors).collect();
                for last in (1..order.len()).rev() {
                    let other = usize::try_from(random.next() % (last as u64 + 1)).unwrap_or(0);
                    order.swap(last, other);
                }
                let count = random.next() % (CHANGES_MAX + 1);
                let step = |number: u64| u32::try_from(1 + number % steps).unwrap_or(u32::MAX);
                let mut changes: Vec<u32> = (0..count).map(|_| step(random.next())).collect();
                changes.sort_unstable();
                Order::Priorities(Priorities { order, changes })
            }
            1 => {
                let delays = 1 + random.next() % DELAYS_MAX;
                let odds = (delays * 65_536 / steps).clamp(20, 12_000);
                Order::Bounded {
                    delays_max: u32::try_from(delays).unwrap_or(u32::MAX),
                    odds: u16::try_from(odds).unwrap_or(u16::MAX),
                }
            }
            _ => Order::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_drawn_and_priorities_name_every_actor_once() {
        let orders: Vec<Order> = (0..200).map(|seed| Order::of_seed(seed, 9, 4)).collect();
        let count = |is: fn(&&Order) -> bool| orders.iter().filter(is).count();
        assert!(count(|order| **order == Order::Free) > 60);
        assert!(count(|order| matches!(order, Order::Bounded { .. })) > 20);
        let mut by_priority = 0;
        for order in &orders {
            let Order::Priorities(Priorities { order, changes }) = order else { continue };
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..9).collect::<Vec<u8>>());
            assert!(changes.is_sorted() && changes.len() <= 3, "{changes:?}");
            by_priority += 1;
        }
        assert!(by_priority > 20);
    }
}
