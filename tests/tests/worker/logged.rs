//! What is logged, as text: each event with its fields, and those of the spans that are opened.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps a line for each event and each span. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Logged {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("text can be written");
    }
}

impl Logged {
    /// Everything that was logged so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, line: Line) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }
}

impl Subscriber for Logged {
    /// Sluicegate's own, whatever their level.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("sluicegate")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        self.keep(line);
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.keep(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
