//! The states that were seen: a hash over everything that decides what a universe does next, taken
//! where no future lives but those of handlers at work, and the set of those hashes. Never decides
//! what is explored.
//!
//! Equal states reached at different instants hash alike. Left out is what only tells states apart:
//! nonces, request ids, numbers of events, instants that are past. In counting mode the numbers
//! that an engine draws are derived from this hash, so that equal states also have equal jitter.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::Hash;

use sluicegate::operations::claim::LeaseToken;
use sluicegate::storage::{Execution, Lease};
use sluicegate::time::Timestamp;

use crate::actors::Role;
use crate::driver::Universe;
use crate::driver::turns::SIGMA_US;
use crate::driver::universe::Actor;
use crate::driver::world::{Slot, World, world};
use crate::history::Holder;
use crate::wide::Wide;

/// A state in which no future lives but those of handlers at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// The hash of everything but the faults that may still strike.
    pub(crate) hash: u128,
    /// So many of them.
    pub(crate) faults: u32,
}

/// The states that were seen in one flow, by their hashes. At 128 bits a billion states collide
/// with a probability of 10^-21, at 64 bits of 3 per cent.
///
/// Whatever follows a state with some faults left also follows it with more of them left, so that a
/// state counts as seen if it was with as many or more.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// The most faults that were left.
    seen: BTreeMap<u128, u32>,
}

impl Memo {
    /// Notes a state; false if it was seen before.
    pub(crate) fn note(&mut self, state: State) -> bool {
        match self.seen.entry(state.hash) {
            Entry::Vacant(entry) => {
                entry.insert(state.faults);
                true
            }
            Entry::Occupied(mut entry) => {
                let more = state.faults > *entry.get();
                if more {
                    entry.insert(state.faults);
                }
                more
            }
        }
    }
}

impl Universe {
    /// The present state, in which no future lives but those of handlers at work.
    pub(crate) fn state(&self) -> State {
        let mut hash = Wide::new();
        let elapsed = self.healed.map(|(healed_at, _)| world(|world| world.now - healed_at));
        elapsed.hash(&mut hash);
        self.sweeps.hash(&mut hash);
        hash.mix(self.current as u64);
        if world(|world| world.faults_on) {
            hash.mix(1 + u64::from(self.is_disturbed()));
            hash.mix(u64::from(self.delays_left));
        }
        world(|world| {
            for (actor, slot) in self.actors.iter().zip(&world.slots) {
                hash_actor(&mut hash, actor, world);
                hash.mix(u64::from(slot.noticed));
                hash_work(&mut hash, slot, world);
            }
            hash.mix(world.late.len() as u64);
            world.late.iter().for_each(|late| hash.signed(ahead(late.at, world.now)));
            hash_rows(&mut hash, world);
            hash_told(&mut hash, world);
        });
        State { hash: hash.both(), faults: world(|world| world.faults_left) }
    }
}

/// How far an instant lies ahead; zero once it is there.
fn ahead(at: i64, now: i64) -> i64 {
    if at == i64::MAX { at } else { (at - now).max(0) }
}

fn hash_actor(hash: &mut Wide, actor: &Actor, world: &World) {
    let news = actor.seen != world.news.watched_by(actor.role);
    hash.mix(u64::from(news) | u64::from(actor.done) << 1 | u64::from(actor.off) << 2);
    // A row that became due during its last turn wakes it once more.
    let looks = matches!(actor.role, Role::Worker | Role::Reconciler);
    let due = || world.next_interesting(actor.role, actor.began_at);
    hash.mix(u64::from(looks && !news && due().is_some_and(|at| at <= world.now)));
    hash.signed(ahead(actor.next_at, world.now));
    hash.signed(ahead(actor.asleep_until, world.now));
}

/// What a worker at work will report on, and when: the rest of its turn follows from it.
fn hash_work(hash: &mut Wide, slot: &Slot, world: &World) {
    let Some((token, done_at)) = slot.at_work() else { return hash.mix(0) };
    let LeaseToken { execution, incarnation, attempt, epoch, nonce } = token;
    let rows = world.judge.mirror().executions().iter();
    let lease = rows.filter(|row| row.id == execution).find_map(|row| row.lease);
    let holds = lease.is_some_and(|lease| lease.nonce == nonce);
    hash.mix(1 + u64::from(holds));
    (execution, incarnation, attempt, epoch).hash(hash);
    hash.signed(ahead(done_at, world.now));
}

fn hash_rows(hash: &mut Wide, world: &World) {
    let (database, now) = (&world.database, world.storage_now());
    let mirror = world.judge.mirror();
    for row in mirror.executions() {
        hash_execution(hash, row, now);
        let waits = |other: &&Execution| !other.state.is_terminal();
        let earlier = mirror.executions().iter().filter(waits);
        // Claims go by it, also of executions that are not ready yet, so that its rank matters.
        let rank = earlier.filter(|other| other.not_before < row.not_before).count();
        hash.mix(if row.state.is_terminal() { 0 } else { rank as u64 });
        let told = mirror.events(row.id, row.incarnation);
        hash.mix(told.map_or(0, |events| u64::from(events.count)));
    }
    hash.mix(1);
    for group in database.groups() {
        (group.satisfied, group.unsatisfied, group.decision).hash(hash);
    }
    hash.mix(2);
    for edge in database.edges() {
        (edge.resolution, edge.upstream_incarnation, edge.input).hash(hash);
    }
    hash.mix(3);
    for flow in database.flows() {
        (flow.closing, flow.revision, &flow.tags).hash(hash);
    }
    hash.mix(database.submissions().count() as u64);
    for attempt in database.attempts() {
        (attempt.key, attempt.epoch, attempt.end, attempt.reported).hash(hash);
    }
    hash.mix(4);
    for event in database.events() {
        (event.event.execution, event.event.incarnation, event.event.kind).hash(hash);
    }
    hash.mix(5);
    database.sibling_requests().for_each(|request| request.group.hash(hash));
}

fn hash_execution(hash: &mut Wide, row: &Execution, now: Timestamp) {
    (row.state, row.cause, row.incarnation, row.propagated).hash(hash);
    (row.attempt, row.charged, row.give_backs, row.resumed, row.progress, row.epoch).hash(hash);
    if row.state.is_terminal() {
        // Once it is stale it is so for good; once it is propagated nobody asks.
        let since = row.finished_at.map_or(0, |at| now.0 - at.0);
        hash.signed(if row.propagated { 0 } else { since.clamp(0, SIGMA_US) });
        return;
    }
    hash.signed(ahead(row.not_before.0, now.0));
    let times = row.lease.map(|Lease { granted_at, expires_at, .. }| {
        let limited = row.retry.attempt_timeout_ms.is_some();
        (ahead(expires_at.0, now.0), if limited { now.0 - granted_at.0 } else { 0 })
    });
    times.hash(hash);
    row.deadline.map(|at| ahead(at.0, now.0)).hash(hash);
}

fn hash_told(hash: &mut Wide, world: &World) {
    let told = world.judge.told();
    for report in told.reports() {
        let Holder { execution, incarnation, attempt, epoch, nonce: _ } = report.holder;
        (execution, incarnation, attempt, epoch, report.end, report.reported).hash(hash);
    }
    hash.mix(6);
    let flow = world.judge.mirror().flows().first();
    hash.mix(u64::from(flow.is_some_and(|flow| told.created(flow.request))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_new_once() {
        let mut memo = Memo::default();
        let state = |hash, faults| State { hash, faults };
        assert!(memo.note(state(1, 1)));
        assert!(!memo.note(state(1, 1)));
        assert!(memo.note(state(2, 1)));
        assert!(!memo.note(state(2, 0)));
        assert!(memo.note(state(2, 2)));
        assert!(!memo.note(state(2, 1)));
    }
}
