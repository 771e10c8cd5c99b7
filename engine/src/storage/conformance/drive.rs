//! Two futures in one task: one goes on while the other makes round trips. Knows no executor and no
//! clock; the only place where the suite polls anything.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use super::{Breach, Running, Verdict};

/// Lets the executor run whatever else is ready.
pub(super) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| match std::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Finishes `pulse`, polling `other` as well unless its output is there.
pub(super) async fn alongside<F: Future + Unpin, P: Future>(
    other: &mut F,
    output: &mut Option<F::Output>,
    pulse: P,
) -> P::Output {
    let mut pulse = pin!(pulse);
    poll_fn(|context| {
        if output.is_none()
            && let Poll::Ready(ready) = Pin::new(&mut *other).poll(context)
        {
            *output = Some(ready);
        }
        pulse.as_mut().poll(context)
    })
    .await
}

/// Runs two futures to their ends.
pub(super) async fn both<A: Future + Unpin, B: Future>(a: &mut A, b: B) -> (A::Output, B::Output) {
    let mut output = None;
    let second = alongside(a, &mut output, b).await;
    match output {
        Some(first) => (first, second),
        None => (a.await, second),
    }
}

/// Runs a case and makes a panic a breach.
pub(super) async fn catching(mut case: Running<'_>) -> Verdict {
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| case.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| {
            let words = words_of(&*panic);
            Poll::Ready(Err(Breach::new(format!("the storage panicked: {words}"))))
        })
    })
    .await
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}
