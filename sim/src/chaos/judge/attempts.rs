//! What must hold between the attempts of an execution: suspensions end by a resume, and progress
//! is what one of them said.

use sluicegate::state::{Cause, State};
use sluicegate::storage::{Attempt, Execution, Reported};

use super::super::work;
use super::{Evidence, Verdict, wrong};

pub(super) fn suspensions_end_by_a_resume(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let past = evidence.attempts(row.id);
        if let Some(pair) = past.windows(2).find(|pair| !goes_on(row, pair[0], pair[1])) {
            return wrong(row, format!("went on without a resume: {pair:?}, but {row:?}"));
        }
        let last = past.last().filter(|last| last.key.incarnation == row.incarnation);
        let suspended = last.and_then(|last| suspension(last));
        if row.state == State::Suspended && suspended != Some(row.epoch) {
            return wrong(row, format!("suspended by nobody: {row:?} after {last:?}"));
        }
        let Some(epoch) = suspended.filter(|epoch| !was_resumed(row, *epoch)) else { continue };
        let stands = match row.state {
            State::Suspended => row.epoch == epoch,
            State::Terminal(_) => ends_a_suspension(row.cause),
            _ => false,
        };
        if !stands {
            return wrong(row, format!("suspended at epoch {epoch} and never resumed: {row:?}"));
        }
    }
    Ok(())
}

/// The epoch of the suspension that an attempt ended in.
fn suspension(past: &Attempt) -> Option<u64> {
    match past.reported {
        Reported::Suspended { epoch } => Some(epoch),
        _ => None,
    }
}

/// The last resume was of that suspension, or of a later one.
fn was_resumed(row: &Execution, epoch: u64) -> bool {
    row.resumed.is_some_and(|resumed| resumed.epoch >= epoch)
}

/// Between two attempts of one life a suspension was resumed.
fn goes_on(row: &Execution, past: &Attempt, next: &Attempt) -> bool {
    let same_life = past.key.incarnation == next.key.incarnation;
    suspension(past).is_none_or(|epoch| !same_life || was_resumed(row, epoch))
}

/// What ends an execution without asking anybody who waits.
fn ends_a_suspension(cause: Option<Cause>) -> bool {
    let ends = [Cause::Deadline, Cause::Operator, Cause::Flow, Cause::Sibling, Cause::Unreadable];
    cause.is_some_and(|cause| ends.contains(&cause))
}

pub(super) fn progress_is_what_an_attempt_said(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let stored = evidence.rows.progress.get(&row.id);
        let said = row
            .progress
            .map(|mark| work::progress(evidence.seed, row.id, row.incarnation, mark).to_vec());
        let drawn = row.progress.is_none_or(|mark| {
            let last = work::fate(evidence.seed, row.id, row.incarnation, mark.attempt).progress;
            (1..=row.attempt).contains(&mark.attempt) && (1..=last).contains(&mark.sequence)
        });
        if stored != said.as_ref() || !drawn {
            return wrong(
                row,
                format!("progress {stored:?}, but {:?} said {said:?}", row.progress),
            );
        }
    }
    Ok(())
}
