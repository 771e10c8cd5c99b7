//! The C compiler that the bundled SQLite is built with: found, installed, or asked for by name.
//! Never changes a machine that has one.

use std::process::{Command, Stdio};

/// A package manager and what it calls a C compiler.
struct Manager {
    program: &'static str,
    /// The command lines that install it, in order; they ask nothing.
    install: &'static [&'static [&'static str]],
    /// Whether they need root.
    rights: Rights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Root,
    User,
}

const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        install: &[&["apt-get", "update"], &["apt-get", "install", "-y", "build-essential"]],
        rights: Rights::Root,
    },
    Manager {
        program: "dnf",
        install: &[&["dnf", "install", "-y", "gcc", "glibc-devel"]],
        rights: Rights::Root,
    },
    Manager { program: "brew", install: &[&["brew", "install", "gcc"]], rights: Rights::User },
];

/// Makes sure that a C compiler is there. Installs one where the process is root and the package
/// manager known; otherwise the error says what to install.
pub(crate) fn ensure() -> Result<(), String> {
    if cfg!(windows) || found() {
        return Ok(());
    }
    let manager = MANAGERS.iter().find(|manager| runs(&[manager.program, "--version"]));
    let Some(manager) = manager else {
        return Err("no C compiler: install gcc or clang so that `cc` is on PATH".into());
    };
    let line = line(manager);
    if manager.rights == Rights::Root && is_root() {
        println!("no C compiler: running {line}");
        let installed = manager.install.iter().all(|words| completes(words));
        if installed && found() {
            return Ok(());
        }
    }
    Err(format!("no C compiler, which the bundled SQLite needs: run {line}"))
}

/// True if the compiler that cargo's build scripts would take answers.
fn found() -> bool {
    let chosen = std::env::var_os("CC").and_then(|chosen| chosen.into_string().ok());
    let chosen = chosen.filter(|chosen| !chosen.trim().is_empty());
    let chosen = chosen.as_deref().unwrap_or("cc");
    let words: Vec<&str> = chosen.split_whitespace().chain(["--version"]).collect();
    runs(&words)
}

fn line(manager: &Manager) -> String {
    let lines: Vec<String> = manager.install.iter().map(|words| words.join(" ")).collect();
    let sudo = if manager.rights == Rights::Root && !is_root() { "sudo " } else { "" };
    format!("`{sudo}{}`", lines.join(&format!(" && {sudo}")))
}

fn is_root() -> bool {
    let identity = Command::new("id").arg("-u").output();
    identity.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// True if the command exists and exits with 0; prints nothing.
fn runs(words: &[&str]) -> bool {
    let mut command = command(words);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// True if the command exits with 0; what it prints is shown.
fn completes(words: &[&str]) -> bool {
    let mut command = command(words);
    let status = command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn command(words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().expect("a command names a program");
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_fails_does_not_run() {
        assert!(runs(&["true"]));
        assert!(!runs(&["false"]));
        assert!(!runs(&["no-such-program-anywhere"]));
    }

    #[test]
    fn every_package_manager_is_told_what_to_install_and_asks_nothing() {
        for manager in MANAGERS {
            assert!(line(manager).contains(manager.program));
            assert!(manager.install.iter().all(|words| words[0] == manager.program));
            let asks = manager.rights == Rights::Root
                && !manager.install.iter().any(|words| words.contains(&"-y"));
            assert!(!asks, "{} would wait for an answer", manager.program);
        }
    }
}
