//! What a process was told, written down the moment after it was told: one line of JSON each, in a
//! file of its own that nobody rewrites. Never judges.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sluicegate::feed::FeedEvent;
use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::operations::claim::LeaseToken;
use sluicegate::policy::JoinPolicy;
use sluicegate::replay::ReplayScope;
use sluicegate::storage::Input;
use sluicegate::storage::codes::{self, StoredLease};
use sluicegate::storage::{
    AttemptEnd, CommitError, Contention, EventKind, NewEvent, Reported, StorageError, Verb,
};
use sluicegate::time::Timestamp;

use super::ticks;
use crate::observed::Observer;

/// How a ledger's file ends.
const EXTENSION: &str = "ledger";

/// A lease, as its holder quotes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) execution: ExecutionId,
    pub(super) incarnation: u32,
    pub(super) attempt: u32,
    pub(super) epoch: u64,
    pub(super) nonce: u64,
}

impl From<LeaseToken> for Lease {
    fn from(token: LeaseToken) -> Self {
        let LeaseToken { execution, incarnation, attempt, epoch, nonce } = token;
        Self { execution, incarnation, attempt, epoch, nonce }
    }
}

/// What a replay starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    Failed,
    From(ExecutionId),
    All,
}

impl From<Scope> for ReplayScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Failed => Self::Failed,
            Scope::From(execution) => Self::From(execution),
            Scope::All => Self::All,
        }
    }
}

/// An event with its place in the feed, in the codes of its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Handed {
    pub(super) position: u64,
    pub(super) flow: FlowId,
    pub(super) execution: ExecutionId,
    pub(super) incarnation: u32,
    /// Attempt, change and expiry of the lease that it tells of.
    pub(super) lease: Option<(i64, i64, i64)>,
    pub(super) outcome: Option<u8>,
    pub(super) occurred_at: i64,
}

impl Handed {
    /// The event; none if it tells of nothing that there is.
    pub(super) fn event(&self) -> Option<NewEvent> {
        let stored = self.lease.map(|(attempt, change, expires_at)| StoredLease {
            attempt,
            change,
            expires_at,
        });
        let lease = codes::lease_event_of(stored.unwrap_or_default())?;
        let outcome = match self.outcome {
            Some(code) => Some(codes::outcome_of(code.into())?),
            None => None,
        };
        let kind = codes::event_of(lease, outcome)?;
        let Self { flow, execution, incarnation, .. } = *self;
        let occurred_at = Timestamp(self.occurred_at);
        Some(NewEvent { execution, flow, incarnation, kind, occurred_at })
    }
}

/// Something that a process was told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub(super) enum Entry {
    /// A verb was answered for the first time in this process, whatever the answer.
    Called { verb: String },
    /// Nothing yet: the process began, with a wall clock so many seconds off.
    Began { skew_s: i64 },
    /// A submit was acknowledged, of a flow of so many executions and edges.
    Submitted { flow: FlowId, executions: usize, edges: usize },
    /// A cancel of a flow was acknowledged, with the members that it had cancelled until then.
    FlowCancelled { flow: FlowId, cancelled: Vec<ExecutionId> },
    /// An extension was acknowledged, with the revision that it made, of these executions and
    /// edges, each from its upstream to its downstream.
    Extended {
        flow: FlowId,
        revision: u64,
        executions: Vec<ExecutionId>,
        edges: Vec<(ExecutionId, ExecutionId)>,
    },
    /// An extension by these executions was refused, for the flow no longer waits.
    NotExtended { flow: FlowId, executions: Vec<ExecutionId> },
    /// The policy of a join was set.
    PolicySet { flow: FlowId, join: ExecutionId, policy: JoinPolicy },
    /// A policy was refused, for the join had begun to decide: it has not got it.
    PolicyKept { flow: FlowId, join: ExecutionId, policy: JoinPolicy },
    /// A cancel of an execution was acknowledged: it was cancelled, or had ended with that code.
    ExecutionCancelled { flow: FlowId, execution: ExecutionId, had_ended: Option<u8> },
    /// A tag was hung on a flow, whose value counts how often that was done.
    Tagged { flow: FlowId, tag: String, value: u64 },
    /// A replay of that scope was acknowledged, of these executions.
    Replayed { flow: FlowId, scope: Scope, members: Vec<ExecutionId> },
    /// A call of a flow was given up without an answer: it may have taken effect.
    Unanswered { flow: FlowId, call: String },
    /// A value that no engine writes is about to be put into the row of an execution.
    Spoilt { execution: ExecutionId },
    /// An execution was given up: it failed, or had ended with that code.
    GivenUp { flow: FlowId, execution: ExecutionId, had_ended: Option<u8> },
    /// A call, of a flow if it names one, was answered with what its plan does not allow, or came
    /// upon an execution that cannot be read.
    Erred { flow: Option<FlowId>, call: String, error: String, unreadable: Option<ExecutionId> },
    /// A consumer of the feed was opened, to go on from its stored cursor.
    Opened,
    /// An event was handed over.
    Handed(Handed),
    /// An acknowledgement was stored: everything up to there has been dealt with.
    Acknowledged { position: u64 },
    /// A lease was granted.
    Granted { lease: Lease },
    /// Inputs were passed along with a lease, or read under it: by upstream, how it ended, and the
    /// bytes of its result.
    Passed { lease: Lease, inputs: Vec<(ExecutionId, u8, u64)> },
    /// A report was accepted: codes of its end, and of what it led to.
    Reported { lease: Lease, end: u8, kind: i64, value: i64 },
    /// A report was refused because the lease was lost.
    Lost { lease: Lease },
    /// A report and the claim that came with it were accepted as one call.
    TurnedOver { lease: Lease, granted: Vec<Lease> },
    /// Progress was accepted under a lease.
    Progressed { lease: Lease, sequence: u64 },
    /// A resume of a suspension was accepted, with the codes of what it led to.
    Resumed { execution: ExecutionId, epoch: u64, kind: i64, value: i64 },
    /// The storage answered a verb with this instead of a result.
    Answered { error: String },
}

impl Entry {
    pub(super) fn reported(lease: Lease, end: AttemptEnd, reported: Reported) -> Self {
        let stored = codes::reported(reported);
        let end = codes::attempt_end(end);
        Self::Reported { lease, end, kind: stored.kind, value: stored.value }
    }

    pub(super) fn passed(lease: Lease, inputs: &[Input]) -> Self {
        let input = |one: &Input| (one.key.upstream, codes::outcome(one.outcome), one.bytes);
        Self::Passed { lease, inputs: inputs.iter().map(input).collect() }
    }

    pub(super) fn handed(event: &FeedEvent) -> Self {
        let (lease, outcome) = match event.what {
            EventKind::Completed { outcome } => (None, Some(codes::outcome(outcome))),
            EventKind::Lease(lease) => {
                let StoredLease { attempt, change, expires_at } = codes::lease_event(Some(lease));
                (Some((attempt, change, expires_at)), None)
            }
            _ => (None, None),
        };
        let FeedEvent { flow, execution, incarnation, .. } = *event;
        let (position, occurred_at) = (event.cursor.position.0, event.occurred_at.0);
        Self::Handed(Handed { position, flow, execution, incarnation, lease, outcome, occurred_at })
    }

    pub(super) fn resumed(execution: ExecutionId, epoch: u64, reported: Reported) -> Self {
        let stored = codes::reported(reported);
        Self::Resumed { execution, epoch, kind: stored.kind, value: stored.value }
    }
}

/// The word for an error of the storage.
fn word(error: &StorageError) -> &'static str {
    match error {
        StorageError::Contention(Contention::Serialization) => "serialization",
        StorageError::Contention(Contention::Deadlock) => "deadlock",
        StorageError::Contention(Contention::LockTimeout) => "lock_timeout",
        StorageError::Contention(Contention::StatementTimeout) => "statement_timeout",
        StorageError::Contention(Contention::Busy) => "busy",
        StorageError::Unavailable(_) => "unavailable",
        StorageError::Corrupt(_) | StorageError::Unreadable(..) => "corrupt",
        StorageError::Full => "full",
        StorageError::ReadOnly => "read_only",
        StorageError::TooLarge(_) => "too_large",
        StorageError::Unsupported(_) => "unsupported",
        _ => "other",
    }
}

/// The word for an answer in ledgers and reports.
fn answer_word(error: &CommitError) -> &'static str {
    match error {
        CommitError::Storage(error) => word(error),
        _ => "unknown_commit",
    }
}

/// A file of lines of JSON that nobody rewrites.
#[derive(Debug)]
pub(super) struct Lines {
    file: Mutex<File>,
}

impl Lines {
    /// Begins a file in a directory.
    pub(super) fn begin(directory: &Path, name: &str, extension: &str) -> Result<Self, String> {
        let path = directory.join(name).with_extension(extension);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Writes a line, whole: a process that is killed leaves it in the system's hands.
    pub(super) fn write(&self, line: &impl Serialize) {
        let mut line = serde_json::to_vec(line).expect("a line is plain data");
        line.push(b'\n');
        self.append(&line);
    }

    /// Writes bytes as they are.
    pub(super) fn append(&self, bytes: &[u8]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(bytes).expect("the directory of the ledgers takes a line");
    }
}

/// The ledger of this process.
#[derive(Debug)]
pub(super) struct Ledger {
    lines: Lines,
    /// The verbs that it has told of.
    called: Mutex<BTreeSet<Verb>>,
}

impl Ledger {
    /// Begins a ledger in a directory.
    pub(super) fn begin(directory: &Path, name: &str, skew_s: i64) -> Result<Self, String> {
        let lines = Lines::begin(directory, name, EXTENSION)?;
        let ledger = Self { lines, called: Mutex::default() };
        ledger.write(&Entry::Began { skew_s });
        Ok(ledger)
    }

    /// Writes an entry down.
    pub(super) fn write(&self, entry: &Entry) {
        self.lines.write(entry);
    }
}

impl Observer for Ledger {
    /// The first time tells that the verb is sent here at all.
    fn answered(&self, verb: Verb, _: Duration) {
        ticks::answered();
        let first = self.called.lock().unwrap_or_else(PoisonError::into_inner).insert(verb);
        if first {
            self.write(&Entry::Called { verb: verb.descriptor().name.to_owned() });
        }
    }

    /// A fault counts as what the engine saw of it.
    fn failed(&self, error: &CommitError) {
        self.write(&Entry::Answered { error: answer_word(error).to_owned() });
    }
}

/// A ledger that was read back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Book {
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
}

impl Book {
    /// Seconds that the wall clock of its process was off.
    pub(super) fn skew_s(&self) -> i64 {
        match self.entries.first() {
            Some(Entry::Began { skew_s }) => *skew_s,
            _ => 0,
        }
    }
}

/// Reads every ledger of a directory, in order of name.
pub(super) fn read_all(directory: &Path) -> Result<Vec<Book>, String> {
    let say = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut books = Vec::new();
    for file in fs::read_dir(directory).map_err(say)? {
        let path = file.map_err(say)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(say)?;
            books.push(Book {
                entries: lines(&text).map_err(|why| format!("{name}: {why}"))?,
                name,
            });
        }
    }
    books.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(books)
}

/// What the lines of a file say. A last line without its end was being written when its process was
/// killed: it was told to nobody.
pub(super) fn lines<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).map_err(|e| format!("`{line}`: {e}"))).collect()
}

/// How often the storage answered each error, by its word.
pub(super) fn answers(books: &[Book]) -> std::collections::BTreeMap<String, u64> {
    let mut counts = std::collections::BTreeMap::new();
    for entry in books.iter().flat_map(|book| &book.entries) {
        if let Entry::Answered { error } = entry {
            *counts.entry(error.clone()).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_a_torn_last_line_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::begin(directory.path(), "one", 3_600).unwrap();
        ledger.write(&Entry::Answered { error: "busy".into() });
        let path = directory.path().join("one.ledger");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"told\":\"answ").unwrap();
        let books = read_all(directory.path()).unwrap();
        assert_eq!(books.len(), 1);
        assert_eq!(books[0].skew_s(), 3_600);
        assert_eq!(answers(&books).get("busy"), Some(&1));
    }

    #[test]
    fn a_line_that_means_nothing_is_refused() {
        assert!(lines::<Entry>("{\"told\":\"gossip\"}\n").is_err());
    }
}
