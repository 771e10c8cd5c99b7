//! Visits: hops repeated until the visited upstreams are propagated or fail. One group's trouble
//! never stops its neighbours. Shared by the dispatcher and the dependency reconciler.

use std::collections::{BTreeMap, BTreeSet};

use crate::cascade::HopLimits;
use crate::cascade::hop::{Hop, Hopped, MarkPropagated, Plan};
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, Partition};
use crate::mutants::mutated;
use crate::reconcile::Report;
use crate::storage::{Consistency, Page, PlanQuery, Scope, Snapshot, Storage, UpstreamScan};
use crate::time::Timestamp;
use crate::transact::{RetryBudget, transact};

/// Hops in a row that may change nothing before a visit gives its upstreams up as failing.
const IDLE_HOPS_MAX: u32 = 3;

/// Runs hops against one storage.
#[derive(Clone, Copy)]
pub struct Visitor<'a, S, E> {
    /// Where the flows are.
    pub storage: &'a S,
    /// Time and randomness.
    pub environment: &'a E,
    /// How a hop is restarted.
    pub budget: &'a RetryBudget,
    /// How much a hop does.
    pub limits: &'a HopLimits,
}

/// The upstreams of one partition that a visit still has to settle.
struct Visit {
    queue: BTreeSet<ExecutionId>,
    report: Report,
}

impl Visit {
    fn absorb(&mut self, hopped: &Hopped) {
        self.report.reconciled += hopped.edges as u64 + hopped.settled.len() as u64;
        for id in &hopped.settled {
            self.queue.remove(id);
        }
        self.queue.extend(&hopped.skipped);
    }

    fn give_up(&mut self, upstream: ExecutionId) {
        self.report.errors += 1;
        self.queue.remove(&upstream);
    }
}

impl<S: Storage, E: Environment> Visitor<'_, S, E> {
    /// Advances every terminal, unpropagated execution of the scope, page by page in id order.
    ///
    /// `finished_by` leaves out those that ended later; `None` compares no times. Errors: only of
    /// the scan itself; what fails within is counted and left for a later visit.
    pub async fn advance(
        &self,
        scope: &Scope,
        finished_by: Option<Timestamp>,
    ) -> Result<Report, EngineError> {
        let mut report = Report::default();
        let limit = self.limits.upstreams_max;
        let mut page = Page { scope: scope.clone(), after: None, limit };
        loop {
            let scan = UpstreamScan { page: page.clone(), finished_by };
            let found = {
                let mut reader = self.storage.snapshot(Consistency::Statement).await?;
                reader.scan_upstreams(&scan).await?
            };
            report.scanned += found.len() as u64;
            page.after = found.last().copied();
            for upstreams in by_partition(&found).into_values() {
                report += self.visit(upstreams).await;
            }
            if found.len() < limit as usize {
                return Ok(report);
            }
        }
    }

    /// Repairs every decided group of the scope whose downstream is still blocked.
    pub async fn repair(&self, scope: &Scope) -> Result<Report, EngineError> {
        let mut report = Report::default();
        let limit = self.limits.groups_max;
        let mut page = Page { scope: scope.clone(), after: None, limit };
        loop {
            let found = {
                let mut reader = self.storage.snapshot(Consistency::Statement).await?;
                reader.scan_stuck_groups(&page).await?
            };
            report.scanned += found.len() as u64;
            page.after = found.last().copied();
            for groups in by_partition(&found).into_values() {
                let groups: Vec<ExecutionId> = groups.into_iter().collect();
                let plan = Plan { upstreams: Vec::new(), groups, repair: true };
                match self.hop(plan).await {
                    Ok(hopped) => {
                        report.reconciled += hopped.moved as u64;
                        report += self.visit(hopped.skipped.into_iter().collect()).await;
                    }
                    Err(_) => report.errors += 1,
                }
            }
            if found.len() < limit as usize {
                return Ok(report);
            }
        }
    }

    /// Repeats hops until the upstreams, all of one partition, and what their hops skip are
    /// propagated, or fail.
    pub async fn visit(&self, upstreams: BTreeSet<ExecutionId>) -> Report {
        let mut visit = Visit { queue: upstreams, report: Report::default() };
        let mut idle = 0;
        for _ in 0..self.limits.hops_max {
            let batch: Vec<ExecutionId> =
                visit.queue.iter().take(self.limits.upstreams_max as usize).copied().collect();
            if batch.is_empty() {
                return visit.report;
            }
            match self.hop_from(&batch).await {
                Ok(hopped) => {
                    visit.absorb(&hopped);
                    let changed = hopped.edges + hopped.settled.len() > 0;
                    idle = if changed { 0 } else { idle + 1 };
                }
                Err(_) => self.one_by_one(&mut visit, &batch).await,
            }
            if idle > IDLE_HOPS_MAX {
                for upstream in batch {
                    visit.give_up(upstream);
                }
            }
        }
        visit.report.errors += visit.queue.len() as u64;
        visit.report
    }

    /// Retries a failed batch group by group; an upstream with a failing group is left for later.
    async fn one_by_one(&self, visit: &mut Visit, batch: &[ExecutionId]) {
        for upstream in batch {
            let settled = self.each_group(visit, *upstream).await;
            if !settled {
                visit.give_up(*upstream);
                if mutated!(P04) {
                    visit.queue.clear();
                    return;
                }
            }
        }
    }

    /// Hops from one upstream, one group at a time; false if one of its groups fails.
    ///
    /// Each plan is larger by the groups that were tried before, so that those which fail never
    /// hide the ones behind them.
    async fn each_group(&self, visit: &mut Visit, upstream: ExecutionId) -> bool {
        let mut tried: BTreeSet<ExecutionId> = BTreeSet::new();
        let mut failed = false;
        for _ in 0..self.limits.hops_max {
            let past =
                if mutated!(S01) { 0 } else { u32::try_from(tried.len()).unwrap_or(u32::MAX) };
            let limit = self.limits.groups_max.saturating_add(past);
            let Ok(planned) = self.plan(&[upstream], limit).await else { return false };
            let mut groups: Vec<ExecutionId> =
                planned.into_iter().filter(|group| !tried.contains(group)).collect();
            let done = groups.is_empty();
            groups.truncate(1);
            tried.extend(&groups);
            if done && failed {
                return false;
            }
            let plan = Plan { upstreams: vec![upstream], groups, repair: false };
            match self.hop(plan).await {
                Ok(hopped) => visit.absorb(&hopped),
                Err(_) => failed = true,
            }
            if done || (failed && mutated!(P04)) {
                return !failed;
            }
        }
        false
    }

    async fn hop_from(&self, upstreams: &[ExecutionId]) -> Result<Hopped, EngineError> {
        let groups = self.plan(upstreams, self.limits.groups_max).await?;
        if mutated!(P01) {
            let mark = MarkPropagated { upstreams: upstreams.to_vec() };
            transact(self.storage, self.environment, self.budget, &mark).await?;
        }
        self.hop(Plan { upstreams: upstreams.to_vec(), groups, repair: false }).await
    }

    async fn plan(
        &self,
        upstreams: &[ExecutionId],
        limit: u32,
    ) -> Result<Vec<ExecutionId>, EngineError> {
        let query = PlanQuery { upstreams: upstreams.to_vec(), limit };
        let mut reader = self.storage.snapshot(Consistency::Statement).await?;
        Ok(reader.plan_groups(&query).await?)
    }

    async fn hop(&self, plan: Plan) -> Result<Hopped, EngineError> {
        let hop = Hop { plan };
        let hopped = transact(self.storage, self.environment, self.budget, &hop).await;
        if mutated!(P03) && matches!(hopped, Err(EngineError::Contention(_))) {
            let mark = MarkPropagated { upstreams: hop.plan.upstreams.clone() };
            transact(self.storage, self.environment, self.budget, &mark).await?;
        }
        let hopped = hopped?;
        if hopped.moved > 0
            && let Some(group) = hop.plan.groups.first()
        {
            self.environment.released(Notice { partition: group.partition });
        }
        if let Some(first) = hopped.skipped.first() {
            self.environment.notify(Notice { partition: first.partition });
        }
        Ok(hopped)
    }
}

fn by_partition(ids: &[ExecutionId]) -> BTreeMap<Partition, BTreeSet<ExecutionId>> {
    let mut partitions: BTreeMap<Partition, BTreeSet<ExecutionId>> = BTreeMap::new();
    for id in ids {
        partitions.entry(id.partition).or_default().insert(*id);
    }
    partitions
}
