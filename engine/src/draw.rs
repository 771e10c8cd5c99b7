//! A flow as a picture in text: DOT for Graphviz and Mermaid for documents, with the state of each
//! execution. Pure; lays nothing out.

use std::fmt::Write;

use crate::policy::JoinPolicy;
use crate::state::PublicState;

/// The language of a picture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GraphFormat {
    /// The DOT language of Graphviz.
    Dot,
    /// A flowchart of Mermaid.
    Mermaid,
}

/// An execution of a picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrawnExecution<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its state; `None` if its row cannot be read.
    pub state: Option<PublicState>,
    /// How its inbound edges are joined, if it has any.
    pub join: Option<JoinPolicy>,
}

/// How an edge of a picture stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DrawnResolution {
    /// Its upstream has not ended, or no hop has come by.
    Pending,
    /// Its upstream ended as it asks.
    Satisfied,
    /// Its upstream ended otherwise.
    Unsatisfied,
    /// Its row cannot be read.
    Unreadable,
}

/// An edge of a picture, by the positions of its ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DrawnEdge {
    /// Position of the upstream.
    pub upstream: usize,
    /// Position of the downstream.
    pub downstream: usize,
    /// How it stands.
    pub resolution: DrawnResolution,
}

/// Draws a flow. The order of executions and edges is kept, so that equal flows give equal text.
///
/// Names may hold any character: what would end a label is written as its character reference.
pub fn graph(
    format: GraphFormat,
    executions: &[DrawnExecution<'_>],
    edges: &[DrawnEdge],
) -> String {
    let positions = edges.iter().flat_map(|edge| [edge.upstream, edge.downstream]);
    assert!(positions.max().is_none_or(|last| last < executions.len()), "an edge leads nowhere");
    let mut out = String::new();
    let written = match format {
        GraphFormat::Dot => dot(&mut out, executions, edges),
        GraphFormat::Mermaid => mermaid(&mut out, executions, edges),
    };
    written.expect("a string takes any text");
    out
}

fn dot(
    out: &mut String,
    executions: &[DrawnExecution<'_>],
    edges: &[DrawnEdge],
) -> std::fmt::Result {
    writeln!(out, "digraph flow {{")?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(out, "  node [shape=box, style=\"rounded,filled\"];")?;
    for (at, one) in executions.iter().enumerate() {
        let (name, under, color) = (escaped(one.name), under(one), color(one.state));
        writeln!(out, "  n{at} [label=\"{name}\\n{under}\", fillcolor=\"{color}\"];")?;
    }
    for edge in edges {
        let style = match edge.resolution {
            DrawnResolution::Pending => "dashed",
            DrawnResolution::Satisfied => "solid",
            DrawnResolution::Unsatisfied => "dotted",
            DrawnResolution::Unreadable => "\"dashed,bold\"",
        };
        writeln!(out, "  n{} -> n{} [style={style}];", edge.upstream, edge.downstream)?;
    }
    writeln!(out, "}}")
}

fn mermaid(
    out: &mut String,
    executions: &[DrawnExecution<'_>],
    edges: &[DrawnEdge],
) -> std::fmt::Result {
    writeln!(out, "flowchart LR")?;
    for (at, one) in executions.iter().enumerate() {
        writeln!(out, "  n{at}[\"{}<br/>{}\"]", escaped(one.name), under(one))?;
        writeln!(out, "  style n{at} fill:{}", color(one.state))?;
    }
    for edge in edges {
        let arrow = match edge.resolution {
            DrawnResolution::Pending => "-.->",
            DrawnResolution::Satisfied => "-->",
            DrawnResolution::Unsatisfied => "--x",
            DrawnResolution::Unreadable => "-.-o",
        };
        writeln!(out, "  n{} {arrow} n{}", edge.upstream, edge.downstream)?;
    }
    Ok(())
}

/// What stands under the name: the state, and how its inbound edges are joined.
fn under(one: &DrawnExecution<'_>) -> String {
    let join = match one.join {
        None | Some(JoinPolicy::AllOf) => return word(one.state).to_owned(),
        Some(JoinPolicy::AnyOf { .. }) => "any of".to_owned(),
        Some(JoinPolicy::Quorum { k, .. }) => format!("{k} of"),
    };
    format!("{}, {join}", word(one.state))
}

fn word(state: Option<PublicState>) -> &'static str {
    let Some(state) = state else { return "unreadable" };
    match state {
        PublicState::Waiting => "waiting",
        PublicState::Delayed => "delayed",
        PublicState::WaitingChildren => "waiting_children",
        PublicState::Active => "active",
        PublicState::Suspended => "suspended",
        PublicState::Completed => "completed",
        PublicState::Failed => "failed",
        PublicState::Cancelled => "cancelled",
        PublicState::Expired => "expired",
        PublicState::Skipped => "skipped",
    }
}

fn color(state: Option<PublicState>) -> &'static str {
    let Some(state) = state else { return "#f783ac" };
    match state {
        PublicState::Waiting | PublicState::Delayed => "#fff3bf",
        PublicState::WaitingChildren => "#f1f3f5",
        PublicState::Active => "#a5d8ff",
        PublicState::Suspended => "#d0bfff",
        PublicState::Completed => "#b2f2bb",
        PublicState::Failed | PublicState::Expired => "#ffc9c9",
        PublicState::Cancelled => "#ffd8a8",
        PublicState::Skipped => "#dee2e6",
    }
}

/// A name that may stand between quotation marks in either language: letters and digits of any
/// script and harmless signs as they are, everything else as its character reference, which both
/// languages show as the character.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | ':' | '/' | '+' | ',' | '=') {
            out.push(c);
        } else {
            write!(out, "&#{};", u32::from(c)).expect("a string takes any text");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::OnSatisfied;

    fn drawn(name: &str, state: PublicState, join: Option<JoinPolicy>) -> DrawnExecution<'_> {
        DrawnExecution { name, state: Some(state), join }
    }

    fn three() -> (Vec<DrawnExecution<'static>>, Vec<DrawnEdge>) {
        let any = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun };
        let executions = vec![
            drawn("build", PublicState::Completed, None),
            drawn("test", PublicState::Failed, Some(JoinPolicy::AllOf)),
            drawn("ship", PublicState::WaitingChildren, Some(any)),
        ];
        let edge =
            |upstream, downstream, resolution| DrawnEdge { upstream, downstream, resolution };
        let edges = vec![
            edge(0, 1, DrawnResolution::Satisfied),
            edge(0, 2, DrawnResolution::Pending),
            edge(1, 2, DrawnResolution::Unsatisfied),
        ];
        (executions, edges)
    }

    #[test]
    fn a_flow_is_drawn_in_dot() {
        let (executions, edges) = three();
        let expected = "digraph flow {\n\
            \x20 rankdir=LR;\n\
            \x20 node [shape=box, style=\"rounded,filled\"];\n\
            \x20 n0 [label=\"build\\ncompleted\", fillcolor=\"#b2f2bb\"];\n\
            \x20 n1 [label=\"test\\nfailed\", fillcolor=\"#ffc9c9\"];\n\
            \x20 n2 [label=\"ship\\nwaiting_children, any of\", fillcolor=\"#f1f3f5\"];\n\
            \x20 n0 -> n1 [style=solid];\n\
            \x20 n0 -> n2 [style=dashed];\n\
            \x20 n1 -> n2 [style=dotted];\n\
            }\n";
        assert_eq!(graph(GraphFormat::Dot, &executions, &edges), expected);
    }

    #[test]
    fn a_flow_is_drawn_in_mermaid() {
        let (executions, edges) = three();
        let expected = "flowchart LR\n\
            \x20 n0[\"build<br/>completed\"]\n\
            \x20 style n0 fill:#b2f2bb\n\
            \x20 n1[\"test<br/>failed\"]\n\
            \x20 style n1 fill:#ffc9c9\n\
            \x20 n2[\"ship<br/>waiting_children, any of\"]\n\
            \x20 style n2 fill:#f1f3f5\n\
            \x20 n0 --> n1\n\
            \x20 n0 -.-> n2\n\
            \x20 n1 --x n2\n";
        assert_eq!(graph(GraphFormat::Mermaid, &executions, &edges), expected);
    }

    #[test]
    fn what_cannot_be_read_is_drawn_as_such() {
        let (mut executions, mut edges) = three();
        executions[1] = DrawnExecution { name: "00-01", state: None, join: None };
        edges[1].resolution = DrawnResolution::Unreadable;
        let dot = graph(GraphFormat::Dot, &executions, &edges);
        let node = "n1 [label=\"00-01\\nunreadable\", fillcolor=\"#f783ac\"];";
        assert!(dot.contains(node), "{dot}");
        assert!(dot.contains("n0 -> n2 [style=\"dashed,bold\"];"), "{dot}");
        let mermaid = graph(GraphFormat::Mermaid, &executions, &edges);
        assert!(mermaid.contains("n1[\"00-01<br/>unreadable\"]"), "{mermaid}");
        assert!(mermaid.contains("n0 -.-o n2"), "{mermaid}");
    }

    #[test]
    fn a_name_cannot_end_its_label() {
        let name = "a\"]; <b>\\n\u{1F680}\n} größe";
        for format in [GraphFormat::Dot, GraphFormat::Mermaid] {
            let text = graph(format, &[drawn(name, PublicState::Active, None)], &[]);
            let expected = "a&#34;&#93;&#59; &#60;b&#62;&#92;n&#128640;&#10;&#125; größe";
            assert!(text.contains(expected), "{text}");
        }
    }
}
