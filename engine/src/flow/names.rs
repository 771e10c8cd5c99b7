//! The executions of a specification by name. Pure; finds an index, never judges a name.

use super::FlowSpec;

/// Executions in the order of their names, and a table that finds a name in about one comparison.
///
/// A bucket keeps that order and is searched by halves, so that names chosen to collide cost no
/// more than a sorted list would.
pub(super) struct Names<'a> {
    sorted: Vec<(&'a str, usize)>,
    starts: Vec<usize>,
    places: Vec<usize>,
}

impl<'a> Names<'a> {
    pub(super) fn of(spec: &'a FlowSpec) -> Self {
        let named = spec.executions.iter().enumerate();
        let mut sorted: Vec<(&str, usize)> =
            named.map(|(index, execution)| (execution.name.as_str(), index)).collect();
        sorted.sort_unstable();
        let buckets = sorted.len().next_power_of_two();
        let mut starts = vec![0; buckets + 1];
        for (name, _) in &sorted {
            starts[bucket(name, buckets) + 1] += 1;
        }
        for index in 0..buckets {
            starts[index + 1] += starts[index];
        }
        let mut free = starts.clone();
        let mut places = vec![0; sorted.len()];
        for (place, (name, _)) in sorted.iter().enumerate() {
            let slot = &mut free[bucket(name, buckets)];
            places[*slot] = place;
            *slot += 1;
        }
        Self { sorted, starts, places }
    }

    /// Names and indices, by name and then by index.
    pub(super) fn sorted(&self) -> &[(&'a str, usize)] {
        &self.sorted
    }

    /// The first execution of that name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let bucket = bucket(name, self.starts.len() - 1);
        let places = &self.places[self.starts[bucket]..self.starts[bucket + 1]];
        let first = places.partition_point(|place| self.sorted[*place].0 < name);
        let (found, index) = self.sorted[*places.get(first)?];
        (found == name).then_some(index)
    }

    /// For each execution its place in the order of names.
    pub(super) fn ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.sorted.len()];
        for (rank, (_, index)) in self.sorted.iter().enumerate() {
            ranks[*index] = rank;
        }
        ranks
    }
}

/// FNV-1a (Fowler, Noll, Vo), of which a power of two of buckets uses the low bits.
fn bucket(name: &str, buckets: usize) -> usize {
    let hash = name
        .bytes()
        .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    usize::try_from(hash).expect("an index has at least 32 bits") & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_at_its_first_execution_and_no_other_name_is() {
        for count in [0, 1, 2, 3, 100] {
            let listed = (0..count).rev().chain(0..count);
            let builder = listed.fold(FlowSpec::builder(), |builder, number| {
                builder.execution(format!("n{number}"))
            });
            let spec = builder.build();
            let names = Names::of(&spec);
            for number in 0..count {
                assert_eq!(names.find(&format!("n{number}")), Some(count - 1 - number));
                assert_eq!(names.find(&format!("m{number}")), None);
            }
            assert_eq!(names.find(""), None);
            assert!(names.sorted().is_sorted());
        }
    }
}
