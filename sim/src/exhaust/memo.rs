//! The states that were seen: a hash over everything that decides what a universe does next, taken
//! where no future lives, and the set of those hashes. Never decides what is explored.
//!
//! Equal states reached at different instants hash alike. Left out is what only tells states apart:
//! nonces, request ids, numbers of events, instants that are past. In counting mode the numbers
//! that an engine draws are derived from this hash, so that equal states also have equal jitter.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use sluicegate::storage::{Execution, Lease};
use sluicegate::time::Timestamp;

use crate::driver::Universe;
use crate::driver::schedule::SIGMA_US;
use crate::driver::universe::Actor;
use crate::driver::world::{World, world};
use crate::history::Holder;

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

/// Two independent lanes of multiply and fold; not against an adversary.
#[derive(Clone, Copy, Debug)]
struct Wide {
    left: u64,
    right: u64,
}

impl Wide {
    fn new() -> Self {
        Self { left: 0x243F_6A88_85A3_08D3, right: 0x1319_8A2E_0370_7344 }
    }

    fn fold(value: u64, key: u64) -> u64 {
        let product = u128::from(value) * u128::from(key);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
        let halves = ((product >> 64) as u64, product as u64);
        halves.0 ^ halves.1
    }

    fn mix(&mut self, value: u64) {
        self.left = Self::fold(self.left ^ value, 0x9E37_79B9_7F4A_7C15).rotate_left(29);
        self.right = Self::fold(self.right.wrapping_add(value), 0xD6E8_FEB8_6659_FD93) ^ self.left;
    }

    fn signed(&mut self, value: i64) {
        self.mix(value.cast_unsigned());
    }

    fn both(self) -> u128 {
        u128::from(self.left) << 64 | u128::from(self.right)
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        self.left
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.signed(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.signed(value as i64);
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
    let due = world.next_interesting(actor.began_at);
    hash.mix(u64::from(!news && due.is_some_and(|at| at <= world.now)));
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
    fn lanes_of_the_hash_do_not_follow_each_other() {
        let of = |values: &[u64]| {
            let mut hash = Wide::new();
            for value in values {
                hash.mix(*value);
            }
            hash.both()
        };
        let mut hashes = BTreeSet::new();
        for left in 0..100 {
            for right in 0..100 {
                assert!(hashes.insert(of(&[left, right])));
            }
        }
        let halves = |shift: u32| -> BTreeSet<u64> {
            hashes
                .iter()
                .map(|hash| u64::try_from(hash >> shift & u128::from(u64::MAX)).unwrap())
                .collect()
        };
        assert_eq!((halves(0).len(), halves(64).len()), (10_000, 10_000));
    }

    #[test]
    fn a_state_is_new_once() {
        let mut memo = Memo::default();
        assert!(memo.note(1));
        assert!(!memo.note(1));
        assert!(memo.note(2));
    }
}
