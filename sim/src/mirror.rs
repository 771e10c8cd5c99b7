//! The committed state as the checkers know it, built from commits alone. Never judges and never
//! reads a database.

mod closings;
mod damage;
mod feed;
mod retention;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::storage::{
    Attempt, AttemptKey, Edge, EdgeKey, EventKey, EventPosition, Execution, Flow, Group, Request,
    RequestKey, SiblingRequest, Submission, SubmissionKey, Summary,
};
use sluicegate::time::Timestamp;

pub use closings::Closing;
pub use damage::{Damaged, Waiting};
pub use feed::{Events, Forgotten};

use crate::history::{Change, Commit, Holder};

use retention::Pruned;

/// A row that knows its key.
pub trait Row: Clone {
    /// What the row is found by.
    type Key: Ord;

    /// Its key.
    fn key(&self) -> &Self::Key;
}

/// Rows in the order of their keys, without duplicates.
#[derive(Clone, Debug)]
pub struct Table<R> {
    rows: Vec<R>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct OutEdge {
    upstream: ExecutionId,
    downstream: ExecutionId,
}

/// What has committed.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    flows: Table<Flow>,
    executions: Table<Execution>,
    groups: Table<Group>,
    edges: Table<Edge>,
    out_edges: Table<OutEdge>,
    submissions: Table<Submission>,
    attempts: Table<Attempt>,
    events: Table<Events>,
    sibling_requests: Table<SiblingRequest>,
    requests: Table<Request>,
    cancel_backlog: Table<FlowKey>,
    closings: Table<Closing>,
    summaries: Table<Summary>,
    positions: Vec<EventPosition>,
    forgotten: Forgotten,
    damaged: BTreeSet<Damaged>,
    /// What of it the last commit has written anew.
    mended: Vec<Damaged>,
    pruned: Pruned,
    commits: u64,
    clock_highest: Timestamp,
}

impl Mirror {
    /// A mirror of rows read from a database: each of them as new in one commit.
    pub fn of(rows: &Commit) -> Mirror {
        let mut mirror = Mirror::default();
        mirror.apply(rows);
        mirror
    }

    /// Forgets everything and keeps the allocations.
    pub fn reset(&mut self) {
        self.flows.rows.clear();
        self.executions.rows.clear();
        self.groups.rows.clear();
        self.edges.rows.clear();
        self.out_edges.rows.clear();
        self.submissions.rows.clear();
        self.attempts.rows.clear();
        self.events.rows.clear();
        self.sibling_requests.rows.clear();
        self.requests.rows.clear();
        self.cancel_backlog.rows.clear();
        self.closings.rows.clear();
        self.summaries.rows.clear();
        self.positions.clear();
        self.forgotten = Forgotten::default();
        self.damaged.clear();
        self.mended.clear();
        self.pruned.clear();
        self.commits = 0;
        self.clock_highest = Timestamp::default();
    }

    /// Takes one commit in. Of two submissions with one key the first stays.
    pub fn apply(&mut self, commit: &Commit) {
        self.commits += 1;
        self.clock_highest = self.clock_highest.max(commit.clock_highest);
        self.closings.merge(commit.flows.iter().filter_map(Closing::ended));
        self.flows.change(&commit.flows);
        self.executions.change(&commit.executions);
        self.groups.change(&commit.groups);
        self.edges.change(&commit.edges);
        self.index_edges(&commit.edges);
        self.summaries.change(&commit.summaries);
        for submission in &commit.submissions {
            self.submissions.insert_if_absent(submission);
        }
        self.attempts.merge(commit.attempts.iter());
        self.sibling_requests.change(&commit.sibling_requests);
        self.requests.change(&commit.requests);
        self.cancel_backlog.change(&commit.cancel_backlog);
        for (_, event) in &commit.events {
            let key = event.key();
            let before = self.events.get(&key).map_or(0, |events| events.count);
            let (count, kind) = (before + 1, event.kind);
            self.events.put(Events { key, count, kind, commit: self.commits });
        }
        self.mend(commit);
        self.positions.extend_from_slice(&commit.positions);
        self.prune(commit);
    }

    fn index_edges(&mut self, changes: &[Change<Edge>]) {
        let of =
            |edge: &Edge| OutEdge { upstream: edge.key.upstream, downstream: edge.key.downstream };
        for change in changes.iter().filter(|change| change.after.is_none()) {
            if let Some(before) = &change.before {
                self.out_edges.remove(&of(before));
            }
        }
        let new = changes.iter().filter(|change| change.before.is_none());
        self.out_edges.merge(new.filter_map(|change| change.after.as_ref().map(of)));
    }

    /// How many commits it has taken in.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// The highest that the storage's clock had shown at the last commit.
    pub fn clock_highest(&self) -> Timestamp {
        self.clock_highest
    }

    /// Every execution, in id order.
    pub fn executions(&self) -> &[Execution] {
        &self.executions.rows
    }

    /// Every group, in id order.
    pub fn groups(&self) -> &[Group] {
        &self.groups.rows
    }

    /// Every edge, in key order.
    pub fn edges(&self) -> &[Edge] {
        &self.edges.rows
    }

    /// Every ended attempt, in key order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts.rows
    }

    /// Every submission, in key order.
    pub fn submissions(&self) -> &[Submission] {
        &self.submissions.rows
    }

    /// Every flow, in key order.
    pub fn flows(&self) -> &[Flow] {
        &self.flows.rows
    }

    /// Every summary, in the order of their flows.
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries.rows
    }

    /// An execution.
    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.executions.get(&id)
    }

    /// The position of an execution in [`Mirror::executions`].
    pub fn execution_index(&self, id: ExecutionId) -> Option<usize> {
        self.executions.position(&id).ok()
    }

    /// The group of a downstream.
    pub fn group(&self, downstream: ExecutionId) -> Option<&Group> {
        self.groups.get(&downstream)
    }

    /// An edge.
    pub fn edge(&self, key: EdgeKey) -> Option<&Edge> {
        self.edges.get(&key)
    }

    /// The inbound edges of an execution, in key order.
    pub fn edges_into(&self, downstream: ExecutionId) -> &[Edge] {
        let rows = &self.edges.rows;
        let start = rows.partition_point(|edge| edge.key.downstream < downstream);
        let tail = &rows[start..];
        let end = tail.partition_point(|edge| edge.key.downstream == downstream);
        &tail[..end]
    }

    /// The outbound edges of an execution, by downstream.
    pub fn edges_from(&self, upstream: ExecutionId) -> impl Iterator<Item = &Edge> {
        let rows = &self.out_edges.rows;
        let start = rows.partition_point(|edge| edge.upstream < upstream);
        rows[start..].iter().take_while(move |edge| edge.upstream == upstream).map(|edge| {
            let key = EdgeKey { downstream: edge.downstream, upstream: edge.upstream };
            self.edge(key).expect("the index names edges that exist")
        })
    }

    /// An ended attempt.
    pub fn attempt(&self, key: AttemptKey) -> Option<&Attempt> {
        self.attempts.get(&key)
    }

    /// The ended attempt of a lease, if that very lease has ended.
    pub fn attempt_of(&self, holder: &Holder) -> Option<&Attempt> {
        let Holder { execution, incarnation, attempt, epoch, nonce } = *holder;
        let row = self.attempt(AttemptKey { execution, incarnation, attempt })?;
        (row.epoch == epoch && row.nonce == nonce).then_some(row)
    }

    /// True if the committed row holds exactly that lease.
    pub fn holds(&self, holder: &Holder) -> bool {
        self.execution(holder.execution).is_some_and(|row| {
            let lease = row.lease.is_some_and(|lease| lease.nonce == holder.nonce);
            let place = (row.incarnation, row.attempt, row.epoch);
            lease && place == (holder.incarnation, holder.attempt, holder.epoch)
        })
    }

    /// The completion events of an incarnation.
    pub fn events(&self, execution: ExecutionId, incarnation: u32) -> Option<&Events> {
        self.event(&EventKey { execution, incarnation, lease: None })
    }

    /// The events of a key.
    pub fn event(&self, key: &EventKey) -> Option<&Events> {
        self.events.get(key)
    }

    /// A flow.
    pub fn flow(&self, key: FlowKey) -> Option<&Flow> {
        self.flows.get(&key)
    }

    /// The summary of a flow.
    pub fn summary(&self, flow: FlowKey) -> Option<&Summary> {
        self.summaries.get(&flow)
    }

    /// The submission that an idempotency key stands for.
    pub fn submission(&self, key: &SubmissionKey) -> Option<&Submission> {
        self.submissions.get(key)
    }

    /// The request for sibling cancellation of a group.
    pub fn sibling_request(&self, group: ExecutionId) -> Option<&SiblingRequest> {
        self.sibling_requests.get(&group)
    }

    /// Every request for sibling cancellation, in the order of their groups.
    pub fn sibling_requests(&self) -> &[SiblingRequest] {
        &self.sibling_requests.rows
    }

    /// The record of a call.
    pub fn request(&self, key: RequestKey) -> Option<&Request> {
        self.requests.get(&key)
    }

    /// The flows whose members are being cancelled, in key order.
    pub fn cancel_backlog(&self) -> &[FlowKey] {
        &self.cancel_backlog.rows
    }

    /// Names the first row in which a mirror of the database differs; `None` if there is none.
    ///
    /// Events may be missing there, since nothing rests on them, but not be there in excess.
    pub fn differs(&self, database: &Mirror) -> Option<String> {
        let excess = || {
            database.events.rows.iter().find_map(|theirs| {
                let ours = self.events.get(&theirs.key);
                let known =
                    ours.is_some_and(|ours| theirs.count <= ours.count && theirs.kind == ours.kind);
                (!known).then(|| format!("events: committed {ours:?}, stored {theirs:?}"))
            })
        };
        difference("flow", &self.flows, &database.flows)
            .or_else(|| difference("execution", &self.executions, &database.executions))
            .or_else(|| difference("group", &self.groups, &database.groups))
            .or_else(|| difference("edge", &self.edges, &database.edges))
            .or_else(|| difference("submission", &self.submissions, &database.submissions))
            .or_else(|| difference("summary", &self.summaries, &database.summaries))
            .or_else(|| difference("attempt", &self.attempts, &database.attempts))
            .or_else(|| difference("request", &self.requests, &database.requests))
            .or_else(excess)
    }
}

/// The first row that one of the tables lacks or shows otherwise.
fn difference<R: Row + PartialEq + Debug>(
    name: &str,
    ours: &Table<R>,
    theirs: &Table<R>,
) -> Option<String> {
    let unlike = |(ours, theirs): &(&R, &R)| ours != theirs;
    let at = ours.rows.iter().zip(&theirs.rows).position(|pair| unlike(&pair));
    let at = at.unwrap_or(ours.rows.len().min(theirs.rows.len()));
    let (ours, theirs) = (ours.rows.get(at), theirs.rows.get(at));
    if ours.is_none() && theirs.is_none() {
        return None;
    }
    let mut text = String::new();
    write!(text, "{name}: committed {ours:?}, stored {theirs:?}").expect("a string takes it");
    Some(text)
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<R: Row> Table<R> {
    fn position(&self, key: &R::Key) -> Result<usize, usize> {
        self.rows.binary_search_by(|row| row.key().cmp(key))
    }

    /// The row with that key.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        self.position(key).ok().map(|at| &self.rows[at])
    }

    /// The row with that key, to be changed but for its key.
    pub fn get_mut(&mut self, key: &R::Key) -> Option<&mut R> {
        let at = self.position(key).ok()?;
        Some(&mut self.rows[at])
    }

    /// Every row, in key order.
    pub fn rows(&self) -> &[R] {
        &self.rows
    }

    /// Forgets every row and keeps the allocation.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Stores a row in place of the one with its key, if there is one.
    pub fn put(&mut self, row: R) {
        match self.position(row.key()) {
            Ok(at) => self.rows[at] = row,
            Err(at) => self.rows.insert(at, row),
        }
    }

    /// Stores a row unless there is one with its key.
    pub fn insert_if_absent(&mut self, row: &R) {
        if let Err(at) = self.position(row.key()) {
            self.rows.insert(at, row.clone());
        }
    }

    fn remove(&mut self, key: &R::Key) {
        if let Ok(at) = self.position(key) {
            self.rows.remove(at);
        }
    }

    fn change(&mut self, changes: &[Change<R>]) {
        for change in changes.iter().filter(|change| change.after.is_none()) {
            if let Some(before) = &change.before {
                self.remove(before.key());
            }
        }
        self.merge(changes.iter().filter_map(|change| change.after.as_ref()));
    }

    /// Stores many rows with one sort; their keys differ from each other.
    fn merge<B: std::borrow::Borrow<R>>(&mut self, rows: impl Iterator<Item = B>) {
        let sorted = self.rows.len();
        for row in rows {
            let row = row.borrow();
            let known = &self.rows[..sorted];
            match known.binary_search_by(|known| known.key().cmp(row.key())) {
                Ok(at) => self.rows[at].clone_from(row),
                Err(_) => self.rows.push(row.clone()),
            }
        }
        match self.rows.len() - sorted {
            0 => {}
            1 => {
                let (known, new) = self.rows.split_at(sorted);
                let at = known.partition_point(|row| row.key() < new[0].key());
                self.rows[at..].rotate_right(1);
            }
            // The sort is stable and finds the known rows as one run.
            _ => self.rows.sort_by(|left, right| left.key().cmp(right.key())),
        }
        debug_assert!(
            self.rows.windows(2).all(|pair| pair[0].key() < pair[1].key()),
            "a commit names a row once"
        );
    }
}

macro_rules! rows {
    ($($row:ty, $key:ty, $field:ident;)*) => {
        $(impl Row for $row {
            type Key = $key;
            fn key(&self) -> &$key {
                &self.$field
            }
        })*
    };
}

rows! {
    Flow, FlowKey, key;
    Execution, ExecutionId, id;
    Group, ExecutionId, downstream;
    Edge, EdgeKey, key;
    Submission, SubmissionKey, key;
    Attempt, AttemptKey, key;
    Events, EventKey, key;
    SiblingRequest, ExecutionId, group;
    Request, RequestKey, key;
    Summary, FlowKey, flow;
}

impl Row for FlowKey {
    type Key = FlowKey;
    fn key(&self) -> &FlowKey {
        self
    }
}

impl Row for RequestKey {
    type Key = RequestKey;
    fn key(&self) -> &RequestKey {
        self
    }
}

impl Row for OutEdge {
    type Key = OutEdge;
    fn key(&self) -> &OutEdge {
        self
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::policy::{AcceptSet, JoinPolicy};
    use sluicegate::state::Outcome;
    use sluicegate::state::State;

    use super::*;
    use crate::invariants::testing::{Step, Story, after};

    /// A fan of five, in, out and through, as its submit wrote it.
    fn submitted() -> Commit {
        let names = ["a", "b", "c", "d", "e"];
        let edges: Vec<(&str, &str, AcceptSet)> = names
            .iter()
            .flat_map(|name| [("root", *name), (*name, "sink")])
            .map(|(upstream, downstream)| (upstream, downstream, AcceptSet::ON_SUCCESS))
            .collect();
        let story = Story::flow(&edges, JoinPolicy::AllOf).grant("root");
        let mut steps = story.ends("submitted").steps;
        let Step::Commit(commit, _) = steps.swap_remove(0) else { panic!("a submit is a commit") };
        *commit
    }

    fn check_finds_everything(mirror: &Mirror, commit: &Commit) {
        for row in commit.executions.iter().filter_map(|change| change.after) {
            assert_eq!(mirror.execution(row.id), Some(&row));
            let at = mirror.execution_index(row.id).unwrap();
            assert_eq!(mirror.executions()[at], row);
            let edges = commit.edges.iter().filter_map(|change| change.after.clone());
            let (into, from): (Vec<Edge>, Vec<Edge>) = edges
                .filter(|edge| edge.key.downstream == row.id || edge.key.upstream == row.id)
                .partition(|edge| edge.key.downstream == row.id);
            let sorted = |mut edges: Vec<Edge>| {
                edges.sort_by_key(|edge| edge.key);
                edges
            };
            assert_eq!(mirror.edges_into(row.id), sorted(into));
            assert_eq!(mirror.edges_from(row.id).cloned().collect::<Vec<_>>(), sorted(from));
            assert_eq!(mirror.group(row.id).is_some(), row.has_in);
        }
    }

    #[test]
    fn rows_are_found_however_they_came() {
        let commit = submitted();
        let mut reversed = commit.clone();
        reversed.executions.reverse();
        reversed.groups.reverse();
        reversed.edges.reverse();
        let mut singly = Mirror::default();
        for at in 0..reversed.edges.len().max(reversed.executions.len()) {
            let one = |at: usize| at..at + 1;
            singly.apply(&Commit {
                executions: reversed.executions.get(one(at)).unwrap_or_default().to_vec(),
                groups: reversed.groups.get(one(at)).unwrap_or_default().to_vec(),
                edges: reversed.edges.get(one(at)).unwrap_or_default().to_vec(),
                ..Commit::default()
            });
        }
        for mirror in [Mirror::of(&commit), Mirror::of(&reversed), singly] {
            check_finds_everything(&mirror, &commit);
        }
    }

    #[test]
    fn deleted_rows_are_gone_and_reset_forgets_the_rest() {
        let commit = submitted();
        let mut mirror = Mirror::of(&commit);
        let gone = commit.edges[0].after.clone().unwrap();
        let edges = vec![Change { before: Some(gone.clone()), after: None }];
        mirror.apply(&Commit { edges, ..Commit::default() });
        assert_eq!(mirror.edge(gone.key), None);
        assert_eq!(mirror.edges().len(), commit.edges.len() - 1);
        assert!(mirror.edges_from(gone.key.upstream).all(|edge| edge.key != gone.key));
        mirror.reset();
        assert_eq!(mirror.differs(&Mirror::default()), None);
        assert_eq!((mirror.commits(), mirror.executions().len()), (0, 0));
    }

    fn check_differs(tamper: impl FnOnce(&mut Commit), named: &str) {
        let mut database = submitted();
        tamper(&mut database);
        let difference = Mirror::of(&submitted()).differs(&Mirror::of(&database));
        let difference = difference.expect(named);
        assert!(difference.starts_with(named), "{difference}");
    }

    #[test]
    fn differences_are_named_by_their_table() {
        assert_eq!(Mirror::of(&submitted()).differs(&Mirror::of(&submitted())), None);
        check_differs(|rows| after(&mut rows.executions[2]).state = State::Active, "execution: ");
        check_differs(|rows| rows.executions.truncate(3), "execution: ");
        check_differs(|rows| rows.groups.clear(), "group: ");
        check_differs(|rows| rows.edges.truncate(3), "edge: ");
        check_differs(|rows| rows.flows.clear(), "flow: ");
        check_differs(|rows| rows.submissions.clear(), "submission: ");
    }

    #[test]
    fn events_may_be_missing_from_the_database_but_not_appear_in_it() {
        let steps = Story::chain().event("a", Outcome::Failed).ends("an event").steps;
        let mut with = Mirror::default();
        let mut without = Mirror::default();
        for step in &steps {
            let Step::Commit(commit, _) = step else { panic!("nothing but commits") };
            with.apply(commit);
            without.apply(&Commit { events: Vec::new(), ..(**commit).clone() });
        }
        assert_eq!(with.differs(&without), None);
        assert!(without.differs(&with).unwrap().starts_with("events: "));
    }
}
