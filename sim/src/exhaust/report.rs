//! What an exhaustive run prints: the alphabet, the product and the figures, as text and as JSON.
//! Says "all" only when it was all.

use std::fmt;

use serde_json::{Value, json};

use super::{Finding, Settings, Summary, name};
use crate::driver::End;

impl Summary {
    /// The figures of the run; the head that every command writes is the caller's.
    pub fn to_json(&self) -> Value {
        let figures = self.figures();
        json!({
            "nodes": self.settings.nodes,
            "faults": self.settings.faults,
            "delays": self.settings.delays,
            "alphabet": self.settings.alphabet.name(),
            "memo": self.settings.memo,
            "shapes": self.shapes,
            "graphs": self.graphs,
            "universes": figures.universes,
            "pruned": figures.pruned,
            "statements": figures.statements,
            "failed": figures.failed,
            "failures": self.findings.iter().map(finding_json).collect::<Vec<_>>(),
            "complete": self.complete,
            "wall_s": self.wall.as_secs_f64(),
        })
    }

    /// True if no universe failed.
    pub fn is_clean(&self) -> bool {
        self.passes.iter().all(|pass| pass.failed == 0)
    }
}

pub(super) fn finding_json(finding: &Finding) -> Value {
    json!({
        "flow": finding.graph,
        "invariant": name(&finding.outcome.end),
        "message": message(&finding.outcome.end),
        "plan": finding.plan,
        "tape": finding.outcome.tape,
    })
}

pub(super) fn message(end: &End) -> &str {
    match end {
        End::Violated(violation) => &violation.message,
        End::Livelock(message) | End::Strayed(message) => message,
        End::Clean | End::Pruned => "",
    }
}

/// What is run through, before it is run.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let cast = self.cast();
        writeln!(f, "alphabet {}", self.alphabet.name())?;
        writeln!(f, "  policies  {}", self.alphabet.what())?;
        writeln!(f, "  outcomes  succeeded, failed; drawn when work completes")?;
        writeln!(f, "  faults    {}", kinds.join(", "))?;
        writeln!(
            f,
            "  points    before every statement of every actor; commit_* and crash_after at \
             COMMIT, as a kill after any other statement is one before the next"
        )?;
        writeln!(
            f,
            "  actors    {} client, {} worker, {} dispatcher(s), {} reconciler",
            cast.clients, cast.workers, cast.dispatchers, cast.reconcilers
        )?;
        writeln!(
            f,
            "  polls     a deviation may also let an idle dispatcher or reconciler look early"
        )?;
        writeln!(
            f,
            "  healing   after each fault or deviation, once nobody is in a turn: not, or \
             dispatchers alone, or reconcilers alone"
        )?;
        let rows = if self.delays > 0 { ", row locks included" } else { "" };
        write!(
            f,
            "product: flows of 1..{} nodes x outcomes x up to {} fault(s) x up to {} deviation(s) \
             from the default schedule{rows}",
            self.nodes, self.faults, self.delays
        )
    }
}

fn sum(counts: &[usize]) -> String {
    let total: usize = counts.iter().sum();
    let parts: Vec<String> = counts.iter().rev().map(usize::to_string).collect();
    match parts.len() {
        1 => total.to_string(),
        _ => format!("{} = {total}", parts.join(" + ")),
    }
}

/// What came of it.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.settings)?;
        writeln!(f, "shapes {}", sum(&self.shapes))?;
        writeln!(f, "graphs {}", sum(&self.graphs))?;
        for (delays, pass) in self.passes.iter().enumerate() {
            writeln!(
                f,
                "up to {delays} deviation(s): {} universes, {} of them ended in a state that was \
                 seen before, {} statements, {} failed",
                pass.universes, pass.pruned, pass.statements, pass.failed
            )?;
        }
        for finding in &self.findings {
            let end = &finding.outcome.end;
            writeln!(f, "{}: {} ({})", name(end), message(end), finding.graph)?;
        }
        let graphs: usize = self.graphs.iter().sum();
        let wall = self.wall.as_secs_f64();
        if self.complete {
            write!(f, "all of {graphs} flows in {wall:.1} s")
        } else {
            write!(f, "not all of it: stopped after {wall:.1} s")
        }
    }
}
