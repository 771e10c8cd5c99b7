//! What every backend decides about a schema: which migrations it lacks and whether this engine may
//! use it. Pure; the backends read and write the two tables that tell.

use crate::identity::PartitionCount;
use crate::storage::{Result, StorageError};

/// One step of the schema; applied in one transaction with those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The schema's version after it.
    pub version: u32,
    /// The oldest engine, by the schema version that it was built for, that works with the result.
    /// One that expands leaves it as it was; one that contracts raises it, once no older engine is
    /// meant to run: from its commit on their transactions are refused.
    pub least_engine_version: u32,
    /// What it does, in a word or two.
    pub name: &'static str,
    /// The statements that it runs.
    pub sql: &'static str,
}

/// What opening does with migrations that the database lacks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Migrations {
    /// Applies them.
    #[default]
    Apply,
    /// Refuses the database.
    Refuse,
}

/// The last row of `sluicegate_schema`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredVersion {
    /// The schema's version.
    pub version: i64,
    /// The oldest engine that it admits.
    pub least_engine_version: i64,
}

/// The version of the last of these migrations.
pub const fn latest(migrations: &[Migration]) -> u32 {
    migrations[migrations.len() - 1].version
}

/// The version of the schema; `Unsupported` if it admits only engines newer than `built_for`.
pub fn admit(stored: StoredVersion, built_for: u32) -> Result<u32> {
    let StoredVersion { version, least_engine_version: least } = stored;
    if least > i64::from(built_for) {
        return Err(StorageError::Unsupported(
            format!(
                "the database has schema version {version}, which admits engines from version \
                 {least}; this engine is built for version {built_for}"
            )
            .into(),
        ));
    }
    u32::try_from(version).map_err(|_| {
        StorageError::Corrupt(format!("sluicegate_schema.version holds {version}").into())
    })
}

/// What a schema of that version lacks.
pub fn after(migrations: &[Migration], version: u32) -> impl Iterator<Item = &Migration> {
    migrations.iter().filter(move |migration| migration.version > version)
}

/// True if what a schema of that version lacks leaves engines behind that it admits.
pub fn contracts(migrations: &[Migration], version: u32) -> bool {
    let applied = migrations.iter().take_while(|migration| migration.version <= version);
    let admitted = applied.last().map_or(0, |migration| migration.least_engine_version);
    after(migrations, version).any(|migration| migration.least_engine_version > admitted)
}

/// Refuses a schema of that version if it lacks a migration.
pub fn refuse_behind(migrations: &[Migration], version: u32) -> Result<()> {
    let Some(Migration { version: lacked, name, .. }) = after(migrations, version).next() else {
        return Ok(());
    };
    Err(StorageError::Unsupported(
        format!("schema version {version} lacks migration {lacked} ({name})").into(),
    ))
}

/// Refuses a database whose keys were made with another partition count.
pub fn check_partitions(stored: i64, asked: PartitionCount) -> Result<()> {
    if stored == i64::from(asked.get()) {
        return Ok(());
    }
    let asked = asked.get();
    Err(StorageError::Unsupported(
        format!("the database has {stored} partitions, not {asked}; the count is fixed").into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(version: u32, least_engine_version: u32) -> Migration {
        Migration { version, least_engine_version, name: "a step", sql: "" }
    }

    #[test]
    fn a_migration_that_raises_the_least_engine_contracts() {
        let steps = [step(1, 1), step(2, 1), step(3, 2), step(4, 2)];
        let contracting = (1..=4).map(|version| contracts(&steps, version));
        assert_eq!(contracting.collect::<Vec<_>>(), [true, true, false, false]);
        assert!(!contracts(&steps[..2], 1), "what expands leaves nobody behind");
    }

    #[test]
    fn an_engine_is_admitted_by_every_version_that_says_so() {
        let stored = |version, least| StoredVersion { version, least_engine_version: least };
        assert_eq!(admit(stored(2, 1), 1), Ok(2));
        assert_eq!(admit(stored(3, 2), 2), Ok(3));
        assert!(matches!(admit(stored(3, 2), 1), Err(StorageError::Unsupported(_))));
        assert!(matches!(admit(stored(-1, 1), 1), Err(StorageError::Corrupt(_))));
    }
}
