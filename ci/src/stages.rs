//! The table of stages: one row each, in the order in which they run. Never runs anything.

use crate::dependencies;

/// One stage of the gate.
pub(crate) struct Stage {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it shows, in one line.
    pub(crate) what: &'static str,
    /// What it does.
    pub(crate) work: Work,
}

/// What a stage does. A command line stands here exactly as a person would type it.
pub(crate) enum Work {
    /// Runs these command lines; each must exit with 0.
    Passes(&'static [&'static str]),
    /// Runs this command line, which must exit with one of these codes.
    Fails(&'static str, &'static [i32]),
    /// Runs this command line once for each word, the word appended; each must exit with one of
    /// these codes.
    EachFails(&'static str, &'static [&'static str], &'static [i32]),
    /// Runs this command line once for each JSON file of the directory, the file appended.
    EachFile {
        /// Relative to the root of the repository.
        directory: &'static str,
        /// The command line without its last argument.
        command: &'static str,
    },
    /// Runs a check of this package.
    Check(fn() -> Result<String, String>),
}

/// Every stage. Cheap ones come first; determinism comes before the campaigns, since a failure that
/// cannot be repeated is useless.
pub(crate) const STAGES: &[Stage] = &[
    Stage {
        name: "fmt",
        what: "the formatting is rustfmt's",
        work: Work::Passes(&["cargo fmt --all --check"]),
    },
    Stage {
        name: "clippy",
        what: "no lint fires, with any set of features",
        work: Work::Passes(&[
            "cargo clippy --locked --workspace --all-targets -- -D warnings",
            "cargo clippy --locked -p sluicegate --no-default-features -- -D warnings",
            "cargo clippy --locked -p sluicegate --all-features -- -D warnings",
            "cargo clippy --locked -p sluicegate-sim --no-default-features -- -D warnings",
        ]),
    },
    Stage {
        name: "tidy",
        what: "architecture invariants and house rules hold",
        work: Work::Passes(&["cargo test --locked -p sluicegate-tests --test tidy"]),
    },
    Stage {
        name: "unit",
        what: "unit, property and documentation tests pass, also in the shipped build",
        work: Work::Passes(&[
            "cargo test --locked --workspace",
            "cargo test --locked -p sluicegate",
        ]),
    },
    Stage {
        name: "conformance",
        what: "every backend keeps the contract of the storage seam, none skipped",
        work: Work::Passes(&[
            "cargo test --locked -p sluicegate-tests --test conformance -- --nocapture arms",
        ]),
    },
    Stage {
        name: "examples",
        what: "every example program runs to its end, on a throwaway Postgres where it needs one",
        work: Work::Passes(&["cargo test --locked -p sluicegate-tests --test examples"]),
    },
    Stage {
        name: "docs",
        what: "the documentation builds without a warning",
        work: Work::Passes(&["RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps --workspace"]),
    },
    Stage {
        name: "deny",
        what: "licences, duplicate crates and pinned versions of the dependencies",
        work: Work::Check(dependencies::check),
    },
    Stage {
        name: "determinism",
        what: "the same seed gives the same bytes",
        work: Work::Passes(&[
            "cargo sim run --seeds 0..300 --lane model --twice",
            "cargo sim run --seeds 0..60 --lane sqlite --twice",
            "cargo sim run --seeds 0..60 --lane network --twice",
        ]),
    },
    Stage {
        name: "conform",
        what: "the simulated Postgres answers as the real one, and its planted bugs are seen",
        work: Work::Passes(&["cargo sim conform --schedules 2000 --postgres auto"]),
    },
    Stage {
        name: "conform-bugs",
        what: "each planted bug of the simulated Postgres is seen by a comparison",
        work: Work::EachFails(
            "cargo sim conform --schedules 2000 --postgres auto --mutant",
            &["M01", "M02", "M03", "M04", "M05"],
            &[7],
        ),
    },
    Stage {
        name: "regressions",
        what: "every kept failure passes by now",
        work: Work::EachFile { directory: "fixtures/failures", command: "cargo sim replay" },
    },
    Stage {
        name: "campaign",
        what: "a fixed range of seeds of every lane and profile drains",
        work: Work::Passes(&[
            "cargo sim run",
            "cargo sim run --lane sqlite",
            "cargo sim run --lane network",
            "cargo sim run --seeds 0..3000 --lane model --profile quick",
            "cargo sim run --seeds 0..1000 --lane model --profile swarm",
            "cargo sim run --seeds 0..2000 --lane sqlite --profile quick",
            "cargo sim run --seeds 0..2000 --lane sqlite --profile swarm",
            "cargo sim run --seeds 0..1000 --lane network --profile swarm",
            "cargo sim run --seeds 0..1000 --lane model --profile storm",
            "cargo sim run --seeds 0..1000 --lane model --profile soak",
        ]),
    },
    Stage {
        name: "reports",
        what: "public bug reports pass on the engine and fail on specimens that have their faults",
        work: Work::Passes(&["cargo sim reports"]),
    },
    Stage {
        name: "exhaust",
        what: "every universe of a small slice drains",
        work: Work::Passes(&[
            "cargo sim exhaust --nodes 3 --faults 1",
            "cargo sim exhaust --lane sqlite --nodes 1",
        ]),
    },
    Stage {
        name: "mutants",
        what: "every planted bug is seen, by an invariant named for it",
        work: Work::Passes(&["cargo sim mutants"]),
    },
    Stage {
        name: "strand",
        what: "joins on which published protocols strand drain, without any reconciler",
        work: Work::Passes(&["cargo sim strand --runs 20 --postgres auto"]),
    },
    Stage {
        name: "chaos",
        what: "real processes on real databases survive real faults",
        work: Work::Passes(&[
            "cargo sim chaos --budget 60s --postgres auto",
            "cargo sim chaos --budget 30s --lane sqlite",
        ]),
    },
    Stage {
        name: "canary",
        what: "the published protocol fails, as it must",
        work: Work::Fails("cargo sim run --engine published --seeds 0..2000 --lane model", &[1, 3]),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_stages_share_a_name_and_none_is_called_list() {
        let names: BTreeSet<&str> = STAGES.iter().map(|stage| stage.name).collect();
        assert_eq!(names.len(), STAGES.len());
        assert!(!names.contains("list"));
    }

    #[test]
    fn determinism_is_shown_before_any_campaign() {
        let position = |name| STAGES.iter().position(|stage| stage.name == name);
        assert!(position("determinism") < position("campaign"));
        assert!(position("determinism") < position("mutants"));
    }

    #[test]
    fn a_stage_that_must_fail_never_accepts_success() {
        for stage in STAGES {
            if let Work::Fails(line, codes) | Work::EachFails(line, _, codes) = &stage.work {
                assert!(!codes.is_empty() && !codes.contains(&0), "{line}");
            }
        }
    }
}
