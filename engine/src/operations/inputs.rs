//! What the upstreams of an execution pass on to it: along with its lease, or in pages under it.
//! Which edges are inputs was decided with their group; nothing here looks at how upstreams stand.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::error::EngineError;
use crate::identity::ExecutionId;
use crate::mutants::mutated;
use crate::operations::claim::LeaseToken;
use crate::operations::report::{holds, replacement};
use crate::storage::{Grant, Input, InputQuery, Result, Transaction};
use crate::transact::{Body, Run, Verdict};

/// Inputs of one page.
pub const PAGE_ROWS_MAX: u32 = 1_000;

/// What is passed on to an execution, by the named edges that were satisfied when its join decided:
/// the same for every attempt of an incarnation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inputs {
    /// All of it, in the order of the upstreams; nothing where no edge has a name.
    Sent(Vec<Input>),
    /// More bytes of results than
    /// [`Limits::inputs_max_bytes`](crate::flow::Limits::inputs_max_bytes), which
    /// [`Engine::read_inputs`](crate::Engine::read_inputs) shows in pages.
    Paged,
}

/// A granted lease with what the upstreams of its execution pass on to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// The grant.
    pub grant: Grant,
    /// What is passed on.
    pub inputs: Inputs,
}

/// Some of the inputs of an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputPage {
    /// In the order of their upstreams.
    pub inputs: Vec<Input>,
    /// The cursor of the next page, if there may be one; it may turn out to be empty.
    pub next_cursor: Option<ExecutionId>,
}

impl Deref for Claimed {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}

impl Inputs {
    /// All of them, unless they are read in pages.
    pub fn sent(&self) -> Option<&[Input]> {
        match self {
            Inputs::Sent(inputs) => Some(inputs),
            Inputs::Paged => None,
        }
    }
}

/// Whether a claim grants, or finds what an earlier run of it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// It has just granted them.
    Granted,
    /// They were granted before.
    Again,
}

/// Reads what the leases carry. Asks nothing where no execution is passed anything.
pub(crate) async fn carry<T: Transaction>(
    transaction: &mut T,
    grants: Vec<Grant>,
    found: Found,
    bytes_max: u64,
) -> Result<Vec<Claimed>> {
    let passed = |grant: &&Grant| grant.execution.has_inputs;
    let executions: Vec<ExecutionId> =
        grants.iter().filter(passed).map(|grant| grant.execution.id).collect();
    let mut carried: BTreeMap<ExecutionId, Vec<Input>> = BTreeMap::new();
    let forgets = found == Found::Again && mutated!(S41);
    if !executions.is_empty() && !forgets {
        let query = InputQuery { executions, after: None, limit: u32::MAX, bytes_max };
        for input in transaction.read_inputs(&query).await? {
            carried.entry(input.key.downstream).or_default().push(input);
        }
    }
    let claimed = grants.into_iter().map(|grant| {
        let inputs = carried.remove(&grant.execution.id).unwrap_or_default();
        let bytes: u64 = inputs.iter().map(|input| input.bytes).sum();
        let inputs = if bytes > bytes_max { Inputs::Paged } else { Inputs::Sent(inputs) };
        Claimed { grant, inputs }
    });
    Ok(claimed.collect())
}

/// The transaction that reads a page of inputs under a lease.
pub(crate) struct ReadInputs {
    pub(crate) token: LeaseToken,
    pub(crate) after: Option<ExecutionId>,
    pub(crate) limit: u32,
    pub(crate) bytes_max: u64,
}

impl ReadInputs {
    /// What of the rows is in the page: a result that was left out begins the next one.
    fn page(&self, mut inputs: Vec<Input>) -> InputPage {
        let mut total = 0;
        let whole = inputs.iter().take_while(|input| {
            total += input.bytes;
            total <= self.bytes_max || total == input.bytes
        });
        let whole = whole.count().min(self.limit as usize);
        // Nothing is told of what lies behind a result that alone is too much.
        let bytes: u64 = inputs[..whole].iter().map(|input| input.bytes).sum();
        let more = whole < inputs.len() || bytes > self.bytes_max;
        inputs.truncate(whole);
        let last = inputs.last().map(|input| input.key.upstream);
        InputPage { inputs, next_cursor: last.filter(|_| more) }
    }
}

impl Body for ReadInputs {
    type Out = Result<InputPage, EngineError>;

    /// Under the lock of the execution, so that the lease lives while its inputs are read.
    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let id = self.token.execution;
        let rows = transaction.lock_executions(&[id]).await?;
        let Some(row) = rows.first() else {
            return Ok(Verdict::Rollback(Err(EngineError::ExecutionNotFound(id))));
        };
        if !holds(row, &self.token) {
            return Ok(Verdict::Rollback(Err(replacement(row))));
        }
        let Self { after, limit, bytes_max, .. } = *self;
        let query = InputQuery { executions: vec![id], after, limit: limit + 1, bytes_max };
        let inputs = match row.has_inputs {
            true => transaction.read_inputs(&query).await?,
            false => Vec::new(),
        };
        Ok(Verdict::Rollback(Ok(self.page(inputs))))
    }
}
