//! Figures: medians, ratios of one run, targets and whether they are met. Pure; measures nothing.

use serde::Serialize;

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Edges resolved by second.
    Hops,
    /// Nodes by second.
    Nodes,
    /// Tasks claimed and completed by second.
    Tasks,
    /// Seconds; less is better.
    Seconds,
    /// Megabytes; less is better.
    Megabytes,
    /// One figure divided by another of the same repeat; more is better.
    Ratio,
    /// The same, where less is better.
    Cost,
}

impl Unit {
    /// As it is printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Hops => "hops/s",
            Unit::Nodes => "nodes/s",
            Unit::Tasks => "tasks/s",
            Unit::Seconds => "s",
            Unit::Megabytes => "MB",
            Unit::Ratio | Unit::Cost => "x",
        }
    }

    fn less_is_better(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Megabytes | Unit::Cost)
    }
}

/// What is asked of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Target {
    /// The bound of the figure itself: at least, or at most where less is better.
    #[serde(rename = "target")]
    pub ours: Option<f64>,
    /// At least so many times the ceiling of the same run.
    #[serde(rename = "target_ratio")]
    pub ratio: Option<f64>,
}

impl Target {
    /// A bound of the figure.
    pub(crate) const fn of(ours: f64) -> Self {
        Self { ours: Some(ours), ratio: None }
    }

    /// A bound of the figure and one of its ratio to the ceiling.
    pub(crate) const fn with_ratio(ours: f64, ratio: f64) -> Self {
        Self { ours: Some(ours), ratio: Some(ratio) }
    }

    /// Whether it is met; `None` if nothing is asked.
    pub(crate) fn is_met(&self, unit: Unit, ours: f64, ratio: Option<f64>) -> Option<bool> {
        let bound = self.ours.map(|bound| match unit.less_is_better() {
            true => ours <= bound,
            false => ours >= bound,
        });
        // A ratio that was asked for and not measured is not met.
        let share = self.ratio.map(|least| ratio.is_some_and(|ratio| ratio >= least));
        match (bound, share) {
            (None, None) => None,
            (bound, share) => Some(bound.unwrap_or(true) && share.unwrap_or(true)),
        }
    }
}

/// The middle of several repeats, and how far they lie apart.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "a median needs a value");
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Self { median, min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

/// So many by second.
#[expect(clippy::cast_precision_loss, reason = "rates are read by people")]
pub(crate) fn rate(count: usize, wall: std::time::Duration) -> f64 {
    count as f64 / wall.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_whatever_the_order() {
        let odd = Spread::of(&[5.0, 1.0, 9.0]);
        assert_eq!(odd, Spread { median: 5.0, min: 1.0, max: 9.0 });
        let even = Spread::of(&[4.0, 1.0, 2.0, 100.0]);
        assert_eq!(even, Spread { median: 3.0, min: 1.0, max: 100.0 });
        assert_eq!(Spread::of(&[7.0]).median, 7.0);
    }

    #[test]
    fn a_bound_is_a_floor_of_rates_and_a_ceiling_of_seconds() {
        let target = Target::of(10.0);
        assert_eq!(target.is_met(Unit::Hops, 10.0, None), Some(true));
        assert_eq!(target.is_met(Unit::Hops, 9.9, None), Some(false));
        assert_eq!(target.is_met(Unit::Seconds, 9.9, None), Some(true));
        assert_eq!(target.is_met(Unit::Megabytes, 10.1, None), Some(false));
        assert_eq!(Target::default().is_met(Unit::Hops, 1.0, None), None);
    }

    #[test]
    fn a_figure_meets_its_target_only_with_its_ratio() {
        let target = Target::with_ratio(10.0, 4.0);
        assert_eq!(target.is_met(Unit::Hops, 11.0, Some(4.0)), Some(true));
        assert_eq!(target.is_met(Unit::Hops, 11.0, Some(3.9)), Some(false));
        assert_eq!(target.is_met(Unit::Hops, 11.0, None), Some(false));
    }
}
