//! Statements as futures: the first poll deposits, a later one executes what the driver allowed.
//! Also the handles of the `model` lane. Never picks who goes on.

mod served;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate::storage::{
    CommitError, Consistency, Result, Snapshot, Storage, StorageError, Transaction, Verb,
};
use sluicegate::time::micros;
use sluicegate::with_verbs;

use crate::database::{Cursor, Database, SessionId, Step};
use crate::driver::world::{Answer, Pending, Permit, Standing, World, world};
use crate::history::ActorId;

/// One statement on its way.
pub(crate) struct Statement<F> {
    actor: ActorId,
    session: Option<SessionId>,
    verb: Verb,
    cursor: Cursor,
    deposited: bool,
    run: F,
}

impl<F> Statement<F> {
    pub(crate) fn new(actor: ActorId, session: Option<SessionId>, verb: Verb, run: F) -> Self {
        Self { actor, session, verb, cursor: Cursor::default(), deposited: false, run }
    }
}

impl<T, F> Future for Statement<F>
where
    F: FnMut(&mut World, &mut Cursor, &Permit) -> Step<Result<T>> + Unpin,
{
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = self.get_mut();
        world(|world| match world.network {
            None => this.step(world),
            Some(_) => this.served(world, context.waker()),
        })
    }
}

impl<T, F> Statement<F>
where
    F: FnMut(&mut World, &mut Cursor, &Permit) -> Step<Result<T>> + Unpin,
{
    fn step(&mut self, world: &mut World) -> Poll<Result<T>> {
        let slot = &mut world.slots[usize::from(self.actor)];
        if slot.dead {
            return Poll::Pending;
        }
        if !self.deposited {
            self.deposited = true;
            slot.pending = Some(Pending::Statement(self.verb));
            slot.standing = Standing::Free;
            return Poll::Pending;
        }
        let Some(permit) = slot.permit.take() else { return Poll::Pending };
        let severed = self.session.is_some() && slot.session != self.session;
        if severed {
            let ended = StorageError::Unavailable("the session was ended".into());
            return self.answer(world, Err(ended));
        }
        if let Permit::Fail(error) = permit {
            return self.answer(world, Err(error));
        }
        match (self.run)(world, &mut self.cursor, &permit) {
            Step::Done(reply) => self.answer(world, reply),
            Step::Yield => self.stand(world, Standing::Yielded),
            Step::Deadlock(cycle) => self.stand(world, Standing::Deadlocked(cycle)),
            Step::Wait => {
                let slot = &world.slots[usize::from(self.actor)];
                let since = match slot.standing {
                    Standing::Waiting(since) => since,
                    _ => world.now,
                };
                self.stand(world, Standing::Waiting(since))
            }
        }
    }

    fn stand(&self, world: &mut World, standing: Standing) -> Poll<Result<T>> {
        world.slots[usize::from(self.actor)].standing = standing;
        Poll::Pending
    }

    fn answer(&self, world: &mut World, reply: Result<T>) -> Poll<Result<T>> {
        let slot = &mut world.slots[usize::from(self.actor)];
        slot.pending = None;
        slot.standing = Standing::Free;
        if reply.is_err() && self.session.is_some() && slot.session == self.session {
            slot.session = None;
            if let Some(session) = self.session {
                world.abort(session, self.actor);
            }
        }
        if self.verb == Verb::LockGroups && reply.is_ok() {
            world.spring();
        }
        world.tally.statements += 1;
        let actor = world.on_behalf(self.actor);
        world.trace.statement(world.now, actor, self.verb, reply.is_ok());
        Poll::Ready(reply)
    }
}

/// A wait for virtual time to pass.
pub(crate) struct Sleep {
    actor: ActorId,
    us: i64,
    until: Option<i64>,
}

impl Sleep {
    pub(crate) fn new(actor: ActorId, duration: Duration) -> Self {
        Self { actor, us: micros(duration), until: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        world(|world| {
            let us = self.us;
            let until = *self.until.get_or_insert(world.now + us);
            let slot = &mut world.slots[usize::from(self.actor)];
            if slot.dead || until > world.now || slot.pending.is_none() {
                slot.pending = Some(Pending::Timer(until));
                return Poll::Pending;
            }
            slot.pending = None;
            slot.permit = None;
            Poll::Ready(())
        })
    }
}

/// A wait for the instant at which somebody has locked groups, and so for the middle of a hop; at
/// most for a while.
pub(crate) struct Ambush(Sleep);

impl Ambush {
    pub(crate) fn new(actor: ActorId, at_most: Duration) -> Self {
        Self(Sleep::new(actor, at_most))
    }
}

impl Future for Ambush {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let actor = self.0.actor;
        world(|world| match self.0.until {
            None => world.ambushes.push(actor),
            Some(_) if !world.ambushes.contains(&actor) => self.0.until = Some(world.now),
            Some(_) => {}
        });
        let waited = Pin::new(&mut self.0).poll(context);
        if waited.is_ready() {
            world(|world| world.ambushes.retain(|other| *other != actor));
        }
        waited
    }
}

impl World {
    /// Groups are locked: whoever lies in wait for that acts now.
    fn spring(&mut self) {
        for actor in std::mem::take(&mut self.ambushes) {
            let slot = &mut self.slots[usize::from(actor)];
            if matches!(slot.pending, Some(Pending::Timer(_))) {
                slot.pending = Some(Pending::Timer(self.now));
            }
        }
    }
}

/// The simulated Postgres, as one actor sees it.
#[derive(Clone, Copy, Debug)]
pub struct ModelStorage {
    pub(crate) actor: ActorId,
}

/// A transaction of the simulated Postgres.
#[derive(Debug)]
pub struct ModelTransaction {
    actor: ActorId,
    session: SessionId,
}

/// A reader of the simulated Postgres.
#[derive(Debug)]
pub struct ModelSnapshot {
    actor: ActorId,
    frozen: Option<Box<Database>>,
}

impl Storage for ModelStorage {
    type Transaction = ModelTransaction;
    type Snapshot = ModelSnapshot;

    async fn begin(&self) -> Result<ModelTransaction> {
        let actor = self.actor;
        let open = move |world: &mut World, _: &mut Cursor, _: &Permit| {
            let session = world.database.open_session(actor);
            let slot = &mut world.slots[usize::from(actor)];
            slot.session = Some(session);
            slot.answer = Answer::Present;
            Step::Done(Ok(session))
        };
        let session = Statement::new(actor, None, Verb::Begin, open).await?;
        Ok(ModelTransaction { actor, session })
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<ModelSnapshot> {
        let frozen = match consistency {
            Consistency::Statement => None,
            Consistency::Snapshot => Some(Box::new(world(|world| world.database.frozen()))),
        };
        Ok(ModelSnapshot { actor: self.actor, frozen })
    }
}

impl Drop for ModelTransaction {
    /// A handle that is dropped before its end is cancelled; a killed actor's session is the
    /// driver's, which took it away before it dropped the futures.
    fn drop(&mut self) {
        world(|world| {
            let slot = &mut world.slots[usize::from(self.actor)];
            if slot.session == Some(self.session) && !slot.dead {
                slot.session = None;
                world.abort(self.session, self.actor);
            }
        });
    }
}

impl World {
    /// A reply with a row that cannot be read is an error.
    fn read<T: 'static>(&self, step: Step<Result<T>>) -> Step<Result<T>> {
        match step {
            Step::Done(Ok(reply)) => {
                Step::Done(self.database.unreadable_in(&reply).map_or(Ok(reply), Err))
            }
            step => step,
        }
    }
}

macro_rules! model {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        impl Transaction for ModelTransaction {
            $(async fn $tm(&mut self $(, $ta: &$tty)?) -> Result<$tr> {
                let session = self.session;
                let run = |world: &mut World, cursor: &mut Cursor, _: &Permit| {
                    let step = world.database.$tm(session, cursor $(, $ta)?);
                    world.read(step)
                };
                Statement::new(self.actor, Some(session), Verb::$tv, run).await
            })*

            async fn commit(self) -> Result<(), CommitError> {
                let (actor, session) = (self.actor, self.session);
                let run = |world: &mut World, _: &mut Cursor, permit: &Permit| {
                    world.slots[usize::from(actor)].session = None;
                    if *permit == Permit::CommitLost {
                        world.abort(session, actor);
                        return Step::Done(Ok(Err(CommitError::Unknown)));
                    }
                    world.before_commit();
                    let mut commit = std::mem::take(&mut world.commit);
                    let wrote = world.database.commit(session, &mut commit);
                    world.commit = commit;
                    world.wake_waiters();
                    if wrote {
                        world.committed(actor);
                    }
                    Step::Done(Ok(match permit {
                        Permit::CommitApplied => Err(CommitError::Unknown),
                        _ => Ok(()),
                    }))
                };
                Statement::new(actor, Some(session), Verb::Commit, run).await?
            }

            async fn rollback(self) {
                let (actor, session) = (self.actor, self.session);
                if world(|world| world.slots[usize::from(actor)].session != Some(session)) {
                    return;
                }
                let run = |world: &mut World, _: &mut Cursor, _: &Permit| {
                    world.slots[usize::from(actor)].session = None;
                    world.abort(session, actor);
                    Step::Done(Ok(()))
                };
                // A rollback that nobody answers has rolled back all the same.
                let _ = Statement::new(actor, Some(session), Verb::Rollback, run).await;
            }
        }

        impl Snapshot for ModelSnapshot {
            $(async fn $sm(&mut self $(, $sa: &$sty)?) -> Result<$sr> {
                let frozen = &mut self.frozen;
                let run = move |world: &mut World, _: &mut Cursor, _: &Permit| {
                    let database = frozen.as_deref().unwrap_or(&world.database);
                    let reply = database.$sm($($sa)?);
                    world.read(Step::Done(reply))
                };
                Statement::new(self.actor, None, Verb::$sv, run).await
            })*
        }
    };
}
with_verbs!(model);
