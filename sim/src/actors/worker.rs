//! The worker: claims, works for a while of virtual time, renews, reports. Repeats calls whose
//! answer it did not get, and sometimes one whose answer it got.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use sluicegate::EngineError;
use sluicegate::environment::Environment;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken, Sent};
use sluicegate::operations::inputs::{Claimed, Inputs};
use sluicegate::operations::report::Report;
use sluicegate::storage::{AttemptKey, Definition, Input, Storage};

use crate::actors::reporter::Reporter;
use crate::actors::{Progress, Stage, choose};
use crate::driver::tally::Sometimes;
use crate::driver::world::{SimEnvironment, world};
use crate::history::{Holder, Observation, result_of};
use crate::tape::{Chance, Site};

/// How long a lease lasts.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The longest that a handler works.
pub(crate) const WORK_MAX: Duration = Duration::from_secs(14);
/// How long before the end of its lease a worker renews that cuts it fine.
const BRINK: Duration = Duration::from_micros(1_500);
/// How often one call is repeated under its request id.
const CALLS_MAX: u32 = 3;
/// How long a worker puts work off.
pub(crate) const SNOOZE: Duration = Duration::from_millis(700);
/// How often in a turn a worker may go on with what it claimed along with a report.
const TURN_OVERS_MAX: u32 = 3;
/// The wait before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// Inputs of one page.
const INPUT_ROWS: u32 = 2;
/// Polls that a destructor makes in its attempt to write.
const LAST_POLLS: u32 = 8;

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let Some(mut grants) = claim(stage).await else { return Progress::Failed };
    if grants.is_empty() {
        return Progress::Idle;
    }
    for left in (0..=TURN_OVERS_MAX).rev() {
        for grant in &grants {
            read_inputs(stage, grant).await;
        }
        let Some((last, others)) = grants.split_last() else { break };
        for grant in others {
            handle(stage, grant.token(), Work::drawn(), Then::Reports).await;
        }
        let turns_over = left > 0 && choose(Site::TurnOver, 2, Chance::Of(8_000)) == 1;
        let then = if turns_over { Then::ReportsAndClaims } else { Then::Reports };
        grants = handle(stage, last.token(), Work::drawn(), then).await;
    }
    Progress::Worked
}

/// What is left of a turn whose only handler is at work, and will be for so long. Beside its lease
/// a handler remembers nothing while universes are counted.
pub(crate) async fn rest_of_turn<S: Storage>(
    stage: &Stage<S>,
    token: LeaseToken,
    left: Duration,
) -> Progress {
    handle(stage, token, Work { left, ..Work::quick() }, Then::Reports).await;
    Progress::Worked
}

/// How long a handler works, and after how much of it its lease is renewed.
struct Work {
    left: Duration,
    renew_after: Duration,
}

impl Work {
    fn quick() -> Self {
        Self { left: Duration::from_millis(50), renew_after: LEASE / 2 }
    }

    fn drawn() -> Self {
        let whole = |left| Self { left, ..Self::quick() };
        match choose(Site::Work, 5, Chance::Of(12_000)) {
            0 => Self::quick(),
            1 => whole(Duration::from_secs(2)),
            2 => whole(LEASE),
            3 => whole(WORK_MAX),
            _ => Self { renew_after: LEASE.saturating_sub(BRINK), ..whole(WORK_MAX) },
        }
    }

    /// Takes its time, and renews the lease meanwhile; false if the lease was lost.
    async fn go_on<S: Storage>(
        mut self,
        stage: &Stage<S>,
        token: LeaseToken,
        reporter: &mut Reporter<'_, S>,
    ) -> bool {
        let environment = SimEnvironment { actor: stage.actor };
        loop {
            let part = self.left.min(self.renew_after);
            environment.sleep(part).await;
            self.left -= part;
            if !reporter.advance().await {
                return false;
            }
            if self.left.is_zero() {
                return true;
            }
            if let Err(EngineError::LeaseLost(_)) = stage.engine.renew(token, LEASE).await {
                stage.observe(&Observation::LeaseLost { holder: holder(&token), end: None });
                return false;
            }
        }
    }
}

/// What a worker does when its work is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Reports,
    ReportsAndClaims,
}

fn claim_request<S: Storage>(stage: &Stage<S>) -> ClaimRequest {
    ClaimRequest {
        request: stage.engine.request_id(),
        sent: Sent::First,
        worker: "worker".into(),
        instance: "instance".into(),
        namespace: None,
        partitions: 0..u16::MAX,
        lanes: stage.lanes.to_vec(),
        kinds: Vec::new(),
        limit: 1 + u32::from(stage.nth % 2),
        lease: LEASE,
    }
}

async fn claim<S: Storage>(stage: &Stage<S>) -> Option<Vec<Claimed>> {
    let mut request = claim_request(stage);
    for _ in 0..CALLS_MAX {
        match stage.engine.claim(request.clone()).await {
            Ok(grants) => {
                told(stage, &grants);
                return Some(claim_again(stage, request, grants).await);
            }
            Err(_) => request.sent = Sent::Again,
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    None
}

/// Now and then repeats a claim that has brought inputs, as if its answer had been lost.
async fn claim_again<S: Storage>(
    stage: &Stage<S>,
    request: ClaimRequest,
    grants: Vec<Claimed>,
) -> Vec<Claimed> {
    let passed = grants.iter().any(|grant| grant.execution.has_inputs);
    if !passed || choose(Site::Repeat, 2, Chance::Of(8_000)) == 0 {
        return grants;
    }
    match stage.engine.claim(ClaimRequest { sent: Sent::Again, ..request }).await {
        Ok(again) => {
            told(stage, &again);
            again
        }
        Err(_) => grants,
    }
}

/// Tells the judge what an answer brought, at once: what comes after it may take long.
fn told<S: Storage>(stage: &Stage<S>, grants: &[Claimed]) {
    for grant in grants {
        let holder = holder(&grant.token());
        stage.observe(&Observation::Granted { holder });
        let Definition { name, payload, .. } = &grant.definition;
        let submitted = stage.payloads.get(&**name).into_iter().flatten();
        if !submitted.into_iter().any(|one| one.as_bytes() == &**payload) {
            let payload = Arc::clone(payload);
            stage.observe(&Observation::Garbled { holder, payload });
        }
        if let Inputs::Sent(inputs) = &grant.inputs
            && grant.execution.has_inputs
        {
            world(|world| world.tally.sometimes(Sometimes::InputsPassed));
            stage.observe(&Observation::Passed { holder, inputs: inputs.clone() });
        }
    }
}

/// Reads in pages what is passed to an execution, where it does not come along.
async fn read_inputs<S: Storage>(stage: &Stage<S>, grant: &Claimed) {
    if !grant.execution.has_inputs || matches!(grant.inputs, Inputs::Sent(_)) {
        return;
    }
    let (mut inputs, mut after): (Vec<Input>, _) = (Vec::new(), None);
    loop {
        let page = stage.engine.read_inputs(grant.token(), after, INPUT_ROWS).await;
        let Ok(page) = page else { return };
        inputs.extend(page.inputs);
        after = page.next_cursor;
        if after.is_none() {
            world(|world| world.tally.sometimes(Sometimes::InputsPaged));
            let holder = holder(&grant.token());
            return stage.observe(&Observation::Passed { holder, inputs });
        }
    }
}

/// Works and reports; returns what was claimed along with the report.
async fn handle<S: Storage>(
    stage: &Stage<S>,
    token: LeaseToken,
    work: Work,
    then: Then,
) -> Vec<Claimed> {
    let mut last_words = LastWords { stage, token, armed: true };
    let mut grants = Vec::new();
    let mut reporter = Reporter::new(stage, token);
    if at_work(stage, token, work, &mut reporter).await {
        let report = if suspends(stage) { Report::Suspend } else { outcome(&token) };
        match then {
            Then::Reports => send(stage, token, report).await,
            Then::ReportsAndClaims => grants = send_and_claim(stage, token, report).await,
        }
    }
    last_words.armed = false;
    reporter.late().await;
    grants
}

/// Works, and lets the driver know on what.
async fn at_work<S: Storage>(
    stage: &Stage<S>,
    token: LeaseToken,
    work: Work,
    reporter: &mut Reporter<'_, S>,
) -> bool {
    let actor = usize::from(stage.actor);
    world(|world| world.slots[actor].works_on = Some(token));
    let worked = work.go_on(stage, token, reporter).await;
    world(|world| world.slots[actor].works_on = None);
    worked
}

/// True if the handler wants to be resumed later; once healed, workers answer.
fn suspends<S: Storage>(stage: &Stage<S>) -> bool {
    stage.resumed
        && world(|world| world.faults_on)
        && choose(Site::Suspend, 2, Chance::Of(16_000)) == 1
}

/// What the handler reports; drawn when its work completes.
fn outcome(token: &LeaseToken) -> Report {
    let LeaseToken { execution, incarnation, attempt, .. } = *token;
    let bytes: Arc<[u8]> = result_of(AttemptKey { execution, incarnation, attempt });
    let (drawn, healed) = world(|world| {
        let arity = if world.counting { 2 } else { 6 };
        let chance = Chance::Of(world.odds.outcome);
        (world.tape.draw(Site::Outcome, arity, chance), !world.faults_on)
    });
    match drawn {
        0 => Report::Complete(bytes),
        1 => Report::FailFatal(bytes),
        2 => Report::FailRetryable(bytes),
        3 => Report::Skip,
        // A worker that gives its work back does not answer; once healed, workers answer.
        _ if healed => Report::Complete(bytes),
        4 => Report::Snooze(SNOOZE),
        _ => Report::Release,
    }
}

/// Reports until there is an answer; then, now and then, once more.
async fn send<S: Storage>(stage: &Stage<S>, token: LeaseToken, report: Report) {
    for call in 0..CALLS_MAX {
        let reply = stage.engine.report(token, report.clone()).await;
        if call == 0 && matches!(reply, Err(EngineError::Contention(_))) {
            let (holder, end) = (holder(&token), report.end());
            stage.observe(&Observation::ReportContended { holder, end });
        }
        if observe(stage, token, &report, &reply) {
            if choose(Site::Repeat, 2, Chance::Of(4_000)) == 1 {
                let again = stage.engine.report(token, report.clone()).await;
                if observe(stage, token, &report, &again) && again.is_ok() {
                    world(|world| world.tally.sometimes(Sometimes::StoredReply));
                }
            }
            return;
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
}

/// Reports and claims in one call until there is an answer.
async fn send_and_claim<S: Storage>(
    stage: &Stage<S>,
    token: LeaseToken,
    report: Report,
) -> Vec<Claimed> {
    let mut request = claim_request(stage);
    for _ in 0..CALLS_MAX {
        let reports = vec![(token, report.clone())];
        match stage.engine.complete_and_claim(reports, request.clone()).await {
            Ok((replies, grants)) => {
                observe(stage, token, &report, &replies[0]);
                told(stage, &grants);
                if !grants.is_empty() {
                    world(|world| world.tally.sometimes(Sometimes::ClaimedWithReport));
                }
                return grants;
            }
            Err(_) => request.sent = Sent::Again,
        }
        SimEnvironment { actor: stage.actor }.sleep(REPEAT_AFTER).await;
    }
    Vec::new()
}

/// Tells the judge what the worker was told; false if it was told nothing for certain.
fn observe<S: Storage>(
    stage: &Stage<S>,
    token: LeaseToken,
    report: &Report,
    reply: &Result<sluicegate::storage::Reported, EngineError>,
) -> bool {
    let holder = holder(&token);
    match reply {
        Ok(reported) => {
            let reported = *reported;
            stage.observe(&Observation::Reported { holder, end: report.end(), reported });
            true
        }
        Err(EngineError::LeaseLost(_)) => {
            stage.observe(&Observation::LeaseLost { holder, end: Some(report.end()) });
            true
        }
        Err(_) => false,
    }
}

pub(super) fn holder(token: &LeaseToken) -> Holder {
    Holder {
        execution: token.execution,
        incarnation: token.incarnation,
        attempt: token.attempt,
        epoch: token.epoch,
        nonce: token.nonce,
    }
}

/// A destructor that tries to give the attempt back, as careless services write them. A killed
/// process runs no destructor, so that nothing of it may arrive.
struct LastWords<'a, S: Storage> {
    stage: &'a Stage<S>,
    token: LeaseToken,
    armed: bool,
}

impl<S: Storage> Drop for LastWords<'_, S> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let mut call = Box::pin(self.stage.engine.report(self.token, Report::Release));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..LAST_POLLS {
            let answered = call.as_mut().poll(&mut context).is_ready();
            assert!(!answered, "the destructor of a killed actor reached the storage");
        }
        world(|world| world.tally.sometimes(Sometimes::DroppedWriter));
    }
}
