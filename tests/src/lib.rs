//! Tests that cross crates live in `tests/tests`; this library is what they share.

use std::path::PathBuf;

/// The root of the repository.
pub fn root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies in the root").to_path_buf()
}

/// The programs in the README, compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
