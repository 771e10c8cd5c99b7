//! The states that were seen: a hash over everything that decides what a universe does next, taken
//! where no future lives, and the set of those hashes. Never decides what is explored.
//!
//! Equal states reached at different instants hash alike. Left out is what only tells states apart:
//! nonces, request ids, numbers of events, instants that are past. In counting mode the numbers
//! that an engine draws are derived from this hash, so that equal states also have equal jitter.

use std::collections::BTreeSet;
use std::hash::Hash;

use sluicegate::storage::{Execution, Lease};
use sluicegate::time::Timestamp;

use crate::driver::Universe;
use crate::driver::turns::SIGMA_US;
use crate::driver::universe::Actor;
use crate::driver::world::{World, world};
use crate::history::Holder;
use crate::wide::Wide;

/// Hashes of the states that were seen in one flow. At 128 bits a billion states collide with a
/// probability of 10^-21, at 64 bits of 3 per cent.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    seen: BTreeSet<u128>,
}

impl Memo {
    /// Notes a state; false if it was seen before.
    pub(crate) fn note(&mut self, state: u128) -> bool {
        self.seen.insert(state)
    }
}

impl Universe {
    /// The hash of the present state, in which no future lives.
    pub(crate) fn state(&self) -> u128 {
        let mut hash = Wide::new();
        let elapsed = self.healed.map(|(healed_at, _)| world(|world| world.now - healed_at));
        elapsed.hash(&mut hash);
        self.sweeps.hash(&mut hash);
        hash.mix(self.current as u64);
        if world(|world| world.faults_on) {
            hash.mix(1 + u64::from(self.is_disturbed()));
            hash.mix(
                u64::from(self.delays_left) << 32 | u64::from(world(|world| world.faults_left)),
            );
        }
        world(|world| {
            for (actor, slot) in self.actors.iter().zip(&world.slots) {
                hash_actor(&mut hash, actor, world);
                hash.mix(u64::from(slot.noticed));
            }
            hash.mix(world.late.len() as u64);
            world.late.iter().for_each(|late| hash.signed(ahead(late.at, world.now)));
            hash_rows(&mut hash, world);
            hash_told(&mut hash, world);
        });
        hash.both()
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
    let due = || world.next_interesting(actor.role, actor.began_at);
    hash.mix(u64::from(!news && due().is_some_and(|at| at <= world.now)));
    hash.signed(ahead(actor.next_at, world.now));
    hash.signed(ahead(actor.asleep_until, world.now));
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
        assert!(memo.note(1));
        assert!(!memo.note(1));
        assert!(memo.note(2));
    }
}
