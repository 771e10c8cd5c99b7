//! What a commit did, in words. Never judges.

use sluicegate::policy::Decision;
use sluicegate::state::{Cause, State};
use sluicegate::storage::{
    AttemptEnd, EventKind, Execution, Group, LeaseChange, LeaseEvent, Reported, Resolution,
};

use super::decided;
use crate::history::{Change, Commit};
use crate::report::names::{Names, instant, seconds};

/// Rows of one kind that a commit shows; the rest is counted.
const ROWS_SHOWN: usize = 12;

/// A line for each thing that the commit did.
pub(super) fn lines(commit: &Commit, names: &Names) -> Vec<String> {
    let mut lines = Vec::new();
    submitted(commit, names, &mut lines);
    let attempts = commit.attempts.iter().map(|attempt| {
        let name = names.execution(attempt.key.execution);
        let number = attempt.key.attempt;
        format!("{name}: attempt {number} {}", ended(attempt.end, attempt.reported))
    });
    push(&mut lines, attempts.collect());
    let edges = commit.edges.iter().filter_map(|change| {
        let (before, after) = both(change)?;
        let flipped = before.resolution != after.resolution;
        let ends = (names.execution(after.key.upstream), names.execution(after.key.downstream));
        flipped.then(|| format!("edge {} -> {} {}", ends.0, ends.1, resolved(after.resolution)))
    });
    push(&mut lines, edges.collect());
    let groups = commit.groups.iter().filter_map(|change| {
        let (before, after) = both(change)?;
        (before != after).then(|| joined(after, names))
    });
    push(&mut lines, groups.collect());
    let executions = commit.executions.iter().filter_map(|change| {
        let (before, after) = both(change)?;
        moved(before, after, commit, names)
    });
    push(&mut lines, executions.collect());
    let requests = commit.sibling_requests.iter().filter_map(|change| {
        let group = names.execution(change.after.or(change.before)?.group);
        Some(match change.after {
            Some(_) => format!("asks to cancel what join {group} no longer needs"),
            None => format!("join {group} has nothing left to ask for"),
        })
    });
    push(&mut lines, requests.collect());
    let events = commit.events.iter().map(|(id, event)| {
        let name = names.execution(event.execution);
        format!("event {}: {name} {}", id.0, happened(event.kind))
    });
    push(&mut lines, events.collect());
    let places = commit.positions.iter().map(|given| {
        format!("place {}: {}", given.position.0, names.execution(given.key.execution))
    });
    push(&mut lines, places.collect());
    let horizon = commit.horizon.iter();
    lines.extend(horizon.map(|place| format!("events are gone up to place {}", place.0)));
    let gone = commit.flows.iter().filter(|change| change.after.is_none());
    lines.extend(gone.map(|_| "the flow is gone, with everything that belongs to it".to_owned()));
    lines
}

/// What a resume led to.
pub(super) fn resumed(reported: Reported) -> String {
    match reported {
        Reported::Finished(outcome) => outcome.name().to_owned(),
        Reported::Requeued { delay_us } => format!("ready in {}", seconds(delay_us)),
        Reported::Suspended { epoch } => format!("suspended at epoch {epoch}"),
    }
}

/// How an attempt ended, and what that led to.
pub(super) fn ended(end: AttemptEnd, reported: Reported) -> String {
    let how = match end {
        AttemptEnd::Completed => "completed",
        AttemptEnd::FailedRetryable => "failed, may be tried again",
        AttemptEnd::FailedFatal => "failed for good",
        AttemptEnd::Released => "given back",
        AttemptEnd::Expired => "ended by the reaper",
        AttemptEnd::Revoked => "revoked",
        AttemptEnd::Snoozed => "put off",
        AttemptEnd::Suspended => "suspended",
        AttemptEnd::Skipped => "found not called for",
    };
    match reported {
        Reported::Finished(outcome) => format!("{how}: {}", outcome.name()),
        Reported::Requeued { delay_us } => format!("{how}: again in {}", seconds(delay_us)),
        Reported::Suspended { epoch } => format!("{how} at epoch {epoch}"),
    }
}

fn both<T>(change: &Change<T>) -> Option<(&T, &T)> {
    Some((change.before.as_ref()?, change.after.as_ref()?))
}

fn push(lines: &mut Vec<String>, rows: Vec<String>) {
    let more = rows.len().saturating_sub(ROWS_SHOWN);
    lines.extend(rows.into_iter().take(ROWS_SHOWN));
    if more > 0 {
        lines.push(format!("and {more} more of these"));
    }
}

fn submitted(commit: &Commit, names: &Names, lines: &mut Vec<String>) {
    let created = commit.flows.iter().filter(|change| change.before.is_none());
    for flow in created.filter_map(|change| change.after.as_ref()) {
        let rows = commit.executions.iter().filter_map(|change| change.after.as_ref());
        let in_state = |state: State| {
            let rows =
                rows.clone().filter(move |row| row.flow == flow.key.id && row.state == state);
            let mut all: Vec<String> = rows.map(|row| names.execution(row.id)).collect();
            all.sort_unstable();
            match all.len() {
                0 => "nothing".to_owned(),
                count if count > ROWS_SHOWN => format!("{count} executions"),
                _ => all.join(", "),
            }
        };
        let (ready, blocked) = (in_state(State::Ready), in_state(State::Blocked));
        let name = names.flow(flow.key);
        lines.push(format!("submits {name}: {ready} ready; {blocked} blocked"));
    }
}

fn resolved(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Pending => "pending again",
        Resolution::Satisfied => "satisfied",
        Resolution::Unsatisfied => "unsatisfied",
    }
}

/// What an event says.
pub(super) fn happened(kind: EventKind) -> String {
    match kind {
        EventKind::Completed { outcome } => outcome.name().to_owned(),
        EventKind::Lease(LeaseEvent { attempt, change, .. }) => {
            let change = match change {
                LeaseChange::Acquired => "acquired",
                LeaseChange::Renewed => "renewed",
                LeaseChange::Released => "released",
                LeaseChange::Expired => "expired",
                LeaseChange::Revoked => "revoked",
            };
            format!("lease of attempt {attempt} {change}")
        }
        other => format!("{other:?}"),
    }
}

fn joined(group: &Group, names: &Names) -> String {
    let name = names.execution(group.downstream);
    let Group { edges, satisfied, unsatisfied, decision, .. } = *group;
    let lost = match unsatisfied {
        0 => String::new(),
        some => format!(", {some} unsatisfied"),
    };
    let word = match decision {
        Decision::Undecided => "still open",
        decided_now => decided(decided_now),
    };
    format!("join {name}: {word}, {satisfied} of {edges} satisfied{lost}")
}

/// What became of an execution; none if nothing that a reader follows.
fn moved(before: &Execution, after: &Execution, commit: &Commit, names: &Names) -> Option<String> {
    let name = names.execution(after.id);
    if before.incarnation != after.incarnation {
        let (from, to) = (before.state.name(), after.state.name());
        let life = after.incarnation;
        return Some(format!("{name}: {from} -> {to} (starts again, incarnation {life})"));
    }
    if before.state != after.state {
        let (from, to) = (before.state.name(), after.state.name());
        return Some(format!("{name}: {from} -> {to}{}", circumstances(after, commit)));
    }
    if let (Some(old), Some(new)) = (before.lease, after.lease) {
        if old.nonce != new.nonce {
            return Some(format!("{name}: leased anew{}", circumstances(after, commit)));
        }
        if old.expires_at != new.expires_at {
            return Some(format!("{name}: lease renewed until {}", instant(new.expires_at)));
        }
    }
    if before.propagated != after.propagated {
        return Some(match after.propagated {
            true => format!("{name}: propagated"),
            false => format!("{name}: no longer propagated"),
        });
    }
    (before != after).then(|| format!("{name}: changed while {}", after.state.name()))
}

fn circumstances(after: &Execution, commit: &Commit) -> String {
    let propagated = if after.propagated { ", propagated" } else { "" };
    match after.state {
        State::Active => {
            let until = after.lease.map_or_else(String::new, |lease| {
                let for_us = lease.expires_at.0 - lease.granted_at.0;
                format!(", lease until +{}", seconds(for_us))
            });
            format!(" (attempt {}{until})", after.attempt)
        }
        State::Ready => match commit.clock {
            Some(clock) if after.not_before > clock => {
                format!(" (in {})", seconds(after.not_before.0 - clock.0))
            }
            _ => String::new(),
        },
        State::Terminal(_) => match after.cause {
            None | Some(Cause::Handler) if after.propagated => " (propagated)".to_owned(),
            None | Some(Cause::Handler) => String::new(),
            Some(cause) => format!(" ({}{propagated})", why(cause)),
        },
        State::Blocked | State::Suspended => String::new(),
    }
}

fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::Handler => "as its handler said",
        Cause::AttemptsExhausted => "no attempt is left",
        Cause::Deadline => "its deadline passed",
        Cause::Operator => "cancelled by an operator",
        Cause::Flow => "its flow was cancelled",
        Cause::Sibling => "its siblings were enough",
        Cause::Unsatisfiable => "its join is impossible",
        Cause::Unreadable => "it could not be read, and was given up",
    }
}
