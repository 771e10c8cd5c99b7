//! What must hold of replays: who starts again, and because of whom.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::state::Outcome;

use super::super::ledger::{Entry, Scope};
use super::{Evidence, Finding, Verdict, wrong};

/// Flows of which a call has no answer may have been replayed without anybody having been told.
pub(super) fn lives_are_counted_by_replays(evidence: &Evidence<'_>) -> Verdict {
    let mut unsure: BTreeSet<FlowId> = BTreeSet::new();
    let mut replays: BTreeMap<ExecutionId, u32> = BTreeMap::new();
    for (_, entry) in evidence.entries() {
        match entry {
            Entry::Unanswered { flow, .. } => {
                unsure.insert(*flow);
            }
            Entry::Replayed { members, .. } => {
                for id in members {
                    *replays.entry(*id).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    for row in evidence.rows.executions.iter().filter(|row| !unsure.contains(&row.flow)) {
        let replays = replays.get(&row.id).copied().unwrap_or(0);
        if row.incarnation != replays {
            return wrong(row, format!("replayed {replays} times: {row:?}"));
        }
    }
    Ok(())
}

/// Every flow had ended when it was replayed, and is replayed once, so that its first lives tell
/// what the scope had to hold.
pub(super) fn scopes_are_kept(evidence: &Evidence<'_>) -> Verdict {
    for (book, entry) in evidence.entries() {
        let Entry::Replayed { flow, scope, members } = entry else { continue };
        if !evidence.flows.contains_key(flow) {
            continue;
        }
        let members: BTreeSet<ExecutionId> = members.iter().copied().collect();
        if let Some(id) = evidence
            .members(*flow)
            .map(|row| row.id)
            .find(|id| due(evidence, *scope, *id).is_some_and(|due| due != members.contains(id)))
        {
            let message = format!("{book} was told {entry:?}, which is wrong about {id}");
            return Err(Finding { message, flow: Some(*flow) });
        }
    }
    Ok(())
}

/// Whether an execution had to start again, as far as its first life alone can tell.
fn due(evidence: &Evidence<'_>, scope: Scope, id: ExecutionId) -> Option<bool> {
    match scope {
        Scope::All => Some(true),
        Scope::From(first) => Some(is_below(evidence, first, id)),
        Scope::Failed => match evidence.end_of(id, 0) {
            Some(Outcome::Failed | Outcome::Expired) => Some(true),
            Some(Outcome::Succeeded) => Some(false),
            _ => None,
        },
    }
}

/// True of an execution and of everything downstream of it.
fn is_below(evidence: &Evidence<'_>, first: ExecutionId, id: ExecutionId) -> bool {
    let mut open = vec![id];
    let mut seen = BTreeSet::new();
    while let Some(next) = open.pop() {
        if next == first {
            return true;
        }
        if seen.insert(next) {
            open.extend(evidence.into(next).iter().map(|edge| edge.key.upstream));
        }
    }
    false
}
