//! How the rows of a call are cut into statements: by their number and by their bytes, since no
//! server reads a message of any length. Pure; sends nothing.

use crate::mutants::mutated;
use crate::storage::{Edge, ExecutionWrite, NewExecution, ResultChange};

/// Rows of one statement.
pub const INSERT_ROWS_MAX: usize = 10_000;

/// A row that carries what a caller brought, whose length is the caller's choice.
pub(crate) trait Weighed {
    /// Bytes of what it carries; columns of a fixed width are not counted.
    fn weight(&self) -> u64;
}

impl Weighed for NewExecution {
    fn weight(&self) -> u64 {
        let one = &self.definition;
        let texts = one.name.len() + one.kind.len() + one.lane.len() + one.namespace.len();
        (texts + one.instance_tag.as_ref().map_or(0, |tag| tag.len()) + one.payload.len()) as u64
    }
}

impl Weighed for Edge {
    fn weight(&self) -> u64 {
        self.passes_as.as_ref().map_or(0, |name| name.len() as u64)
    }
}

impl Weighed for ExecutionWrite {
    fn weight(&self) -> u64 {
        match &self.result {
            ResultChange::Set(bytes) => bytes.len() as u64,
            ResultChange::Keep | ResultChange::Clear => 0,
        }
    }
}

/// The rows in order, in as few statements as hold at most [`INSERT_ROWS_MAX`] rows and at most
/// so many bytes each. A row that alone is larger has a statement of its own.
pub(crate) fn statements<R: Weighed>(rows: &[R], bytes_max: u64) -> impl Iterator<Item = &[R]> {
    let mut left = rows;
    std::iter::from_fn(move || {
        let mut bytes: u64 = 0;
        let fitting = left.iter().take(INSERT_ROWS_MAX).take_while(|row| {
            bytes = bytes.saturating_add(row.weight());
            bytes <= bytes_max || mutated!(E03)
        });
        let (now, later) = left.split_at(fitting.count().max(1).min(left.len()));
        left = later;
        (!now.is_empty()).then_some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(u64);

    impl Weighed for Row {
        fn weight(&self) -> u64 {
            self.0
        }
    }

    fn check(weights: &[u64], bytes_max: u64, expected: &[&[u64]]) {
        let rows: Vec<Row> = weights.iter().map(|weight| Row(*weight)).collect();
        let cut: Vec<Vec<u64>> = statements(&rows, bytes_max)
            .map(|rows| rows.iter().map(|row| row.0).collect())
            .collect();
        assert_eq!(cut, expected);
    }

    #[test]
    fn rows_are_cut_where_their_bytes_would_be_too_many() {
        check(&[], 8, &[]);
        check(&[3, 5, 1], 8, &[&[3, 5], &[1]]);
        check(&[0, 9, 8, 0, 1], 8, &[&[0], &[9], &[8, 0], &[1]]);
        check(&[1, 1], 0, &[&[1], &[1]]);
        check(&[u64::MAX, u64::MAX, 1], u64::MAX, &[&[u64::MAX, u64::MAX, 1]]);
    }

    #[test]
    fn rows_are_cut_where_they_would_be_too_many() {
        let rows: Vec<Row> = (0..=2 * INSERT_ROWS_MAX).map(|_| Row(0)).collect();
        let sizes: Vec<usize> = statements(&rows, 8).map(<[Row]>::len).collect();
        assert_eq!(sizes, [INSERT_ROWS_MAX, INSERT_ROWS_MAX, 1]);
    }
}
