//! The SQL of every verb, for one schema. Never sends anything.

use std::sync::Arc;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgArguments;

use super::PostgresOptions;
use super::pool::PgQuery;
use crate::storage::Verb;
use crate::with_verbs;

macro_rules! texts {
    (
        transaction { $(
            $(#[$tdoc:meta])* $tv:ident $tm:ident: $tk:ident, $tt:ident,
                ($($ta:ident: $tty:ty)?) -> $tr:ty;
        )* }
        snapshot { $(
            $(#[$sdoc:meta])* $sv:ident $sm:ident: $sk:ident, $st:ident,
                ($($sa:ident: $sty:ty)?) -> $sr:ty;
        )* }
    ) => {
        /// The file of a verb; begin, commit and rollback have none.
        pub(super) const fn text(verb: Verb) -> &'static str {
            match verb {
                Verb::Begin | Verb::Commit | Verb::Rollback => "",
                $(Verb::$tv => include_str!(concat!("sql/", stringify!($tm), ".sql")),)*
                $(Verb::$sv => include_str!(concat!("sql/", stringify!($sm), ".sql")),)*
            }
        }
    };
}
with_verbs!(texts);

/// The statements of one storage, in the order of [`Verb::ALL`].
pub(super) struct Statements(Vec<Arc<str>>);

impl Statements {
    /// The statements for the schema of these options.
    pub(super) fn new(options: &PostgresOptions) -> Self {
        let all = Verb::ALL.iter();
        Self(all.map(|verb| options.in_schema(text(*verb)).into()).collect())
    }

    /// The statement of a verb, prepared once a connection.
    pub(super) fn query(&self, verb: Verb, arguments: PgArguments) -> PgQuery<'static> {
        let text = Arc::clone(&self.0[verb as usize]);
        sqlx::query_with(AssertSqlSafe(text), arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_numbered_as_the_table_lists_them() {
        for (place, verb) in Verb::ALL.iter().enumerate() {
            assert_eq!(*verb as usize, place, "{verb:?}");
        }
    }

    #[test]
    fn no_statement_names_a_table_without_its_schema() {
        let options = PostgresOptions::new("postgres://localhost/db").unwrap().schema("other");
        for verb in Verb::ALL {
            let moved = options.in_schema(text(*verb));
            assert!(!moved.contains("sluicegate."), "{verb:?}");
            let table = verb.descriptor().table;
            let bare = [format!("from {table} "), format!("join {table} ")];
            assert!(bare.iter().all(|bare| !moved.contains(bare.as_str())), "{verb:?}");
        }
    }
}
