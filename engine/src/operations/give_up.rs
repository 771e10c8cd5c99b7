//! Giving up an execution whose row, or whose group's row, cannot be read: it ends as failed, and
//! what could not be read is written anew. Leaves alone what can be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::EngineError;
use crate::identity::{ExecutionId, RequestId};
use crate::mutants::mutated;
use crate::operations::call::Call;
use crate::operations::finish::{self, Move};
use crate::policy::{Decision, JoinPolicy};
use crate::state::{Cause, Outcome, State};
use crate::storage::{
    AttemptEnd, Execution, Group, Inserted, Remains, Reported, Resolution, Result, ResultChange,
    Transaction,
};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

/// What became of an execution that was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GivenUp {
    /// It has failed.
    Failed,
    /// It had ended like that before, and still has; its rows can be read again.
    Kept(Outcome),
}

/// The transaction that gives an execution up.
pub(crate) struct GiveUp {
    pub(crate) execution: ExecutionId,
    pub(crate) reason: Arc<str>,
    pub(crate) request: RequestId,
}

impl Body for GiveUp {
    type Out = Result<GivenUp, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let id = self.execution;
        let groups = transaction.hold_groups(&[id]).await?;
        let rows = transaction.hold_executions(&[id]).await?;
        let Some(held) = rows.first() else {
            return Ok(Verdict::Rollback(Err(EngineError::ExecutionNotFound(id))));
        };
        let words = ["give_up", &id.to_string(), &self.reason];
        let call = Call::new(held.row.flow_key(), self.request, &words);
        let reply = match held.row.state {
            State::Terminal(outcome) => GivenUp::Kept(outcome),
            _ => GivenUp::Failed,
        };
        match call.known(transaction).await? {
            Ok(None) => {}
            Ok(Some(known)) => return Ok(Verdict::Rollback(Ok(told(&known.reply)))),
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        }
        let broken = held.row.has_in && groups.first().is_none_or(is_broken);
        if held.unreadable.is_none() && !broken && !mutated!(S81) {
            let refused = format!("execution {id} can be read: there is nothing to give up");
            return Ok(Verdict::Rollback(Err(EngineError::Refused(refused))));
        }
        if broken {
            mend_group(transaction, &held.row, groups.first()).await?;
        }
        let now = transaction.clock().await?;
        end(transaction, held, now).await?;
        match call.record(transaction, kept(reply)).await? {
            Inserted::New => Ok(Verdict::Commit(Ok(reply))),
            // Another call has taken the id in this flow since it was looked for.
            Inserted::Exists => Ok(Verdict::Rollback(Err(call.other_content()))),
        }
    }
}

fn is_broken<T>(held: &Remains<T>) -> bool {
    held.unreadable.is_some()
}

/// The reply as it is kept: nothing, or how it had ended.
fn kept(reply: GivenUp) -> Arc<[u8]> {
    match reply {
        GivenUp::Failed => Arc::from([]),
        GivenUp::Kept(outcome) => Arc::from([State::Terminal(outcome).code()]),
    }
}

fn told(kept: &[u8]) -> GivenUp {
    let state = kept.first().and_then(|code| State::from_code(i64::from(*code)));
    state.and_then(State::outcome).map_or(GivenUp::Failed, GivenUp::Kept)
}

/// Writes a group anew, or one that is gone: of its policy nothing is known, so that it asks for
/// all of its edges, and stands where they have brought it.
async fn mend_group<T: Transaction>(
    transaction: &mut T,
    row: &Execution,
    held: Option<&Remains<Group>>,
) -> Result<()> {
    let edges = transaction.read_edges(&[row.id]).await?;
    let count = |wanted: Resolution| {
        let found = edges.iter().filter(|edge| edge.resolution == wanted).count();
        u32::try_from(found).expect("the edges of a group are limited")
    };
    let satisfied = if mutated!(S82) { 0 } else { count(Resolution::Satisfied) };
    let unsatisfied = count(Resolution::Unsatisfied);
    let edges = count(Resolution::Pending) + count(Resolution::Satisfied) + unsatisfied;
    let policy = JoinPolicy::AllOf;
    let decision = match edges {
        0 => Decision::Undecided,
        _ => policy.decide(edges, satisfied, unsatisfied),
    };
    let (downstream, flow) = (row.id, row.flow);
    let group = Group { downstream, flow, policy, edges, satisfied, unsatisfied, decision };
    if held.is_none() {
        return transaction.insert_groups(&[group]).await;
    }
    transaction.write_joins(&[group]).await?;
    transaction.write_groups(&[group]).await?;
    Ok(())
}

/// Ends what has not ended, and writes anew what cannot be read.
async fn end<T: Transaction>(
    transaction: &mut T,
    held: &Remains<Execution>,
    now: Timestamp,
) -> Result<()> {
    let progress = if mutated!(S83) { None } else { held.row.progress };
    let before = Execution { progress, ..held.row };
    if before.state.is_terminal() {
        if is_broken(held) {
            let cause = before.cause.or(Some(Cause::Unreadable));
            transaction.mend_executions(&[Execution { cause, ..before }]).await?;
        }
        // No state changes, but what a summary says may: its failures are handled through groups.
        return finish::record_changes(transaction, &BTreeSet::from([before.flow_key()])).await;
    }
    let after = finish::finished(&before, Outcome::Failed, Cause::Unreadable, now);
    let reported = Reported::Finished(Outcome::Failed);
    let attempt = finish::ended_attempt(&before, AttemptEnd::Revoked, reported, 0, now);
    let one = Move { before, after, result: ResultChange::Keep, attempt };
    match is_broken(held) {
        true => finish::record_anew(transaction, &one).await,
        false => finish::record(transaction, std::slice::from_ref(&one)).await,
    }
}
