//! What happens to a universe whose disk fails: trouble is set on its way at a statement, and
//! strikes at an operation on the disk, of that statement or of one that follows. Whoever dies of
//! it dies here. Never decides when.

use crate::disk::{Armed, Disk, Process, Trouble, disk};
use crate::driver::sqlite_lane::SqliteLane;
use crate::driver::tally::Sometimes;
use crate::driver::universe::{Stores, Universe, id};
use crate::driver::world::{World, world};
use crate::faults::{FaultKind, Point};
use crate::tape::{Chance, Site};

/// Operations that trouble lets pass at most: about those of two commits.
const AFTER: u16 = 32;
/// The same for syncs.
const SYNCS_AFTER: u16 = 4;
/// Operations that go wrong in a row: one, or as many as some transactions have.
const LASTS: [u32; 3] = [1, 1, 60];
/// How long a machine takes to come back.
const RECOVERY_US: i64 = 250_000;
/// Of so many power cuts one is followed by another, perhaps in the middle of the recovery.
const AGAIN_EVERY: u16 = 4;
/// Of so many deaths of a process one takes the other with it, and one of so many of these is
/// followed by a power cut: what nobody has synced is seen, and then it is lost.
const ALL_DIE_EVERY: u16 = 2;
const CUT_AFTER_EVERY: u16 = 2;

impl Universe {
    /// Sets trouble on its way; one at a time.
    pub(crate) fn arm(kind: FaultKind, trouble: Trouble, point: Point) {
        let armed = disk(|disk| disk.armed.is_some());
        world(|world| {
            // It is counted where it strikes.
            world.missed(kind, point);
            if !armed {
                let armed = world.draw_trouble(trouble);
                disk(|disk| disk.armed = Some(armed));
            }
        });
    }

    /// An actor has gone on: carries out what struck its operations on the disk.
    pub(crate) fn meet_trouble(&mut self, point: Point) {
        let Stores::Sqlite(lane) = &self.stores else { return };
        if !lane.has_machine() {
            return;
        }
        let Some((trouble, process)) = disk(Disk::take_struck) else { return };
        let lane = std::rc::Rc::clone(lane);
        let kind = FaultKind::of_the_disk().find(|kind| kind.trouble() == Some(trouble));
        let kind = kind.expect("every trouble is of a kind of fault");
        world(|world| {
            world.tally.fault(kind, point);
            world.trace.fault(world.now, kind);
        });
        match trouble {
            Trouble::PowerCut => self.cut_power(&lane),
            Trouble::ProcessCrash => self.crash_process(&lane, process),
            Trouble::IoError | Trouble::DiskFull | Trouble::FsyncLies => {}
        }
    }

    fn cut_power(&mut self, lane: &SqliteLane) {
        for index in 0..self.actors.len() {
            self.kill(index);
        }
        let mut fixed = self.plan.disk.and_then(|disk| disk.strike).map(|strike| strike.way);
        let damage = lane.cut_power(&mut |arity| match &mut fixed {
            Some(way) => {
                way.rotate_left(1);
                way[1]
            }
            None => world(|world| world.tape.draw(Site::Detail, arity, Chance::Even)),
        });
        world(|world| {
            if damage.lost > 0 {
                world.tally.sometimes(Sometimes::UnsyncedLost);
            }
            if damage.torn > 0 {
                world.tally.sometimes(Sometimes::SectorTorn);
            }
            world.restarted();
            world.may_cut_power(AGAIN_EVERY);
        });
    }

    /// The actors of the process are killed; the others go on, or die as well.
    fn crash_process(&mut self, lane: &SqliteLane, process: Process) {
        // One that dies as it opens the file for the first time has no place yet.
        let dead = lane.seat_of(process);
        let all = world(|world| world.happens(ALL_DIE_EVERY));
        for index in 0..self.actors.len() {
            if all || dead == Some(lane.seat(id(index))) {
                self.kill(index);
            }
        }
        if all {
            lane.bury_all();
        } else if let Some(seat) = dead {
            lane.bury(seat);
        }
        disk(Disk::bury);
        world(|world| {
            world.restarted();
            if all {
                world.may_cut_power(CUT_AFTER_EVERY);
            }
        });
    }

    /// Nothing goes wrong with the disk any more.
    pub(crate) fn end_trouble(&self) {
        if let Stores::Sqlite(lane) = &self.stores
            && lane.has_machine()
        {
            disk(|disk| {
                disk.armed = None;
                disk.stop_recording();
            });
        }
    }
}

impl World {
    fn happens(&mut self, every: u16) -> bool {
        self.faults_on && self.tape.draw(Site::Detail, every, Chance::Even) == 1
    }

    /// The power may go soon, as one more fault.
    fn may_cut_power(&mut self, every: u16) {
        if self.faults_left > 0 && self.happens(every) {
            self.faults_left -= 1;
            let armed = self.draw_trouble(Trouble::PowerCut);
            disk(|disk| disk.armed = Some(armed));
        }
    }

    fn draw_trouble(&mut self, trouble: Trouble) -> Armed {
        let mut draw = |arity| self.tape.draw(Site::Detail, arity, Chance::Even);
        let after = match trouble {
            Trouble::FsyncLies => draw(SYNCS_AFTER),
            _ => draw(AFTER),
        };
        let lasts = match trouble {
            Trouble::IoError | Trouble::DiskFull => LASTS[usize::from(draw(3))],
            _ => 1,
        };
        let halfway = match trouble {
            Trouble::IoError | Trouble::DiskFull | Trouble::ProcessCrash => draw(2) == 1,
            _ => false,
        };
        Armed { lasts, halfway, ..Armed::once(trouble, u32::from(after)) }
    }

    /// Somebody died and comes back: what the file holds is compared with what the judge knows.
    fn restarted(&mut self) {
        self.doubts.recovers = true;
        self.news.of_recovery();
        self.moved_at = self.now;
        self.pass(RECOVERY_US);
    }
}
