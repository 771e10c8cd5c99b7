//! What workers and supervisors count through the crate `metrics`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use sluicegate::Settings;
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::signal::Shutdown;
use sluicegate::worker::{Context, HandlerError};

use crate::{Home, Told, single, start};

type Seen = Arc<Mutex<BTreeMap<String, u64>>>;

/// Adds up counters and counts what histograms are told.
#[derive(Default)]
struct Sums(Seen);

struct Sum {
    seen: Seen,
    name: String,
}

impl Sum {
    fn add(&self, value: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.add(value);
    }
    fn absolute(&self, _value: u64) {}
}

impl HistogramFn for Sum {
    fn record(&self, _value: f64) {
        self.add(1);
    }
}

impl Sums {
    /// The sum of that name with those labels.
    fn sum(&self, key: &Key) -> Arc<Sum> {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::new(Sum { seen: Arc::clone(&self.0), name })
    }

    fn of(&self, name: &str) -> u64 {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).copied().unwrap_or_default()
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.sum(key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.sum(key))
    }
}

#[tokio::test(start_paused = true)]
async fn claims_attempts_and_sweeps_are_counted() {
    let sums = Sums::default();
    let _recording = metrics::set_default_local_recorder(&sums);
    let home = Home::new(&Settings::default());
    home.submit(single("mail")).await;
    let (done, mut told) = Told::channel();
    let running = start(home.worker().handler("mail", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            done.send(()).expect("the test listens");
            if context.attempt() == 1 { Err(HandlerError::retryable("later")) } else { Ok(()) }
        }
    }));
    told.next().await;
    told.next().await;
    running.stop().await;
    let supervisor = Supervisor::new(home.engine.clone());
    let mut statuses = supervisor.statuses();
    let shutdown = Shutdown::new();
    let supervising = tokio::spawn(supervisor.run(shutdown.requested()));
    let seen = statuses.wait_for(|statuses| statuses.contains_key("reaper")).await;
    drop(seen.expect("the supervisor runs"));
    shutdown.request();
    let statuses = supervising.await.expect("it comes to its end");
    assert_eq!(sums.of("sluicegate_grants_total worker"), 2);
    assert!(sums.of("sluicegate_claims_total worker") >= 2);
    assert_eq!(sums.of("sluicegate_attempts_total mail failed_retryable"), 1);
    assert_eq!(sums.of("sluicegate_attempt_seconds mail completed"), 1);
    assert_eq!(sums.of("sluicegate_sweeps_total reaper"), statuses["reaper"].passes);
}
