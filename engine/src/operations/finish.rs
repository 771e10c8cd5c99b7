//! The one routine that ends an execution or its attempt, whatever the reason: the row, the attempt
//! history, the events and the change row, in one transaction. Never decides an outcome.

use std::collections::BTreeSet;

use crate::identity::FlowKey;
use crate::mutants::{ensure_rule, mutated};
use crate::state::{Cause, Outcome, State};
use crate::storage::chunks::statements;
use crate::storage::{
    Attempt, AttemptEnd, AttemptKey, EventKind, Execution, ExecutionGuard, ExecutionWrite,
    LeaseChange, NewEvent, Reported, Result, ResultChange, Transaction,
};
use crate::time::Timestamp;

/// One move of an execution, with the attempt that it ends.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// The row as locked.
    pub before: Execution,
    /// The row after the move.
    pub after: Execution,
    /// What happens to the stored result.
    pub result: ResultChange,
    /// The history row, if a lease ends.
    pub attempt: Option<Attempt>,
}

/// The row once it has ended that way. Ends its lease, bumps its epoch, and counts it as propagated
/// at once if nothing depends on it.
pub(crate) fn finished(
    before: &Execution,
    outcome: Outcome,
    cause: Cause,
    now: Timestamp,
) -> Execution {
    // What is given up may have stood anywhere.
    ensure_rule!(
        cause == Cause::Unreadable || before.state.may_become(State::Terminal(outcome)),
        "{} may not become {}",
        before.state.name(),
        outcome.name()
    );
    Execution {
        state: State::Terminal(outcome),
        cause: Some(cause),
        epoch: before.epoch + 1,
        lease: None,
        finished_at: Some(now),
        propagated: !before.has_out,
        charged: before.charged + u32::from(mutated!(P38) && before.lease.is_some()),
        ..*before
    }
}

/// The row once its lease, or its suspension, has ended and it waits for the next attempt.
pub(crate) fn requeued(before: &Execution, not_before: Timestamp) -> Execution {
    ensure_rule!(
        matches!(before.state, State::Active | State::Suspended),
        "only an active or suspended execution goes back to ready"
    );
    Execution {
        state: State::Ready,
        not_before,
        epoch: before.epoch + u64::from(!mutated!(P34)),
        lease: None,
        charged: before.charged + u32::from(mutated!(P38)),
        ..*before
    }
}

/// The row once its lease has ended and it waits for a resume. The attempt is given back, and not
/// counted among those that may be.
pub(crate) fn suspended(before: &Execution) -> Execution {
    ensure_rule!(before.state == State::Active, "only an active execution is suspended");
    let given_back = u32::from(before.charged > 0 && !mutated!(S11));
    Execution {
        state: State::Suspended,
        epoch: before.epoch + 1,
        lease: None,
        charged: before.charged - given_back,
        ..*before
    }
}

/// The history row of the attempt that `before` holds a lease for.
pub(crate) fn ended_attempt(
    before: &Execution,
    end: AttemptEnd,
    reported: Reported,
    payload_hash: u64,
    now: Timestamp,
) -> Option<Attempt> {
    let lease = before.lease?;
    Some(Attempt {
        key: AttemptKey {
            execution: before.id,
            incarnation: before.incarnation,
            attempt: before.attempt,
        },
        epoch: before.epoch,
        nonce: lease.nonce,
        end,
        reported,
        payload_hash,
        granted_at: lease.granted_at,
        ended_at: now,
    })
}

/// Writes moves of executions that this transaction has locked, and tells the projector.
pub(crate) async fn record<T: Transaction>(transaction: &mut T, moves: &[Move]) -> Result<()> {
    let flows = write(transaction, moves).await?;
    record_changes(transaction, &flows).await
}

/// Writes moves of executions that this transaction has locked, none of which brings a result;
/// returns the flows that the projector is to be told of.
pub(crate) async fn write<T: Transaction>(
    transaction: &mut T,
    moves: &[Move],
) -> Result<BTreeSet<FlowKey>> {
    write_within(transaction, moves, u64::MAX).await
}

/// Writes moves as [`write`] does, with at most so many bytes of results in one statement.
pub(crate) async fn write_within<T: Transaction>(
    transaction: &mut T,
    moves: &[Move],
    statement_max_bytes: u64,
) -> Result<BTreeSet<FlowKey>> {
    if moves.is_empty() {
        return Ok(BTreeSet::new());
    }
    // Marking an upstream propagated moves nothing that a summary counts.
    let moved = moves.iter().filter(|one| one.after.state != one.before.state);
    let moved: BTreeSet<FlowKey> = moved.map(|one| one.after.flow_key()).collect();
    if mutated!(P63) {
        // Numbered as early as an event is, long before the commit.
        record_changes(transaction, &moved).await?;
    }
    record_attempts(transaction, moves).await?;
    let writes: Vec<ExecutionWrite> = moves.iter().map(Move::write).collect();
    for writes in statements(&writes, statement_max_bytes) {
        let written = transaction.write_executions(writes).await?;
        ensure_rule!(written.len() == writes.len(), "a locked execution changed under its lock");
    }
    record_events(transaction, moves).await?;
    Ok(if mutated!(P63) { BTreeSet::new() } else { moved })
}

/// Writes the move of a locked execution that cannot be read, all of its row anew, and tells the
/// projector.
pub(crate) async fn record_anew<T: Transaction>(transaction: &mut T, one: &Move) -> Result<()> {
    let moves = std::slice::from_ref(one);
    record_attempts(transaction, moves).await?;
    transaction.mend_executions(&[one.after]).await?;
    record_events(transaction, moves).await?;
    record_changes(transaction, &BTreeSet::from([one.after.flow_key()])).await
}

/// Records the attempts that these moves end, while their executions still name the workers.
async fn record_attempts<T: Transaction>(transaction: &mut T, moves: &[Move]) -> Result<()> {
    let attempts: Vec<Attempt> = moves.iter().filter_map(|one| one.attempt).collect();
    match attempts.is_empty() {
        true => Ok(()),
        false => transaction.insert_attempts(&attempts).await,
    }
}

/// Tells the feed of these moves.
async fn record_events<T: Transaction>(transaction: &mut T, moves: &[Move]) -> Result<()> {
    let events: Vec<NewEvent> = moves.iter().flat_map(Move::events).collect();
    match events.is_empty() {
        true => Ok(()),
        false => transaction.insert_events(&events).await,
    }
}

/// Tells the projector which flows had executions moved.
pub(crate) async fn record_changes<T: Transaction>(
    transaction: &mut T,
    flows: &BTreeSet<FlowKey>,
) -> Result<()> {
    if flows.is_empty() {
        return Ok(());
    }
    let flows: Vec<FlowKey> = flows.iter().copied().collect();
    transaction.insert_flow_changes(&flows).await
}

impl Move {
    fn write(&self) -> ExecutionWrite {
        ExecutionWrite {
            guard: ExecutionGuard { state: self.before.state, epoch: self.before.epoch },
            after: self.after,
            result: self.result.clone(),
        }
    }

    /// What the feed is told: that a lease has ended, then that the execution has.
    fn events(&self) -> impl Iterator<Item = NewEvent> + use<> {
        self.lease_event().into_iter().chain(self.completion_event())
    }

    /// A lease that ended, unless its own report ended the execution.
    fn lease_event(&self) -> Option<NewEvent> {
        let attempt = self.attempt.as_ref()?;
        let change = match attempt.end {
            AttemptEnd::Expired if mutated!(S70) => return None,
            AttemptEnd::Expired => LeaseChange::Expired,
            AttemptEnd::Revoked => LeaseChange::Revoked,
            _ if !self.after.state.is_terminal() || mutated!(S71) => LeaseChange::Released,
            _ => return None,
        };
        NewEvent::of_lease(&self.before, change, attempt.ended_at)
    }

    fn completion_event(&self) -> Option<NewEvent> {
        let outcome = self.after.state.outcome()?;
        let silent = self.before.state.is_terminal()
            || (mutated!(P19) && outcome == Outcome::Skipped)
            || (mutated!(P36) && outcome == Outcome::Expired)
            || (mutated!(S05) && self.after.cause == Some(Cause::AttemptsExhausted))
            || (mutated!(P24) && self.after.cause == Some(Cause::Operator))
            || (mutated!(P25) && self.after.cause == Some(Cause::Sibling))
            || (mutated!(S80) && self.after.cause == Some(Cause::Unreadable));
        (!silent).then(|| NewEvent {
            execution: self.after.id,
            flow: self.after.flow,
            incarnation: self.after.incarnation,
            kind: EventKind::Completed { outcome },
            occurred_at: self.after.finished_at.unwrap_or_default(),
        })
    }
}
