//! A statement as a value, made from the descriptor table: sent to a storage or stepped in the
//! simulated Postgres. Never decides which statement comes next.

use sluicegate::storage::{ChangeId, Result, Snapshot, Transaction, Verb};
use sluicegate::time::Timestamp;
use sluicegate::with_verbs;

use crate::database::{Cursor, Database, SessionId, Step};

/// What carries a statement out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A transaction.
    Transaction,
    /// A reader.
    Snapshot,
}

macro_rules! calls {
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
        /// A verb with its argument.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Call {
            $($(#[$tdoc])* $tv $((<$tty as ToOwned>::Owned))?,)*
            $($(#[$sdoc])* $sv $((<$sty as ToOwned>::Owned))?,)*
        }

        /// What a verb returned.
        #[derive(Clone, PartialEq, Debug)]
        #[expect(clippy::large_enum_variant, reason = "a step holds one, and it is seldom copied")]
        pub enum Reply {
            $($(#[$tdoc])* $tv($tr),)*
            $($(#[$sdoc])* $sv($sr),)*
        }

        impl Call {
            /// The row of the descriptor table.
            pub fn verb(&self) -> Verb {
                match self {
                    $(Call::$tv { .. } => Verb::$tv,)*
                    $(Call::$sv { .. } => Verb::$sv,)*
                }
            }

            /// Sends it to a transaction.
            pub async fn send<T: Transaction>(&self, transaction: &mut T) -> Result<Reply> {
                match self {
                    $(Call::$tv $(($ta))? => {
                        Ok(Reply::$tv(transaction.$tm($($ta)?).await?))
                    })*
                    $(Call::$sv { .. } => unreachable!("a reader's verb in a transaction"),)*
                }
            }

            /// Sends it to a reader.
            pub async fn read<S: Snapshot>(&self, snapshot: &mut S) -> Result<Reply> {
                match self {
                    $(Call::$tv { .. } => unreachable!("a transaction's verb in a reader"),)*
                    $(Call::$sv $(($sa))? => Ok(Reply::$sv(snapshot.$sm($($sa)?).await?)),)*
                }
            }

            /// Goes one step further in a transaction of the simulated Postgres.
            pub fn step(
                &self,
                database: &mut Database,
                session: SessionId,
                cursor: &mut Cursor,
            ) -> Step<Result<Reply>> {
                match self {
                    $(Call::$tv $(($ta))? => {
                        replied(database.$tm(session, cursor $(, $ta)?), Reply::$tv)
                    })*
                    $(Call::$sv { .. } => unreachable!("a reader's verb in a transaction"),)*
                }
            }

            /// Reads what is committed in the simulated Postgres.
            pub fn scan(&self, database: &Database) -> Result<Reply> {
                match self {
                    $(Call::$tv { .. } => unreachable!("a transaction's verb in a reader"),)*
                    $(Call::$sv $(($sa))? => database.$sm($($sa)?).map(Reply::$sv),)*
                }
            }
        }

        /// What carries a verb out; nothing does begin, commit and rollback.
        pub fn place(verb: Verb) -> Option<Place> {
            match verb {
                Verb::Begin | Verb::Commit | Verb::Rollback => None,
                $(Verb::$tv => Some(Place::Transaction),)*
                $(Verb::$sv => Some(Place::Snapshot),)*
            }
        }
    };
}
with_verbs!(calls);

fn replied<T>(step: Step<Result<T>>, reply: impl FnOnce(T) -> Reply) -> Step<Result<Reply>> {
    match step {
        Step::Done(result) => Step::Done(result.map(reply)),
        Step::Yield => Step::Yield,
        Step::Wait => Step::Wait,
        Step::Deadlock(cycle) => Step::Deadlock(cycle),
    }
}

impl Reply {
    /// Without what no two databases agree on: the clock, and the numbers of events and changes.
    #[must_use]
    pub fn comparable(self) -> Self {
        match self {
            Reply::Clock(_) => Reply::Clock(Timestamp(0)),
            Reply::ReadClock(_) => Reply::ReadClock(Timestamp(0)),
            Reply::ReadEvent(Some(mut event)) => {
                event.id.0 = 0;
                Reply::ReadEvent(Some(event))
            }
            Reply::DeleteFlowChanges(mut numbers) => {
                numbers.fill(ChangeId(0));
                Reply::DeleteFlowChanges(numbers)
            }
            Reply::LockUnnumberedEvents(mut rows) => {
                for row in &mut rows {
                    row.id.0 = 0;
                }
                Reply::LockUnnumberedEvents(rows)
            }
            Reply::ReadFeed(mut rows) => {
                for row in &mut rows.events {
                    row.event.id.0 = 0;
                }
                Reply::ReadFeed(rows)
            }
            other => other,
        }
    }
}
