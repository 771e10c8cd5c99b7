//! The one mapping from errors of SQLite to the caller's next move. Never retries anything.

use rusqlite::ErrorCode;

use crate::storage::{CommitError, Contention, StorageError};

/// What an error of a statement means.
pub(super) fn of_verb(error: &rusqlite::Error) -> StorageError {
    let Some(code) = error.sqlite_error_code() else {
        // Bindings, columns and SQL text are fixed at compile time; what is left is a stored value.
        return StorageError::Corrupt(error.to_string().into());
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StorageError::Contention(Contention::Busy)
        }
        ErrorCode::DiskFull => StorageError::Full,
        ErrorCode::ReadOnly => StorageError::ReadOnly,
        // A row that no engine writes, refused by a check or a key.
        ErrorCode::ConstraintViolation | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StorageError::Corrupt(error.to_string().into())
        }
        // A value beyond a limit of SQLite.
        ErrorCode::TooBig => StorageError::TooLarge(error.to_string().into()),
        // A missing table or column.
        ErrorCode::Unknown | ErrorCode::NoLargeFileSupport => {
            StorageError::Unsupported(error.to_string().into())
        }
        _ => StorageError::Unavailable(error.to_string().into()),
    }
}

/// What an error of COMMIT means. After a failed write or sync the commit record may or may not
/// have reached the disk; recovery decides, so the answer is unknown. BUSY is definite.
pub(super) fn of_commit(error: &rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull) => CommitError::Unknown,
        _ => CommitError::Storage(of_verb(error)),
    }
}

/// True if the connection that answered so is not to be used again.
pub(super) fn ends_connection(error: &StorageError) -> bool {
    !matches!(error, StorageError::Contention(_) | StorageError::Unsupported(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn every_form_of_busy_is_contention_in_a_statement_and_at_commit() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_BUSY_RECOVERY] {
            let busy = StorageError::Contention(Contention::Busy);
            assert_eq!(of_verb(&error(code)), busy);
            assert_eq!(of_commit(&error(code)), CommitError::Storage(busy));
        }
    }

    #[test]
    fn a_failed_write_is_definite_in_a_statement_and_unknown_at_commit() {
        assert_eq!(of_verb(&error(ffi::SQLITE_FULL)), StorageError::Full);
        assert!(matches!(of_verb(&error(ffi::SQLITE_IOERR_FSYNC)), StorageError::Unavailable(_)));
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC] {
            assert_eq!(of_commit(&error(code)), CommitError::Unknown);
        }
    }

    #[test]
    fn damage_and_protection_are_told_apart() {
        assert_eq!(of_verb(&error(ffi::SQLITE_READONLY_DIRECTORY)), StorageError::ReadOnly);
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CONSTRAINT_CHECK] {
            assert!(matches!(of_verb(&error(code)), StorageError::Corrupt(_)), "{code}");
        }
        assert!(matches!(of_verb(&error(ffi::SQLITE_TOOBIG)), StorageError::TooLarge(_)));
        assert!(matches!(of_verb(&error(ffi::SQLITE_ERROR)), StorageError::Unsupported(_)));
        assert!(matches!(of_verb(&error(ffi::SQLITE_CANTOPEN)), StorageError::Unavailable(_)));
    }
}
