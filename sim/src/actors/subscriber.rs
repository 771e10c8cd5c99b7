//! The subscriber: opens its consumer anew each turn, as a process does that was restarted, deals
//! with what it is handed, and acknowledges it; now and then it goes away before it has.

use std::sync::Arc;

use sluicegate::EngineError;
use sluicegate::feed::{FeedEvent, FeedFilter, Wanted};
use sluicegate::identity::FlowKey;
use sluicegate::storage::{Scope, Storage};

use crate::actors::{Progress, Stage, choose};
use crate::history::Observation;
use crate::tape::{Chance, Site};

pub(crate) async fn turn<S: Storage>(stage: &Stage<S>) -> Progress {
    let namespace: Option<Arc<str>> =
        (stage.nth % 2 == 1).then(|| stage.flow.spec().namespace.as_str().into());
    let scope = Scope { namespace: namespace.clone(), ..Scope::default() };
    let name = format!("subscriber {}", stage.nth);
    let wanted = stage.leases.map_or(Wanted::Completions, |leases| leases.wanted_by(stage.nth));
    let filter = FeedFilter { scope, wanted };
    let Ok(mut consumer) = stage.engine.consumer(&name, filter).await else {
        return Progress::Failed;
    };
    let (subscriber, from) = (stage.nth, consumer.cursor().position);
    stage.observe(&Observation::Subscribed { subscriber, namespace, wanted, from });
    let mut delivered = false;
    loop {
        match consumer.try_next().await {
            Ok(Some(event)) => {
                delivered = true;
                stage.observe(&observation(stage.nth, &event));
            }
            Ok(None) => break,
            // It came too late for what retention has taken away, and goes on with what is left.
            Err(EngineError::CursorExpired { oldest, .. }) => {
                let place = oldest.position;
                stage.observe(&Observation::Expired { subscriber, oldest: place });
                consumer.skip_to(oldest);
                delivered = true;
            }
            Err(_) => return Progress::Failed,
        }
    }
    if !delivered {
        return Progress::Idle;
    }
    if choose(Site::Repeat, 2, Chance::Of(8_000)) == 1 {
        return Progress::Worked;
    }
    match consumer.acknowledge().await {
        Ok(()) => Progress::Worked,
        Err(_) => Progress::Failed,
    }
}

fn observation(subscriber: u8, event: &FeedEvent) -> Observation {
    Observation::Delivered {
        subscriber,
        position: event.cursor.position,
        flow: FlowKey { partition: event.execution.partition, id: event.flow },
        execution: event.execution,
        incarnation: event.incarnation,
        kind: event.what,
    }
}
