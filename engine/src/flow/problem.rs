//! What can be wrong with a specification, in words. Pure; never finds anything itself.

/// Problems that a message lists; the rest is counted.
const PROBLEMS_SHOWN_MAX: usize = 20;
/// Names of a cycle that a message lists; the rest is counted.
const PATH_SHOWN_MAX: usize = 20;

/// A specification that is refused, with everything that is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", shown(.problems))]
#[non_exhaustive]
pub struct InvalidFlow {
    /// At least one, in the order of the checks.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a specification, with the names of the offenders.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Additions add nothing.
    #[error("there is nothing to add")]
    NothingToAdd,
    /// An execution of that name exists in the flow; choose another.
    #[error("execution `{name}` exists in the flow already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Two executions of the flow are linked in that direction already.
    #[error("edge `{from}` -> `{to}` exists in the flow already")]
    EdgeExists {
        /// The upstream.
        from: String,
        /// The downstream.
        to: String,
    },
    /// Additions set the policy of a join that they do not add.
    #[error(
        "group `{name}` is not added here: the policy of a join that exists is exchanged by \
         set_edge_group_policy"
    )]
    GroupNotAdded {
        /// The name of the downstream.
        name: String,
    },
    /// There is nothing to run.
    #[error("the flow has no executions")]
    EmptyFlow,
    /// Something is larger than the limits allow; raise them or split the flow.
    #[error("{subject} has {found} {unit}, the limit is {limit}")]
    LimitExceeded {
        /// What is too large.
        subject: String,
        /// Its size.
        found: u64,
        /// What the size counts.
        unit: &'static str,
        /// The largest size allowed.
        limit: u64,
    },
    /// An execution cannot be named, as its name is empty.
    #[error("executions[{position}] has an empty name")]
    EmptyName {
        /// Its place in the list, from 0.
        position: usize,
    },
    /// A label that is set must say something.
    #[error("{field} of {owner} is empty")]
    EmptyText {
        /// Which label.
        field: &'static str,
        /// Whose label.
        owner: String,
    },
    /// Text with control characters can neither be stored everywhere nor be shown.
    #[error("{field} of {owner} holds a control character")]
    ControlCharacter {
        /// Which label.
        field: &'static str,
        /// Whose label.
        owner: String,
    },
    /// The deployment label is not of the form that filters use.
    #[error("instance tag `{tag}` is not of the form key=value")]
    MalformedInstanceTag {
        /// The label.
        tag: String,
    },
    /// Executions share a name.
    #[error("execution `{name}` is listed {times} times")]
    DuplicateName {
        /// The name.
        name: String,
        /// How many executions have it.
        times: usize,
    },
    /// An execution may not run at all.
    #[error("execution `{name}` has max_attempts 0, the least is 1")]
    ZeroAttempts {
        /// The execution.
        name: String,
    },
    /// An exponential backoff shrinks to nothing.
    #[error("execution `{name}` has a backoff factor 0, the least is 1")]
    ZeroBackoffFactor {
        /// The execution.
        name: String,
    },
    /// An attempt is over before it begins.
    #[error("execution `{name}` has attempt_timeout_ms 0, the least is 1")]
    ZeroAttemptTimeout {
        /// The execution.
        name: String,
    },
    /// An edge names an execution that does not exist.
    #[error("edge `{from}` -> `{to}` names `{missing}`, which is not an execution of the flow")]
    DanglingEdge {
        /// The upstream.
        from: String,
        /// The downstream.
        to: String,
        /// The end that does not exist.
        missing: String,
    },
    /// An execution waits for itself.
    #[error("execution `{name}` has an edge to itself")]
    SelfEdge {
        /// The execution.
        name: String,
    },
    /// Two executions are linked more than once in the same direction.
    #[error("edge `{from}` -> `{to}` is listed {times} times")]
    DuplicateEdge {
        /// The upstream.
        from: String,
        /// The downstream.
        to: String,
        /// How many edges there are.
        times: usize,
    },
    /// No outcome satisfies an edge.
    #[error("edge `{from}` -> `{to}` accepts no outcome")]
    EmptyAcceptSet {
        /// The upstream.
        from: String,
        /// The downstream.
        to: String,
    },
    /// Inputs of one execution share a name.
    #[error("{times} edges into `{name}` pass their result as `{input}`")]
    DuplicateInput {
        /// The downstream.
        name: String,
        /// The input name.
        input: String,
        /// How many edges use it.
        times: usize,
    },
    /// Executions wait for each other.
    #[error("cycle {}", arrows(.path))]
    Cycle {
        /// The names along the edges; the first is also the last.
        path: Vec<String>,
    },
    /// A join policy is set for an execution that does not exist.
    #[error("group `{name}` is not an execution of the flow")]
    UnknownGroup {
        /// The name.
        name: String,
    },
    /// A policy other than `AllOf` has nothing to choose from.
    #[error("execution `{name}` joins by {policy} but has no inbound edge")]
    JoinWithoutEdges {
        /// The downstream.
        name: String,
        /// The policy's word.
        policy: &'static str,
    },
    /// A quorum that is always or never reached.
    #[error("execution `{name}` needs {k} of its inbound edges, k must be in 1..={edges}")]
    QuorumOutOfRange {
        /// The downstream.
        name: String,
        /// The quorum.
        k: u32,
        /// Inbound edges of the downstream.
        edges: u32,
    },
}

impl InvalidFlow {
    /// True if larger limits would admit the flow.
    pub fn is_limit_exceeded(&self) -> bool {
        self.problems.iter().all(|problem| matches!(problem, Problem::LimitExceeded { .. }))
    }
}

fn shown(problems: &[Problem]) -> String {
    let listed: Vec<String> =
        problems.iter().take(PROBLEMS_SHOWN_MAX).map(Problem::to_string).collect();
    match problems.len().saturating_sub(PROBLEMS_SHOWN_MAX) {
        0 => listed.join("; "),
        more => format!("{}; and {more} more", listed.join("; ")),
    }
}

fn arrows(path: &[String]) -> String {
    let Some(hidden) = path.len().checked_sub(PATH_SHOWN_MAX).filter(|hidden| *hidden > 0) else {
        return path.join(" -> ");
    };
    let (start, end) = (&path[..PATH_SHOWN_MAX - 1], &path[path.len() - 1]);
    format!("{} -> ({hidden} more) -> {end}", start.join(" -> "))
}
