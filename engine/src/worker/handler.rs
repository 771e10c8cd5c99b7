//! Handlers: typed on the outside, JSON on the inside. Turns what a handler returns, or how it
//! breaks off, into a report; never sends one.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::operations::report::Report;
use crate::said::{self, Quoting};
use crate::worker::context::Context;

/// What a handler may return instead of a result.
///
/// Every `std::error::Error` turns into a retryable failure, so that `?` works. For the same reason
/// this type is no error itself.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HandlerError {
    /// It failed, and another attempt may succeed: it follows after the backoff of the execution's
    /// retry policy, if attempts are left; otherwise the execution ends as failed.
    Retryable(String),
    /// It failed for good: the execution ends as failed.
    Fatal(String),
    /// It is too early: try again once so much time has passed. The attempt is given back, however
    /// often that happens.
    Snooze(Duration),
    /// It waits for something outside: suspended until [`Engine::resume`](crate::Engine::resume) is
    /// called with [`Context::suspension`]. The attempt is given back, however often that happens.
    Suspend,
    /// It is not called for: the execution ends as skipped, which is no failure.
    Skip,
    /// It was not tried to the end: anybody may claim it at once. The attempt is given back, up to
    /// [`Limits::give_backs_max`](crate::flow::Limits::give_backs_max) times.
    Release,
}

impl HandlerError {
    /// A retryable failure.
    pub fn retryable(message: impl Display) -> Self {
        Self::Retryable(message.to_string())
    }

    /// A failure for good.
    pub fn fatal(message: impl Display) -> Self {
        Self::Fatal(message.to_string())
    }
}

impl<E: std::error::Error + 'static> From<E> for HandlerError {
    /// A retryable failure with the messages of the error and of its sources. An error of
    /// `serde_json` among them quotes no value.
    fn from(error: E) -> Self {
        let mut message = String::new();
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(error) = next {
            if !message.is_empty() {
                message.push_str(": ");
            }
            match error.downcast_ref::<serde_json::Error>() {
                Some(error) => message.push_str(&said::of_json(error, Quoting::LeftOut)),
                None => message.push_str(&error.to_string()),
            }
            next = error.source();
        }
        Self::Retryable(message)
    }
}

/// What became of the work of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) report: Report,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
}

impl Outcome {
    pub(super) fn of(report: Report) -> Self {
        Self { report, failure: None }
    }

    pub(super) fn retryable(message: String) -> Self {
        let report = Report::FailRetryable(Failure::within(&message, u64::MAX));
        Self { report, failure: Some(message) }
    }

    fn fatal(message: String) -> Self {
        Self {
            report: Report::FailFatal(Failure::within(&message, u64::MAX)),
            failure: Some(message),
        }
    }

    fn returned<R: Serialize>(
        kind: &str,
        result: Result<R, HandlerError>,
        quoting: Quoting,
    ) -> Self {
        match result {
            Ok(result) => match serde_json::to_vec(&result) {
                Ok(bytes) => Self::of(Report::Complete(bytes.into())),
                Err(error) => {
                    let reason = said::of_json(&error, quoting);
                    Self::fatal(format!("result of kind `{kind}`: {reason}"))
                }
            },
            Err(HandlerError::Retryable(message)) => Self::retryable(message),
            Err(HandlerError::Fatal(message)) => Self::fatal(message),
            Err(HandlerError::Snooze(delay)) => Self::of(Report::Snooze(delay)),
            Err(HandlerError::Suspend) => Self::of(Report::Suspend),
            Err(HandlerError::Skip) => Self::of(Report::Skip),
            Err(HandlerError::Release) => Self::of(Report::Release),
        }
    }

    /// What can be reported under the limit of a result.
    ///
    /// A result that is too large would be as large the next time, and a report that is refused
    /// leaves a lease to run out and the work to be done again: so it is a failure for good.
    pub(super) fn within(self, result_max_bytes: u64) -> Self {
        let too_large = |bytes: &Arc<[u8]>| bytes.len() as u64 > result_max_bytes;
        let Self { report, failure } = self;
        let fitting = |bytes: Arc<[u8]>| match &failure {
            Some(message) if too_large(&bytes) => Failure::within(message, result_max_bytes),
            _ => bytes,
        };
        let report = match report {
            Report::Complete(bytes) if too_large(&bytes) => {
                let found = bytes.len();
                let message = format!(
                    "the result has {found} bytes, the limit is {result_max_bytes} \
                     (`result_max_bytes`)"
                );
                let bytes = Failure::within(&message, result_max_bytes);
                return Self { report: Report::FailFatal(bytes), failure: Some(message) };
            }
            Report::FailRetryable(bytes) => Report::FailRetryable(fitting(bytes)),
            Report::FailFatal(bytes) => Report::FailFatal(fitting(bytes)),
            report => report,
        };
        Self { report, failure }
    }

    /// A handler that panicked may succeed next time; what it panicked with is kept.
    pub(super) fn panicked(panic: &(dyn Any + Send), quoting: Quoting) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("with something that is no text");
        Self::retryable(format!("panicked: {}", said::of_panic(text, quoting)))
    }
}

/// The work of one attempt.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A handler whose types are forgotten.
pub(super) type Handler = Arc<dyn Fn(Context) -> Work + Send + Sync>;

/// Forgets the types of a handler.
pub(super) fn handler<F, P, W, R>(function: F) -> Handler
where
    F: Fn(Context, P) -> W + Send + Sync + 'static,
    P: DeserializeOwned + Send + 'static,
    W: Future<Output = Result<R, HandlerError>> + Send + 'static,
    R: Serialize + Send + 'static,
{
    let function = Arc::new(function);
    Arc::new(move |context: Context| {
        let function = Arc::clone(&function);
        Box::pin(async move {
            let (kind, quoting) = (Arc::clone(&context.definition().kind), context.quoting());
            match serde_json::from_slice::<P>(&context.definition().payload) {
                Ok(payload) => Outcome::returned(&kind, function(context, payload).await, quoting),
                // No attempt will read it any better.
                Err(error) => {
                    let reason = said::of_json(&error, quoting);
                    Outcome::fatal(format!("payload of kind `{kind}`: {reason}"))
                }
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::failure::MESSAGE_MAX_BYTES;

    fn failure(report: &Report) -> String {
        let (Report::FailRetryable(bytes) | Report::FailFatal(bytes)) = report else {
            panic!("{report:?} is no failure");
        };
        serde_json::from_slice::<Failure>(bytes).unwrap().error
    }

    #[test]
    fn each_return_value_is_its_report() {
        let second = Duration::from_secs(1);
        let returned = |result| Outcome::returned::<u8>("kind", result, Quoting::LeftOut).report;
        assert_eq!(returned(Ok(7)), Report::Complete(Arc::from(*b"7")));
        assert_eq!(returned(Err(HandlerError::Snooze(second))), Report::Snooze(second));
        assert_eq!(returned(Err(HandlerError::Suspend)), Report::Suspend);
        assert_eq!(returned(Err(HandlerError::Skip)), Report::Skip);
        assert_eq!(returned(Err(HandlerError::Release)), Report::Release);
        let retryable = returned(Err(HandlerError::retryable("later")));
        assert_eq!(failure(&retryable), "later");
        assert!(matches!(retryable, Report::FailRetryable(_)));
        let fatal = returned(Err(HandlerError::fatal("never")));
        assert_eq!(failure(&fatal), "never");
        assert!(matches!(fatal, Report::FailFatal(_)));
    }

    #[test]
    fn a_result_that_is_no_json_is_fatal_and_names_the_kind() {
        let unreadable = BTreeMap::from([([1_u8], 2_u8)]);
        let report = Outcome::returned("mail", Ok(unreadable), Quoting::LeftOut).report;
        assert!(matches!(report, Report::FailFatal(_)));
        assert!(failure(&report).starts_with("result of kind `mail`: "), "{}", failure(&report));
    }

    #[test]
    fn an_error_is_retryable_with_its_sources() {
        #[derive(Debug, thiserror::Error)]
        #[error("sending")]
        struct Sending(#[source] std::fmt::Error);
        let error = HandlerError::from(Sending(std::fmt::Error));
        assert_eq!(error, HandlerError::retryable(format!("sending: {}", std::fmt::Error)));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let outcome = Outcome::retryable(format!("x{}", "ä".repeat(MESSAGE_MAX_BYTES)));
        assert_eq!(failure(&outcome.report).len(), MESSAGE_MAX_BYTES - 1);
    }

    #[test]
    fn a_result_beyond_the_limit_is_a_fatal_failure_that_says_so() {
        let complete = |bytes: &[u8]| Outcome::of(Report::Complete(bytes.into()));
        assert_eq!(complete(&[b'7'; 80]).within(80), complete(&[b'7'; 80]), "the limit is allowed");
        let report = complete(&[b'7'; 101]).within(100).report;
        assert!(matches!(report, Report::FailFatal(_)), "{report:?}");
        assert!(failure(&report).starts_with("the result has 101 bytes, "), "{report:?}");
        assert_eq!(complete(b"[]").within(1).report, Report::FailFatal(Arc::from([])));
    }

    #[test]
    fn a_failure_keeps_as_much_of_its_message_as_the_limit_lets_it() {
        // Each of these takes six bytes of JSON, so that what is kept is less than what fits.
        let report = Outcome::retryable("\u{1}".repeat(100)).within(200).report;
        let Report::FailRetryable(bytes) = &report else { panic!("{report:?}") };
        assert!(bytes.len() <= 200, "{}", bytes.len());
        assert_eq!(failure(&report).len(), 25);
        let fatal = Outcome::fatal("never".to_owned());
        assert_eq!(fatal.clone().within(100), fatal);
        assert_eq!(fatal.within(3).report, Report::FailFatal(Arc::from([])));
    }

    #[test]
    fn a_panic_is_a_failure_that_says_what_it_panicked_with() {
        let panics: [(Box<dyn Any + Send>, &str); 3] = [
            (Box::new("static"), "panicked: static"),
            (Box::new("owned".to_owned()), "panicked: owned"),
            (Box::new(7), "panicked: with something that is no text"),
        ];
        for (panic, expected) in panics {
            assert_eq!(failure(&Outcome::panicked(&*panic, Quoting::LeftOut).report), expected);
        }
    }
}
