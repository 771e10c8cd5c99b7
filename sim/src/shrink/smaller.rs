//! Plans that are simpler than a plan in one respect each: fewer executions, edges, actors and
//! faults, settings at their defaults. Pure; never knows whether one still fails.

use std::collections::BTreeSet;

use sluicegate::flow::{Additions, EdgeSpec, ExecutionSpec, FlowSpec, Limits};
use sluicegate::policy::JoinPolicy;

use crate::failure::Extent;
use crate::plan::{Cast, Commits, Plan};

/// Every simpler plan, those that are simpler by much first.
pub(super) fn plans(plan: &Plan, extent: Extent) -> Vec<Plan> {
    let mut plans = Vec::new();
    plans.extend(without_executions(plan));
    plans.extend(without_extensions(plan));
    plans.extend(with_fewer_deviations(plan, extent));
    plans.extend(with_fewer_actors(plan));
    plans.extend(with_defaults(plan));
    plans.extend(without_edges(plan));
    plans.extend(with_plain_joins(plan));
    plans.extend(with_plain_executions(plan));
    plans.retain(|smaller| smaller != plan && is_valid(smaller));
    plans
}

fn is_valid(plan: &Plan) -> bool {
    plan.flow.clone().validate(&Limits::default()).is_ok()
}

/// Runs of neighbours: the whole but for one, halves, quarters, down to single ones from the last.
fn chunks(count: usize) -> Vec<std::ops::Range<usize>> {
    let mut chunks = Vec::new();
    let mut size = count.div_ceil(2);
    while size > 0 {
        let mut end = count;
        while end > 0 {
            let start = end.saturating_sub(size);
            chunks.push(start..end);
            end = start;
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    chunks
}

fn without_executions(plan: &Plan) -> Vec<Plan> {
    let names: Vec<&String> = plan.flow.executions.iter().map(|one| &one.name).collect();
    let chunks = chunks(names.len()).into_iter().filter(|chunk| chunk.len() < names.len());
    let without = |chunk: std::ops::Range<usize>| {
        let gone: BTreeSet<&String> = names[chunk].iter().copied().collect();
        let mut smaller = plan.clone();
        smaller.flow.executions.retain(|one| !gone.contains(&one.name));
        mended(smaller)
    };
    chunks.map(without).collect()
}

fn without_extensions(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for at in 0..plan.extensions.len() {
        let mut smaller = plan.clone();
        let _ = smaller.extensions.remove(at);
        plans.push(mended(smaller));
        for one in 0..plan.extensions[at].executions.len() {
            let mut smaller = plan.clone();
            smaller.extensions[at].executions.remove(one);
            plans.push(mended(smaller));
        }
        for one in 0..plan.extensions[at].edges.len() {
            let mut smaller = plan.clone();
            smaller.extensions[at].edges.remove(one);
            plans.push(mended(smaller));
        }
    }
    plans
}

fn without_edges(plan: &Plan) -> Vec<Plan> {
    let without = |chunk: std::ops::Range<usize>| {
        let mut smaller = plan.clone();
        smaller.flow.edges.drain(chunk);
        mended(smaller)
    };
    chunks(plan.flow.edges.len()).into_iter().map(without).collect()
}

/// What named an execution or an edge that is gone goes too.
fn mended(mut plan: Plan) -> Plan {
    let names: BTreeSet<String> =
        plan.whole().executions.iter().map(|one| one.name.clone()).collect();
    let FlowSpec { executions, edges, groups, .. } = &mut plan.flow;
    let own: BTreeSet<&String> = executions.iter().map(|one| &one.name).collect();
    edges.retain(|edge| own.contains(&edge.from) && own.contains(&edge.to));
    groups.retain(|name, policy| fits(name, policy, edges));
    for extension in &mut plan.extensions {
        let Additions { edges, groups, .. } = extension;
        edges.retain(|edge| names.contains(&edge.from) && names.contains(&edge.to));
        groups.retain(|name, policy| fits(name, policy, edges));
    }
    plan.extensions.retain(|one| !one.executions.is_empty() || !one.edges.is_empty());
    if plan.extensions.is_empty() {
        plan.cast.extenders = 0;
    }
    plan
}

/// False if nothing leads into the join any more; asks for no more edges than there are.
fn fits(name: &str, policy: &mut JoinPolicy, edges: &[EdgeSpec]) -> bool {
    let inbound = edges.iter().filter(|edge| edge.to == name).count();
    if let JoinPolicy::Quorum { k, .. } = policy {
        *k = (*k).min(u32::try_from(inbound).unwrap_or(u32::MAX));
    }
    inbound > 0
}

fn with_plain_joins(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for name in plan.flow.groups.keys() {
        let mut smaller = plan.clone();
        smaller.flow.groups.remove(name);
        plans.push(smaller);
    }
    for (at, edge) in plan.flow.edges.iter().enumerate() {
        let mut smaller = plan.clone();
        smaller.flow.edges[at] = EdgeSpec::new(&edge.from, &edge.to);
        plans.push(smaller);
    }
    plans
}

fn with_plain_executions(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (at, one) in plan.flow.executions.iter().enumerate() {
        let plain = ExecutionSpec { retry: one.retry, ..ExecutionSpec::new(&one.name) };
        let mut smaller = plan.clone();
        smaller.flow.executions[at] = plain.clone();
        plans.push(smaller.clone());
        smaller.flow.executions[at].retry.max_attempts = 1;
        smaller.flow.executions[at].retry.attempt_timeout_ms = None;
        plans.push(smaller);
    }
    plans
}

/// Bounds below what the present tape needs: only another tape can keep them.
fn with_fewer_deviations(plan: &Plan, extent: Extent) -> Vec<Plan> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (faults, deviations) = (number(extent.faults), number(extent.deviations));
    let mut plans = Vec::new();
    let mut bounded = |faults_max: u32, delays_max: u32| {
        let none = if faults_max == 0 { None } else { plan.first_fault };
        plans.push(Plan { faults_max, delays_max, first_fault: none, ..plan.clone() });
    };
    for most in [0, faults / 2, faults.saturating_sub(1), faults] {
        if most < plan.faults_max {
            bounded(most, plan.delays_max);
        }
    }
    for most in [0, deviations / 2, deviations.saturating_sub(1), deviations] {
        if most < plan.delays_max {
            bounded(plan.faults_max, most);
        }
    }
    plans
}

fn with_fewer_actors(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut fewer = |change: &dyn Fn(&mut Cast)| {
        let mut smaller = plan.clone();
        change(&mut smaller.cast);
        if smaller.cast != plan.cast {
            // Their places among the actors have changed.
            smaller.hold = None;
            smaller.priorities = None;
            if smaller.cast.extenders == 0 {
                smaller.extensions.clear();
            }
            // Retention waits for the places of events, for ever if nobody gives any.
            smaller.prunes &= smaller.cast.sequencers > 0;
            plans.push(smaller);
        }
    };
    fewer(&|cast| cast.extenders = 0);
    fewer(&|cast| cast.extenders = cast.extenders.min(1));
    fewer(&|cast| cast.operators = 0);
    fewer(&|cast| cast.operators = cast.operators.min(1));
    fewer(&|cast| cast.subscribers = 0);
    fewer(&|cast| (cast.subscribers, cast.sequencers) = (0, 0));
    fewer(&|cast| cast.subscribers = cast.subscribers.min(1));
    fewer(&|cast| cast.sequencers = cast.sequencers.min(1));
    fewer(&|cast| cast.projectors = 0);
    fewer(&|cast| cast.projectors = cast.projectors.min(1));
    fewer(&|cast| cast.resumers = 0);
    fewer(&|cast| cast.resumers = cast.resumers.min(1));
    fewer(&|cast| cast.clients = 1);
    fewer(&|cast| cast.dispatchers = 1);
    fewer(&|cast| cast.reconcilers = 1);
    fewer(&|cast| cast.workers = 1);
    plans
}

fn with_defaults(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut changed = |change: &dyn Fn(&mut Plan)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        plans.push(smaller);
    };
    changed(&|plan| plan.hold = None);
    changed(&|plan| plan.priorities = None);
    changed(&|plan| plan.prunes = false);
    changed(&|plan| plan.progress = false);
    changed(&|plan| plan.ambushes = false);
    changed(&|plan| plan.spoils_ended = false);
    changed(&|plan| plan.sparing = true);
    changed(&|plan| plan.leases = None);
    changed(&|plan| plan.first_fault = None);
    changed(&|plan| plan.commits = Commits::Synchronous);
    changed(&|plan| plan.heal_after = 0);
    changed(&|plan| plan.hop_groups_max = plan.hop_groups_max.max(256));
    changed(&|plan| plan.hop_upstreams_max = plan.hop_upstreams_max.max(1_000));
    changed(&|plan| plan.granular = false);
    changed(&|plan| plan.odds.outcome = 0);
    changed(&|plan| plan.odds.schedule = plan.odds.schedule.min(2_000));
    // The kinds stay: which one a cell chooses depends on all of them.
    changed(&|plan| {
        if plan.faults_max == 0 {
            plan.faults.clear();
        }
    });
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
    use crate::scenario::Workload;

    fn plan(seed: u64) -> Plan {
        let campaign = Campaign {
            lane: LaneKind::Model,
            profile: Profile::Swarm,
            engine: EngineKind::Sluicegate,
            mutant: None,
            workload: Workload::Drawn,
        };
        campaign.plan(seed)
    }

    #[test]
    fn chunks_are_halved_down_to_single_ones() {
        assert_eq!(chunks(0), vec![]);
        assert_eq!(chunks(1), vec![0..1]);
        assert_eq!(chunks(3), vec![1..3, 0..1, 2..3, 1..2, 0..1]);
    }

    #[test]
    fn every_simpler_plan_is_valid_and_another_one() {
        for seed in 0..60 {
            let plan = plan(seed);
            for smaller in plans(&plan, Extent::default()) {
                assert_ne!(smaller, plan);
                assert!(smaller.flow.clone().validate(&Limits::default()).is_ok());
                assert!(smaller.cast.extenders > 0 || smaller.extensions.is_empty());
                assert!(smaller.cast.sequencers > 0 || !smaller.prunes);
            }
        }
    }

    #[test]
    fn simpler_and_simpler_ends_at_one_execution_and_one_actor_a_role() {
        let mut plan = plan(3);
        let mut steps = 0;
        while let Some(smaller) = plans(&plan, Extent::default()).into_iter().next() {
            plan = smaller;
            steps += 1;
            assert!(steps < 1_000, "{plan:?}");
        }
        assert_eq!((plan.flow.executions.len(), plan.flow.edges.len()), (1, 0));
        assert_eq!(plan.cast.actors(), 4);
        assert!(plan.faults.is_empty());
    }
}
