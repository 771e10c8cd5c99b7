//! Supervisors: they finish what others left, outlast a storage that goes away, and stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicegate::Settings;
use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::reconcile::FAILING_MAX;
use sluicegate::reconcile::Reconciler;
use sluicegate::reconcile::supervisor::{DISPATCHER, Status, Statuses, Supervisor};
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState;
use sluicegate::transact::RetryBudget;
use sluicegate::worker::{Context, WorkerBuilder};
use tokio::sync::watch;

use crate::storage::Shaky;
use crate::{HOUR, Home, Told, forever, start};

type Supervising = Supervisor<Shaky, SystemEnvironment>;

/// Waits until the status of a sweep is such.
async fn until(
    statuses: &mut watch::Receiver<Statuses>,
    sweep: &str,
    such: impl Fn(&Status) -> bool,
) -> Status {
    let waiting = statuses.wait_for(|all| all.get(sweep).is_some_and(&such));
    let held = tokio::time::timeout(HOUR, waiting).await.expect("it comes to that");
    held.expect("the supervisor runs")[sweep].clone()
}

fn chain() -> FlowSpec {
    let spec = |name: &str| ExecutionSpec::new(name).kind(name);
    FlowSpec::builder()
        .execution_spec(spec("first"))
        .execution_spec(spec("second"))
        .execution_spec(spec("last"))
        .edge("first", "second")
        .edge("second", "last")
        .build()
}

/// A worker dies while it holds one lease and has completed another execution; nobody dispatched.
async fn crash(home: &Home) {
    let (begun, mut told) = Told::channel();
    // One at a time, so that the first has been reported when the other begins.
    let worker = home.worker().concurrency(1);
    let worker = worker.handler("first", |_: Context, (): ()| async { Ok(()) });
    let crashing = start(worker.handler("stuck", move |context: Context, (): ()| {
        let begun = begun.clone();
        async move {
            begun.send(()).expect("the test listens");
            forever(&context).await
        }
    }));
    told.next().await;
    crashing.task.abort();
    assert!(crashing.task.await.is_err());
}

/// Handlers of every kind of these tests, which succeed and tell their kind.
fn telling(
    mut worker: WorkerBuilder<Shaky, SystemEnvironment>,
) -> (WorkerBuilder<Shaky, SystemEnvironment>, Told<&'static str>) {
    let (done, told) = Told::channel();
    for kind in ["first", "second", "last", "stuck"] {
        let done = done.clone();
        worker = worker.handler(kind, move |_: Context, (): ()| {
            let done = done.clone();
            async move {
                done.send(kind).expect("the test listens");
                Ok(())
            }
        });
    }
    (worker, told)
}

/// Drains what a crash left and returns what each sweep did.
async fn drain(home: &Home, supervisor: Supervising) -> Statuses {
    let (worker, mut told) = telling(home.worker());
    let shutdown = Shutdown::new();
    let supervising = tokio::spawn(supervisor.run(shutdown.requested()));
    let running = start(worker);
    let mut left = vec!["last", "second", "stuck"];
    while !left.is_empty() {
        let kind = told.next().await;
        left.retain(|one| *one != kind);
    }
    running.stop().await;
    shutdown.request();
    supervising.await.expect("it comes to its end")
}

async fn check(setup: impl FnOnce(Supervising) -> Supervising) -> Statuses {
    let home = Home::new(&Settings::default());
    let flow = home.submit(chain()).await;
    let stuck = ExecutionSpec::new("a").kind("stuck").priority(-1);
    let stuck = FlowSpec::builder().execution_spec(stuck);
    let stuck = home.submit(stuck.build()).await;
    crash(&home).await;
    assert_eq!(home.described(flow, "first").await.state, PublicState::Completed);
    assert_eq!(home.described(flow, "second").await.state, PublicState::WaitingChildren);
    assert_eq!(home.described(stuck, "a").await.state, PublicState::Active);
    let statuses = drain(&home, setup(Supervisor::new(home.engine.clone()))).await;
    assert_eq!(home.described(flow, "last").await.state, PublicState::Completed);
    let reaped = home.described(stuck, "a").await;
    assert_eq!((reaped.state, reaped.attempt), (PublicState::Completed, 2));
    statuses
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_drains_what_a_crash_without_a_dispatcher_left() {
    let statuses = check(|supervisor| supervisor.dispatchers(2)).await;
    assert!(statuses[DISPATCHER].total.reconciled > 0, "{statuses:?}");
    assert_eq!(statuses["reaper"].total.reconciled, 1, "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn reconcilers_alone_drain_as_well() {
    let setup = |supervisor: Supervisor<_, _>| {
        supervisor.dispatchers(0).every(Reconciler::Dependency, Duration::from_secs(3))
    };
    let statuses = check(setup).await;
    assert!(!statuses.contains_key(DISPATCHER));
    assert!(statuses["dependency"].total.reconciled > 0, "{statuses:?}");
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the clock of tokio, which these tests drive")]
async fn a_storage_that_goes_away_ends_no_sweep() {
    let home = Home::new(&Settings::default());
    let supervisor = Supervisor::new(home.engine.clone()).without(Reconciler::Reaper);
    let mut statuses = supervisor.statuses();
    let shutdown = Shutdown::new();
    let supervising = tokio::spawn(supervisor.run(shutdown.requested()));
    let names: Vec<&str> =
        [DISPATCHER].into_iter().chain([Reconciler::Dependency.name()]).collect();
    for name in &names {
        until(&mut statuses, name, |status| status.passes > 0 && status.error.is_none()).await;
    }
    home.faults.gone.store(true, Ordering::SeqCst);
    for name in &names {
        let failing = until(&mut statuses, name, |status| status.failing > 9).await;
        assert_eq!(failing.error.as_deref(), Some("storage is unavailable: it is gone"));
    }
    home.faults.gone.store(false, Ordering::SeqCst);
    let since = tokio::time::Instant::now();
    for name in &names {
        until(&mut statuses, name, |status| status.error.is_none()).await;
    }
    assert!(since.elapsed() <= FAILING_MAX, "the time is virtual: {:?}", since.elapsed());
    shutdown.request();
    let statuses = supervising.await.expect("it comes to its end");
    assert!(!statuses.contains_key("reaper"));
}

#[tokio::test(start_paused = true)]
async fn a_flow_drains_while_answers_are_lost() {
    // A call makes one run only, so that whoever sends it must see to the rest.
    let budget = RetryBudget { runs_max: 1, ..RetryBudget::default() };
    let home = Home::new(&Settings { budget, ..Settings::default() });
    let flow = home.submit(chain()).await;
    home.faults.lost_each.store(2, Ordering::SeqCst);
    let (worker, mut told) = telling(home.worker());
    let running = start(worker);
    let shutdown = Shutdown::new();
    let supervisor = Supervisor::new(home.engine.clone());
    let supervising = tokio::spawn(supervisor.run(shutdown.requested()));
    for kind in ["first", "second", "last"] {
        assert_eq!(told.next().await, kind);
    }
    let totals = running.stop().await;
    shutdown.request();
    supervising.await.expect("it comes to its end");
    assert_eq!((totals.granted, totals.reported, totals.left_leased()), (3, 3, 0));
    for name in ["first", "second", "last"] {
        let described = home.described(flow, name).await;
        assert_eq!((described.state, described.attempt), (PublicState::Completed, 1));
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the clock of tokio, which these tests drive")]
async fn notices_alone_move_a_flow_on() {
    let home = Home::new(&Settings::default());
    let (worker, mut told) = telling(home.worker().poll(HOUR, HOUR));
    let running = start(worker);
    let supervisor = Supervisor::new(home.engine.clone()).poll(HOUR);
    let supervisor = supervisor.without(Reconciler::Dependency).without(Reconciler::Reaper);
    let mut statuses = supervisor.statuses();
    let shutdown = Shutdown::new();
    let supervising = tokio::spawn(supervisor.run(shutdown.requested()));
    until(&mut statuses, DISPATCHER, |status| status.passes > 0).await;
    let since = tokio::time::Instant::now();
    home.submit(chain()).await;
    for kind in ["first", "second", "last"] {
        assert_eq!(told.next().await, kind);
    }
    // The time is virtual: it goes on only when everybody waits, and nobody has polled.
    assert!(since.elapsed() < HOUR / 2, "{:?}", since.elapsed());
    running.stop().await;
    shutdown.request();
    supervising.await.expect("it comes to its end");
}
