//! What handlers return or do, and what becomes of their executions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sluicegate::Settings;
use sluicegate::flow::{ExecutionSpec, FlowSpec, Limits, Payload};
use sluicegate::retry::RetryPolicy;
use sluicegate::said::Quoting;
use sluicegate::signal::Shutdown;
use sluicegate::state::{Cause, PublicState};
use sluicegate::transact::RetryBudget;
use sluicegate::worker::{Context, HandlerError, ProgressError};
use tokio::sync::Barrier;

use crate::logged::Logged;
use crate::{Home, Told, single, start};

#[derive(Deserialize)]
struct Mail {
    to: String,
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_retried() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            assert!(context.attempt() > 1, "the first attempt breaks off");
            done.send(()).expect("the test listens");
            Ok("sent")
        }
    }));
    told.next().await;
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported, totals.left_leased()), (2, 2, 0));
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 2));
    assert_eq!(home.result(), "\"sent\"");
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_attempts_are_exhausted_leaves_what_it_last_said() {
    let home = Home::new(&Settings::default());
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let spec = ExecutionSpec::new("a").kind("mail").retry(retry);
    let flow = home.submit(FlowSpec::builder().execution_spec(spec).build()).await;
    let (done, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            done.send(()).expect("the test listens");
            assert!(context.attempts_charged() < context.attempts_max(), "no {}", "paper");
            Ok(())
        }
    }));
    told.next().await;
    running.stop().await;
    let described = home.described(flow, "a").await;
    assert_eq!(described.state, PublicState::Failed);
    assert_eq!(described.cause, Some(Cause::AttemptsExhausted));
    assert_eq!(home.result(), json!({"error": "panicked: no paper"}).to_string());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_a_payload_reads_and_returns_whatever_was_submitted() {
    let home = Home::new(&Settings::default());
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let text = format!(r#"{{"a":1234567890123456.78,"a":[{deep}, 12345678901234567890123]}}"#);
    let payload = Payload::from_json(text.as_str()).expect("it is JSON");
    let letter = ExecutionSpec::new("a").kind("mail").payload(payload);
    home.submit(FlowSpec::builder().execution_spec(letter).build()).await;
    let (done, mut told) = Told::channel();
    let worker = home.worker().handler("mail", move |context: Context, mail: Payload| {
        let done = done.clone();
        async move {
            context.report_progress(&mail).await?;
            let progress: Option<Payload> = context.last_progress().await?;
            done.send((mail.clone(), progress)).expect("the test listens");
            Ok(mail)
        }
    });
    let running = start(worker);
    let (read, progress) = told.next().await;
    running.stop().await;
    assert!(read.as_str() == text, "the handler was given something else");
    assert!(progress == Some(read), "its progress was changed");
    assert!(home.result() == text, "its result was changed");
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_read_is_a_fatal_failure_that_names_the_kind() {
    let home = Home::new(&Settings::default());
    let letter = ExecutionSpec::new("a").kind("mail").payload(json!({"to": 7}));
    let good = ExecutionSpec::new("b").kind("mail").payload(json!({"to": "me"}));
    let flow = FlowSpec::builder().execution_spec(letter).execution_spec(good).build();
    let flow = home.submit(flow).await;
    let (done, mut told) = Told::channel();
    // One at a time, so that what fails without a word has been reported once the other is told.
    let worker = home.worker().concurrency(1).handler("mail", move |_: Context, mail: Mail| {
        let done = done.clone();
        async move {
            done.send(mail.to).expect("the test listens");
            Err::<(), _>(HandlerError::Skip)
        }
    });
    let running = start(worker);
    assert_eq!(told.next().await, "me");
    let totals = running.stop().await;
    assert_eq!(totals.reported, 2);
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Failed, 1));
    let result = home.result();
    assert!(result.starts_with("{\"error\":\"payload of kind `mail`: invalid type"), "{result}");
    assert_eq!(home.described(flow, "b").await.state, PublicState::Skipped);
}

/// Words that a payload holds and nothing else does.
const SECRET: &str = "open-sesame";

/// What is logged and stored of a payload of the wrong shape, by three handlers.
async fn told_of_a_secret(quoting: Quoting) -> Vec<String> {
    let home = Home::new(&Settings::default());
    let kinds = ["misread", "unwrapped", "questioned"];
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let mut flow = FlowSpec::builder();
    for kind in kinds {
        let spec = ExecutionSpec::new(kind).kind(kind).retry(retry);
        flow = flow.execution_spec(spec.payload(json!({"pin": SECRET, SECRET: 1})));
    }
    let flow = home.submit(flow.build()).await;
    let log = Logged::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let shutdown = Shutdown::new();
    let worker = home.worker().quoting(quoting);
    let worker = worker.handler(kinds[0], |_: Context, _: BTreeMap<String, u8>| async { Ok(()) });
    let worker = worker.handler(kinds[1], |_: Context, payload: Value| async move {
        let _: u8 = serde_json::from_value(payload["pin"].clone()).expect("a pin is short");
        Ok(())
    });
    let worker = worker.handler(kinds[2], |_: Context, payload: Value| async move {
        let _: u8 = serde_json::from_value(payload["pin"].clone())?;
        Ok(())
    });
    let worker = worker.build().expect("the worker can work");
    let task = tokio::spawn(worker.run(shutdown.requested()));
    let mut told = Vec::new();
    for kind in kinds {
        let id = flow.execution(kind);
        let details = loop {
            let details = home.engine.describe_execution(id).await.expect("it exists");
            if details.description.state == PublicState::Failed {
                break details;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let result = details.result.expect("a failure has a result");
        told.push(String::from_utf8(result.to_vec()).expect("a result is text"));
    }
    shutdown.request();
    task.await.expect("the worker comes to its end");
    let warnings = log.lines().into_iter().filter(|line| line.starts_with("WARN"));
    let warnings: Vec<String> = warnings.collect();
    assert_eq!(warnings.len(), kinds.len(), "{warnings:?}");
    told.extend(warnings);
    told
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_a_payload_of_the_wrong_shape_is_in_neither_log_nor_result() {
    let told = told_of_a_secret(Quoting::LeftOut).await;
    assert!(!told.iter().any(|line| line.contains("sesame")), "{told:?}");
    let shape = "invalid type: string, expected u8";
    assert_eq!(told.iter().filter(|line| line.contains(shape)).count(), 4, "{told:?}");
    let quoted = told_of_a_secret(Quoting::Kept).await;
    assert!(quoted.iter().any(|line| line.contains(SECRET)), "{quoted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_result_beyond_the_limit_fails_its_execution_for_good() {
    let limits = Limits { result_max_bytes: 80, ..Limits::default() };
    let home = Home::new(&Settings { limits, ..Settings::default() });
    let flow = home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |_: Context, (): ()| {
        let done = done.clone();
        async move {
            done.send(()).expect("the test listens");
            Ok("x".repeat(79))
        }
    }));
    told.next().await;
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported, totals.left_leased()), (1, 1, 0));
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Failed, 1));
    assert_eq!(described.cause, Some(Cause::Handler));
    let result = home.result();
    assert!(result.starts_with("{\"error\":\"the result has 81 bytes, "), "{result}");
    assert!(result.len() <= 80, "{result}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_goes_on_where_the_one_before_it_has_stopped() {
    let home = Home::new(&Settings::default());
    let flow = home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            let begun: Option<(u32, String)> = context.last_progress().await?;
            done.send(begun.clone()).expect("the test listens");
            let Some((sent, _)) = begun else {
                context.report_progress(&(1, "one")).await?;
                context.report_progress(&(2, "two")).await?;
                return Err(HandlerError::retryable("the line is dead"));
            };
            let misread = context.last_progress::<bool>().await;
            assert!(matches!(misread, Err(ProgressError::Undecodable(_))), "{misread:?}");
            let unreadable = BTreeMap::from([([1_u8], 2_u8)]);
            let refused = context.report_progress(&unreadable).await;
            assert!(matches!(refused, Err(ProgressError::Unencodable(_))), "{refused:?}");
            let large = context.report_progress(&"x".repeat(64 << 10)).await;
            let large = large.expect_err("it is beyond the limit").to_string();
            assert!(large.contains("`progress_max_bytes`"), "{large}");
            Ok(sent)
        }
    }));
    assert_eq!(told.next().await, None);
    assert_eq!(told.next().await, Some((2, "two".to_owned())));
    running.stop().await;
    let described = home.described(flow, "a").await;
    assert_eq!((described.state, described.attempt), (PublicState::Completed, 2));
    assert_eq!(home.result(), "2");
    let details = home.engine.describe_execution(described.id).await.expect("it exists");
    assert_eq!(details.progress.as_deref(), Some(b"[2,\"two\"]".as_slice()));
    assert_eq!(details.progress_attempt, Some(1));
}

#[tokio::test(start_paused = true)]
async fn each_way_out_of_a_handler_has_its_state() {
    let home = Home::new(&Settings::default());
    let (done, mut told) = Told::channel();
    let mut builder = home.worker();
    let ways: [(&str, HandlerError, PublicState, u32); 4] = [
        ("fatal", HandlerError::fatal("never"), PublicState::Failed, 1),
        ("skip", HandlerError::Skip, PublicState::Skipped, 1),
        ("snooze", HandlerError::Snooze(Duration::from_mins(1)), PublicState::Completed, 2),
        ("release", HandlerError::Release, PublicState::Completed, 2),
    ];
    let mut flows = Vec::new();
    for (kind, way, state, attempt) in ways {
        flows.push((home.submit(single(kind)).await, state, attempt));
        let done = done.clone();
        builder = builder.handler(kind, move |context: Context, (): ()| {
            let (way, done) = (way.clone(), done.clone());
            async move {
                if context.attempt() == attempt {
                    done.send(()).expect("the test listens");
                }
                if context.attempt() == 1 { Err(way) } else { Ok(()) }
            }
        });
    }
    let running = start(builder);
    for _ in &flows {
        told.next().await;
    }
    let totals = running.stop().await;
    assert_eq!((totals.granted, totals.reported), (6, 6));
    for (flow, state, attempt) in flows {
        let described = home.described(flow, "a").await;
        assert_eq!((described.state, described.attempt), (state, attempt));
    }
}

/// Attempts of the test of the limit, and how many may run at once.
const LIMITED: (usize, u32) = (21, 3);

#[tokio::test(start_paused = true)]
async fn no_more_attempts_run_at_once_than_the_worker_may_run() {
    let home = Home::new(&Settings::default());
    let mut flow = FlowSpec::builder();
    for nth in 0..LIMITED.0 {
        flow = flow.execution_spec(ExecutionSpec::new(format!("one-{nth}")).kind("mail"));
    }
    home.submit(flow.build()).await;
    // Nobody gets through alone, so that as many run as may.
    let barrier = Arc::new(Barrier::new(LIMITED.1 as usize));
    let at_once = Arc::new(AtomicU32::new(0));
    let (done, mut told) = Told::channel();
    let worker = home.worker().concurrency(LIMITED.1).handler("mail", move |_: Context, (): ()| {
        let (barrier, at_once, done) = (Arc::clone(&barrier), Arc::clone(&at_once), done.clone());
        async move {
            let running = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            barrier.wait().await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            done.send(running).expect("the test listens");
            Ok(())
        }
    });
    let running = start(worker);
    let mut most = 0;
    for _ in 0..LIMITED.0 {
        most = most.max(told.next().await);
    }
    assert_eq!(most, LIMITED.1);
    assert_eq!(running.stop().await.reported, LIMITED.0 as u64);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_while_answers_are_lost_is_done_once() {
    // A call makes one run only, so that the worker itself must repeat it.
    let budget = RetryBudget { runs_max: 1, ..RetryBudget::default() };
    let home = Home::new(&Settings { budget, ..Settings::default() });
    let mut flow = FlowSpec::builder();
    for nth in 0..LIMITED.0 {
        flow = flow.execution_spec(ExecutionSpec::new(format!("one-{nth}")).kind("mail"));
    }
    let flow = home.submit(flow.build()).await;
    home.faults.lost_each.store(2, Ordering::SeqCst);
    let (done, mut told) = Told::channel();
    let worker = home.worker().concurrency(LIMITED.1).handler("mail", move |_: Context, (): ()| {
        let done = done.clone();
        async move {
            done.send(()).expect("the test listens");
            Ok(())
        }
    });
    let running = start(worker);
    for _ in 0..LIMITED.0 {
        told.next().await;
    }
    let totals = running.stop().await;
    let all = LIMITED.0 as u64;
    assert_eq!((totals.granted, totals.reported, totals.left_leased()), (all, all, 0));
    let described = home.engine.describe_flow(flow.id).await.expect("the flow exists");
    let once = |one: &&sluicegate::operations::describe::ExecutionDescription| {
        one.state == PublicState::Completed && one.attempt == 1
    };
    assert_eq!(described.executions.iter().filter(once).count(), LIMITED.0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_claims_only_what_it_has_handlers_for_in_its_lanes_and_namespace() {
    let home = Home::new(&Settings::default());
    let spec = |name: &str, kind: &str, lane: &str| ExecutionSpec::new(name).kind(kind).lane(lane);
    let flow = FlowSpec::builder()
        .namespace("ours")
        .execution_spec(spec("mine", "mail", "slow"))
        .execution_spec(spec("other-kind", "print", "slow"))
        .execution_spec(spec("other-lane", "mail", "fast"));
    let flow = home.submit(flow.build()).await;
    let theirs = ExecutionSpec::new("a").kind("mail").lane("slow");
    let theirs = FlowSpec::builder().namespace("theirs").execution_spec(theirs).build();
    let theirs = home.submit(theirs).await;
    let (done, mut told) = Told::channel();
    let worker = home.worker().name("mailer").lanes(["slow"]).namespace("ours");
    let running = start(worker.handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            let name = context.definition().name.to_string();
            done.send((context.worker().to_owned(), name)).expect("the test listens");
            Ok(())
        }
    }));
    assert_eq!(told.next().await, ("mailer".to_owned(), "mine".to_owned()));
    assert_eq!(running.stop().await.granted, 1);
    for (flow, name) in [(flow, "other-kind"), (flow, "other-lane"), (theirs, "a")] {
        assert_eq!(home.described(flow, name).await.state, PublicState::Waiting, "{name}");
    }
}
