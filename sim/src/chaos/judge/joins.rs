//! What must hold of joins: edges, counters, decisions, and what they let start or skip.

use sluicegate::policy::Decision;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{AttemptEnd, Edge, Group, Resolution};

use super::{Evidence, Finding, Verdict, wrong, wrong_group};
use crate::oracle;

pub(super) fn counters_equal_a_recount(evidence: &Evidence<'_>) -> Verdict {
    for group in &evidence.rows.groups {
        let edges = evidence.into(group.downstream);
        let count = |resolution| {
            let resolved = edges.iter().filter(|edge| edge.resolution == resolution);
            u32::try_from(resolved.count()).unwrap_or(u32::MAX)
        };
        let (satisfied, unsatisfied) =
            (count(Resolution::Satisfied), count(Resolution::Unsatisfied));
        let all = u32::try_from(edges.len()).unwrap_or(u32::MAX);
        if (group.edges, group.satisfied, group.unsatisfied) != (all, satisfied, unsatisfied) {
            return wrong_group(group, format!("a recount says {all}, {satisfied}, {unsatisfied}"));
        }
        for edge in edges {
            agrees(evidence, group, edge)?;
        }
    }
    Ok(())
}

/// A resolved edge was resolved by its own upstream's outcome. One whose downstream had started or
/// ended when its upstream was replayed keeps what an earlier life has brought it.
fn agrees(evidence: &Evidence<'_>, group: &Group, edge: &Edge) -> Verdict {
    let Some(upstream) = evidence.executions.get(&edge.key.upstream) else {
        return wrong_group(group, format!("no upstream: {edge:?}"));
    };
    if edge.resolution == Resolution::Pending {
        return Ok(());
    }
    let by = edge.upstream_incarnation;
    let outcome = match by {
        Some(by) if by < upstream.incarnation => evidence.end_of(upstream.id, by).filter(|_| {
            let downstream = evidence.executions.get(&group.downstream);
            let ended = downstream.is_some_and(|row| row.state.is_terminal());
            group.decision != Decision::Undecided || ended
        }),
        _ => upstream.state.outcome(),
    };
    let expected = outcome.map(|outcome| oracle::resolve(edge.accepts, outcome));
    match expected == Some(edge.resolution) && by.is_some_and(|by| by <= upstream.incarnation) {
        true => Ok(()),
        false => wrong_group(group, format!("{edge:?} although its upstream is {upstream:?}")),
    }
}

pub(super) fn decisions_are_the_policys(evidence: &Evidence<'_>) -> Verdict {
    for group in &evidence.rows.groups {
        let Group { policy, edges, satisfied, unsatisfied, .. } = *group;
        let expected = oracle::decide(policy, edges, satisfied, unsatisfied);
        if group.decision != expected {
            return wrong_group(group, format!("the policy says {expected:?}"));
        }
    }
    Ok(())
}

pub(super) fn starts_need_a_satisfied_group(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let started = matches!(row.state, State::Ready | State::Active) || row.attempt > 0;
        let group = evidence.groups.get(&row.id);
        if started && group.is_some_and(|group| group.decision != Decision::Satisfied) {
            return wrong(row, format!("{} under {group:?}", row.state.name()));
        }
    }
    Ok(())
}

pub(super) fn skips_are_called_for(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let skipped = row.state == State::Terminal(Outcome::Skipped);
        let group = evidence.groups.get(&row.id);
        let called_for = match row.cause {
            Some(Cause::Unsatisfiable) => {
                let impossible = group.is_some_and(|group| group.decision == Decision::Impossible);
                skipped && impossible && row.attempt == 0
            }
            Some(Cause::Handler) if skipped => {
                let life = evidence.life(row.id, row.incarnation);
                let last = life.last();
                last.is_some_and(|attempt| attempt.end == AttemptEnd::Skipped)
            }
            _ => !skipped,
        };
        if !called_for {
            return wrong(row, format!("{row:?} under {group:?}"));
        }
    }
    Ok(())
}

pub(super) fn propagated_means_resolved(evidence: &Evidence<'_>) -> Verdict {
    for row in evidence.rows.executions.iter().filter(|row| row.propagated) {
        let mut edges = evidence.out_of(row.id).iter();
        if let Some(edge) = edges.find(|edge| edge.resolution == Resolution::Pending) {
            return wrong(row, format!("propagated with {edge:?}"));
        }
    }
    let lost = |edge: &&Edge| !evidence.executions.contains_key(&edge.key.downstream);
    match evidence.rows.edges.iter().find(lost) {
        Some(edge) => {
            Err(Finding { message: format!("an edge leads nowhere: {edge:?}"), flow: None })
        }
        None => Ok(()),
    }
}
