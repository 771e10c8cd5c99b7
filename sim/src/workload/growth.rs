//! Generators of extensions, fed by a tape. What they add need not fit: names are taken, ends are
//! missing, edges close cycles or come too late.

use std::collections::BTreeSet;

use sluicegate::flow::{Additions, ExecutionSpec, FlowSpec};

use super::{edge, even, execution, policy};
use crate::tape::{Chance, Site, Tape};

/// Extensions of one universe at most.
const EXTENSIONS_MAX: u16 = 3;
/// One more than the new executions that an extension has at most.
const ADDED_MAX: u16 = 3;

/// Some extensions of a flow; each may build on those before it.
pub fn extensions(tape: &mut Tape, flow: &FlowSpec) -> Vec<Additions> {
    let mut known: Vec<String> = flow.executions.iter().map(|one| one.name.clone()).collect();
    // Now and then a root, which takes no edge.
    let joins: Vec<String> = match even(tape, 4) {
        1 => known.clone(),
        _ => flow.edges.iter().map(|edge| edge.to.clone()).collect(),
    };
    let count = 1 + even(tape, EXTENSIONS_MAX);
    (0..count).map(|nth| extension(tape, nth, &joins, &mut known)).collect()
}

fn extension(tape: &mut Tape, nth: u16, joins: &[String], known: &mut Vec<String>) -> Additions {
    let mut draft = Draft::default();
    for place in 0..even(tape, ADDED_MAX) {
        let taken = tape.draw(Site::Plan, 2, Chance::Of(3_000)) == 1;
        let name = if taken { pick(tape, known) } else { format!("x{nth}{place}") };
        let spec = ExecutionSpec { name: name.clone(), ..execution(tape, place) };
        let mut inbound = 0;
        for _ in 0..even(tape, 3) {
            let upstream = pick(tape, known);
            inbound += u32::from(draft.link(tape, upstream, name.clone()));
        }
        if inbound > 0
            && let Some(policy) = policy(tape, inbound)
        {
            draft.additions.groups.insert(name.clone(), policy);
        }
        if even(tape, 3) == 1 && !joins.is_empty() {
            let downstream = pick(tape, joins);
            draft.link(tape, name.clone(), downstream);
        }
        draft.additions.executions.push(spec);
        if !taken {
            known.push(name);
        }
    }
    // Between what is there: of the edges that lead back each closes a cycle.
    if even(tape, 3) == 1 && !joins.is_empty() {
        let (upstream, downstream) = (pick(tape, known), pick(tape, joins));
        draft.link(tape, upstream, downstream);
    }
    draft.additions
}

#[derive(Default)]
struct Draft {
    additions: Additions,
    ends: BTreeSet<(String, String)>,
}

impl Draft {
    /// Adds an edge unless it is there or leads nowhere; true if it did.
    fn link(&mut self, tape: &mut Tape, from: String, to: String) -> bool {
        let edge = edge(tape, from, to);
        let new = edge.from != edge.to && self.ends.insert((edge.from.clone(), edge.to.clone()));
        if new {
            self.additions.edges.push(edge);
        }
        new
    }
}

fn span(names: &[String]) -> u16 {
    u16::try_from(names.len()).unwrap_or(u16::MAX)
}

fn pick(tape: &mut Tape, names: &[String]) -> String {
    names[usize::from(even(tape, span(names)))].clone()
}
