//! Runs one command line at the root of the repository. Never interprets what it prints.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Exit code that stands for a process without one: killed, or never started.
const NO_CODE: i32 = 1;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies in the root").to_path_buf()
}

/// Runs a line of words between blanks, environment variables first, and returns its exit code.
pub(crate) fn run(line: &str) -> i32 {
    let mut command = parse(line);
    match command.current_dir(root()).status() {
        Ok(status) => status.code().unwrap_or(NO_CODE),
        Err(error) => {
            eprintln!("error: cannot start `{line}`: {error}");
            NO_CODE
        }
    }
}

/// The command of a line. There is no quoting: no line of the table needs it.
fn parse(line: &str) -> Command {
    assert!(!line.contains(['"', '\'']), "quotes have no meaning in `{line}`");
    let mut words = line.split_whitespace().peekable();
    let mut environment = Vec::new();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        environment.push((name, value));
        words.next();
    }
    let program = words.next().expect("a command line names a program");
    let mut command = match program {
        "cargo" => Command::new(cargo()),
        program => Command::new(program),
    };
    command.args(words).envs(environment);
    command
}

/// The cargo that runs this program, so that a toolchain chosen with `+` is kept.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_assignments_become_the_environment_and_later_ones_arguments() {
        let command = parse("A=-D ls --color=never x");
        assert_eq!(command.get_program(), "ls");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["--color=never", "x"]);
        let environment: Vec<_> = command.get_envs().collect();
        assert_eq!(environment, [("A".as_ref(), Some("-D".as_ref()))]);
    }

    #[test]
    fn a_program_that_does_not_exist_fails() {
        assert_ne!(run("no-such-program-anywhere"), 0);
    }
}
