//! Workers that are refused because they could never work.

use std::time::Duration;

use sluicegate::Settings;
use sluicegate::environment::SystemEnvironment;
use sluicegate::worker::{Context, WorkerBuilder};

use crate::Home;
use crate::storage::Shaky;

type Builder = WorkerBuilder<Shaky, SystemEnvironment>;

fn check(change: impl FnOnce(Builder) -> Builder, expected: &str) {
    let home = Home::new(&Settings::default());
    match change(home.worker()).build() {
        Ok(_) => panic!("it was built: {expected}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

fn handled(builder: Builder, kind: &str) -> Builder {
    builder.handler(kind, |_: Context, (): ()| async { Ok(()) })
}

#[tokio::test]
async fn a_worker_that_could_never_work_is_refused_with_the_reason() {
    check(|builder| builder, "a worker has at least one handler");
    check(|builder| handled(handled(builder, "a"), "a"), "kind `a` has two handlers");
    check(
        |builder| handled(builder, "a").concurrency(0),
        "the concurrency of a worker is at least 1",
    );
    let zero = Duration::ZERO;
    check(|builder| handled(builder, "a").lease(zero), "the lease of a worker is longer than zero");
    let pause = "the pause between two polls is longer than zero";
    check(|builder| handled(builder, "a").poll(zero, zero), pause);
    let lane = "a worker claims from at least one lane";
    check(|builder| handled(builder, "a").lanes([""; 0]), lane);
    check(
        |builder| handled(builder, "a").partitions(7..7),
        "the range of partitions 7..7 is empty",
    );
}
