//! Summaries for people. Never decides what is good or bad.

use std::fmt::Write as _;

use crate::campaign::{Rates, Results, Subject};
use crate::driver::tally::Sometimes;
use crate::failure::{Failure, Known};
use crate::faults;
use crate::invariants::TABLE;
use crate::mutants::{Caught, Hunt, score};
use crate::plan::LaneKind;
use crate::report::coverage::Coverage;
use crate::report::{Paint, first_line};
use crate::signature::essence;

/// Characters of a message that a summary shows.
const MESSAGE_MAX: usize = 160;
/// Missing cells that a summary names; the rest is counted.
const MISSING_SHOWN: usize = 8;
/// Mismatching seeds that a summary names; the rest is counted.
const MISMATCHES_SHOWN: usize = 10;

/// What running everything twice came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repetition {
    /// Seeds that left another trace in another order and on other threads.
    pub seeds: Vec<u64>,
    /// Whether another process came to other traces.
    pub process_differs: bool,
}

impl Repetition {
    /// How many comparisons failed.
    pub fn mismatches(&self) -> u64 {
        self.seeds.len() as u64 + u64::from(self.process_differs)
    }
}

/// A failure with the file of its signature.
pub struct Listed<'a> {
    /// The failure.
    pub failure: &'a Failure,
    /// Universes with its signature.
    pub universes: u64,
    /// Where it was written.
    pub file: Option<&'a str>,
    /// What the bug base knew of it.
    pub known: Option<&'a Known>,
}

/// A finished campaign.
pub struct Campaigned<'a> {
    /// What was judged.
    pub subject: &'a Subject,
    /// What the universes came to.
    pub results: &'a Results,
    /// How fast.
    pub rates: Rates,
    /// What was reached.
    pub coverage: &'a Coverage,
    /// What should have been reached and was not.
    pub below_floor: &'a [String],
    /// The failures that are listed, one for each signature.
    pub listed: &'a [Listed<'a>],
    /// The second run of everything, if there was one.
    pub repetition: Option<&'a Repetition>,
}

/// The summary of a campaign.
pub fn summary(campaigned: &Campaigned<'_>, paint: Paint) -> String {
    let mut out = String::new();
    counts(&mut out, campaigned);
    reached(&mut out, campaigned);
    failures(&mut out, campaigned, paint);
    if let Some(repetition) = campaigned.repetition {
        repeated(&mut out, repetition, paint);
    }
    if !campaigned.below_floor.is_empty() {
        let missing = campaigned.below_floor.join(", ");
        line(&mut out, "vacuous", &paint.alarm(&format!("never reached: {missing}")));
    }
    let rates = campaigned.rates;
    let text = format!(
        "{:.0} universes/s, {:.0} statements/s, {:.0} simulated s/s ({:.1} s of wall time)",
        rates.runs_per_s, rates.statements_per_s, rates.sim_s_per_s, rates.wall_s
    );
    line(&mut out, "rates", &text);
    out
}

/// The id and the title of an invariant.
pub fn invariant(id: &str) -> String {
    match TABLE.iter().find(|invariant| invariant.id == id) {
        Some(invariant) => format!("{id} ({})", invariant.title),
        None => id.to_owned(),
    }
}

fn line(out: &mut String, what: &str, text: &str) {
    writeln!(out, "{what:<18} {text}").expect("a string takes any text");
}

fn count(out: &mut String, what: &str, count: u64) {
    writeln!(out, "  {what:<46} {count:>10}").expect("a string takes any text");
}

fn counts(out: &mut String, campaigned: &Campaigned<'_>) {
    let tally = &campaigned.results.tally;
    line(out, "universes", &tally.universes.to_string());
    line(out, "statements", &tally.statements.to_string());
    line(out, "commits", &format!("{}, of which hops: {}", tally.commits, tally.hops));
    line(out, "deviations", &format!("{} from the default schedule", tally.delays));
    line(out, "faults", &tally.faults_in_all().to_string());
    for kind in faults::kinds(campaigned.subject.campaign.lane) {
        count(out, kind.name(), tally.struck_by(kind));
    }
    line(out, "sometimes", "");
    for condition in Sometimes::ALL {
        count(out, condition.text(), tally.occurrences(*condition));
    }
}

fn reached(out: &mut String, campaigned: &Campaigned<'_>) {
    let Coverage { hit, total, missing } = campaigned.coverage;
    line(out, "coverage", &format!("{hit} of {total} (points x faults, and conditions)"));
    if !missing.is_empty() {
        let shown = &missing[..missing.len().min(MISSING_SHOWN)];
        let more = match missing.len() - shown.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        line(out, "  missing", &format!("{}{more}", shown.join(", ")));
    }
    if let Some(heaviest) = &campaigned.results.heaviest {
        let text = format!("{} (seed {}, the heaviest)", heaviest.bounds, heaviest.seed);
        line(out, "bounds", &text);
    }
}

fn failures(out: &mut String, campaigned: &Campaigned<'_>, paint: Paint) {
    let failures = &campaigned.results.failures;
    let count = failures.count();
    let text = match failures.iter().next() {
        None => count.to_string(),
        Some(first) => paint.alarm(&format!("{count}, the first at seed {}", first.seed)),
    };
    line(out, "failures", &text);
    for listed in campaigned.listed {
        let Failure { seed, sighting, signature, .. } = listed.failure;
        let universes = match listed.universes {
            1 => "1 universe".to_owned(),
            more => format!("{more} universes"),
        };
        let message = first_line(&essence(&sighting.message), MESSAGE_MAX);
        let id = paint.alarm(&sighting.invariant);
        writeln!(out, "  seed {seed}: {id} {message} [{signature}, {universes}]")
            .expect("a string takes any text");
        let options = campaigned.subject.options();
        writeln!(out, "    replay: cargo sim replay {seed}{options}")
            .expect("a string takes any text");
        if let Some(file) = listed.file {
            let known = listed.known.map_or_else(String::new, |known| {
                format!(" (seen {} times before, first at {})", known.seen, known.commit)
            });
            writeln!(out, "    file: {file}{known}").expect("a string takes any text");
        }
    }
    let distinct = failures.distinct().count();
    if distinct > campaigned.listed.len() {
        let more = distinct - campaigned.listed.len();
        writeln!(out, "  and {more} more signatures").expect("a string takes any text");
    }
}

fn repeated(out: &mut String, repetition: &Repetition, paint: Paint) {
    let count = repetition.mismatches();
    let text = format!("mismatches: {count}");
    match count {
        0 => writeln!(out, "{text}"),
        _ => writeln!(out, "{}", paint.alarm(&text)),
    }
    .expect("a string takes any text");
    if !repetition.seeds.is_empty() {
        let shown: Vec<String> =
            repetition.seeds.iter().take(MISMATCHES_SHOWN).map(u64::to_string).collect();
        line(out, "  seeds", &shown.join(", "));
    }
    if repetition.process_differs {
        line(out, "  process", "another process came to other traces");
    }
}

/// The table of the hunts for planted bugs, and their score.
pub fn hunts(hunts: &[Hunt], paint: Paint) -> String {
    let mut out = String::new();
    for hunt in hunts {
        let (id, defect) = (hunt.mutant.id(), hunt.mutant.defect());
        let seen = match (&hunt.detection, hunt.caught()) {
            (Some(one), Caught::ByName) => format!("caught by {}", one.sighting.invariant),
            (Some(one), Caught::ByAnother) => {
                let (seen, named) = (&one.sighting.invariant, hunt.mutant.seen_by());
                paint.alarm(&format!("seen first by {seen}, not by {named}"))
            }
            (Some(one), _) => paint
                .alarm(&format!("panicked: {}", first_line(&one.sighting.message, MESSAGE_MAX))),
            (None, _) if !hunt.is_missed() => format!("not seen in lane {}", hunt.lane.name()),
            (None, _) => paint.alarm("survived"),
        };
        let spent = format!("{} seeds, {:.2} s", hunt.seeds, hunt.wall.as_secs_f64());
        writeln!(out, "{id}  {seen} after {spent}: {defect}").expect("a string takes any text");
        if let Some(one) = &hunt.detection {
            let (seed, profile) = (one.seed, one.profile.name());
            let lane = match hunt.lane {
                LaneKind::Model => String::new(),
                lane @ (LaneKind::Sqlite | LaneKind::Network) => format!(" --lane {}", lane.name()),
            };
            writeln!(out, "     cargo sim replay {seed}{lane} --profile {profile} --mutant {id}")
                .expect("a string takes any text");
        }
    }
    let score = score(hunts);
    let missed = hunts.iter().any(Hunt::is_missed);
    let score = if missed { paint.alarm(&score) } else { score };
    writeln!(out, "{score}").expect("a string takes any text");
    out
}
