//! What the gate needs of a machine besides the Rust toolchain: found, installed, or asked for by
//! name. Never changes a machine that has it.

use std::process::{Command, Stdio};

/// A program that has to be there.
struct Need {
    /// What it is.
    what: &'static str,
    /// What it is for.
    why: &'static str,
    /// True if it is there.
    found: fn() -> bool,
    /// The packages that hold it, in the order of [`MANAGERS`].
    packages: [&'static [&'static str]; MANAGERS.len()],
}

/// A package manager.
struct Manager {
    program: &'static str,
    /// Runs first, if there is anything to run first.
    refresh: Option<&'static [&'static str]>,
    /// The command line that installs packages, without their names; it asks nothing.
    install: &'static [&'static str],
    /// Whether it needs root.
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
        refresh: Some(&["apt-get", "update"]),
        install: &["apt-get", "install", "-y"],
        rights: Rights::Root,
    },
    Manager {
        program: "dnf",
        refresh: None,
        install: &["dnf", "install", "-y"],
        rights: Rights::Root,
    },
    Manager { program: "brew", refresh: None, install: &["brew", "install"], rights: Rights::User },
];

const NEEDS: &[Need] = &[
    Need {
        what: "C compiler",
        why: "the bundled SQLite is built with one",
        found: compiler_found,
        packages: [&["build-essential"], &["gcc", "glibc-devel"], &["gcc"]],
    },
    // Debian's package also starts a server of the system; nothing here talks to it.
    Need {
        what: "PostgreSQL server",
        why: "tests start throwaway clusters",
        found: postgres_found,
        packages: [&["postgresql"], &["postgresql-server"], &["postgresql@16"]],
    },
];

/// Where package managers put the programs of a server.
const INITDB: &str = "ls /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
                      /opt/homebrew/opt/postgresql*/bin/initdb \
                      /usr/local/opt/postgresql*/bin/initdb 2>/dev/null | grep -q . \
                      || command -v initdb";

/// Makes sure that everything is there. Installs what is not where the process is root and the
/// package manager known; otherwise the error says what to install.
pub(crate) fn ensure() -> Result<(), String> {
    if cfg!(windows) {
        return Ok(());
    }
    NEEDS.iter().try_for_each(|need| ensure_one(need, MANAGERS))
}

fn ensure_one(need: &Need, managers: &[Manager]) -> Result<(), String> {
    let Need { what, why, found, packages } = need;
    if found() {
        return Ok(());
    }
    let known = managers.iter().zip(*packages);
    let mut here = known.filter(|(manager, _)| runs(&[manager.program, "--version"]));
    let Some((manager, packages)) = here.next() else {
        return Err(format!("no {what}: install one, since {why}"));
    };
    let line = line(manager, packages);
    if manager.rights == Rights::User || is_root() {
        println!("no {what}: running {line}");
        let installed = lines(manager, packages).iter().all(|words| completes(words));
        if installed && found() {
            return Ok(());
        }
    }
    Err(format!("no {what}, and {why}: run {line}"))
}

/// True if the compiler that cargo's build scripts would take answers.
fn compiler_found() -> bool {
    let chosen = std::env::var_os("CC").and_then(|chosen| chosen.into_string().ok());
    let chosen = chosen.filter(|chosen| !chosen.trim().is_empty());
    let chosen = chosen.as_deref().unwrap_or("cc");
    let words: Vec<&str> = chosen.split_whitespace().chain(["--version"]).collect();
    runs(&words)
}

fn postgres_found() -> bool {
    runs(&["sh", "-c", INITDB])
}

/// The command lines that install these packages, in order.
fn lines(manager: &Manager, packages: &[&'static str]) -> Vec<Vec<&'static str>> {
    let install = [manager.install, packages].concat();
    manager.refresh.map(<[&str]>::to_vec).into_iter().chain([install]).collect()
}

fn line(manager: &Manager, packages: &[&'static str]) -> String {
    let sudo = if manager.rights == Rights::Root && !is_root() { "sudo " } else { "" };
    let lines: Vec<String> =
        lines(manager, packages).iter().map(|words| format!("{sudo}{}", words.join(" "))).collect();
    format!("`{}`", lines.join(" && "))
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
        for need in NEEDS {
            for (manager, packages) in MANAGERS.iter().zip(need.packages) {
                assert!(!packages.is_empty(), "{} has no {}", manager.program, need.what);
                let line = line(manager, packages);
                assert!(line.contains(manager.program) && line.contains(packages[0]), "{line}");
                let asks = manager.rights == Rights::Root && !line.contains(" -y ");
                assert!(!asks, "{} would wait for an answer", manager.program);
            }
        }
    }

    #[test]
    fn what_is_there_needs_nobody_and_what_nobody_can_install_is_asked_for() {
        let need = |found| Need { what: "mill", why: "flour is ground", found, packages: [&[]; 3] };
        assert_eq!(ensure_one(&need(|| true), &[]), Ok(()));
        let error = ensure_one(&need(|| false), &[]).unwrap_err();
        assert_eq!(error, "no mill: install one, since flour is ground");
    }
}
