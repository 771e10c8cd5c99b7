//! `cargo ci [stage..]`: the gate of the project, stage by stage. Parses and dispatches only.

mod command;
mod dependencies;
mod run;
mod stages;

use std::process::ExitCode;

use stages::{STAGES, Stage};

/// Exit code for a stage that does not exist.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("usage: cargo ci [list | stage..]\n\nWithout a stage it runs all of them:\n");
        list();
        return ExitCode::SUCCESS;
    }
    if arguments == ["list"] {
        list();
        return ExitCode::SUCCESS;
    }
    let chosen = match choose(&arguments) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
            eprintln!("error: no stage `{unknown}`; stages are {}", names.join(", "));
            return ExitCode::from(USAGE);
        }
    };
    ExitCode::from(run::run(&chosen))
}

/// The stages of those names, in the order of the table; all of them if none is named.
fn choose(names: &[String]) -> Result<Vec<&'static Stage>, &str> {
    let known = |name: &str| STAGES.iter().any(|stage| stage.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(unknown);
    }
    let wanted = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    Ok(STAGES.iter().filter(wanted).collect())
}

fn list() {
    for Stage { name, what, .. } in STAGES {
        println!("{name:<12} {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: Result<&[&str], &str>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let chosen = choose(&names);
        let chosen = chosen.map(|stages| stages.iter().map(|stage| stage.name).collect());
        assert_eq!(chosen, expected.map(<[&str]>::to_vec));
    }

    #[test]
    fn stages_run_in_the_order_of_the_table_whatever_the_order_of_their_names() {
        check(&["tidy", "fmt"], Ok(&["fmt", "tidy"]));
    }

    #[test]
    fn an_unknown_stage_is_refused_before_any_runs() {
        check(&["fmt", "fmtt"], Err("fmtt"));
    }

    #[test]
    fn no_name_means_every_stage() {
        assert_eq!(choose(&[]).map(|stages| stages.len()), Ok(STAGES.len()));
    }
}
