//! The invariants, one file each, one line each in [`TABLE`], and the judge that applies them to
//! commits, to what actors were told and to quiescence. Reads the history only; never the engine's
//! decisions.

mod i01_terminal_iff_event;
mod i02_terminal_is_final;
mod i03_counters;
mod i04_decisions;
mod i05_start_needs_join;
mod i06_skips;
mod i07_leases;
mod i08_drain;
mod i09_legal_states;
mod i10_summary;
mod i11_attempts;
mod i12_cancels;
mod i13_siblings;
mod i14_filters;
mod i15_contention;
mod i16_replies;
mod i17_feed;
mod i18_sequential;
mod i19_durable;
mod i20_retention;
mod i21_propagated;
mod told;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use sluicegate::identity::ExecutionId;
use sluicegate::storage::{AttemptKey, EventKey, Execution};

use crate::history::{Commit, Observation};
use crate::mirror::{Damaged, Mirror};

pub(crate) use i11_attempts::GIVE_BACKS_MAX;
pub use told::{Acknowledged, Asked, Created, Granted, Growth, Heard, Told};

/// What a check says; the message is built only when it is violated.
pub type Verdict = Result<(), String>;

/// One property of a history.
pub struct Invariant {
    /// Its id in the specification.
    pub id: &'static str,
    /// What holds, in one sentence.
    pub title: &'static str,
    /// Checks a committed transaction.
    pub commit: Option<fn(&Context<'_>) -> Verdict>,
    /// Checks what an actor was told.
    pub observe: Option<fn(&Hearing<'_>) -> Verdict>,
    /// Checks what remains when nothing moves any more.
    pub quiescent: Option<fn(&Quiescent<'_>) -> Verdict>,
    /// Hand-made histories, each of which it must reject.
    #[cfg(test)]
    rejects: fn() -> Vec<testing::History>,
}

/// Every invariant, in the order in which they are asked.
pub static TABLE: &[Invariant] = &[
    i01_terminal_iff_event::INVARIANT,
    i02_terminal_is_final::INVARIANT,
    i03_counters::INVARIANT,
    i04_decisions::INVARIANT,
    i05_start_needs_join::INVARIANT,
    i06_skips::INVARIANT,
    i07_leases::INVARIANT,
    i08_drain::INVARIANT,
    i09_legal_states::INVARIANT,
    i10_summary::INVARIANT,
    i11_attempts::INVARIANT,
    i12_cancels::INVARIANT,
    i13_siblings::INVARIANT,
    i15_contention::INVARIANT,
    i16_replies::INVARIANT,
    // Before I14: what nobody is handed is no matter of filters.
    i17_feed::INVARIANT,
    i14_filters::INVARIANT,
    i18_sequential::INVARIANT,
    i19_durable::INVARIANT,
    i20_retention::INVARIANT,
    i21_propagated::INVARIANT,
];

/// An invariant that a history breaks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{invariant}: {message}")]
pub struct Violation {
    /// Its id.
    pub invariant: &'static str,
    /// What breaks it.
    pub message: String,
}

/// A commit beside the state *after* it; what stood before is in its changes.
pub struct Context<'a> {
    /// The committed state, this commit included.
    pub mirror: &'a Mirror,
    /// What actors were told before.
    pub told: &'a Told,
    /// The commit.
    pub commit: &'a Commit,
    /// Downstreams whose group or inbound edges changed, in id order.
    pub touched: &'a [ExecutionId],
    /// The feed tells of leases that are granted and extended.
    pub tells_grants: bool,
    /// What the lock-order graph says against this transaction.
    pub order_violation: Option<&'a str>,
}

/// Something that an actor is told, beside what it could know.
pub struct Hearing<'a> {
    /// The committed state when the reply arrives.
    pub mirror: &'a Mirror,
    /// What was told before.
    pub told: &'a Told,
    /// The reply.
    pub observation: &'a Observation,
}

/// What remains when nothing moves any more.
pub struct Quiescent<'a> {
    /// The committed state.
    pub mirror: &'a Mirror,
    /// What actors were told.
    pub told: &'a Told,
    /// Whether terminal executions must be propagated.
    pub propagation: Propagation,
}

/// Whether terminal executions must be propagated at quiescence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    /// They must.
    Required,
    /// The design under test does not keep the flag as ours does: I21 is off.
    Ignored,
}

/// Applies the invariants to the history of one universe.
#[derive(Clone, Debug)]
pub struct Judge {
    enabled: u32,
    propagation: Propagation,
    tells_grants: bool,
    mirror: Mirror,
    told: Told,
    touched: Vec<ExecutionId>,
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Judge {
    /// A judge that asks every invariant.
    pub fn new() -> Self {
        assert!(TABLE.len() < 32, "the set of enabled invariants is 32 bits wide");
        Self {
            enabled: (1 << TABLE.len()) - 1,
            propagation: Propagation::Required,
            tells_grants: false,
            mirror: Mirror::default(),
            told: Told::default(),
            touched: Vec::new(),
        }
    }

    /// The same judge without the invariant of that id, which must exist.
    #[must_use]
    pub fn without(mut self, id: &str) -> Self {
        self.enabled &= !(1 << position(id));
        if id == i21_propagated::INVARIANT.id {
            self.propagation = Propagation::Ignored;
        }
        self
    }

    /// The same judge with no invariant but the one of that id, which must exist.
    #[must_use]
    pub fn only(mut self, id: &str) -> Self {
        self.enabled = 1 << position(id);
        self
    }

    /// The same judge, of a feed that tells of grants and renewals.
    #[cfg(test)]
    fn telling(mut self) -> Self {
        self.tells_grants = true;
        self
    }

    /// Forgets the universe and keeps the allocations and the enabled set. In the next one the feed
    /// tells of grants and renewals, or it does not.
    pub fn reset(&mut self, tells_grants: bool) {
        self.tells_grants = tells_grants;
        self.mirror.reset();
        self.told.reset();
    }

    /// The committed state.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Takes note that every event that there is was deleted.
    pub fn events_deleted(&mut self) {
        self.mirror.forget_events();
    }

    /// Takes note of an event that was deleted.
    pub fn event_lost(&mut self, event: EventKey) {
        self.mirror.lose_event(event);
    }

    /// Takes note of a request for sibling cancellation that was deleted.
    pub fn request_lost(&mut self, group: ExecutionId) {
        self.mirror.lose_request(group);
    }

    /// Takes note of a row that was damaged.
    pub fn damaged(&mut self, damaged: Damaged) {
        self.mirror.damage(damaged);
    }

    /// What actors were told.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Takes a commit in and checks it; the first violation in the order of the table. An empty
    /// commit carries what the lock-order graph says against a transaction that wrote nothing.
    pub fn commit(
        &mut self,
        commit: &Commit,
        order_violation: Option<&str>,
    ) -> Result<(), Violation> {
        self.mirror.apply(commit);
        self.touched.clear();
        let groups = commit.groups.iter().filter_map(|change| change.after.or(change.before));
        self.touched.extend(groups.map(|group| group.downstream));
        let edges = commit.edges.iter();
        let edges = edges.filter_map(|change| change.after.as_ref().or(change.before.as_ref()));
        self.touched.extend(edges.map(|edge| edge.key.downstream));
        self.touched.sort_unstable();
        self.touched.dedup();
        self.told.forget(commit);
        let (mirror, told, touched) = (&self.mirror, &self.told, self.touched.as_slice());
        let tells_grants = self.tells_grants;
        let context = Context { mirror, told, commit, touched, tells_grants, order_violation };
        self.ask(|invariant| invariant.commit.map_or(Ok(()), |check| check(&context)))
    }

    /// Checks what an actor was told; called once for each reply that reached one, in order, and
    /// after the commit that it speaks of.
    pub fn observe(&mut self, observation: &Observation) -> Result<(), Violation> {
        if self.mirror.has_pruned_what(observation) {
            return Ok(());
        }
        let hearing = Hearing { mirror: &self.mirror, told: &self.told, observation };
        self.ask(|invariant| invariant.observe.map_or(Ok(()), |check| check(&hearing)))?;
        self.told.record(observation, &self.mirror);
        Ok(())
    }

    /// Takes over from a judge whose commits were lost what actors have asked for; a session that
    /// outlives a crash of its client may still do it.
    pub fn recall_asked(&mut self, lost: &Judge) {
        self.told.recall_asked(&lost.told);
    }

    /// The database has recovered from a crash, with these rows.
    pub fn recovered(&mut self, mirror: Mirror) -> Result<(), Violation> {
        self.mirror = mirror;
        let Self { propagation, .. } = *self;
        let rest = Quiescent { mirror: &self.mirror, told: &self.told, propagation };
        self.ask(|invariant| match invariant.id == i19_durable::INVARIANT.id {
            true => invariant.quiescent.map_or(Ok(()), |check| check(&rest)),
            false => Ok(()),
        })
    }

    /// Checks what remains once faults have stopped and the bounds have passed.
    pub fn quiescent(&self) -> Result<(), Violation> {
        let Self { propagation, .. } = *self;
        let rest = Quiescent { mirror: &self.mirror, told: &self.told, propagation };
        self.ask(|invariant| invariant.quiescent.map_or(Ok(()), |check| check(&rest)))
    }

    fn ask(&self, check: impl Fn(&Invariant) -> Verdict) -> Result<(), Violation> {
        for (bit, invariant) in TABLE.iter().enumerate() {
            if self.enabled & (1 << bit) != 0 {
                check(invariant)
                    .map_err(|message| Violation { invariant: invariant.id, message })?;
            }
        }
        Ok(())
    }
}

fn position(id: &str) -> usize {
    let position = TABLE.iter().position(|invariant| invariant.id == id);
    position.unwrap_or_else(|| panic!("no invariant `{id}` is checked"))
}

impl<'a> Context<'a> {
    /// Executions that existed and still do, before and after.
    pub fn moved(&self) -> impl Iterator<Item = (&'a Execution, &'a Execution)> {
        let changes = self.commit.executions.iter();
        changes.filter_map(|change| Some((change.before.as_ref()?, change.after.as_ref()?)))
    }

    /// True if a replay has started that execution again in this commit.
    fn starts_again(&self, id: ExecutionId) -> bool {
        self.moved().any(|(before, after)| after.id == id && started_again(before, after))
    }

    /// Executions that are new.
    pub fn born(&self) -> impl Iterator<Item = &'a Execution> {
        let changes = self.commit.executions.iter();
        changes.filter(|change| change.before.is_none()).filter_map(|change| change.after.as_ref())
    }

    /// Executions that are new or changed, with what stood before.
    pub fn written(&self) -> impl Iterator<Item = (Option<&'a Execution>, &'a Execution)> {
        let changes = self.commit.executions.iter();
        changes.filter_map(|change| Some((change.before.as_ref(), change.after.as_ref()?)))
    }
}

/// True if what stands after is another incarnation than what stood before.
fn started_again(before: &Execution, after: &Execution) -> bool {
    before.incarnation != after.incarnation
}

/// True if the lease that stood before is not the one that stands after.
fn lease_ended(before: &Execution, after: &Execution) -> bool {
    before.lease.is_some() && !same_lease(before, after)
}

/// True if the lease that stands after is not the one that stood before.
fn lease_granted(before: &Execution, after: &Execution) -> bool {
    after.lease.is_some() && !same_lease(before, after)
}

fn same_lease(before: &Execution, after: &Execution) -> bool {
    let nonces = before.lease.map(|lease| lease.nonce) == after.lease.map(|lease| lease.nonce);
    nonces && (before.incarnation, before.attempt) == (after.incarnation, after.attempt)
}

/// The key under which the end of the present attempt is recorded.
fn attempt_key(row: &Execution) -> AttemptKey {
    AttemptKey { execution: row.id, incarnation: row.incarnation, attempt: row.attempt }
}
