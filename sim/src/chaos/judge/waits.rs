//! What only a tick of a reconciler has to bring on, and for how long it may wait: until the next
//! tick that has seen it, by L1, or until no tick comes at all.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate::identity::ExecutionId;
use sluicegate::policy::Decision;
use sluicegate::reconcile::Reconciler;
use sluicegate::state::State;
use sluicegate::storage::{Execution, Resolution};
use sluicegate::time::Timestamp;

use super::super::ticks::Tick;
use super::{Evidence, Finding, Verdict, wrong};
use crate::liveness::Parts;

/// However long ticks last, one must have come by then.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Why a row waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    /// It has ended and is not propagated.
    Propagation,
    /// Its time is over, or will be, and it is not reaped.
    Reaping,
    /// It is blocked behind a group that is decided.
    Release,
}

impl What {
    fn reconciler(self) -> Reconciler {
        match self {
            Self::Propagation | Self::Release => Reconciler::Dependency,
            Self::Reaping => Reconciler::Reaper,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Propagation => "ended and not propagated",
            Self::Reaping => "its time is over and it is not reaped",
            Self::Release => "blocked behind a group that is decided",
        }
    }
}

/// A row that waits for a tick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in super::super) struct Wait {
    execution: ExecutionId,
    incarnation: u32,
    what: What,
    /// Since when, by the row; none where no row says.
    at: Option<Timestamp>,
}

/// When each wait was first seen: a row tells when it was decided, which may be long before others
/// can see it, if its commit is slow.
pub(in super::super) type Seen = BTreeMap<Wait, Timestamp>;

/// What is known once faults have stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Healed {
    /// T0, on the storage's clock.
    pub(in super::super) at: Timestamp,
    /// After so long the next tick brings on what waits.
    pub(in super::super) l1: Parts,
    /// So long no tick need come, besides what ticks were measured to last.
    pub(in super::super) patience: Duration,
    /// Ticks that had ended, or come so far, before the rows were read.
    pub(in super::super) ticks: Vec<Tick>,
    /// What earlier rows had waiting.
    pub(in super::super) seen: Seen,
}

impl Healed {
    fn ticks(&self, of: Reconciler) -> impl Iterator<Item = &Tick> {
        self.ticks.iter().filter(move |tick| tick.is_of(of))
    }

    /// The start of the last tick that left nothing behind.
    fn whole_from(&self, of: Reconciler) -> Option<Timestamp> {
        self.ticks(of).filter(|tick| tick.is_whole()).map(|tick| tick.began_at).max()
    }

    /// So long a reconciler may be silent: a tick that has just missed something is waited for, and
    /// the next one, at the pace that was measured.
    fn silence(&self, of: Reconciler) -> Duration {
        let healthy = self.ticks(of).filter(|tick| tick.began_at >= self.at);
        let longest = healthy.map(Tick::lasted).max().unwrap_or_default();
        (self.patience + longest * 2).min(self.patience.max(SILENCE_MAX))
    }
}

/// What waits in these rows, with when it was first seen: then, unless it is known from earlier.
pub(in super::super) fn seen(evidence: &Evidence<'_>, before: &Seen) -> Seen {
    let now = evidence.rows.now;
    let waits = evidence.rows.executions.iter().flat_map(|row| waits_of(evidence, row));
    waits.map(|wait| (wait, before.get(&wait).copied().unwrap_or(now))).collect()
}

/// What an execution waits for, or will.
fn waits_of(evidence: &Evidence<'_>, row: &Execution) -> impl Iterator<Item = Wait> {
    let ended = row.finished_at.filter(|_| !row.propagated);
    let deadline = row.deadline.filter(|_| !row.state.is_terminal());
    let over_at = [row.attempt_over_at(), deadline].into_iter().flatten().min();
    let group = evidence.groups.get(&row.id);
    let decided = group.is_some_and(|group| group.decision != Decision::Undecided);
    let released = row.state == State::Blocked && decided;
    let wait = |what, at| {
        let Execution { id: execution, incarnation, .. } = *row;
        Wait { execution, incarnation, what, at }
    };
    let waits = [
        ended.map(|at| wait(What::Propagation, Some(at))),
        over_at.map(|at| wait(What::Reaping, Some(at))),
        released.then(|| wait(What::Release, None)),
    ];
    waits.into_iter().flatten()
}

/// Once healed for that long, nothing that only a tick has to see outlasts a tick that has seen it,
/// nor waits while none comes.
pub(super) fn nothing_waits_beyond_l1(evidence: &Evidence<'_>) -> Verdict {
    let Some(healed) = evidence.healed else { return Ok(()) };
    for row in &evidence.rows.executions {
        for wait in waits_of(evidence, row) {
            if let Some(why) = outlasted(healed, &wait).or_else(|| late(evidence, healed, &wait)) {
                return wrong(row, format!("{} {why}", wait.what.words()));
            }
        }
    }
    Ok(())
}

/// A tick that was made for it has left it where it was.
fn outlasted(healed: &Healed, wait: &Wait) -> Option<String> {
    let seen = *healed.seen.get(wait)?;
    let began_at = healed.whole_from(wait.what.reconciler())?;
    let there = wait.at.unwrap_or(seen).max(seen);
    let due = (healed.at + healed.l1.healed()).max(there) + healed.l1.stale_after;
    (began_at > due).then(|| {
        let name = wait.what.reconciler().name();
        let (after, behind) = (began_at.since(healed.at), began_at.since(there));
        format!("behind a {name} tick that began {after:?} after faults, {behind:?} after it stood")
    })
}

/// It waits for longer than any tick lasts. One that has seen it may have ended since it was last
/// looked for, so that this asks for no tick.
fn late(evidence: &Evidence<'_>, healed: &Healed, wait: &Wait) -> Option<String> {
    let reconciler = wait.what.reconciler();
    let bound = healed.l1.total() + healed.silence(reconciler);
    let at = match wait.at {
        Some(at) => at.max(healed.at),
        None => decided_by(evidence, wait.execution, healed.at, bound),
    };
    let waited = evidence.rows.now.since(at);
    (waited > bound).then(|| {
        let name = reconciler.name();
        let last = healed.whole_from(reconciler).map(|began_at| evidence.rows.now.since(began_at));
        match last {
            Some(last) => format!(
                "for {waited:?} after faults, the bound is {bound:?}; the last {name} tick that \
                 left nothing behind began {last:?} ago"
            ),
            None => format!(
                "for {waited:?} after faults, the bound is {bound:?}; no {name} tick completed \
                 that left nothing behind"
            ),
        }
    })
}

/// By when the group of an execution was decided: no row holds the time, but each resolved edge was
/// resolved within the bound of the end of its upstream.
fn decided_by(
    evidence: &Evidence<'_>,
    downstream: ExecutionId,
    healed_at: Timestamp,
    bound: Duration,
) -> Timestamp {
    let edges = evidence.into(downstream).iter();
    let resolved = edges.filter(|edge| edge.resolution != Resolution::Pending);
    let upstreams = resolved.filter_map(|edge| evidence.executions.get(&edge.key.upstream));
    let ends = upstreams.filter_map(|upstream| upstream.finished_at);
    ends.max().unwrap_or(healed_at).max(healed_at) + bound
}

/// Whether anything waits or not, ticks of every reconciler come to an end somewhere, or are
/// answered: how long one takes that has much to do, only the bounds of flows limit.
pub(super) fn reconcilers_tick(evidence: &Evidence<'_>) -> Verdict {
    let Some(healed) = evidence.healed else { return Ok(()) };
    for reconciler in Reconciler::ALL {
        let last = healed.ticks(*reconciler).map(Tick::ended_at).max();
        let quiet = evidence.rows.now.since(last.unwrap_or(healed.at).max(healed.at));
        if quiet > healed.l1.total() + healed.silence(*reconciler) {
            let name = reconciler.name();
            let message =
                format!("no tick of {name} completed or was answered for {quiet:?} after faults");
            return Err(Finding { message, flow: None });
        }
    }
    Ok(())
}
