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
            /// The storage's clock, now: not when the transaction began. No other verb names a
            /// clock, and a reader shows the same one.
            Clock clock: Control, none, () -> $crate::time::Timestamp;
            /// Claims an idempotency key; a submission that exists stays as it is. Waits while
            /// another transaction holds the key in flight: it exists once that has committed, and
            /// is new once that has rolled back.
            InsertSubmission insert_submission: Insert, submission,
                (row: $crate::storage::Submission) -> $crate::storage::Inserted;
            /// The submission of a key, if there is one.
            ReadSubmission read_submission: Read, submission,
                (key: $crate::storage::SubmissionKey) -> Option<$crate::storage::Submission>;
            /// Adds a flow; one that exists stays as it is. Waits while another transaction holds
            /// its id in flight: it exists once that has committed, and is new once that has rolled
            /// back.
            InsertFlow insert_flow: Insert, flow,
                (row: $crate::storage::Flow) -> $crate::storage::Inserted;
            /// A flow by its key, if there is one.
            ReadFlow read_flow: Read, flow,
                (key: $crate::identity::FlowKey) -> Option<$crate::storage::Flow>;
            /// Adds executions, all without a lease or progress; an id that exists is corrupt.
            InsertExecutions insert_executions: Insert, execution,
                (rows: [$crate::storage::NewExecution]) -> ();
            /// Adds edge groups; a downstream that has one is corrupt.
            InsertGroups insert_groups: Insert, edge_group,
                (rows: [$crate::storage::Group]) -> ();
            /// Adds edges, each within one partition; a pair of ends that has one is corrupt.
            InsertEdges insert_edges: Insert, edge,
                (rows: [$crate::storage::Edge]) -> ();
            /// Tells the projector that executions of these flows moved; once more each time.
            InsertFlowChanges insert_flow_changes: Insert, flow_change,
                (flows: [$crate::identity::FlowKey]) -> ();
            /// The live grants that carry a claim's request id, in id order; a lease that ended is
            /// none, and what the transaction itself granted or ended counts.
            ReadGrants read_grants: Read, execution,
                (request: $crate::identity::RequestId) -> Vec<$crate::storage::Grant>;
            /// Grants what may be claimed, in claim order, passing over locked rows: ready rows
            /// whose `not_before` has come and whose flow is open or closed with `FlowOnly`, of the
            /// partitions, the namespace, the lanes (no lane twice) and the kinds asked for, and
            /// none of those excepted.
            ///
            /// Each lane's rows are walked in claim order and at most `limit` of them are locked
            /// per lane, the lanes as the request names them; the best `limit` of all are granted.
            /// Rows locked and not granted stay as they are and are free again when the transaction
            /// ends.
            ///
            /// A grant counts the attempt, charges it, raises the epoch and writes the lease and
            /// the worker; it is the row as stored.
            ClaimExecutions claim_executions: Take, execution,
                (query: $crate::storage::ClaimQuery) -> Vec<$crate::storage::Grant>;
            /// Locks executions one by one in id order, whatever the order of the keys, and returns
            /// each as it stands once its lock is held, in id order. Missing ones are left out;
            /// which are missing is fixed when it begins.
            LockExecutions lock_executions: Lock, execution,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Execution>;
            /// Locks those of the executions that nobody else has locked and returns them in id
            /// order; missing ones are left out.
            TakeExecutions take_executions: Take, execution,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Execution>;
            /// Updates locked executions; returns the ids whose guard held, in id order. A row
            /// whose guard does not hold, state or epoch, stays as it is. `after` keeps the flow,
            /// and the retry policy: they are written once, by the insert, as is the definition.
            /// Progress stays as it is, and goes where the result is cleared.
            WriteExecutions write_executions: Write, execution,
                (rows: [$crate::storage::ExecutionWrite]) -> Vec<$crate::identity::ExecutionId>;
            /// Stores how far a locked execution has come, and nothing else of it; returns how many
            /// rows it changed. One that is not active, or not at that epoch, stays as it is.
            WriteProgress write_progress: Write, execution,
                (row: $crate::storage::ProgressWrite) -> u64;
            /// Records ended attempts, each with the worker that still stands in its execution. A
            /// number that the incarnation has recorded is corrupt, and so is an attempt of no
            /// execution.
            InsertAttempts insert_attempts: Insert, attempt,
                (rows: [$crate::storage::Attempt]) -> ();
            /// The history row of an attempt, if it has ended.
            ReadAttempt read_attempt: Read, attempt,
                (key: $crate::storage::AttemptKey) -> Option<$crate::storage::Attempt>;
            /// Adds events with the labels of their executions. Each gets a number above every
            /// earlier one, in the order of execution, incarnation and kind. A second event of a
            /// key, so a second end of an incarnation, is corrupt, and so is one of no execution.
            InsertEvents insert_events: Insert, event,
                (rows: [$crate::storage::NewEvent]) -> ();
            /// Locks groups one by one in id order, whatever the order of the keys, and returns
            /// each as it stands once its lock is held, in id order. Missing ones are left out;
            /// which are missing is fixed when it begins.
            LockGroups lock_groups: Lock, edge_group,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Group>;
            /// Groups as they stand, in id order, without a lock; missing ones are left out.
            ReadGroups read_groups: Read, edge_group,
                (keys: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Group>;
            /// The pending edges of groups with the present rows of their upstreams, in key order;
            /// an edge without an upstream is corrupt.
            PendingEdges pending_edges: Read, edge,
                (groups: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::PendingEdge>;
            /// Resolves pending edges of locked groups; returns those that it flipped, in key
            /// order. An edge that is not pending any more stays as it is.
            ResolveEdges resolve_edges: Write, edge,
                (rows: [$crate::storage::EdgeFlip]) -> Vec<$crate::storage::EdgeKey>;
            /// Stores counters and decisions of locked groups, and nothing else of them; returns
            /// how many it found.
            WriteGroups write_groups: Write, edge_group,
                (rows: [$crate::storage::Group]) -> u64;
            /// Those of the executions that still have a pending out-edge, in id order, each once.
            WithPendingEdges with_pending_edges: Read, edge,
                (upstreams: [$crate::identity::ExecutionId]) -> Vec<$crate::identity::ExecutionId>;
            /// Locks groups as `lock_groups` does, and returns each with what of it can be read:
            /// one that cannot be read fails no other.
            HoldGroups hold_groups: Lock, edge_group,
                (keys: [$crate::identity::ExecutionId])
                -> Vec<$crate::storage::Remains<$crate::storage::Group>>;
            /// Locks executions as `lock_executions` does, and returns each with what of it can be
            /// read: one that cannot be read fails no other. One of which nobody can tell the flow,
            /// the incarnation or how it ended is unreadable.
            HoldExecutions hold_executions: Lock, execution,
                (keys: [$crate::identity::ExecutionId])
                -> Vec<$crate::storage::Remains<$crate::storage::Execution>>;
            /// Writes locked executions anew, whatever they held, the retry policy and the marks
            /// of resume and progress too; the lease goes, what was reported as progress stays
            /// with its mark, the flow, the definition and the result stay. Returns how many it
            /// found.
            MendExecutions mend_executions: Write, execution,
                (rows: [$crate::storage::Execution]) -> u64;
            /// Asks for sibling cancellation; a request that exists stays.
            InsertSiblingRequests insert_sibling_requests: Insert, sibling_request,
                (rows: [$crate::storage::SiblingRequest]) -> ();
            /// How these flows were closed; only closed ones are returned, in key order.
            ReadClosings read_closings: Read, flow,
                (flows: [$crate::identity::FlowKey])
                -> Vec<($crate::identity::FlowKey, $crate::state::ClosePolicy)>;
            /// Stores policies and numbers of edges of locked groups, and nothing else of them;
            /// returns how many it found.
            WriteJoins write_joins: Write, edge_group, (rows: [$crate::storage::Group]) -> u64;
            /// Locks a flow and returns it as it stands once its lock is held, if there is one.
            LockFlow lock_flow: Lock, flow,
                (key: $crate::identity::FlowKey) -> Option<$crate::storage::Flow>;
            /// Stores how a locked flow was closed, by which call, its revision and its tags, and
            /// nothing else of it; returns how many rows it found.
            WriteFlow write_flow: Write, flow, (row: $crate::storage::Flow) -> u64;
            /// Records a call that took effect; one that exists stays as it is. Waits while another
            /// transaction holds the key in flight.
            InsertRequest insert_request: Insert, request,
                (row: $crate::storage::Request) -> $crate::storage::Inserted;
            /// The record of a call, if it took effect.
            ReadRequest read_request: Read, request,
                (key: $crate::storage::RequestKey) -> Option<$crate::storage::Request>;
            /// Stores the reply of a recorded call whose flow is locked, and nothing else of it;
            /// returns how many rows it found.
            WriteRequest write_request: Write, request, (row: $crate::storage::Request) -> u64;
            /// Puts flows on the list of those whose members are being cancelled; one that is on it
            /// stays.
            InsertCancelBacklog insert_cancel_backlog: Insert, cancel_backlog,
                (flows: [$crate::identity::FlowKey]) -> ();
            /// Takes locked flows off that list; returns those that were on it, in key order.
            DeleteCancelBacklog delete_cancel_backlog: Write, cancel_backlog,
                (flows: [$crate::identity::FlowKey]) -> Vec<$crate::identity::FlowKey>;
            /// The members of a flow that have not ended, in id order.
            ReadMembers read_members: Read, execution,
                (query: $crate::storage::MemberQuery) -> Vec<$crate::storage::Member>;
            /// The groups that the pending out-edges of these executions lead to, in key order of
            /// the edges; an edge without a group is corrupt.
            ReadFedGroups read_fed_groups: Read, edge,
                (upstreams: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::FedGroup>;
            /// Removes requests for sibling cancellation whose flows are locked; returns the groups
            /// of those that were there, in id order.
            DeleteSiblingRequests delete_sibling_requests: Write, sibling_request,
                (rows: [$crate::storage::SiblingRequest])
                -> Vec<$crate::identity::ExecutionId>;
            /// Adds the summary of a flow; a flow that has one is corrupt.
            InsertSummary insert_summary: Insert, flow_summary,
                (row: $crate::storage::Summary) -> ();
            /// Locks summaries one by one in the order of their flows, whatever the order of the
            /// keys, and returns each as it stands once its lock is held, in that order. Missing
            /// ones are left out; which are missing is fixed when it begins.
            LockSummaries lock_summaries: Lock, flow_summary,
                (flows: [$crate::identity::FlowKey]) -> Vec<$crate::storage::Summary>;
            /// Takes away the change rows of a flow whose summary is locked, and returns their
            /// numbers in order: those that had committed when it began, and the transaction's own.
            DeleteFlowChanges delete_flow_changes: Write, flow_change,
                (flow: $crate::identity::FlowKey) -> Vec<$crate::storage::ChangeId>;
            /// The executions of a flow, alike ones counted together, in the order of their states
            /// and causes, delayed ones last.
            CountExecutions count_executions: Read, execution,
                (query: $crate::storage::CountQuery) -> Vec<$crate::summary::Counted>;
            /// The first failed or expired execution of a flow, by id, that has no out-edge which
            /// accepts how it ended.
            UnhandledFailure unhandled_failure: Read, execution,
                (flow: $crate::identity::FlowKey) -> Option<$crate::identity::ExecutionId>;
            /// Stores a locked summary; returns how many it found.
            WriteSummary write_summary: Write, flow_summary,
                (row: $crate::storage::Summary) -> u64;
            /// The edges of groups, resolved ones too, in key order.
            ReadEdges read_edges: Read, edge,
                (groups: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::Edge>;
            /// The edges on every path that leads to one of these executions, each once, in key
            /// order; of a cycle all of its edges.
            ReadAncestry read_ancestry: Read, edge,
                (executions: [$crate::identity::ExecutionId]) -> Vec<$crate::storage::EdgeKey>;
            /// What executions are passed by their upstreams, in key order of the edges: the named
            /// ones of their inbound edges that are inputs, behind `after` and at most `limit` of
            /// each execution, with the results that `InputQuery::shown` leaves them. A result is
            /// that of an upstream that succeeded, of the incarnation that resolved the edge.
            ReadInputs read_inputs: Read, edge,
                (query: $crate::storage::InputQuery) -> Vec<$crate::storage::Input>;
            /// How many edges the groups of a flow have.
            CountEdges count_edges: Read, edge_group, (flow: $crate::identity::FlowKey) -> u64;
            /// How the executions of a flow stand, in id order.
            ReadStandings read_standings: Read, execution,
                (flow: $crate::identity::FlowKey) -> Vec<$crate::replay::Standing>;
            /// Makes edges of locked groups pending again, whatever they were, so that no
            /// incarnation has resolved them; returns how many it found.
            ResetEdges reset_edges: Write, edge, (keys: [$crate::storage::EdgeKey]) -> u64;
            /// How many events these executions have, of all incarnations, with a
            /// position or without.
            CountEvents count_events: Read, event,
                (executions: [$crate::identity::ExecutionId]) -> u64;
            /// Takes away the history of locked executions; returns how many attempts it had.
            DeleteAttempts delete_attempts: Write, attempt,
                (executions: [$crate::identity::ExecutionId]) -> u64;
            /// Takes away the edges into locked groups; returns how many there were.
            DeleteEdges delete_edges: Write, edge,
                (groups: [$crate::identity::ExecutionId]) -> u64;
            /// Takes away locked groups; returns how many it found.
            DeleteGroups delete_groups: Write, edge_group,
                (groups: [$crate::identity::ExecutionId]) -> u64;
            /// Takes away locked executions; returns how many it found.
            DeleteExecutions delete_executions: Write, execution,
                (executions: [$crate::identity::ExecutionId]) -> u64;
            /// Takes away the records of every call on a locked flow; returns how many there were.
            DeleteRequests delete_requests: Write, request,
                (flow: $crate::identity::FlowKey) -> u64;
            /// Takes away the idempotency key under which a locked flow was submitted, so that it
            /// is free again; returns how many it had.
            DeleteSubmission delete_submission: Write, submission,
                (flow: $crate::identity::FlowKey) -> u64;
            /// Takes away a locked summary; returns how many it found.
            DeleteSummary delete_summary: Write, flow_summary,
                (flow: $crate::identity::FlowKey) -> u64;
            /// Takes away a locked flow, and nothing that belongs to it; returns how many it found.
            DeleteFlow delete_flow: Write, flow, (flow: $crate::identity::FlowKey) -> u64;
            /// Takes away events that have a position, of the stream whose head is locked; returns
            /// how many it found. An event without a position stays.
            DeleteEvents delete_events: Write, event,
                (keys: [$crate::storage::EventKey]) -> u64;
            /// Locks the head of a stream and returns it as it stands once its lock is held.
            LockStreamHead lock_stream_head: Lock, stream_head,
                (stream: $crate::storage::StreamId) -> Option<$crate::storage::StreamHead>;
            /// Locks events that have no position one by one in the order of their numbers and
            /// returns those that have none once their lock is held, in that order, at most
            /// `limit`. A storage with one writer gives an event its number as its position when
            /// it inserts it, so that it has none of them.
            LockUnnumberedEvents lock_unnumbered_events: Lock, event,
                (query: $crate::storage::UnnumberedQuery)
                -> Vec<$crate::storage::UnnumberedEvent>;
            /// Gives locked events their positions; returns how many had none. An event that has
            /// a position keeps it.
            WritePositions write_positions: Write, event,
                (rows: [$crate::storage::EventPosition]) -> u64;
            /// Moves the locked head of a stream on, its last position and its horizon; returns
            /// how many heads it moved. Neither moves back: a head that has come further stays.
            WriteStreamHead write_stream_head: Write, stream_head,
                (row: $crate::storage::StreamHead) -> u64;
            /// Adds the cursor of a consumer; one that exists stays as it is. Waits while another
            /// transaction holds its name in flight: it exists once that has committed, and is
            /// new once that has rolled back.
            InsertSubscription insert_subscription: Insert, subscription,
                (row: $crate::storage::Subscription) -> $crate::storage::Inserted;
            /// Locks the cursor of a consumer and returns it as it stands once its lock is held.
            LockSubscription lock_subscription: Lock, subscription,
                (name: $crate::storage::ConsumerName) -> Option<$crate::storage::Subscription>;
            /// Moves the locked cursor of a consumer forward; returns how many cursors it moved.
            /// One that has come as far, or that belongs to another timeline, stays as it is.
            WriteSubscription write_subscription: Write, subscription,
                (row: $crate::storage::Subscription) -> u64;
        }
        snapshot {
            /// The storage's clock, now.
            ReadClock read_clock: Control, none, () -> $crate::time::Timestamp;
            /// Terminal executions that are not propagated, in id order; with `finished_by` only
            /// those that had ended by then.
            ScanUpstreams scan_upstreams: Read, execution,
                (scan: $crate::storage::UpstreamScan) -> Vec<$crate::identity::ExecutionId>;
            /// Decided groups whose downstream is still blocked, in id order.
            ScanStuckGroups scan_stuck_groups: Read, edge_group,
                (page: $crate::storage::Page) -> Vec<$crate::identity::ExecutionId>;
            /// Executions whose lease, attempt or deadline is over, in id order, each once; what is
            /// over at `now` is over, what is terminal is not overdue.
            ScanOverdue scan_overdue: Read, execution,
                (scan: $crate::storage::OverdueScan) -> Vec<$crate::identity::ExecutionId>;
            /// The groups that a hop from these upstreams may change, in id order: those of the
            /// pending edges of the terminal ones, and on from every undecided `AllOf` group that
            /// such an edge makes impossible while its downstream is blocked, as from a skipped
            /// upstream. At most `limit`: those that fewer edges reach come first.
            PlanGroups plan_groups: Read, edge,
                (query: $crate::storage::PlanQuery) -> Vec<$crate::identity::ExecutionId>;
            /// An event by its number, if it was committed.
            ReadEvent read_event: Read, event,
                (id: $crate::storage::EventId) -> Option<$crate::storage::Event>;
            /// A flow, if there is one.
            DescribeFlow describe_flow: Read, flow,
                (key: $crate::identity::FlowKey) -> Option<$crate::storage::Flow>;
            /// The executions of a flow, in id order, each by itself.
            DescribeExecutions describe_executions: Read, execution,
                (key: $crate::identity::FlowKey)
                -> Vec<$crate::storage::Decoded<$crate::storage::ExecutionView>>;
            /// The groups of a flow, in id order, each by itself.
            DescribeGroups describe_groups: Read, edge_group,
                (key: $crate::identity::FlowKey)
                -> Vec<$crate::storage::Decoded<$crate::storage::Group>>;
            /// The edges of a flow, found through its groups, in key order, each by itself.
            DescribeEdges describe_edges: Read, edge,
                (key: $crate::identity::FlowKey)
                -> Vec<$crate::storage::Decoded<$crate::storage::Edge, $crate::storage::EdgeKey>>;
            /// An execution, if there is one.
            DescribeExecution describe_execution: Read, execution,
                (id: $crate::identity::ExecutionId) -> Option<$crate::storage::ExecutionView>;
            /// Flows whose members are being cancelled, in key order.
            ScanCancelBacklog scan_cancel_backlog: Read, cancel_backlog,
                (page: $crate::storage::FlowPage) -> Vec<$crate::identity::FlowKey>;
            /// Requests for sibling cancellation, in the order of their groups.
            ScanSiblingRequests scan_sibling_requests: Read, sibling_request,
                (page: $crate::storage::Page) -> Vec<$crate::storage::SiblingRequest>;
            /// Flows that have change rows, in key order, each once.
            ScanFlowChanges scan_flow_changes: Read, flow_change,
                (page: $crate::storage::FlowPage) -> Vec<$crate::identity::FlowKey>;
            /// Flows that are over, in the order in which they ended: those whose summaries say
            /// that they had ended by then. One without a flow is left out.
            ScanEndedFlows scan_ended_flows: Read, flow_summary,
                (scan: $crate::storage::EndedScan) -> Vec<$crate::storage::EndedFlow>;
            /// The summary of a flow, if there is one.
            DescribeSummary describe_summary: Read, flow_summary,
                (key: $crate::identity::FlowKey) -> Option<$crate::storage::Summary>;
            /// Flows with their summaries, in key order, each by itself; one without a summary is
            /// left out.
            ListFlows list_flows: Read, flow,
                (listing: $crate::storage::FlowListing)
                -> Vec<$crate::storage::Decoded<
                    $crate::storage::FlowView,
                    $crate::identity::FlowKey,
                >>;
            /// Executions, in id order, each by itself.
            ListExecutions list_executions: Read, execution,
                (listing: $crate::storage::ExecutionListing)
                -> Vec<$crate::storage::Decoded<$crate::storage::ListedExecution>>;
            /// The inbound edges of an execution, in the order of their upstreams, each by itself.
            ListInEdges list_in_edges: Read, edge,
                (listing: $crate::storage::EdgeListing)
                -> Vec<$crate::storage::Decoded<$crate::storage::Edge, $crate::storage::EdgeKey>>;
            /// The outbound edges of an execution, found through the groups of its flow, in the
            /// order of their downstreams, each by itself.
            ListOutEdges list_out_edges: Read, edge,
                (listing: $crate::storage::EdgeListing)
                -> Vec<$crate::storage::Decoded<$crate::storage::Edge, $crate::storage::EdgeKey>>;
            /// An edge, if there is one.
            DescribeEdge describe_edge: Read, edge,
                (key: $crate::storage::EdgeKey) -> Option<$crate::storage::Edge>;
            /// Events of a stream above a position, by position, with the head of the stream as
            /// the same statement sees it. Events without a position are not in it yet.
            ReadFeed read_feed: Read, stream_head,
                (query: $crate::storage::FeedQuery) -> $crate::storage::FeedRows;
            /// The cursor of a consumer, if it has one.
            ReadSubscription read_subscription: Read, subscription,
                (name: $crate::storage::ConsumerName) -> Option<$crate::storage::Subscription>;
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
