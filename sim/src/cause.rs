//! Where a failing universe became one that fails whatever happens next: the shortest beginning of
//! its choices of which no random continuation passes any more. Never changes a universe.
//!
//! Statistical debugging by random continuation: a beginning that some continuation survives does
//! not hold the cause yet, one that none survives does.

use crate::failure::FailureFile;
use crate::replay::{Recorded, Verdict, record};
use crate::tape::{Cell, Tape};

/// The stream of continuations, which no campaign uses.
const STREAM: u64 = 3;

/// Continuations of a beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Continued {
    /// Choices that the beginning has.
    pub choices: usize,
    /// How many of its continuations pass.
    pub passed: u32,
    /// How many there were.
    pub of: u32,
}

/// Where the cause of a failure lies.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The longest beginning that some continuation survives; none if none survives even the
    /// empty one.
    pub open: Option<Continued>,
    /// The shortest that none survives.
    pub closed: Continued,
    /// The choice between them; none if the universe fails before its first.
    pub choice: Option<Cell>,
    /// Choices of the file.
    pub choices: usize,
    /// What happened, up to the first thing that the open beginning does not settle.
    pub settled: usize,
    /// The whole failing universe.
    pub recorded: Recorded,
}

/// Finds the cause of a failure, with so many continuations for each beginning; `tried` sees each
/// beginning that was looked at. Fails if the file does not fail as it says.
pub fn cause(
    file: &FailureFile,
    continuations: u32,
    tried: &mut dyn FnMut(Continued),
) -> Result<Cause, String> {
    let recorded = record(file.plan.clone(), Tape::replay(file.tape.clone()))?;
    let verdict = recorded.verdict(file);
    if verdict != Verdict::Same {
        return Err(format!("it does not fail as it says here: {}", verdict.text()));
    }
    let tape = &recorded.tape;
    let mut look = |choices: usize| -> Result<Continued, String> {
        let continued = continued(file, &tape[..choices], continuations)?;
        tried(continued);
        Ok(continued)
    };
    // What nobody survives nobody survives later: the beginnings are in order.
    let mut open = None;
    let mut closed = look(tape.len())?;
    let first = look(0)?;
    if first.passed == 0 {
        closed = first;
    } else {
        let mut last = first;
        while last.choices + 1 < closed.choices {
            let middle = look(last.choices.midpoint(closed.choices))?;
            match middle.passed {
                0 => closed = middle,
                _ => last = middle,
            }
        }
        open = Some(last);
    }
    let settled = match &open {
        Some(open) => settled(file, &recorded, open.choices, continuations)?,
        None => 0,
    };
    Ok(Cause {
        choice: open.and_then(|open| tape.get(open.choices).copied()),
        open,
        closed,
        choices: tape.len(),
        settled,
        recorded,
    })
}

fn continuation(file: &FailureFile, beginning: &[Cell], nth: u32) -> Result<Recorded, String> {
    record(file.plan.clone(), Tape::continued(beginning.to_vec(), u64::from(nth), STREAM))
}

fn continued(file: &FailureFile, beginning: &[Cell], of: u32) -> Result<Continued, String> {
    let mut passed = 0;
    for nth in 0..of {
        passed += u32::from(continuation(file, beginning, nth)?.sighting.is_none());
    }
    Ok(Continued { choices: beginning.len(), passed, of })
}

/// How much of what happened is the same in every continuation.
fn settled(
    file: &FailureFile,
    failing: &Recorded,
    choices: usize,
    of: u32,
) -> Result<usize, String> {
    let entries = &failing.entries;
    let mut settled = entries.len();
    for nth in 0..of {
        let other = continuation(file, &failing.tape[..choices], nth)?;
        let same = entries.iter().zip(&other.entries).take_while(|(one, two)| one == two);
        settled = settled.min(same.count());
    }
    Ok(settled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::testing::failing;

    /// One that fails by its choices.
    fn file() -> FailureFile {
        failing(|file| {
            let quiet = record(file.plan.clone(), Tape::quiet()).unwrap();
            quiet.sighting.is_none()
        })
    }

    #[test]
    fn the_cause_lies_between_a_beginning_that_some_survive_and_one_that_none_does() {
        let file = file();
        let mut looked = 0;
        let cause = cause(&file, 20, &mut |_| looked += 1).unwrap();
        let open = cause.open.expect("some continuation of nothing passes");
        assert_eq!(open.choices + 1, cause.closed.choices);
        assert!(open.passed > 0, "{open:?}");
        assert_eq!(cause.closed.passed, 0);
        assert!(cause.settled <= cause.recorded.entries.len());
        assert!(looked < 40, "beginnings are halved: {looked}");
    }

    #[test]
    fn a_file_that_passes_has_no_cause() {
        let mut file = file();
        file.tape.clear();
        let why = cause(&file, 2, &mut |_| {}).unwrap_err();
        assert!(why.contains("passes"), "{why}");
    }
}
