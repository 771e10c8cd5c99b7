//! The life of a worker: one task claims for the free slots, each slot works until nothing follows,
//! and the shutdown proceeds in three steps. Never looks into a grant.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use crate::environment::Host;
use crate::pace::Pace;
use crate::storage::Storage;
use crate::worker::attempt;
use crate::worker::calls::Leased;
use crate::worker::station::{Station, Totals};

/// Works until the shutdown is over.
pub(super) async fn run<S: Storage, H: Host>(
    station: Arc<Station<S, H>>,
    shutdown: impl Future<Output = ()>,
) -> Totals {
    let mut tasks = JoinSet::new();
    tasks.spawn(claim(Arc::clone(&station)));
    tokio::select! {
        biased;
        ended = tasks.join_next() => broken(ended),
        () = shutdown => {}
    }
    tracing::info!(worker = &*station.settings.name, "worker closes");
    station.closing.give(());
    let steps = async {
        station.host().sleep(station.settings.grace).await;
        station.overtime.give(());
        station.host().sleep(station.settings.farewell).await;
        station.end.give(());
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        ended = tasks.join_next() => broken(ended),
        () = steps => {}
    }
    let totals = station.totals();
    tracing::info!(worker = &*station.settings.name, ?totals, "worker is done");
    totals
}

/// Goes on with the panic of a task that must not panic, so that it does not go unseen.
fn broken(ended: Option<Result<(), JoinError>>) {
    if let Some(Err(error)) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Claims for whatever slots are free until the worker closes, then waits for its slots.
async fn claim<S: Storage, H: Host>(station: Arc<Station<S, H>>) {
    let free = Arc::new(Semaphore::new(station.settings.concurrency as usize));
    let mut slots = JoinSet::new();
    let mut idle = Pace::new(station.settings.poll_least, station.settings.poll_most);
    let mut seen = 0;
    while let Some(permit) = free_slot(&station, &free).await {
        while let Some(ended) = slots.try_join_next() {
            broken(Some(ended));
        }
        let others = free.available_permits();
        let asked = u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1);
        let leased = station.claim(asked).await;
        let granted = leased.len();
        drop(permit);
        for leased in leased {
            // Nobody but this task takes permits, so that those it has asked for are there.
            let permit = Arc::clone(&free).try_acquire_owned().expect("a slot was free");
            let station = Arc::clone(&station);
            slots.spawn(async move {
                occupy(&station, leased).await;
                drop(permit);
            });
        }
        if granted > 0 {
            idle.reset();
        }
        if granted < asked as usize {
            let pause = idle.next(station.host().random());
            let before = seen;
            tokio::select! {
                biased;
                () = station.closing.given() => break,
                () = station.host().workable(&mut seen, pause) => {}
            }
            if seen != before {
                idle.reset();
            }
        }
    }
    while let Some(ended) = slots.join_next().await {
        broken(Some(ended));
    }
}

/// Waits for a free slot; `None` once the worker closes.
async fn free_slot<'a, S: Storage, H: Host>(
    station: &Station<S, H>,
    free: &'a Semaphore,
) -> Option<tokio::sync::SemaphorePermit<'a>> {
    tokio::select! {
        biased;
        () = station.closing.given() => None,
        permit = free.acquire() => permit.ok(),
    }
}

/// Works on what was leased and on whatever each report brings along.
async fn occupy<S: Storage, H: Host>(station: &Arc<Station<S, H>>, first: Leased) {
    let mut next = Some(first);
    while let Some(leased) = next {
        let token = leased.grant.token();
        next = match attempt::run(station, leased).await {
            Some(ended) => {
                let next = station.turn_over(token, ended.report).await;
                drop(ended.kept);
                next
            }
            None => None,
        };
    }
}
