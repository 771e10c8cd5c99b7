//! What a command saw, as the exit code of its process. Never decides what was seen.

use std::process::ExitCode;

/// The exit codes of the command line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Exit {
    /// Nothing was wrong.
    #[default]
    Clean = 0,
    /// A safety invariant was violated, or a universe panicked.
    Safety = 1,
    /// The command line or an input file is wrong, or no longer applies.
    Usage = 2,
    /// A flow did not drain, or a universe did not end.
    Liveness = 3,
    /// The same input led to different traces.
    Nondeterminism = 4,
    /// The machine refused something that the command needs.
    Environment = 5,
    /// A campaign did not reach what it must, or a planted bug was not seen.
    Vacuous = 6,
    /// The simulated Postgres does not do what Postgres does.
    ModelDiffers = 7,
}

impl Exit {
    /// The order in which one of several is chosen.
    const PRECEDENCE: [Exit; 7] = [
        Exit::Safety,
        Exit::Liveness,
        Exit::Nondeterminism,
        Exit::ModelDiffers,
        Exit::Vacuous,
        Exit::Environment,
        Exit::Usage,
    ];

    /// The one of several that the process exits with.
    pub fn first_of(seen: &[Exit]) -> Exit {
        let first = Self::PRECEDENCE.into_iter().find(|exit| seen.contains(exit));
        first.unwrap_or(Exit::Clean)
    }

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: &[Exit], code: u8) {
        assert_eq!(Exit::first_of(seen).code(), code, "{seen:?}");
    }

    #[test]
    fn of_several_the_first_of_1_3_4_7_6_is_the_exit_code() {
        let mut seen = vec![
            Exit::Vacuous,
            Exit::ModelDiffers,
            Exit::Nondeterminism,
            Exit::Liveness,
            Exit::Safety,
        ];
        for code in [1, 3, 4, 7, 6] {
            check(&seen, code);
            seen.pop();
        }
        check(&seen, 0);
    }

    #[test]
    fn a_finding_outranks_a_report_that_could_not_be_written() {
        check(&[Exit::Environment, Exit::Vacuous], 6);
        check(&[Exit::Environment, Exit::Clean], 5);
    }
}
