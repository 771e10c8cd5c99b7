//! Which fault strikes at a point, if one does. Never carries it out.

use crate::driver::world::World;
use crate::faults::{FaultKind, Point};
use crate::plan::Backend;
use crate::tape::{Chance, Site};

/// So much likelier the first fault of a universe is at each point on a network.
const FIRST_ON_NETWORK: u16 = 8;

/// The kind that strikes before any other does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct First {
    /// The kind, until it has struck.
    kind: Option<FaultKind>,
    /// The fault that was drawn last was that one.
    drawn: bool,
}

impl World {
    /// Begins a universe whose first fault is of that kind.
    pub(crate) fn begin_faults(&mut self, first: Option<FaultKind>) {
        let first = first.filter(|_| self.faults_left > 0);
        self.overdue = first.filter(|kind| *kind == FaultKind::RequestDeleted);
        if self.overdue.is_some() {
            // What strikes as soon as it can comes first from the start.
            self.faults_left -= 1;
        }
        let kind = first.filter(|_| self.overdue.is_none());
        self.first_fault = First { kind, drawn: false };
    }

    /// Draws whether a fault strikes here, and counts it.
    pub(crate) fn draw_fault(&mut self, site: Site, point: Point) -> Option<FaultKind> {
        if !self.faults_on || self.faults_left == 0 {
            return None;
        }
        let chance = match point {
            Point::Statement(_) => Chance::Of(self.odds.fault),
            // Whoever writes waits for a file's writer, time and again.
            Point::Wait(_) if self.backend == Backend::Sqlite => Chance::Of(self.odds.fault),
            Point::Wait(_) | Point::Await | Point::Notice | Point::Heal => {
                Chance::Of(self.odds.wait)
            }
        };
        let first = self.first_fault.kind.filter(|kind| kind.strikes_at(point));
        let chance = match (chance, first) {
            // Time passes there with every message: faults stop after fewer statements.
            (Chance::Of(odds), Some(_)) if self.network.is_some() => {
                Chance::Of(odds.saturating_mul(FIRST_ON_NETWORK))
            }
            (chance, _) => chance,
        };
        let kinds = first.as_ref().map_or(self.strikes.at(point), std::slice::from_ref);
        let arity = 1 + u16::try_from(kinds.len()).unwrap_or(0);
        let drawn = self.tape.draw(site, arity, chance);
        let kind = kinds[usize::from(drawn).checked_sub(1)?];
        self.faults_left -= 1;
        self.first_fault.drawn = first.is_some();
        self.first_fault.kind = self.first_fault.kind.filter(|_| first.is_none());
        self.tally.fault(kind, point);
        if !kind.needs_a_target() {
            self.trace.fault(self.now, kind);
        }
        Some(kind)
    }

    /// The fault that was drawn found nothing to strike. The one that comes first is drawn again.
    pub(crate) fn missed(&mut self, kind: FaultKind, point: Point) {
        self.tally.missed(kind, point);
        if self.first_fault.drawn {
            self.first_fault.kind = Some(kind);
            self.faults_left += 1;
        }
    }
}
