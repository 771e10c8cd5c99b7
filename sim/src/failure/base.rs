//! A folder of failure files as a bug base: one entry for each mistake, its duplicates folded into
//! it. Never runs a universe.

use std::path::{Path, PathBuf};

use super::FailureFile;
use crate::failure::Extent;
use crate::plan::{EngineKind, LaneKind};

/// Where a failure was put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filed {
    /// The entry.
    pub path: PathBuf,
    /// How often it had been seen before, and with which commit first; nothing if it is new.
    pub known: Option<Known>,
}

/// What was known of a mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Failures that were folded into the entry.
    pub seen: u64,
    /// The commit that it was found with first.
    pub commit: String,
}

impl FailureFile {
    /// The name of its entry: the invariant, the signature, and what is not the default.
    pub fn entry_name(&self) -> String {
        let mut name = format!("{}-{}", self.invariant, self.signature);
        let mut and = |word: &str| {
            name.push('-');
            name.push_str(word);
        };
        if self.lane != LaneKind::Model {
            and(self.lane.name());
        }
        if let Some(behind) = self.plan.behind {
            and(behind.name());
        }
        if self.engine != EngineKind::default() {
            and(self.engine.name());
        }
        if let Some(mutant) = &self.plan.mutant {
            and(mutant);
        }
        name + ".json"
    }

    /// Puts the failure into the folder, which is made if it is not there. An entry of the same
    /// mistake counts it and keeps the smaller of the two universes, and the commit that found it
    /// first.
    ///
    /// Fails, and leaves the folder as it was, if something else has the name of the entry.
    pub fn file_into(mut self, folder: &Path) -> Result<Filed, String> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = folder.join(self.entry_name());
        let known = match path.exists() {
            false => None,
            true => {
                let entry = Self::load(&path).map_err(|error| {
                    format!("{error}; it is no entry of this bug base: move it away")
                })?;
                Some(self.fold(entry))
            }
        };
        self.write_as(&path)?;
        Ok(Filed { path, known })
    }

    /// Takes an entry's place, with what it knows.
    fn fold(&mut self, entry: FailureFile) -> Known {
        let known = Known { seen: entry.seen, commit: entry.commit.clone() };
        let seen = entry.seen.saturating_add(self.seen);
        let size = |file: &FailureFile| (Extent::of(&file.plan, &file.tape), file.tape.len());
        match size(self) < size(&entry) {
            true => self.commit = entry.commit,
            false => *self = entry,
        }
        self.seen = seen;
        known
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    fn filed(file: &FailureFile, folder: &Path) -> Filed {
        file.clone().file_into(folder).unwrap()
    }

    #[test]
    fn a_duplicate_is_counted_and_the_smaller_universe_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("bugs");
        let first = filed(&file(), &folder);
        assert_eq!(first.known, None);
        let mut smaller = FailureFile { commit: "89abcdef".into(), seen: 4, ..file() };
        smaller.tape.truncate(2);
        let second = filed(&smaller, &folder);
        assert_eq!(second.path, first.path);
        assert_eq!(second.known, Some(Known { seen: 1, commit: "0123abcd".into() }));
        let larger = FailureFile { seen: 2, ..file() };
        assert_eq!(filed(&larger, &folder).known.map(|known| known.seen), Some(5));
        let kept = FailureFile::load(&first.path).unwrap();
        assert_eq!((kept.seen, kept.tape.len(), kept.commit.as_str()), (7, 2, "0123abcd"));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn another_mistake_another_lane_or_another_planted_bug_is_another_entry() {
        let folder = tempfile::tempdir().unwrap();
        let mut sqlite = file();
        sqlite.lane = LaneKind::Sqlite;
        let mut mutant = file();
        mutant.plan.mutant = None;
        let other = FailureFile { signature: "00000000".into(), ..file() };
        for file in [file(), sqlite, mutant, other] {
            assert_eq!(filed(&file, folder.path()).known, None, "{}", file.entry_name());
        }
    }

    #[test]
    fn what_is_no_failure_file_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file().entry_name());
        std::fs::write(&path, "mine").unwrap();
        let why = file().file_into(folder.path()).unwrap_err();
        assert!(why.contains("move it away"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
