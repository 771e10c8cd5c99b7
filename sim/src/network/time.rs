//! Virtual time on a network: who waits for which instant, and when an actor that found nothing to
//! do looks again. Hosts read no other clock. Never lets time pass: that is up to the lane's loop.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::time::{Timestamp, micros};

use super::Net;
use crate::actors::{Progress, Role};
use crate::driver::turns::POLL_US;
use crate::driver::world::{LOCK_TIMEOUT_US, Standing, World, world};

/// Those who wait, by the instant that they wait for and in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Timers {
    begun: u64,
    waiting: BTreeMap<(i64, u64), Waker>,
}

/// A wait for virtual time to pass.
#[derive(Debug)]
pub(crate) struct Timer {
    until: i64,
    number: Option<u64>,
}

impl Timer {
    pub(crate) fn after(duration: Duration) -> Self {
        Self { until: world(|world| world.now.saturating_add(micros(duration))), number: None }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        world(|world| {
            if self.until <= world.now {
                return Poll::Ready(());
            }
            let timers = &mut world.net().timers;
            let number = *self.number.get_or_insert_with(|| {
                timers.begun += 1;
                timers.begun
            });
            timers.waiting.insert((self.until, number), context.waker().clone());
            Poll::Pending
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        world(|world| {
            if let Some(net) = &mut world.network {
                net.timers.waiting.remove(&(self.until, number));
            }
        });
    }
}

/// What comes of a future within so much virtual time; nothing if it takes longer.
pub(super) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut timer) = (pin!(future), pin!(Timer::after(limit)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// What an actor knew when its turn began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    pub(super) role: Role,
    /// What it watches stood so.
    seen: u64,
    /// The storage's clock.
    at: Timestamp,
}

/// An actor between two turns.
#[derive(Debug)]
pub(super) struct Resting {
    looked: Looked,
    /// Its turn ended then.
    from: i64,
    /// When its next one begins; never, as far as is known.
    next_at: i64,
    waker: Option<Waker>,
}

impl Resting {
    /// A process that polls looks at fixed distances. Polls that would find nothing are not made.
    fn look_at_or_after(&self, at: i64) -> i64 {
        let polls = ((at - self.from).max(1) - 1) / POLL_US + 1;
        self.from + polls * POLL_US
    }
}

/// Waits until the actor's next turn is due.
pub(super) async fn rest(index: usize, looked: Looked, progress: Progress, again: Option<i64>) {
    let at_once = world(|world| {
        let next_at = world.next_turn(looked.role, looked.seen, progress, again);
        let resting = Resting { looked, from: world.now, next_at, waker: None };
        world.net().resting[index] = Some(resting).filter(|_| next_at > world.now);
        next_at <= world.now
    });
    if at_once {
        return tokio::task::yield_now().await;
    }
    poll_fn(|context| {
        world(|world| match &mut world.net().resting[index] {
            Some(resting) => {
                resting.waker = Some(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
    })
    .await;
}

impl World {
    /// What an actor knows as its turn begins.
    pub(super) fn looks(&mut self, index: usize, role: Role) -> Looked {
        self.slots[index].noticed = false;
        Looked { role, seen: self.news.watched_by(role), at: self.storage_now() }
    }

    /// Wakes whoever waits for an instant that has come, and whoever has something to look at;
    /// true if anybody does.
    pub(super) fn wake_the_due(&mut self) -> bool {
        let now = self.now;
        let mut woken = false;
        let timers = &mut self.net().timers.waiting;
        while let Some(first) = timers.first_entry().filter(|first| first.key().0 <= now) {
            first.remove().wake();
            woken = true;
        }
        self.plan_looks();
        for resting in &mut self.net().resting {
            if let Some(due) = resting.take_if(|resting| resting.next_at <= now) {
                due.waker.into_iter().for_each(Waker::wake);
                woken = true;
            }
        }
        woken
    }

    /// Those who rest look again at what has happened since, and at what time has brought.
    fn plan_looks(&mut self) {
        let Some(mut net) = self.network.take() else { return };
        for (index, resting) in net.resting.iter_mut().enumerate() {
            let Some(resting) = resting else { continue };
            let Looked { role, seen, at } = resting.looked;
            if self.slots[index].noticed {
                resting.next_at = self.now;
            } else if self.has_news(role, seen) {
                resting.next_at = resting.next_at.min(resting.look_at_or_after(self.now));
            } else if matches!(role, Role::Worker | Role::Reconciler)
                && let Some(next) = self.next_interesting(role, at)
            {
                resting.next_at = resting.next_at.min(resting.look_at_or_after(next));
            }
        }
        self.network = Some(net);
    }

    /// The next instant at which something happens of itself.
    pub(super) fn next_instant(&mut self) -> Option<i64> {
        let waits = self.slots.iter().filter_map(|slot| match slot.standing {
            Standing::Waiting(since) => Some(since + LOCK_TIMEOUT_US),
            _ => None,
        });
        let next = waits.chain(self.next_event()).min();
        let Net { timers, resting, .. } = self.net();
        let timer = timers.waiting.first_key_value().map(|((at, _), _)| *at);
        let looks = resting.iter().flatten().map(|resting| resting.next_at);
        let looks = looks.filter(|at| *at < i64::MAX);
        looks.chain(timer).chain(next).min()
    }

    /// True if every actor has found that nothing is left to do.
    pub(super) fn rests(&mut self) -> bool {
        let Net { resting, done, .. } = self.net();
        let rests = |resting: &Option<Resting>| {
            resting.as_ref().is_some_and(|resting| resting.next_at == i64::MAX)
        };
        resting.iter().zip(done).all(|(resting, done)| *done || rests(resting))
    }
}
