//! Visits: hops repeated until the visited upstreams are propagated or fail. One group's trouble
//! never stops its neighbours. Shared by the dispatcher and the dependency reconciler.

use std::collections::{BTreeMap, BTreeSet};

use crate::cascade::HopLimits;
use crate::cascade::hop::{Hop, Hopped, MarkPropagated, Plan};
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, Partition};
use crate::mutants::mutated;
use crate::reconcile::{Failing, Pass, Report, Visited};
use crate::storage::{Consistency, Page, PlanQuery, Scope, Snapshot, Storage, UpstreamScan};
use crate::time::Timestamp;
use crate::transact::transact;

/// Hops in a row that may change nothing before a visit gives its upstreams up as failing.
const IDLE_HOPS_MAX: u32 = 3;

/// Runs hops against one storage.
#[derive(Clone, Copy)]
pub struct Visitor<'a, S, E> {
    /// Where the flows are, and what fails there.
    pub pass: Pass<'a, S, E>,
    /// How much a hop does.
    pub limits: &'a HopLimits,
}

/// The upstreams of one partition that a visit still has to settle.
struct Visit {
    queue: BTreeSet<ExecutionId>,
    report: Report,
}

impl Visit {
    fn absorb(&mut self, hopped: &Hopped, failing: &Failing) {
        self.report.reconciled += hopped.edges as u64 + hopped.settled.len() as u64;
        for id in &hopped.settled {
            self.queue.remove(id);
            failing.forget(Visited::Upstream(*id));
        }
        self.queue.extend(&hopped.skipped);
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
                let mut reader = self.pass.storage.snapshot(Consistency::Statement).await?;
                reader.scan_upstreams(&scan).await?
            };
            report.scanned += found.len() as u64;
            page.after = found.last().copied();
            let due = self.due(&found, Visited::Upstream, &mut report);
            for upstreams in by_partition(&due).into_values() {
                report += self.visit(upstreams).await;
            }
            if found.len() < limit as usize || (report.errors > 0 && mutated!(P43)) {
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
                let mut reader = self.pass.storage.snapshot(Consistency::Statement).await?;
                reader.scan_stuck_groups(&page).await?
            };
            report.scanned += found.len() as u64;
            page.after = found.last().copied();
            let due = self.due(&found, Visited::Group, &mut report);
            for groups in by_partition(&due).into_values() {
                let groups: Vec<ExecutionId> = groups.into_iter().collect();
                if self.repair_all(&groups, &mut report).await.is_ok() {
                    for group in groups {
                        self.pass.failing.forget(Visited::Group(group));
                    }
                    continue;
                }
                for group in groups {
                    let repaired = self.repair_all(&[group], &mut report).await;
                    self.pass.visited(Visited::Group(group), &repaired);
                    report.errors += u64::from(repaired.is_err());
                }
            }
            if found.len() < limit as usize {
                return Ok(report);
            }
        }
    }

    /// Repairs some groups of one partition in one hop.
    async fn repair_all(
        &self,
        groups: &[ExecutionId],
        report: &mut Report,
    ) -> Result<(), EngineError> {
        let plan = Plan { upstreams: Vec::new(), groups: groups.to_vec(), repair: true };
        let hopped = self.hop(plan).await?;
        report.reconciled += hopped.moved as u64;
        *report += self.visit(hopped.skipped.into_iter().collect()).await;
        Ok(())
    }

    /// Those that are to be visited now; the others fail, and are left alone for a while.
    fn due(
        &self,
        found: &[ExecutionId],
        visited: fn(ExecutionId) -> Visited,
        report: &mut Report,
    ) -> Vec<ExecutionId> {
        let due = found.iter().copied().filter(|id| self.pass.is_due(visited(*id)));
        let due: Vec<ExecutionId> = due.collect();
        report.errors += (found.len() - due.len()) as u64;
        due
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
                    visit.absorb(&hopped, self.pass.failing);
                    let changed = hopped.edges + hopped.settled.len() > 0;
                    idle = if changed { 0 } else { idle + 1 };
                }
                Err(_) => self.one_by_one(&mut visit, &batch).await,
            }
            if idle > IDLE_HOPS_MAX {
                for upstream in batch {
                    self.give_up(&mut visit, upstream, "hops from it change nothing");
                }
            }
        }
        for upstream in visit.queue.clone() {
            self.give_up(&mut visit, upstream, "a visit allows no more hops");
        }
        visit.report
    }

    /// Leaves an upstream for later: it failed.
    fn give_up(&self, visit: &mut Visit, upstream: ExecutionId, why: impl ToString) {
        visit.report.errors += 1;
        visit.queue.remove(&upstream);
        self.pass.visited(Visited::Upstream(upstream), &Err::<(), _>(why));
    }

    /// Retries a failed batch group by group; an upstream with a failing group is left for later.
    async fn one_by_one(&self, visit: &mut Visit, batch: &[ExecutionId]) {
        for upstream in batch {
            if let Err(error) = self.each_group(visit, *upstream).await {
                self.give_up(visit, *upstream, error);
                if mutated!(P04) {
                    visit.queue.clear();
                    return;
                }
            }
        }
    }

    /// Hops from one upstream, one group at a time; the last error if one of its groups fails.
    ///
    /// Each plan is larger by the groups that were tried before, so that those which fail never
    /// hide the ones behind them.
    async fn each_group(&self, visit: &mut Visit, upstream: ExecutionId) -> Result<(), String> {
        let mut tried: BTreeSet<ExecutionId> = BTreeSet::new();
        let mut failed = None;
        for _ in 0..self.limits.hops_max {
            let past =
                if mutated!(S01) { 0 } else { u32::try_from(tried.len()).unwrap_or(u32::MAX) };
            let limit = self.limits.groups_max.saturating_add(past);
            let planned = self.plan(&[upstream], limit).await;
            let planned = planned.map_err(|error| error.to_string())?;
            let mut groups: Vec<ExecutionId> =
                planned.into_iter().filter(|group| !tried.contains(group)).collect();
            let done = groups.is_empty();
            groups.truncate(1);
            tried.extend(&groups);
            if let (true, Some(error)) = (done, &failed) {
                return Err(String::clone(error));
            }
            let plan = Plan { upstreams: vec![upstream], groups, repair: false };
            match self.hop(plan).await {
                Ok(hopped) => visit.absorb(&hopped, self.pass.failing),
                Err(error) => failed = Some(error.to_string()),
            }
            if done || (failed.is_some() && mutated!(P04)) {
                return failed.map_or(Ok(()), Err);
            }
        }
        Err("a visit allows no more hops".into())
    }

    async fn hop_from(&self, upstreams: &[ExecutionId]) -> Result<Hopped, EngineError> {
        let groups = self.plan(upstreams, self.limits.groups_max).await?;
        if mutated!(P01) {
            let mark = MarkPropagated { upstreams: upstreams.to_vec() };
            transact(self.pass.storage, self.pass.environment, self.pass.budget, &mark).await?;
        }
        self.hop(Plan { upstreams: upstreams.to_vec(), groups, repair: false }).await
    }

    async fn plan(
        &self,
        upstreams: &[ExecutionId],
        limit: u32,
    ) -> Result<Vec<ExecutionId>, EngineError> {
        let query = PlanQuery { upstreams: upstreams.to_vec(), limit };
        let mut reader = self.pass.storage.snapshot(Consistency::Statement).await?;
        Ok(reader.plan_groups(&query).await?)
    }

    async fn hop(&self, plan: Plan) -> Result<Hopped, EngineError> {
        let hop = Hop { plan };
        let hopped =
            transact(self.pass.storage, self.pass.environment, self.pass.budget, &hop).await;
        if mutated!(P03) && matches!(hopped, Err(EngineError::Contention(_))) {
            let mark = MarkPropagated { upstreams: hop.plan.upstreams.clone() };
            transact(self.pass.storage, self.pass.environment, self.pass.budget, &mark).await?;
        }
        let hopped = hopped?;
        if hopped.moved > 0
            && let Some(group) = hop.plan.groups.first()
        {
            self.pass.environment.released(Notice { partition: group.partition });
        }
        if let Some(first) = hopped.skipped.first() {
            self.pass.environment.notify(Notice { partition: first.partition });
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
