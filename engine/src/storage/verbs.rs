//! The descriptor table: every verb of the storage seam, one row each. The traits, the boxed twin,
//! the simulator's gate and the checks of the SQL files are all made from this table.

/// What a verb may do, and whether it may wait for another transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Any query; never waits.
    Read,
    /// Locks rows of one table by explicit keys, in order; waits row by row, joins nothing.
    Lock,
    /// Locks what it gets without waiting, with a limit; may join in its snapshot.
    Take,
    /// Changes rows of one table that the transaction has locked, by key and guard; never waits.
    Write,
    /// Adds rows; waits on a unique key in flight.
    Insert,
    /// Begin, clock, commit, rollback.
    Control,
}

/// A row of the descriptor table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Name of the method and of the SQL file.
    pub name: &'static str,
    /// What it may do.
    pub kind: Kind,
    /// The one table that it locks or writes; of a read, the one that it starts from.
    pub table: &'static str,
}

/// Calls a macro with the whole table.
///
/// A row reads `Variant method: Kind, table, (argument: Type) -> Reply;`. Arguments are passed by
/// reference.
#[macro_export]
macro_rules! with_verbs {
    ($callback:ident) => { $callback! {
        transaction {
            /// The storage's clock, now. No other verb names a clock.
            Clock clock: Control, none, () -> $crate::time::Timestamp;
            /// Claims an idempotency key; waits while another transaction holds it in flight.
            InsertSubmission insert_submission: Insert, submission,
                (row: $crate::storage::Submission) -> $crate::storage::Inserted;
            /// The submission of a key.
            ReadSubmission read_submission: Read, submission,
                (key: $crate::storage::SubmissionKey) -> Option<$crate::storage::Submission>;
            /// Adds a flow; waits while another transaction holds its id in flight.
            InsertFlow insert_flow: Insert, flow,
                (row: $crate::storage::Flow) -> $crate::storage::Inserted;
            /// A flow by its key.
            ReadFlow read_flow: Read, flow,
                (key: $crate::identity::FlowKey) -> Option<$crate::storage::Flow>;
            /// Adds executions.
            InsertExecutions insert_executions: Insert, execution,
                (rows: [$crate::storage::NewExecution]) -> ();
            /// Adds edge groups.
            InsertGroups insert_groups: Insert, edge_group,
                (rows: [$crate::storage::Group]) -> ();
            /// Adds edges.
            InsertEdges insert_edges: Insert, edge,
                (rows: [$crate::storage::Edge]) -> ();
            /// Tells the projector that executions of these flows moved.
            InsertFlowChanges insert_flow_changes: Insert, flow_change,
                (flows: [$crate::identity::FlowKey]) -> ();
            /// The live grants that carry a claim's request id, in id order.
            ReadGrants read_grants: Read, execution,
                (request: $crate::identity::RequestId) -> Vec<$crate::storage::Grant>;
            /// Grants what may be claimed, in claim order, passing over locked rows.
            ClaimExecutions claim_executions: Take, execution,
                (query: $crate::storage::ClaimQuery) -> Vec<$crate::storage::Grant>;
            /// Locks executions one by one in id order; missing ones are left out.
            LockExecutions lock_executions: Lock, execution,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Execution>;
            /// Locks those of the executions that nobody else has locked, in id order.
            TakeExecutions take_executions: Take, execution,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Execution>;
            /// Updates locked executions; returns the ids whose guard held, in id order.
            WriteExecutions write_executions: Write, execution,
                (rows: [$crate::storage::ExecutionWrite]) -> Vec<$crate::identity::ExecutionId>;
            /// Records ended attempts, each with the worker that still stands in its execution.
            InsertAttempts insert_attempts: Insert, attempt,
                (rows: [$crate::storage::Attempt]) -> ();
            /// The history row of an attempt.
            ReadAttempt read_attempt: Read, attempt,
                (key: $crate::storage::AttemptKey) -> Option<$crate::storage::Attempt>;
            /// Adds completion events with the labels of their executions.
            InsertEvents insert_events: Insert, completion_event,
                (rows: [$crate::storage::NewEvent]) -> ();
            /// Locks groups one by one in id order; missing ones are left out.
            LockGroups lock_groups: Lock, edge_group,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Group>;
            /// Groups as they stand, in id order, without a lock.
            ReadGroups read_groups: Read, edge_group,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Group>;
            /// The pending edges of groups with the present rows of their upstreams, in key order.
            PendingEdges pending_edges: Read, edge,
                (groups: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::PendingEdge>;
            /// Resolves pending edges of locked groups; returns those that it flipped, in key
            /// order.
            ResolveEdges resolve_edges: Write, edge,
                (rows: [$crate::storage::EdgeFlip]) -> Vec<$crate::storage::EdgeKey>;
            /// Stores counters and decisions of locked groups; returns how many it changed.
            WriteGroups write_groups: Write, edge_group,
                (rows: [$crate::storage::Group]) -> u64;
            /// Those of the executions that still have a pending out-edge, in id order.
            WithPendingEdges with_pending_edges: Read, edge,
                (upstreams: [$crate::identity::ExecutionId]) -> Vec<$crate::identity::ExecutionId>;
            /// Asks for sibling cancellation; a request that exists stays.
            InsertSiblingRequests insert_sibling_requests: Insert, sibling_request,
                (rows: [$crate::storage::SiblingRequest]) -> ();
            /// How these flows were closed; only closed ones are returned, in key order.
            ReadClosings read_closings: Read, flow,
                (flows: [$crate::identity::FlowKey])
                -> Vec<($crate::identity::FlowKey, $crate::state::ClosePolicy)>;
        }
        snapshot {
            /// The storage's clock, now.
            ReadClock read_clock: Control, none, () -> $crate::time::Timestamp;
            /// Terminal executions that are not propagated, in id order.
            ScanUpstreams scan_upstreams: Read, execution,
                (scan: $crate::storage::UpstreamScan) -> Vec<$crate::identity::ExecutionId>;
            /// Decided groups whose downstream is still blocked, in id order.
            ScanStuckGroups scan_stuck_groups: Read, edge_group,
                (page: $crate::storage::Page) -> Vec<$crate::identity::ExecutionId>;
            /// Executions whose lease, attempt or deadline is over, in id order.
            ScanOverdue scan_overdue: Read, execution,
                (scan: $crate::storage::OverdueScan) -> Vec<$crate::identity::ExecutionId>;
            /// The groups that a hop from these upstreams may change, in id order: their pending
            /// edges, and on from every group that one of them makes impossible.
            PlanGroups plan_groups: Read, edge,
                (query: $crate::storage::PlanQuery) -> Vec<$crate::identity::ExecutionId>;
            /// A completion event by its number.
            ReadEvent read_event: Read, completion_event,
                (id: $crate::storage::EventId) -> Option<$crate::storage::Event>;
            /// A flow.
            DescribeFlow describe_flow: Read, flow,
                (key: $crate::identity::FlowKey) -> Option<$crate::storage::Flow>;
            /// The executions of a flow, in id order.
            DescribeExecutions describe_executions: Read, execution,
                (key: $crate::identity::FlowKey) -> Vec<$crate::storage::ExecutionView>;
            /// The groups of a flow, in id order.
            DescribeGroups describe_groups: Read, edge_group,
                (key: $crate::identity::FlowKey) -> Vec<$crate::storage::Group>;
            /// The edges of a flow, in key order.
            DescribeEdges describe_edges: Read, edge,
                (key: $crate::identity::FlowKey) -> Vec<$crate::storage::Edge>;
            /// An execution.
            DescribeExecution describe_execution: Read, execution,
                (id: $crate::identity::ExecutionId) -> Option<$crate::storage::ExecutionView>;
        }
    } };
}

macro_rules! descriptors {
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
        /// Every statement that an engine sends.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Verb {
            /// Opens a transaction.
            Begin,
            /// Ends it and keeps its effects.
            Commit,
            /// Ends it and drops its effects.
            Rollback,
            $($(#[$tdoc])* $tv,)*
            $($(#[$sdoc])* $sv,)*
        }

        impl Verb {
            /// Every verb, in the order of the table.
            pub const ALL: &'static [Verb] = &[
                Verb::Begin, Verb::Commit, Verb::Rollback, $(Verb::$tv,)* $(Verb::$sv,)*
            ];

            /// The row of the table.
            pub const fn descriptor(self) -> Descriptor {
                match self {
                    Verb::Begin => Descriptor { name: "begin", kind: Kind::Control, table: "none" },
                    Verb::Commit => {
                        Descriptor { name: "commit", kind: Kind::Control, table: "none" }
                    }
                    Verb::Rollback => {
                        Descriptor { name: "rollback", kind: Kind::Control, table: "none" }
                    }
                    $(Verb::$tv => Descriptor {
                        name: stringify!($tm),
                        kind: Kind::$tk,
                        table: stringify!($tt),
                    },)*
                    $(Verb::$sv => Descriptor {
                        name: stringify!($sm),
                        kind: Kind::$sk,
                        table: stringify!($st),
                    },)*
                }
            }
        }
    };
}
with_verbs!(descriptors);
