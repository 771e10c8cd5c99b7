//! Tests that cross crates live in `tests/tests`; this library is what they share.
