//! Runs stages in order, stops at the first that fails, and says how long each took. Never decides
//! what a stage does.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::command;
use crate::stages::{Stage, Work};

/// Why a stage failed.
struct Failure {
    /// The exit code to end with; never 0.
    code: u8,
    /// The command line that shows it again.
    line: String,
    /// What was wrong, if the command did not say it itself.
    reason: String,
}

/// How a stage ended.
struct Row {
    name: &'static str,
    verdict: &'static str,
    took: Duration,
}

/// Runs these stages and returns the exit code.
pub(crate) fn run(stages: &[&Stage]) -> u8 {
    let mut rows = Vec::new();
    let mut failure = None;
    for stage in stages {
        println!("\n==> {}: {}", stage.name, stage.what);
        let begun = now();
        let outcome = perform(stage);
        let took = now() - begun;
        let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("<== {} {verdict} in {}", stage.name, seconds(took));
        rows.push(Row { name: stage.name, verdict, took });
        if let Err(found) = outcome {
            failure = Some((stage.name, found));
            break;
        }
    }
    let skipped = stages.iter().skip(rows.len()).map(|stage| stage.name);
    summarise(&rows, &skipped.collect::<Vec<_>>());
    match failure {
        None => 0,
        Some((name, failure)) => {
            eprintln!("\nerror: stage {name}: {}", failure.reason);
            eprintln!("reproduce: {}", failure.line);
            failure.code
        }
    }
}

fn perform(stage: &Stage) -> Result<(), Failure> {
    match &stage.work {
        Work::Passes(lines) => lines.iter().try_for_each(|line| expect(line, &[0])),
        Work::Fails(line, codes) => expect(line, codes),
        Work::EachFails(line, words, codes) => {
            words.iter().try_for_each(|word| expect(&format!("{line} {word}"), codes))
        }
        Work::EachFile { directory, command } => {
            let files = json_files(directory).map_err(|reason| Failure {
                code: 1,
                line: format!("ls {directory}"),
                reason,
            })?;
            println!("{} files in {directory}", files.len());
            files.iter().try_for_each(|file| expect(&format!("{command} {file}"), &[0]))
        }
        Work::Check(check) => match check() {
            Ok(report) => {
                println!("{report}");
                Ok(())
            }
            Err(reason) => {
                let line = format!("cargo ci {}", stage.name);
                Err(Failure { code: 1, line, reason })
            }
        },
    }
}

fn expect(line: &str, codes: &[i32]) -> Result<(), Failure> {
    println!("--> {line}");
    let code = command::run(line);
    if codes.contains(&code) {
        return Ok(());
    }
    let expected: Vec<String> = codes.iter().map(ToString::to_string).collect();
    let reason = format!("exit code {code}, expected {}", expected.join(" or "));
    // A success where a failure was due is an error too.
    let code = u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1);
    Err(Failure { code, line: line.to_owned(), reason })
}

/// The JSON files of a directory by name, relative to the root.
fn json_files(directory: &str) -> Result<Vec<String>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {directory}: {error}");
    let mut files = Vec::new();
    for entry in fs::read_dir(command::root().join(directory)).map_err(unreadable)? {
        let name = PathBuf::from(entry.map_err(unreadable)?.file_name());
        if name.extension().is_some_and(|extension| extension == "json") {
            files.push(format!("{directory}/{}", name.display()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn summarise(rows: &[Row], skipped: &[&str]) {
    println!("\nstage        verdict       time");
    for Row { name, verdict, took } in rows {
        println!("{name:<12} {verdict:<8} {:>9}", seconds(*took));
    }
    for name in skipped {
        println!("{name:<12} not run");
    }
    let total: Duration = rows.iter().map(|row| row.took).sum();
    println!("{:<12} {:<8} {:>9}", "all", "", seconds(total));
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "the gate tells people how long a stage took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(work: Work, expected: u8) {
        assert_eq!(run(&[&Stage { name: "sample", what: "a sample", work }]), expected);
    }

    #[test]
    fn a_failing_command_gives_the_stage_its_exit_code() {
        check(Work::Passes(&["true", "false"]), 1);
        check(Work::Passes(&["ls /no/such/directory"]), 2);
    }

    #[test]
    fn a_command_that_must_fail_and_passes_fails_the_stage() {
        check(Work::Fails("false", &[1, 3]), 0);
        check(Work::Fails("true", &[1, 3]), 1);
    }

    #[test]
    fn each_of_several_commands_that_must_fail_has_to() {
        check(Work::EachFails("ls /no/such", &["/a", "/b"], &[2]), 0);
        check(Work::EachFails("test", &["", "word"], &[1]), 1);
    }

    #[test]
    fn a_directory_that_is_gone_fails_the_stage() {
        check(Work::EachFile { directory: "no/such/directory", command: "true" }, 1);
    }

    #[test]
    fn a_failing_check_fails_the_stage() {
        check(Work::Check(|| Ok("fine".into())), 0);
        check(Work::Check(|| Err("broken".into())), 1);
    }

    #[test]
    fn later_stages_do_not_run_after_a_failure() {
        let failing = Stage { name: "first", what: "fails", work: Work::Passes(&["false"]) };
        let unreached = Stage {
            name: "second",
            what: "is not reached",
            work: Work::Check(|| panic!("the first stage failed")),
        };
        assert_eq!(run(&[&failing, &unreached]), 1);
    }
}
