//! How far a command is, on standard error: a bar on a terminal, a line now and then elsewhere.
//! Owns the only reading of wall time; never prints results.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::report::complain;

/// Wall time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Wall time since a start.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[expect(clippy::disallowed_methods, reason = "rates and budgets are of wall time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Wall time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// How much there is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// So many.
    Count(u64),
    /// As many as fit into that time.
    Time(Duration),
}

enum Show {
    Bar(ProgressBar),
    Lines { next: Duration },
    Nothing,
}

/// Progress of one command.
pub struct Progress {
    show: Show,
    what: &'static str,
    goal: Goal,
    watch: Stopwatch,
    done: u64,
    failed: u64,
}

impl Progress {
    /// Progress towards a goal, counted in `what`.
    pub fn new(what: &'static str, goal: Goal) -> Self {
        let show = match std::io::stderr().is_terminal() {
            true => Show::Bar(bar(goal)),
            false => Show::Lines { next: LINE_EVERY },
        };
        Self { show, what, goal, watch: Stopwatch::start(), done: 0, failed: 0 }
    }

    /// Progress that nobody sees.
    pub fn silent() -> Self {
        let watch = Stopwatch::start();
        Self { show: Show::Nothing, what: "", goal: Goal::Count(0), watch, done: 0, failed: 0 }
    }

    /// Counts what was done, and what of it failed.
    pub fn advance(&mut self, done: u64, failed: u64) {
        self.done += done;
        self.failed += failed;
        let text = format!("{} {}, {} failed", self.done, self.what, self.failed);
        match &mut self.show {
            Show::Bar(bar) => {
                bar.set_message(text);
                bar.set_position(match self.goal {
                    Goal::Count(_) => self.done,
                    Goal::Time(_) => self.watch.elapsed().as_secs(),
                });
            }
            Show::Lines { next } => {
                let elapsed = self.watch.elapsed();
                if elapsed >= *next {
                    *next = elapsed + LINE_EVERY;
                    let of = match self.goal {
                        Goal::Count(count) => format!(" of {count}"),
                        Goal::Time(time) => format!(" of {} s", time.as_secs()),
                    };
                    complain(&format!("{} s: {text}{of}", elapsed.as_secs()));
                }
            }
            Show::Nothing => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Show::Bar(bar) = self.show {
            bar.finish_and_clear();
        }
    }
}

fn bar(goal: Goal) -> ProgressBar {
    let length = match goal {
        Goal::Count(count) => count,
        Goal::Time(time) => time.as_secs(),
    };
    let style = ProgressStyle::with_template("{elapsed} {wide_bar} {percent}% {msg}");
    ProgressBar::new(length).with_style(style.expect("the template is valid"))
}
