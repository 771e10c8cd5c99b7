//! What a campaign reached: statements, faults by kind and by the point that they struck, and the
//! conditions that must occur sometimes. Sums only; never judges.

use std::ops::AddAssign;

use sluicegate::state::State;
use sluicegate::storage::{Execution, Flow, Resolution, Summary, Verb};

use crate::faults::{FaultKind, Point};
use crate::history::{Change, Commit};
use crate::mirror::Closing;

macro_rules! sometimes {
    ($($name:ident $text:literal;)*) => {
        /// A condition that some universe of a campaign must reach.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Sometimes { $(#[doc = $text] $name,)* }

        impl Sometimes {
            /// Every condition, in the order of the table.
            pub const ALL: &'static [Sometimes] = &[$(Sometimes::$name,)*];

            /// The condition in words.
            pub fn text(self) -> &'static str {
                match self { $(Sometimes::$name => $text,)* }
            }
        }
    };
}

sometimes! {
    LockWait "a statement waited for a row lock";
    WriterWait "a transaction waited for the only writer of a file";
    LockWaitTimedOut "a lock wait timed out by itself";
    LeaseLost "a worker was told that its lease is lost";
    ZombieFenced "a worker that had stood still was fenced";
    SiblingRequested "a sibling cancellation was requested";
    SiblingCancelled "a decided join cancelled what it no longer needed";
    FlowCancelled "an operator cancelled a flow";
    MemberCancelled "an operator cancelled an execution";
    PolicySet "an operator exchanged the policy of a join";
    FlowTagged "an operator hung a tag on a flow";
    Replayed "a replay started executions again";
    ReplayRefused "a replay was refused because something ran";
    ReplayOpened "a replay opened a flow that was cancelled";
    ReplayedWhatWasOver "a replay opened a flow that was over";
    LeaseRevoked "a cancel ended a live lease";
    Backlogged "a cancel left members to the backlog";
    CancelledInsteadOfReady "a member of a cancelled flow was cancelled where it would be ready";
    Skipped "an execution was skipped";
    SkippedByCascade "one hop skipped more than one execution";
    Requeued "an attempt was retried";
    Suspended "a worker suspended its execution";
    Resumed "a suspended execution was resumed";
    ResumeRefused "a resume named another suspension than the present one";
    Exhausted "the attempts of an execution were exhausted";
    Expired "the reaper ended a lease";
    DuplicateSubmit "a submit found its flow";
    ClaimedWithReport "a worker claimed along with its report";
    StoredReply "a repeated report found its stored reply";
    SessionLingered "a dead client's session kept its locks";
    TailLost "the database crashed and lost the tail of its log";
    SessionEnded "the storage ended a session that stood idle";
    BudgetSpent "contention lasted beyond a retry budget";
    HealedMidway "faults stopped before the flow had drained";
    EventsOutOfOrder "events committed out of the order of their numbers";
    EventDeliveredAgain "a subscriber was handed an event again after a restart";
    FlowExtended "an extension added to a flow";
    ExtensionRefused "an extension was refused";
    OpenedAgain "an extension opened a flow that was over";
    AddedDecided "an execution was decided in the extension that added it";
    HeldBack "an actor was held back in the middle of its work";
    FlowPruned "retention took a flow away";
    EventsPruned "retention took events away";
    CursorExpired "a subscriber came too late for events that retention took away";
    LeasesLetGoOn "a reaper let leases go on after a step of the clock";
    PoisonKilledAgain "an execution that had killed a worker killed another one";
    EventLost "the row of an event was deleted";
    RequestLost "the row by which a join asks for cancels was deleted";
    RowDamaged "a row was deleted, or made unreadable";
    GivenUp "an operator gave up what could not be read";
    LateInput "an edge with a name was satisfied after its join had decided";
    InputsPassed "a worker was passed inputs along with its lease";
    InputsPaged "a worker read its inputs in pages";
    Progressed "a worker's progress was stored";
    ProgressOvertaken "progress that was behind changed nothing";
    ProgressFenced "progress of an attempt that was over was refused";
    UnsyncedLost "a power cut lost what was written and not synced";
    SectorTorn "a power cut tore a sector";
    FailedCommitApplied "a commit that had failed was found applied";
    DroppedWriter "an actor whose destructor writes was killed";
}

/// Rows of the coverage matrix: every verb, then waits, awaits, notifications and the heal.
const POINTS: usize = Verb::ALL.len() + 4;
const KINDS: usize = FaultKind::ALL.len();

/// Counters of one or many universes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Universes run.
    pub universes: u64,
    /// Statements executed.
    pub statements: u64,
    /// Steps of the driver.
    pub steps: u64,
    /// Commits that wrote.
    pub commits: u64,
    /// Commits that resolved an edge.
    pub hops: u64,
    /// Deviations from the default schedule.
    pub delays: u64,
    /// Virtual microseconds.
    pub virtual_us: u64,
    /// Faults that struck, by kind.
    pub faults: [u64; KINDS],
    /// Where they struck: the coverage matrix.
    pub struck: Vec<[u64; KINDS]>,
    /// How often each condition occurred.
    pub occurred: [u64; Sometimes::ALL.len()],
    /// Reconciler ticks of the liveness phases, the most that one needed.
    pub ticks_most: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            universes: 0,
            statements: 0,
            steps: 0,
            commits: 0,
            hops: 0,
            delays: 0,
            virtual_us: 0,
            faults: [0; KINDS],
            struck: vec![[0; KINDS]; POINTS],
            occurred: [0; Sometimes::ALL.len()],
            ticks_most: 0,
        }
    }
}

fn row(point: Point) -> usize {
    match point {
        Point::Statement(verb) => verb as usize,
        Point::Wait(_) => Verb::ALL.len(),
        Point::Await => Verb::ALL.len() + 1,
        Point::Notice => Verb::ALL.len() + 2,
        Point::Heal => Verb::ALL.len() + 3,
    }
}

impl Tally {
    /// Counts a fault where it struck.
    pub(crate) fn fault(&mut self, kind: FaultKind, point: Point) {
        self.faults[kind as usize] += 1;
        self.struck[row(point)][kind as usize] += 1;
    }

    /// Counts a fault that has just struck as the kind that it turned out to be.
    pub(crate) fn recount(&mut self, drawn: FaultKind, real: FaultKind, point: Point) {
        self.faults[drawn as usize] -= 1;
        self.struck[row(point)][drawn as usize] -= 1;
        self.fault(real, point);
    }

    /// Takes back the count of a fault that found nothing to strike.
    pub(crate) fn missed(&mut self, kind: FaultKind, point: Point) {
        self.faults[kind as usize] -= 1;
        self.struck[row(point)][kind as usize] -= 1;
    }

    /// Counts a condition.
    pub(crate) fn sometimes(&mut self, condition: Sometimes) {
        self.occurred[condition as usize] += 1;
    }

    /// Counts what a commit did.
    pub(crate) fn commit(&mut self, commit: &Commit) {
        use sluicegate::state::{Cause, Outcome};
        self.commits += 1;
        let resolved = |edge: &sluicegate::storage::Edge| edge.resolution != Resolution::Pending;
        let late = |edge: &sluicegate::storage::Edge| {
            let satisfied = edge.resolution == Resolution::Satisfied && edge.input.is_none();
            satisfied && edge.passes_as.is_some()
        };
        if commit.edges.iter().any(|change| change.after.as_ref().is_some_and(late)) {
            self.sometimes(Sometimes::LateInput);
        }
        let flipped = commit.edges.iter().any(|change| change.after.as_ref().is_some_and(resolved));
        self.hops += u64::from(flipped);
        if commit.sibling_requests.iter().any(|change| change.after.is_some()) {
            self.sometimes(Sometimes::SiblingRequested);
        }
        if commit.cancel_backlog.iter().any(|change| change.after.is_some()) {
            self.sometimes(Sometimes::Backlogged);
        }
        let revoked = sluicegate::storage::AttemptEnd::Revoked;
        if commit.attempts.iter().any(|attempt| attempt.end == revoked) {
            self.sometimes(Sometimes::LeaseRevoked);
        }
        self.growth(commit);
        self.replay(commit);
        if commit.flows.iter().any(|change| change.after.is_none()) {
            self.sometimes(Sometimes::FlowPruned);
        }
        if !commit.events_pruned.is_empty() {
            self.sometimes(Sometimes::EventsPruned);
        }
        let mut skipped = 0;
        for change in &commit.executions {
            let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
            match (before.state, after.state) {
                (State::Blocked, State::Terminal(Outcome::Skipped)) => skipped += 1,
                (before, State::Terminal(Outcome::Cancelled)) => match after.cause {
                    Some(Cause::Sibling) => self.sometimes(Sometimes::SiblingCancelled),
                    Some(Cause::Operator) => self.sometimes(Sometimes::MemberCancelled),
                    _ if !commit.requests.is_empty() => self.sometimes(Sometimes::FlowCancelled),
                    _ if matches!(before, State::Blocked | State::Active | State::Suspended) => {
                        self.sometimes(Sometimes::CancelledInsteadOfReady);
                    }
                    _ => {}
                },
                (State::Active, State::Ready) => self.sometimes(Sometimes::Requeued),
                (State::Active, State::Suspended) => self.sometimes(Sometimes::Suspended),
                (State::Suspended, State::Ready) => self.sometimes(Sometimes::Resumed),
                (State::Active, State::Terminal(_))
                    if after.cause == Some(Cause::AttemptsExhausted) =>
                {
                    self.sometimes(Sometimes::Exhausted);
                }
                _ => {}
            }
        }
        if skipped > 0 {
            self.sometimes(Sometimes::Skipped);
        }
        if skipped > 1 {
            self.sometimes(Sometimes::SkippedByCascade);
        }
        let expired = sluicegate::storage::AttemptEnd::Expired;
        if commit.attempts.iter().any(|attempt| attempt.end == expired) {
            self.sometimes(Sometimes::Expired);
        }
    }

    fn growth(&mut self, commit: &Commit) {
        let grown = |change: &Change<Flow>| {
            let revision = |row: &Option<Flow>| row.as_ref().map(|row| row.revision);
            let kept = change.before.is_some() && change.after.is_some();
            kept && revision(&change.before) != revision(&change.after)
        };
        if !commit.flows.iter().any(grown) {
            return;
        }
        self.sometimes(Sometimes::FlowExtended);
        if commit.summaries.iter().any(opened_again) {
            self.sometimes(Sometimes::OpenedAgain);
        }
        let decided = |change: &Change<Execution>| {
            let born = change.after.filter(|_| change.before.is_none());
            born.is_some_and(|row| row.has_in && row.state != State::Blocked)
        };
        if commit.executions.iter().any(decided) {
            self.sometimes(Sometimes::AddedDecided);
        }
    }

    fn replay(&mut self, commit: &Commit) {
        let incarnation = |row: &Option<Execution>| row.as_ref().map(|row| row.incarnation);
        let again = |change: &Change<Execution>| {
            change.before.is_some() && incarnation(&change.before) < incarnation(&change.after)
        };
        if !commit.executions.iter().any(again) {
            return;
        }
        self.sometimes(Sometimes::Replayed);
        if commit.flows.iter().any(|change| Closing::ended(change).is_some()) {
            self.sometimes(Sometimes::ReplayOpened);
        }
        if commit.summaries.iter().any(opened_again) {
            self.sometimes(Sometimes::ReplayedWhatWasOver);
        }
    }

    /// Faults that struck, of all kinds.
    pub fn faults_in_all(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// How often a kind struck.
    pub fn struck_by(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize]
    }

    /// How often a condition occurred.
    pub fn occurrences(&self, condition: Sometimes) -> u64 {
        self.occurred[condition as usize]
    }

    /// How often a kind struck at a point.
    pub fn struck_at(&self, point: Point, kind: FaultKind) -> u64 {
        self.struck[row(point)][kind as usize]
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.universes += other.universes;
        self.statements += other.statements;
        self.steps += other.steps;
        self.commits += other.commits;
        self.hops += other.hops;
        self.delays += other.delays;
        self.virtual_us += other.virtual_us;
        self.ticks_most = self.ticks_most.max(other.ticks_most);
        for (sum, more) in self.faults.iter_mut().zip(other.faults) {
            *sum += more;
        }
        for (sums, mores) in self.struck.iter_mut().zip(&other.struck) {
            for (sum, more) in sums.iter_mut().zip(mores) {
                *sum += more;
            }
        }
        for (sum, more) in self.occurred.iter_mut().zip(other.occurred) {
            *sum += more;
        }
    }
}

/// True if the summary said that its flow is over, and no longer does.
fn opened_again(change: &Change<Summary>) -> bool {
    let over = |row: &Option<Summary>| row.is_some_and(|row| row.status.is_terminal());
    over(&change.before) && change.after.is_some_and(|row| !row.status.is_terminal())
}
