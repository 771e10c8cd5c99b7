//! The one mapping from errors of Postgres to the caller's next move. Never retries anything.

use crate::storage::{CommitError, Contention, StorageError};

/// Why a database could not be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Mend the URL.
    #[error("no Postgres URL, {reason}; write postgres://user@host/database")]
    Url {
        /// What is wrong with it; never the URL itself, which may hold a password.
        reason: String,
    },
    /// Start the server, or mend host, port and credentials.
    #[error("no connection to the server: {reason}")]
    Unreachable {
        /// What the system or the server said.
        reason: String,
    },
    /// Grant what is missing, or use another role.
    #[error("the role may not do that: {reason}; grant it, or let its owner apply the migrations")]
    Permission {
        /// What the server refused.
        reason: String,
    },
    /// Connect to the primary.
    #[error("the server is read-only: it is a standby, or default_transaction_read_only is on")]
    ReadOnly,
    /// Upgrade the server.
    #[error("the server is PostgreSQL {found}, older than {}", super::SERVER_VERSION_MIN)]
    TooOld {
        /// Its major version.
        found: u32,
    },
    /// Connect to the server itself, or to a pooler in session mode that passes settings on.
    #[error(
        "session settings do not hold: a pooler in transaction mode stands in between ({reason}); \
         connect to the server itself, since prepared statements, locks and LISTEN need a session"
    )]
    Pooler {
        /// How it showed.
        reason: String,
    },
    /// The schema is not this engine's, or the server failed otherwise.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The `SQLSTATE` of an error, if the server sent one.
fn code(error: &sqlx::Error) -> Option<String> {
    let sqlx::Error::Database(error) = error else { return None };
    error.code().map(std::borrow::Cow::into_owned)
}

/// What the library says of a message whose length has no form on the wire.
const NO_LENGTH: &str = "out of range";

/// What an error of a statement means.
pub(super) fn of_verb(error: &sqlx::Error) -> StorageError {
    let text = || error.to_string().into();
    let Some(code) = code(error) else {
        return match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
                StorageError::Corrupt(text())
            }
            sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => {
                StorageError::Unsupported(text())
            }
            sqlx::Error::Protocol(reason) if reason.contains(NO_LENGTH) => {
                StorageError::TooLarge(text())
            }
            _ => StorageError::Unavailable(text()),
        };
    };
    match (code.as_str(), code.get(..2)) {
        ("40001", _) => StorageError::Contention(Contention::Serialization),
        ("40P01", _) => StorageError::Contention(Contention::Deadlock),
        ("55P03", _) => StorageError::Contention(Contention::LockTimeout),
        ("57014", _) => StorageError::Contention(Contention::StatementTimeout),
        ("25006", _) => StorageError::ReadOnly,
        ("53100", _) => StorageError::Full,
        // A row that no engine writes, refused by a check or a key; damaged pages.
        (_, Some("23")) | ("XX001" | "XX002", _) => StorageError::Corrupt(text()),
        // A message of a length that no server reads, a value beyond one of its limits.
        ("08P01", _) | (_, Some("54")) => StorageError::TooLarge(text()),
        // A value or an object that this server does not know, or may not show.
        (_, Some("0A" | "22" | "3F" | "42")) => StorageError::Unsupported(text()),
        _ => StorageError::Unavailable(text()),
    }
}

/// What an error of COMMIT means. Where the connection or the server went, nobody knows what became
/// of the commit record; an answer of the living server is definite.
pub(super) fn of_commit(error: &sqlx::Error) -> CommitError {
    let unknown = match code(error) {
        None => true,
        Some(code) => {
            let class = code.get(..2);
            matches!(class, Some("08" | "53")) || matches!(&*code, "57P01" | "57P02" | "57P03")
        }
    };
    match unknown {
        true => CommitError::Unknown,
        false => CommitError::Storage(of_verb(error)),
    }
}

/// What an error means while a connection is opened.
pub(super) fn of_open(error: &sqlx::Error) -> OpenError {
    let reason = error.to_string();
    let Some(code) = code(error) else {
        return match error {
            sqlx::Error::Configuration(_) => OpenError::Url { reason },
            _ => OpenError::Unreachable { reason },
        };
    };
    match (code.as_str(), code.get(..2)) {
        ("42501", _) => OpenError::Permission { reason },
        ("25006", _) => OpenError::ReadOnly,
        // PgBouncer refuses a startup parameter that it does not track.
        ("08P01", _) if reason.contains("startup parameter") => OpenError::Pooler { reason },
        (_, Some("08" | "28" | "3D" | "53" | "57")) => OpenError::Unreachable { reason },
        _ => OpenError::Storage(of_verb(error)),
    }
}

/// True if the connection that answered so is not to be used again; otherwise its server goes on,
/// and a rollback is all that is needed.
pub(super) fn ends_connection(error: &StorageError) -> bool {
    use StorageError::{Contention, Corrupt, Unreadable, Unsupported};
    !matches!(error, Contention(_) | Corrupt(_) | Unreadable(..) | Unsupported(_))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fmt;

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;

    #[derive(Debug)]
    struct Answer(&'static str, &'static str);

    impl fmt::Display for Answer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.1)
        }
    }

    impl std::error::Error for Answer {}

    impl DatabaseError for Answer {
        fn message(&self) -> &str {
            self.1
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn answer(code: &'static str) -> sqlx::Error {
        sqlx::Error::Database(Box::new(Answer(code, "said so")))
    }

    #[test]
    fn contention_is_definite_in_a_statement_and_at_commit() {
        for (code, contention) in [
            ("40001", Contention::Serialization),
            ("40P01", Contention::Deadlock),
            ("55P03", Contention::LockTimeout),
            ("57014", Contention::StatementTimeout),
        ] {
            let expected = StorageError::Contention(contention);
            assert_eq!(of_verb(&answer(code)), expected);
            assert_eq!(of_commit(&answer(code)), CommitError::Storage(expected));
        }
    }

    #[test]
    fn a_commit_whose_server_went_away_is_unknown() {
        for code in ["08006", "08003", "57P01", "57P02", "57P03", "53100", "53300"] {
            assert_eq!(of_commit(&answer(code)), CommitError::Unknown, "{code}");
        }
        let cut = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(of_commit(&cut), CommitError::Unknown);
        assert!(matches!(of_verb(&cut), StorageError::Unavailable(_)));
    }

    #[test]
    fn refused_rows_full_disks_and_protected_servers_are_told_apart() {
        for code in ["23505", "23514", "XX001"] {
            let error = of_verb(&answer(code));
            assert!(matches!(error, StorageError::Corrupt(_)), "{code}");
            assert!(!ends_connection(&error), "{code}");
        }
        for code in ["42P01", "3F000", "22021"] {
            assert!(matches!(of_verb(&answer(code)), StorageError::Unsupported(_)), "{code}");
        }
        let no_length = sqlx::Error::Protocol("message size out of range for protocol: 9".into());
        for too_large in [answer("08P01"), answer("54000"), no_length] {
            let error = of_verb(&too_large);
            assert!(matches!(error, StorageError::TooLarge(_)), "{error}");
            assert!(ends_connection(&error), "the server may have ended it");
        }
        assert_eq!(of_verb(&answer("53100")), StorageError::Full);
        assert_eq!(of_verb(&answer("25006")), StorageError::ReadOnly);
        for code in ["57P01", "25P03", "53300", "58030"] {
            let error = of_verb(&answer(code));
            assert!(matches!(error, StorageError::Unavailable(_)), "{code}");
            assert!(ends_connection(&error));
        }
    }

    #[test]
    fn every_way_that_opening_fails_has_its_own_error() {
        assert!(matches!(of_open(&answer("42501")), OpenError::Permission { .. }));
        assert!(matches!(of_open(&answer("28P01")), OpenError::Unreachable { .. }));
        assert!(matches!(of_open(&answer("3D000")), OpenError::Unreachable { .. }));
        assert!(matches!(of_open(&answer("25006")), OpenError::ReadOnly));
        let startup = Answer("08P01", "unsupported startup parameter: options");
        let refused = sqlx::Error::Database(Box::new(startup));
        assert!(matches!(of_open(&refused), OpenError::Pooler { .. }));
        let gone = sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into());
        assert!(matches!(of_open(&gone), OpenError::Unreachable { .. }));
    }
}
