//! Leases: kept while work runs, and what a handler learns when one is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::operations::report::Report;
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::retry::RetryPolicy;
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState;
use sluicegate::storage::Scope;
use sluicegate::worker::{Cancelled, Context};
use sluicegate::{Engine, Settings};

use crate::storage::{Faults, Shaky};
use crate::{Home, Told, forever, single, start};

const LEASE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_for_as_long_as_the_work_takes() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let engine = home.engine.clone();
    let running = start(home.worker().lease(LEASE).handler("mail", move |context, (): ()| {
        let (done, engine) = (done.clone(), engine.clone());
        async move {
            let context: Context = context;
            for _ in 0..10 {
                tokio::time::sleep(LEASE).await;
                let reaped = engine.reaper_tick(&Scope::default()).await;
                assert_eq!(reaped.expect("the tick succeeds").reconciled, 0);
            }
            done.send(context.cancellation().reason()).expect("the test listens");
            Ok(())
        }
    }));
    assert_eq!(told.next().await, None);
    assert_eq!(running.stop().await.reported, 1);
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_storages_clock_costs_no_work_that_is_under_way() {
    const SECOND: Duration = Duration::from_secs(1);
    let lease = SECOND * 6;
    let home = Home::new(&Settings { lease_grace: lease, ..Settings::default() });
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let once = ExecutionSpec::new("a").kind("mail").retry(retry);
    let flow = home.submit(FlowSpec::builder().execution_spec(once).build()).await;
    let stop = Shutdown::new();
    let supervisor = tokio::spawn(Supervisor::new(home.engine.clone()).run(stop.requested()));
    let (done, mut told) = Told::channel();
    let worker = home.worker().lease(lease).handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            tokio::time::sleep(SECOND * 5).await;
            done.send(context.cancellation().reason()).expect("the test listens");
            Ok(())
        }
    });
    let running = start(worker);
    tokio::time::sleep(SECOND + SECOND / 2).await;
    let hour_us = u64::try_from(crate::HOUR.as_micros()).expect("an hour is short");
    home.stepped_us.store(hour_us, Ordering::SeqCst);
    assert_eq!(told.next().await, None, "nothing has ended the lease");
    let totals = running.stop().await;
    stop.request();
    supervisor.await.expect("it comes to its end");
    assert_eq!((totals.granted, totals.lost, totals.reported), (1, 0, 1));
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_ended_trips_the_token() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (begun, mut leases) = Told::channel();
    let (done, mut told) = Told::channel();
    let running = start(home.worker().lease(LEASE).handler("mail", move |context, (): ()| {
        let (begun, done) = (begun.clone(), done.clone());
        async move {
            let context: Context = context;
            begun.send(context.lease()).expect("the test listens");
            if context.attempt() == 1 {
                done.send(context.cancelled().await).expect("the test listens");
                assert!(context.cancellation().is_cancelled());
            }
            Ok(())
        }
    }));
    let lease = leases.next().await;
    home.engine.report(lease, Report::Release).await.expect("the lease is held");
    assert_eq!(told.next().await, Cancelled::LeaseLost);
    assert_eq!(leases.next().await.attempt, 2);
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.lost, totals.reported), (2, 1, 1));
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 2));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_trips_the_token_and_what_the_handler_returns_counts_for_nothing() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (begun, mut leases) = Told::channel();
    let (done, mut told) = Told::channel();
    let running = start(home.worker().lease(LEASE).handler("mail", move |context, (): ()| {
        let (begun, done) = (begun.clone(), done.clone());
        async move {
            let context: Context = context;
            begun.send(context.lease()).expect("the test listens");
            done.send(context.cancelled().await).expect("the test listens");
            Ok(())
        }
    }));
    let execution = leases.next().await.execution;
    let request = home.engine.request_id();
    home.engine.cancel_execution(execution, "of no use", request).await.expect("it exists");
    assert_eq!(told.next().await, Cancelled::LeaseLost);
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.lost, totals.reported), (1, 1, 0));
    assert_eq!(home.described(flow, "a").await.state, PublicState::Cancelled);
}

/// An engine on connections of its own, which are gone or not whatever becomes of the others.
fn beside(home: &Home, gone: bool) -> Engine<Shaky, SystemEnvironment> {
    let faults = Faults::default();
    faults.gone.store(gone, Ordering::SeqCst);
    let storage = Shaky { inner: home.sqlite.clone(), faults: Arc::new(faults) };
    Engine::new(storage, home.engine.environment().clone(), Settings::default())
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_trips_the_token_and_its_report_still_counts() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let worker = home.worker().lease(LEASE).renewals(beside(&home, true));
    let running = start(worker.handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            done.send(context.cancelled().await).expect("the test listens");
            Ok(())
        }
    }));
    assert_eq!(told.next().await, Cancelled::LeaseLost);
    let totals = running.stop().await;
    // Nobody reaped it, so that the report is the first to end it.
    assert_eq!((totals.lost, totals.reported), (0, 1));
    assert_eq!(home.described(flow, "a").await.state, PublicState::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_until_its_report_is_answered() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let faults = Arc::clone(&home.faults);
    let worker = home.worker().lease(LEASE).renewals(beside(&home, false));
    let running = start(worker.handler("mail", move |_: Context, (): ()| {
        let (done, faults) = (done.clone(), Arc::clone(&faults));
        async move {
            faults.gone.store(true, Ordering::SeqCst);
            done.send(()).expect("the test listens");
            Ok(())
        }
    }));
    told.next().await;
    let reaping = beside(&home, false);
    for _ in 0..5 {
        tokio::time::sleep(LEASE).await;
        let reaped = reaping.reaper_tick(&Scope::default()).await;
        assert_eq!(reaped.expect("the tick succeeds").reconciled, 0);
    }
    home.faults.gone.store(false, Ordering::SeqCst);
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported), (1, 1));
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_a_lost_lease_is_stopped_and_its_slot_goes_on() {
    let home = Home::new(&Settings::default());
    home.submit(single("mail")).await;
    let (begun, mut leases) = Told::channel();
    let worker = home.worker().lease(LEASE).concurrency(1);
    let running = start(worker.handler("mail", move |context: Context, (): ()| {
        let begun = begun.clone();
        async move {
            begun.send(context.lease()).expect("the test listens");
            if context.attempt() == 1 { forever(&context).await } else { Ok(()) }
        }
    }));
    let lease = leases.next().await;
    home.engine.report(lease, Report::Release).await.expect("the lease is held");
    assert_eq!(leases.next().await.attempt, 2);
    let totals = running.stop().await;
    assert_eq!((totals.lost, totals.reported), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_goes_away_costs_time_and_nothing_else() {
    let home = Home::new(&Settings::default());
    let (begun, mut told) = Told::channel();
    let faults = Arc::clone(&home.faults);
    let running = start(home.worker().lease(crate::HOUR).handler("mail", move |_, (): ()| {
        let (begun, faults): (_, Arc<Faults>) = (begun.clone(), Arc::clone(&faults));
        async move {
            // When its report is due, nobody answers.
            faults.gone.store(true, Ordering::SeqCst);
            begun.send(()).expect("the test listens");
            Ok(())
        }
    }));
    home.faults.gone.store(true, Ordering::SeqCst);
    tokio::time::sleep(LEASE).await;
    home.faults.gone.store(false, Ordering::SeqCst);
    let flow = home.submit(single("mail")).await;
    told.next().await;
    tokio::time::sleep(LEASE).await;
    home.faults.gone.store(false, Ordering::SeqCst);
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported), (1, 1));
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 1));
}
