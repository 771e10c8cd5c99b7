//! Faults that damage rows. Which row is drawn among those that nobody has locked; the judge is
//! told, so that it knows what may wait for an operator.

use sluicegate::identity::ExecutionId;
use sluicegate::policy::Decision;
use sluicegate::storage::{EventKey, Execution, codes};

use crate::driver::sqlite_lane::SqliteLane;
use crate::driver::tally::Sometimes;
use crate::driver::universe::{Stores, Universe};
use crate::driver::world::{World, world};
use crate::faults::{FaultKind, Point};
use crate::mirror::Damaged;
use crate::plan::{Backend, Commits};
use crate::tape::{Chance, Site};

impl Universe {
    /// Damages a row, if one can be.
    pub(crate) fn damage(&self, kind: FaultKind, point: Point) {
        match kind {
            FaultKind::EventDeleted => return self.delete_event(point),
            FaultKind::RequestDeleted => return self.delete_request(point),
            _ => {}
        }
        let damaged = world(|world| {
            let damaged = world.draw_damage(kind, self.plan.spoils_ended);
            if damaged.is_none() {
                world.missed(kind, point);
            }
            damaged
        });
        let Some(damaged) = damaged else { return };
        match &self.stores {
            Stores::Model => world(|world| world.database.damage(damaged)),
            Stores::Sqlite(lane) => {
                if !lane.make_unreadable(damaged) {
                    return world(|world| world.missed(kind, point));
                }
            }
        }
        world(|world| {
            world.trace.fault(world.now, kind);
            world.judge.damaged(damaged);
            world.tally.sometimes(Sometimes::RowDamaged);
        });
    }
}

impl Universe {
    /// Deletes an event, with its place in the feed or before it has one.
    fn delete_event(&self, point: Point) {
        let Some(event) = world(World::draw_event) else {
            return world(|world| world.missed(FaultKind::EventDeleted, point));
        };
        let gone = match &self.stores {
            Stores::Model => world(|world| world.database.delete_event(event)),
            Stores::Sqlite(lane) => {
                let lease = codes::lease_event(event.lease);
                lane.try_execute(&format!(
                    "delete from sluicegate_event where execution = x'{}' and incarnation = {} \
                     and (lease_attempt, lease_change, lease_expires_at) = ({}, {}, {})",
                    event.execution.uuid.simple(),
                    event.incarnation,
                    lease.attempt,
                    lease.change,
                    lease.expires_at
                ))
            }
        };
        world(|world| match gone {
            true => {
                world.trace.fault(world.now, FaultKind::EventDeleted);
                world.judge.event_lost(event);
                world.tally.sometimes(Sometimes::EventLost);
            }
            false => world.missed(FaultKind::EventDeleted, point),
        });
    }

    /// Deletes the row by which a decided join asks for the end of what it no longer needs; where
    /// there is none, the next one.
    fn delete_request(&self, point: Point) {
        world(|world| {
            world.tally.missed(FaultKind::RequestDeleted, point);
            world.overdue = Some(FaultKind::RequestDeleted);
        });
        self.delete_next_request(point);
    }

    /// Deletes a request for sibling cancellation, if there is one.
    pub(crate) fn delete_next_request(&self, point: Point) {
        let Some(group) = world(World::draw_request) else { return };
        let gone = match &self.stores {
            Stores::Model => world(|world| world.database.delete_sibling_request(group)),
            Stores::Sqlite(lane) => lane.try_execute(&format!(
                "delete from sluicegate_sibling_request where downstream = x'{}'",
                group.uuid.simple()
            )),
        };
        if !gone {
            return;
        }
        world(|world| {
            world.overdue = None;
            world.trace.fault(world.now, FaultKind::RequestDeleted);
            world.judge.request_lost(group);
            world.tally.fault(FaultKind::RequestDeleted, point);
            world.tally.sometimes(Sometimes::RequestLost);
        });
    }
}

impl SqliteLane {
    /// Writes a value that no engine writes into a column of an execution, or of a group; false if
    /// the file is locked: an actor that stands still may hold it, though its session has ended.
    fn make_unreadable(&self, row: Damaged) -> bool {
        let (table, column, key) = match row {
            Damaged::ExecutionUnreadable(_) => ("execution", "backoff", "id"),
            Damaged::GroupUnreadable(_) | Damaged::GroupGone(_) => {
                ("edge_group", "policy", "downstream")
            }
        };
        let id = row.execution();
        let done = self.try_execute(&format!(
            "pragma ignore_check_constraints = on; \
             update sluicegate_{table} set {column} = 9 where {key} = x'{}'; \
             pragma ignore_check_constraints = off;",
            id.uuid.simple()
        ));
        if !done {
            self.execute("pragma ignore_check_constraints = off");
        }
        done
    }
}

impl World {
    /// A tail that is lost takes no damage with it: the two are not drawn together.
    fn takes_damage(&self) -> bool {
        let durable = self.commits == Commits::Synchronous && self.lagging.is_none();
        durable && self.writer.is_none()
    }

    fn draw_event(&mut self) -> Option<EventKey> {
        if !self.takes_damage() {
            return None;
        }
        let events: Vec<EventKey> = match self.backend {
            Backend::Simulated => self.database.free_events(),
            Backend::Sqlite => self.judge.mirror().events_left().collect(),
        };
        self.draw_one(&events)
    }

    fn draw_request(&mut self) -> Option<ExecutionId> {
        if !self.takes_damage() {
            return None;
        }
        let groups: Vec<ExecutionId> = match self.backend {
            Backend::Simulated => self.database.free_sibling_requests(),
            Backend::Sqlite => {
                let requests = self.judge.mirror().sibling_requests();
                requests.iter().map(|request| request.group).collect()
            }
        };
        self.draw_one(&groups)
    }

    fn draw_one<T: Copy>(&mut self, rows: &[T]) -> Option<T> {
        if rows.is_empty() {
            return None;
        }
        let arity = u16::try_from(rows.len()).unwrap_or(u16::MAX);
        let drawn = self.tape.draw(Site::Detail, arity, Chance::Even);
        Some(rows[usize::from(drawn)])
    }

    fn draw_damage(&mut self, kind: FaultKind, spoils_ended: bool) -> Option<Damaged> {
        if !self.takes_damage() {
            return None;
        }
        let groups = self.damageable_groups().into_iter();
        let rows: Vec<Damaged> = match kind {
            FaultKind::GroupDeleted => groups.map(Damaged::GroupGone).collect(),
            _ => {
                let executions = self.damageable_executions(spoils_ended).into_iter();
                let executions = executions.map(Damaged::ExecutionUnreadable);
                groups.map(Damaged::GroupUnreadable).chain(executions).collect()
            }
        };
        if rows.is_empty() {
            return None;
        }
        let arity = u16::try_from(rows.len()).unwrap_or(u16::MAX);
        let drawn = self.tape.draw(Site::Detail, arity, Chance::Even);
        Some(rows[usize::from(drawn)])
    }

    fn damageable_groups(&self) -> Vec<ExecutionId> {
        match self.backend {
            Backend::Simulated => self.database.damageable_groups(),
            Backend::Sqlite => {
                let open = self.judge.mirror().groups().iter();
                let open = open.filter(|group| group.decision == Decision::Undecided);
                open.map(|group| group.downstream).collect()
            }
        }
    }

    fn damageable_executions(&self, spoils_ended: bool) -> Vec<ExecutionId> {
        let damageable = |row: &&Execution| spoils_ended || !row.state.is_terminal();
        match self.backend {
            Backend::Simulated => {
                self.database.free_executions().filter(damageable).map(|row| row.id).collect()
            }
            Backend::Sqlite => {
                let rows = self.judge.mirror().executions().iter();
                rows.filter(damageable).map(|row| row.id).collect()
            }
        }
    }
}
