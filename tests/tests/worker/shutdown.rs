//! The end of a worker: what is told to handlers, and that nothing is left leased.

use std::sync::atomic::Ordering;

use sluicegate::Settings;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::state::PublicState;
use sluicegate::worker::{Cancelled, Context};

use crate::{Home, Told, forever, single, start};

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_handlers_finish_and_releases_what_still_runs() {
    let home = Home::new(&Settings::default());
    let spec = |name: &str| ExecutionSpec::new(name).kind(name);
    let flow = FlowSpec::builder().execution_spec(spec("heeds")).execution_spec(spec("ignores"));
    let flow = home.submit(flow.build()).await;
    let (begun, mut told) = Told::channel();
    let other = begun.clone();
    let running = start(
        home.worker()
            .handler("heeds", move |context: Context, (): ()| {
                let begun = begun.clone();
                async move {
                    begun.send(()).expect("the test listens");
                    assert_eq!(context.cancelled().await, Cancelled::Shutdown);
                    Ok("in time")
                }
            })
            .handler("ignores", move |context: Context, (): ()| {
                let begun = other.clone();
                async move {
                    begun.send(()).expect("the test listens");
                    forever(&context).await
                }
            }),
    );
    told.next().await;
    told.next().await;
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported, totals.left_leased()), (2, 2, 0));
    assert_eq!(home.described(flow, "heeds").await.state, PublicState::Completed);
    let released = home.described(flow, "ignores").await;
    assert_eq!((released.state, released.worker), (PublicState::Waiting, None));
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_storage_is_gone_comes_to_its_end_and_says_what_it_left() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (begun, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |context: Context, (): ()| {
        let begun = begun.clone();
        async move {
            begun.send(()).expect("the test listens");
            forever(&context).await
        }
    }));
    told.next().await;
    home.faults.gone.store(true, Ordering::SeqCst);
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported, totals.left_leased()), (1, 0, 1));
    home.faults.gone.store(false, Ordering::SeqCst);
    assert_eq!(home.described(flow, "a").await.state, PublicState::Active);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_stops_its_handlers() {
    let home = Home::new(&Settings::default());
    home.submit(single("mail")).await;
    let (begun, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |context: Context, (): ()| {
        let begun = begun.clone();
        async move {
            begun.send(()).expect("the test listens");
            forever(&context).await
        }
    }));
    told.next().await;
    running.task.abort();
    assert!(running.task.await.expect_err("it was aborted").is_cancelled());
    // The handler held the last sender of the channel, with its worker.
    assert_eq!(told.0.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_stops_at_once_and_has_done_nothing() {
    let home = Home::new(&Settings::default());
    let running = start(home.worker().handler("mail", |_: Context, (): ()| async { Ok(()) }));
    assert_eq!(running.stop().await, sluicegate::worker::Totals::default());
}
