//! What becomes of what was written and not synced when the power goes: lost, kept, torn or spoilt.
//! Never touches a file.

use super::sectors::SECTOR;
use crate::random::SplitMix;

/// What becomes of one sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It holds what it held at its last sync.
    Lost,
    /// It was on its way and arrived.
    Kept,
    /// It arrived up to that byte.
    TornAfter(usize),
    /// It arrived from that byte on.
    TornBefore(usize),
    /// The device was in the middle of it, and it holds neither.
    Garbled,
}

/// How many choices [`Fates::chosen`] asks for are among so many.
const WAYS: u16 = 4;
/// Numbers that a choice can name; each gives other fates.
const NUMBERS: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    AllLost,
    AllKept,
    /// Each by itself, as likely lost as not.
    Drawn,
    /// Most are kept: it is the one that is lost that matters.
    MostlyKept,
}

/// The fates of one power cut, each drawn when it is asked for.
#[derive(Debug)]
pub(super) struct Fates {
    way: Way,
    /// A sector that is being written may be spoilt as a whole.
    garbles: bool,
    random: SplitMix,
}

impl Fates {
    /// Fates by the choices of a tape: `choose` is given how many there are, and 0 loses all.
    pub(super) fn chosen(choose: &mut dyn FnMut(u16) -> u16, garbles: bool) -> Self {
        let way =
            [Way::AllLost, Way::AllKept, Way::Drawn, Way::MostlyKept][usize::from(choose(WAYS))];
        let number = match way {
            Way::AllLost | Way::AllKept => 0,
            Way::Drawn | Way::MostlyKept => choose(NUMBERS),
        };
        Self { way, garbles, random: SplitMix(u64::from(number)) }
    }

    /// The fate of the next sector.
    pub(super) fn of_sector(&mut self) -> Fate {
        let way = self.way;
        match way {
            Way::AllLost => return Fate::Lost,
            Way::AllKept => return Fate::Kept,
            Way::Drawn | Way::MostlyKept => {}
        }
        if way == Way::MostlyKept && self.number(8) > 0 {
            return Fate::Kept;
        }
        let middle = 1 + self.number(SECTOR - 1);
        match self.number(8) {
            0 => Fate::TornAfter(middle),
            1 => Fate::TornBefore(middle),
            2 if self.garbles => Fate::Garbled,
            3..=4 => Fate::Kept,
            _ => Fate::Lost,
        }
    }

    /// True if a change that is made as a whole has arrived: of a name, or of a length.
    pub(super) fn arrives(&mut self) -> bool {
        match self.way {
            Way::AllLost => false,
            Way::AllKept => true,
            Way::Drawn => self.number(2) == 0,
            Way::MostlyKept => self.number(8) > 0,
        }
    }

    /// What stands in a sector that was spoilt.
    pub(super) fn garbage(&mut self) -> u8 {
        self.random.next().to_le_bytes()[0]
    }

    fn number(&mut self, below: usize) -> usize {
        usize::try_from(self.random.next() % (below as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(way: u16, count: usize) -> Vec<Fate> {
        let mut choices = [way, 77].into_iter();
        let mut fates = Fates::chosen(&mut |_| choices.next().unwrap(), true);
        (0..count).map(|_| fates.of_sector()).collect()
    }

    #[test]
    fn the_quiet_choice_loses_everything_and_each_fate_is_drawn() {
        assert!(fates(0, 50).iter().all(|fate| *fate == Fate::Lost));
        assert!(fates(1, 50).iter().all(|fate| *fate == Fate::Kept));
        let drawn = fates(2, 200);
        let has = |is: fn(&Fate) -> bool| drawn.iter().any(is);
        assert!(has(|fate| *fate == Fate::Lost) && has(|fate| *fate == Fate::Kept));
        assert!(has(|fate| matches!(fate, Fate::TornAfter(1..512))));
        assert!(has(|fate| matches!(fate, Fate::TornBefore(1..512))));
        assert!(has(|fate| *fate == Fate::Garbled));
        let kept = fates(3, 200).iter().filter(|fate| **fate == Fate::Kept).count();
        assert!((150..200).contains(&kept), "{kept}");
    }
}
