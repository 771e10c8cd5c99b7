//! Exhaustive runs.

/// States that were seen.
#[derive(Debug, Default)]
pub struct Memo;

impl crate::driver::Universe {
    pub(crate) fn visited_before(&mut self) -> bool {
        false
    }
}
