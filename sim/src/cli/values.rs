//! Values of the command line as text: seed ranges, budgets, shards, names. Pure; each error says
//! what would have been right.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sluicegate::mutants::Mutant;

use crate::campaign::Shard;
use crate::database::ModelMutant;
use crate::plan::{EngineKind, LaneKind, Profile};
use crate::real_lane::RealLane;

/// Seeds from the first to before the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Reads `A..B`.
pub(super) fn range(text: &str) -> Result<Range, String> {
    let wanted = || format!("`{text}` is not a range of seeds such as 0..1000");
    let (start, end) = text.split_once("..").ok_or_else(wanted)?;
    let number = |text: &str| text.replace('_', "").parse::<u64>().map_err(|_| wanted());
    let range = Range { start: number(start)?, end: number(end)? };
    match range.start < range.end {
        true => Ok(range),
        false => Err(format!("`{text}` holds no seed")),
    }
}

/// Reads `90s`, `10m`, `2h` or `500ms`.
pub(super) fn budget(text: &str) -> Result<Duration, String> {
    let wanted = || format!("`{text}` is not a time such as 60s, 10m, 2h or 500ms");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wanted()),
    };
    match number.checked_mul(unit_ms) {
        Some(0) => Err(format!("`{text}` leaves no time")),
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(wanted()),
    }
}

/// Reads `i/n`, with i from 1 to n.
pub(super) fn shard(text: &str) -> Result<Shard, String> {
    let wanted = || format!("`{text}` is not a shard i/n with 1 <= i <= n, such as 1/4");
    let (index, count) = text.split_once('/').ok_or_else(wanted)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wanted());
    Shard::new(number(index)?, number(count)?).ok_or_else(wanted)
}

/// A planted bug by its id.
pub(super) fn mutant(text: &str) -> Result<Mutant, String> {
    let known = Mutant::ALL.iter().find(|mutant| mutant.id() == text);
    known.copied().ok_or_else(|| {
        let ids: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.id()).collect();
        format!("the planted bugs are {}", ids.join(" "))
    })
}

/// A planted bug of the model by its id.
pub(super) fn model_mutant(text: &str) -> Result<ModelMutant, String> {
    let known = ModelMutant::ALL.iter().find(|mutant| mutant.id() == text);
    known.copied().ok_or_else(|| {
        let ids: Vec<&str> = ModelMutant::ALL.iter().map(|mutant| mutant.id()).collect();
        format!("the planted bugs of the model are {}", ids.join(" "))
    })
}

macro_rules! named {
    ($($(#[$doc:meta])* $parser:ident $kind:ty, $name:path;)*) => {
        $($(#[$doc])*
        pub(super) fn $parser() -> impl TypedValueParser<Value = $kind> {
            let all = <$kind>::ALL.iter().map(|value| $name(*value));
            PossibleValuesParser::new(all.collect::<Vec<_>>()).map(|text| {
                let known = <$kind>::ALL.iter().find(|value| $name(**value) == text);
                *known.expect("the parser lets known names through only")
            })
        })*
    };
}

named! {
    /// A lane by its name.
    lane LaneKind, LaneKind::name;
    /// A profile by its name.
    profile Profile, Profile::name;
    /// A lane of real databases by its name.
    real_lane RealLane, RealLane::name;
    /// An engine by its name.
    engine EngineKind, EngineKind::name;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_ranges_are_half_open_and_hold_at_least_one_seed() {
        assert_eq!(range("0..1000"), Ok(Range { start: 0, end: 1_000 }));
        assert_eq!(range("5..10_000"), Ok(Range { start: 5, end: 10_000 }));
        for text in ["", "5", "5..", "..5", "5..5", "9..5", "a..b", "0..=5", "-1..5"] {
            let error = range(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn budgets_carry_their_unit() {
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(budget("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(budget("500ms"), Ok(Duration::from_millis(500)));
        for text in ["", "60", "s", "1.5s", "0s", "60 s", "99999999999999999999h"] {
            let error = budget(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn an_unknown_planted_bug_is_refused_with_those_that_exist() {
        assert_eq!(mutant("P05"), Ok(Mutant::P05));
        let error = mutant("P99").unwrap_err();
        assert!(Mutant::ALL.iter().all(|mutant| error.contains(mutant.id())), "{error}");
    }

    #[test]
    fn shards_count_from_one() {
        assert_eq!(shard("1/1"), Ok(Shard::default()));
        assert_eq!(shard("4/4"), Ok(Shard::new(4, 4).unwrap()));
        for text in ["", "1", "0/4", "5/4", "1/0", "a/b", "1/2/3"] {
            let error = shard(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
