//! Continuous integration stages.
fn main() {}
