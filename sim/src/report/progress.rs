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
        self.say("");
    }

    /// Tells how far the universes under way are, and when all will be done at this pace: so many
    /// executions have ended, of so many in all; of none if their number is not known.
    pub fn pulse(&mut self, ended: u64, whole: u64) {
        let left = time_left(self.watch.elapsed(), ended, whole);
        match (whole, left) {
            (0, _) => self.say(&format!("; {ended} executions have ended")),
            (_, None) => self.say(&format!("; {ended} of {whole} executions have ended")),
            (_, Some(left)) => {
                let left = spoken(left);
                self.say(&format!("; {ended} of {whole} executions have ended, about {left} left"));
            }
        }
    }

    fn say(&mut self, more: &str) {
        let text = format!("{} {}, {} failed", self.done, self.what, self.failed);
        match &mut self.show {
            Show::Bar(bar) => {
                bar.set_message(format!("{text}{more}"));
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
                    complain(&format!("{} s: {text}{of}{more}", elapsed.as_secs()));
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

/// The time that is left if the rest goes on as before; none before the first has ended.
fn time_left(elapsed: Duration, ended: u64, whole: u64) -> Option<Duration> {
    let rest = u128::from(whole.saturating_sub(ended));
    let left_ms = elapsed.as_millis().saturating_mul(rest).checked_div(u128::from(ended))?;
    Some(Duration::from_millis(u64::try_from(left_ms).unwrap_or(u64::MAX)))
}

/// A time in its largest unit that says something.
fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_by_the_pace_until_now() {
        let ten = Duration::from_secs(10);
        assert_eq!(time_left(ten, 25, 100), Some(Duration::from_secs(30)));
        assert_eq!(time_left(ten, 100, 100), Some(Duration::ZERO));
        assert_eq!(time_left(ten, 120, 100), Some(Duration::ZERO));
        assert_eq!(time_left(ten, 0, 100), None);
        assert_eq!(time_left(Duration::MAX, 1, u64::MAX), Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn a_time_is_told_in_one_unit() {
        let told = [7, 119, 600, 7_200, 200_000].map(|s| spoken(Duration::from_secs(s)));
        assert_eq!(told, ["7 s", "119 s", "10 min", "2 h", "2 days"]);
    }
}
