//! Statements where the database is, on a network: executed as they arrive, woken by whoever lets a
//! lock go. What the driver does between two polls elsewhere is done in them. Never picks who goes
//! on: that is up to the order in which messages arrive.

use std::task::{Poll, Waker};

use sluicegate::storage::{Contention, Result, StorageError};

use super::Statement;
use crate::database::{Cursor, SessionId, Step};
use crate::driver::tally::Sometimes;
use crate::driver::world::{LOCK_TIMEOUT_US, Permit, Standing, World};
use crate::tape::{Chance, Site};

impl<T, F> Statement<F>
where
    F: FnMut(&mut World, &mut Cursor, &Permit) -> Step<Result<T>> + Unpin,
{
    pub(super) fn served(&mut self, world: &mut World, waker: &Waker) -> Poll<Result<T>> {
        if !self.deposited {
            self.deposited = true;
            let permit = world.strike_served(self.actor, self.verb);
            let slot = &mut world.slots[usize::from(self.actor)];
            slot.standing = Standing::Free;
            slot.permit = Some(permit);
        }
        let slot = &mut world.slots[usize::from(self.actor)];
        if self.session.is_some() && slot.session != self.session {
            let ended = StorageError::Unavailable("the session was ended".into());
            return self.answer(world, Err(ended));
        }
        let permit = slot.permit.take().unwrap_or(Permit::Run);
        if let Permit::Fail(error) = permit {
            return self.answer(world, Err(error));
        }
        match (self.run)(world, &mut self.cursor, &permit) {
            Step::Done(reply) => self.answer(world, reply),
            Step::Yield => {
                // Whoever else has something to do comes first.
                waker.wake_by_ref();
                self.stand(world, Standing::Yielded)
            }
            Step::Wait => self.wait(world, waker),
            Step::Deadlock(cycle) => match victim(world, &cycle) {
                Some(slot) if slot != usize::from(self.actor) => {
                    let error = StorageError::Contention(Contention::Deadlock);
                    world.slots[slot].permit = Some(Permit::Fail(error));
                    world.wake_waiters();
                    self.wait(world, waker)
                }
                _ => self.fail(world, Contention::Deadlock),
            },
        }
    }

    fn wait(&mut self, world: &mut World, waker: &Waker) -> Poll<Result<T>> {
        let since = match world.slots[usize::from(self.actor)].standing {
            Standing::Waiting(since) => since,
            _ => match world.strike_waiting(self.actor, self.verb) {
                Some(error) => return self.answer(world, Err(error)),
                None => world.now,
            },
        };
        if since + LOCK_TIMEOUT_US <= world.now {
            world.tally.sometimes(Sometimes::LockWaitTimedOut);
            let contention = world.waited_in_vain();
            return self.fail(world, contention);
        }
        world.wait(waker);
        self.stand(world, Standing::Waiting(since))
    }

    fn fail(&mut self, world: &mut World, contention: Contention) -> Poll<Result<T>> {
        self.answer(world, Err(StorageError::Contention(contention)))
    }
}

/// The slot of the session that dies for the others.
fn victim(world: &mut World, cycle: &[SessionId]) -> Option<usize> {
    let arity = u16::try_from(cycle.len()).unwrap_or(1);
    let drawn = world.tape.draw(Site::Victim, arity, Chance::Even);
    let session = cycle[usize::from(drawn)];
    world.slots.iter().position(|slot| slot.session == Some(session))
}
