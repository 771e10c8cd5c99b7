//! Golden cases: each file of steps with the outcome that Postgres once had. Model and Postgres
//! must both have it again. Writes a golden outcome only when it is asked to record one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::floor::Counts;
use super::lockstep::{Played, Table, Written, play};
use super::run::Partitions;
use super::server::{Address, Server, Trouble};
use super::spec::{Spec, StepName};
use super::tell;
use crate::database::ModelMutant;
use crate::files::read_text;

/// Directory of the golden outcomes beside the files.
const EXPECTED: &str = "expected";
const SPEC: &str = "spec";
const OUT: &str = "out";

/// Whether golden outcomes are compared or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Golden {
    /// Compared.
    Compare,
    /// Written from what Postgres does.
    Record,
}

/// One file that was run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its name.
    pub name: String,
    /// Permutations of it.
    pub permutations: usize,
    /// Where the model and Postgres differ, or Postgres and the golden outcome, in words.
    pub differs: Vec<String>,
    /// Permutations on which the model and Postgres differ.
    pub divergences: Vec<Played>,
}

/// The files of a directory, by name.
pub fn files(directory: &Path) -> Trouble<Vec<PathBuf>> {
    let said = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(said)? {
        let path = entry.map_err(said)?.path();
        if path.extension().is_some_and(|extension| extension == SPEC) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs one file.
pub async fn run(
    address: &Address,
    partitions: &Partitions,
    file: &Path,
    mutant: Option<ModelMutant>,
    golden: Golden,
    counts: &mut Counts,
) -> Trouble<Ran> {
    let said = |error: String| format!("{}: {error}", file.display());
    let text = read_text(file).map_err(said)?;
    let spec = Spec::parse(&text).map_err(said)?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let limits: Vec<_> = spec.sessions.iter().map(|session| session.limits).collect();
    let mut out = String::new();
    let mut ran =
        Ran { name, permutations: spec.permutations.len(), differs: vec![], divergences: vec![] };
    for permutation in &spec.permutations {
        let mut server = Server::open(address, &limits).await?;
        let steps = spec.steps_of(permutation);
        let mut source = Written(steps.iter());
        let table = Table { partition: partitions.next()?, limits: &limits, mutant };
        let played = play(&mut server, &table, &mut source, counts).await?;
        if let (Some((step, why)), None) = (played.refused.first(), mutant) {
            return Err(said(format!("step `{}`: {why}", step.words)));
        }
        out += &told(&spec, permutation, &played);
        if played.divergence.is_some() {
            ran.differs.push("the model differs from Postgres".to_owned());
            ran.divergences.push(played);
        }
    }
    let expected = expected_file(file);
    match golden {
        Golden::Record => {
            let directory = expected.parent().expect("it stands in a directory");
            std::fs::create_dir_all(directory)
                .and_then(|()| std::fs::write(&expected, &out))
                .map_err(|error| said(error.to_string()))?;
        }
        Golden::Compare => {
            let known = std::fs::read_to_string(&expected).map_err(|error| {
                format!("{}: {error}; write it with --record", expected.display())
            })?;
            ran.differs.extend(first_difference(&known, &out));
        }
    }
    Ok(ran)
}

fn expected_file(file: &Path) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default();
    directory.join(EXPECTED).join(name).with_extension(OUT)
}

/// The first line in which two outcomes differ.
fn first_difference(known: &str, seen: &str) -> Option<String> {
    if known == seen {
        return None;
    }
    let lines = known.lines().zip(seen.lines());
    let differing = lines.enumerate().find(|(_, (known, seen))| known != seen);
    Some(match differing {
        Some((at, (known, seen))) => {
            format!("line {} of the golden outcome: `{known}`, but Postgres: `{seen}`", at + 1)
        }
        None => "Postgres says more or less than the golden outcome".to_owned(),
    })
}

/// What Postgres did, without its setup.
fn told(spec: &Spec, permutation: &[StepName], played: &Played) -> String {
    let names = permutation.iter().map(|(seat, at)| spec.sessions[*seat].steps[*at].0.as_str());
    let mut out = format!("permutation: {}\n", names.collect::<Vec<_>>().join(" "));
    for taken in played.taken.iter().skip(spec.setup_steps()) {
        let session = spec.sessions.get(taken.step.seat).map_or("?", |one| one.name.as_str());
        writeln!(out, "{session}: {}", taken.step.words).expect("a string takes any text");
        for line in tell::answers(&taken.seen) {
            let line = without_partition(&line, played.partition);
            writeln!(out, "    {line}").expect("a string takes any text");
        }
    }
    out.push('\n');
    out
}

/// Every run has another partition.
fn without_partition(line: &str, partition: u16) -> String {
    line.replace(&format!("partition: Partition({partition}), uuid: "), "")
        .replace(&format!("partition: Partition({partition}), id: "), "")
        .replace(&format!("\"p{partition}\""), "\"p\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_outcome_is_told_by_its_first_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert!(first_difference("a\nb\n", "a\nc\n").unwrap().starts_with("line 2 "));
        assert!(first_difference("a\n", "a\nb\n").is_some());
    }
}
