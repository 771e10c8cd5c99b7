//! What must hold of events: of leases as of ends, and of what a consumer was handed.

use std::collections::BTreeMap;

use sluicegate::identity::ExecutionId;
use sluicegate::storage::{
    Attempt, AttemptEnd, EventId, EventKind, LeaseChange, NewEvent, Reported,
};

use super::super::ledger::Entry;
use super::{Evidence, Finding, Verdict};

/// What must be told of the end of a lease: nothing if a report ended the execution with it.
fn told_of(attempt: &Attempt) -> Option<LeaseChange> {
    match (attempt.end, attempt.reported) {
        (AttemptEnd::Expired, _) => Some(LeaseChange::Expired),
        (AttemptEnd::Revoked, _) => Some(LeaseChange::Revoked),
        (_, Reported::Finished(_)) => None,
        _ => Some(LeaseChange::Released),
    }
}

pub(super) fn ends_of_leases_are_told(evidence: &Evidence<'_>) -> Verdict {
    let attempts = evidence.rows.attempts.iter();
    let mut due: Vec<_> = attempts
        .filter_map(|attempt| {
            let key = attempt.key;
            let change = told_of(attempt)?;
            Some((key.execution, key.incarnation, key.attempt, change, attempt.ended_at))
        })
        .collect();
    let told = evidence.rows.lease_events.iter().filter_map(|(_, event)| {
        let lease = event.lease()?;
        let NewEvent { execution, incarnation, occurred_at, .. } = *event;
        Some((execution, incarnation, lease.attempt, lease.change, occurred_at))
    });
    let mut told: Vec<_> = told.collect();
    due.sort_unstable();
    told.sort_unstable();
    let apart = due.iter().find(|one| told.binary_search(one).is_err());
    let apart = apart.or_else(|| told.iter().find(|one| due.binary_search(one).is_err()));
    if let Some(one) = apart {
        let flow = evidence.executions.get(&one.0).map(|row| row.flow);
        return Err(Finding { message: format!("told or due, and not both: {one:?}"), flow });
    }
    match due.len() == told.len() {
        true => Ok(()),
        false => Err(Finding { message: "a lease ended twice".to_owned(), flow: None }),
    }
}

/// Where each event was found in the feed.
type Places = BTreeMap<(ExecutionId, u32, EventKind), u64>;

/// What was handed over, which came in the order of the stream and never again once it was
/// acknowledged.
fn places(evidence: &Evidence<'_>) -> Result<Places, Finding> {
    let (mut places, mut taken) = (Places::new(), BTreeMap::new());
    for book in evidence.books {
        let (mut last, mut acknowledged) = (0, 0);
        for entry in &book.entries {
            match entry {
                Entry::Opened => last = acknowledged,
                Entry::Acknowledged { position } => acknowledged = *position,
                Entry::Handed(handed) => {
                    let Some(event) = handed.event() else {
                        return told(entry, "which tells of nothing");
                    };
                    let behind = std::mem::replace(&mut last, handed.position);
                    if handed.position <= behind {
                        return told(entry, "which comes too late or once more");
                    }
                    let key = (event.execution, event.incarnation, event.kind);
                    let place = *places.entry(key).or_insert(handed.position);
                    let there = *taken.entry(handed.position).or_insert(event);
                    if place != handed.position || there != event {
                        return told(entry, "which was another event, or stood elsewhere");
                    }
                }
                _ => {}
            }
        }
    }
    Ok(places)
}

fn told<T>(entry: &Entry, why: &str) -> Result<T, Finding> {
    Err(Finding { message: format!("a consumer was handed {entry:?}, {why}"), flow: None })
}

pub(super) fn every_event_is_handed_over(evidence: &Evidence<'_>) -> Verdict {
    let mut places = places(evidence)?;
    let rows = evidence.rows;
    let mut events: Vec<&(EventId, NewEvent)> =
        rows.events.iter().chain(&rows.lease_events).collect();
    events.sort_unstable_by_key(|(id, _)| *id);
    let mut last: BTreeMap<ExecutionId, u64> = BTreeMap::new();
    for (_, event) in events {
        let flow = Some(event.flow);
        let key = (event.execution, event.incarnation, event.kind);
        let Some(place) = places.remove(&key) else {
            return Err(Finding { message: format!("never handed over: {event:?}"), flow });
        };
        let behind = last.insert(event.execution, place);
        if behind.is_some_and(|behind| behind >= place) {
            let message = format!("handed over before what came before it: {event:?}");
            return Err(Finding { message, flow });
        }
    }
    match places.keys().find(|(id, ..)| evidence.executions.contains_key(id)) {
        Some(key) => {
            Err(Finding { message: format!("handed over and nowhere stored: {key:?}"), flow: None })
        }
        None => Ok(()),
    }
}
