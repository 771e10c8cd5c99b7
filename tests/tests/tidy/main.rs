//! The architecture invariants and house rules, held by tests over the tree itself. Each rule is a
//! function from text to violations, and each has a text that it must reject.

mod architecture;
mod house;
mod lexer;
mod setup;
mod sql;
mod sql_rules;
mod tables;
mod tree;

/// Fails with every violation, one a line.
#[track_caller]
fn none(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}
