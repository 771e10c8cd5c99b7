//! By when a flow must have drained once faults stop: the bounds of the promise, computed from the
//! graph and the settings. Pure; never looks at what happened.

use std::fmt;
use std::time::Duration;

use sluicegate::flow::ExecutionSpec;
use sluicegate::retry::RetryPolicy;

/// An execution of the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node<'a> {
    /// Its name, for printing.
    pub name: &'a str,
    /// Its limits and delays.
    pub retry: RetryPolicy,
    /// How long it waits before its first claim, once it is released.
    pub delay: Duration,
}

impl<'a> Node<'a> {
    /// An execution of a specification.
    pub fn of(spec: &'a ExecutionSpec) -> Self {
        let delay = Duration::from_millis(spec.delay_ms.unwrap_or(0));
        Self { name: &spec.name, retry: spec.retry, delay }
    }
}

/// How a cascade moves on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Following {
    /// A tick follows what its own hops write.
    Yes,
    /// A tick takes one edge of what stood at its start: the published rule.
    No,
}

/// What the bounds depend on besides the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// S: the server has ended every session whose client is gone.
    pub session_limit: Duration,
    /// F: the largest backoff of a failing row.
    pub backoff_longest: Duration,
    /// B: the largest backward step of the storage's clock, plus one lease after a forward step.
    pub clock_step: Duration,
    /// Sigma: how long an execution has ended before a reconciler takes it.
    pub stale_after: Duration,
    /// From ready to granted while workers answer.
    pub claim_delay: Duration,
    /// The longest that an attempt lasts where its retry policy sets no limit, lease included.
    pub attempt_limit: Duration,
    /// From the start of one tick to the end of the next.
    pub tick: Duration,
    /// Attempts of one execution that are given back at most, by releases, which are bounded, and
    /// by snoozes, of which the handlers come to an end.
    pub give_backs: u32,
    /// The longest snooze.
    pub snooze_longest: Duration,
    /// How a cascade moves on.
    pub following: Following,
}

/// The bounds of one flow, counted from T0, the last fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The parts of L1: a dependency tick that starts after their sum drains.
    pub l1: Parts,
    /// After so long the flow is terminal.
    pub l2: Duration,
    /// How many ticks that start more than sigma apart drain a cascade.
    pub ticks: u32,
    /// Names along the heaviest path, upstream first.
    pub path: Vec<String>,
}

/// The parts of L1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// S.
    pub session_limit: Duration,
    /// F.
    pub backoff_longest: Duration,
    /// B.
    pub clock_step: Duration,
    /// Sigma.
    pub stale_after: Duration,
}

/// So many names of a path are printed at each end of it.
const NAMES_SHOWN: usize = 4;

impl Bounds {
    /// The bounds of a graph; an edge is (upstream, downstream), by position.
    pub fn of(nodes: &[Node<'_>], edges: &[(usize, usize)], settings: &Settings) -> Bounds {
        let order = topological(nodes.len(), edges);
        let weights = nodes.iter().map(|node| settings.weight(node)).collect();
        let (path, heaviest) = heaviest_path(&order, edges, weights);
        let l1 = Parts {
            session_limit: settings.session_limit,
            backoff_longest: settings.backoff_longest,
            clock_step: settings.clock_step,
            stale_after: settings.stale_after,
        };
        let ticks = match settings.following {
            Following::Yes => 1,
            Following::No => longest_chain(nodes.len(), &order, edges).max(1),
        };
        let path = path.into_iter().map(|at| nodes[at].name.to_owned()).collect();
        Bounds { l1, l2: l1.healed().saturating_add(heaviest), ticks, path }
    }
}

impl Parts {
    /// S + F + B.
    pub fn healed(self) -> Duration {
        self.session_limit + self.backoff_longest + self.clock_step
    }

    /// S + F + B + sigma.
    pub fn total(self) -> Duration {
        self.healed() + self.stale_after
    }
}

impl Settings {
    /// The longest from ready to terminal and seen by the next: one execution's share of L2.
    fn weight(&self, node: &Node<'_>) -> Duration {
        let retry = node.retry;
        let attempt = retry.attempt_timeout().unwrap_or(self.attempt_limit);
        let backoff = retry.backoff.longest().max(self.snooze_longest);
        let grants = retry.max_attempts.saturating_add(self.give_backs);
        let grant = self.claim_delay + attempt + self.tick + backoff;
        let granted = grant.saturating_mul(grants);
        granted.saturating_add(node.delay + self.stale_after + self.tick * 2)
    }
}

/// Positions of the nodes, each after its upstreams. What lies on a cycle, or below one, is left
/// out: it has no bound, as it never drains.
fn topological(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut waits = vec![0usize; nodes];
    let mut sorted: Vec<(usize, usize)> = edges.to_vec();
    sorted.sort_unstable();
    for (_, downstream) in edges {
        waits[*downstream] += 1;
    }
    let mut order: Vec<usize> = (0..nodes).filter(|at| waits[*at] == 0).collect();
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        next += 1;
        for downstream in outbound(&sorted, at) {
            waits[downstream] -= 1;
            if waits[downstream] == 0 {
                order.push(downstream);
            }
        }
    }
    order
}

/// The downstreams of a node among edges in order.
fn outbound(sorted: &[(usize, usize)], upstream: usize) -> impl Iterator<Item = usize> {
    let start = sorted.partition_point(|edge| edge.0 < upstream);
    let edges = sorted[start..].iter().take_while(move |edge| edge.0 == upstream);
    edges.map(|edge| edge.1)
}

/// The path with the largest sum of weights, and that sum.
fn heaviest_path(
    order: &[usize],
    edges: &[(usize, usize)],
    mut weights: Vec<Duration>,
) -> (Vec<usize>, Duration) {
    let mut sorted = edges.to_vec();
    sorted.sort_unstable();
    let own = weights.clone();
    let mut from: Vec<Option<usize>> = vec![None; weights.len()];
    for &at in order {
        for downstream in outbound(&sorted, at) {
            let through = weights[at].saturating_add(own[downstream]);
            if through > weights[downstream] {
                weights[downstream] = through;
                from[downstream] = Some(at);
            }
        }
    }
    let Some(mut at) = (0..weights.len()).rev().max_by_key(|at| weights[*at]) else {
        return (Vec::new(), Duration::ZERO);
    };
    let heaviest = weights[at];
    let mut path = vec![at];
    while let Some(upstream) = from[at] {
        path.push(upstream);
        at = upstream;
    }
    path.reverse();
    (path, heaviest)
}

/// The largest number of groups on one path.
fn longest_chain(nodes: usize, order: &[usize], edges: &[(usize, usize)]) -> u32 {
    let mut sorted = edges.to_vec();
    sorted.sort_unstable();
    let mut groups = vec![0u32; nodes];
    for &at in order {
        for downstream in outbound(&sorted, at) {
            groups[downstream] = groups[downstream].max(groups[at] + 1);
        }
    }
    groups.into_iter().max().unwrap_or(0)
}

/// A duration in seconds, as short as it can be said.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { session_limit, backoff_longest, clock_step, stale_after } = self.l1;
        let healed = self.l1.healed();
        write!(
            f,
            "L1: T0 + S {} + F {} + B {} + sigma {} = T0 + {}, then {} {}; \
             L2: T0 + {} + {} = T0 + {} over the heaviest path ",
            Seconds(session_limit),
            Seconds(backoff_longest),
            Seconds(clock_step),
            Seconds(stale_after),
            Seconds(self.l1.total()),
            self.ticks,
            if self.ticks == 1 { "tick" } else { "ticks" },
            Seconds(healed),
            Seconds(self.l2.saturating_sub(healed)),
            Seconds(self.l2),
        )?;
        let hidden = self.path.len().saturating_sub(2 * NAMES_SHOWN);
        if hidden < 2 {
            return f.write_str(&self.path.join(" -> "));
        }
        let head = self.path[..NAMES_SHOWN].join(" -> ");
        let tail = self.path[self.path.len() - NAMES_SHOWN..].join(" -> ");
        write!(f, "{head} -> ({hidden} more) -> {tail}")
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::retry::Backoff;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> Settings {
        Settings {
            session_limit: SECOND * 15,
            backoff_longest: SECOND * 30,
            clock_step: Duration::ZERO,
            stale_after: SECOND,
            claim_delay: SECOND,
            attempt_limit: SECOND * 10,
            tick: SECOND,
            give_backs: 0,
            snooze_longest: Duration::ZERO,
            following: Following::Yes,
        }
    }

    fn node(name: &str, max_attempts: u32) -> Node<'_> {
        let backoff = Backoff::Fixed { delay_ms: 2_000 };
        let retry = RetryPolicy { max_attempts, backoff, attempt_timeout_ms: None };
        Node { name, retry, delay: Duration::ZERO }
    }

    fn check(nodes: &[Node<'_>], edges: &[(usize, usize)], settings: &Settings, line: &str) {
        assert_eq!(Bounds::of(nodes, edges, settings).to_string(), line);
    }

    #[test]
    fn chain_adds_up_its_executions() {
        // Each: 2 grants x (1 + 10 + 1 + 2) s + 1 s + 2 x 1 s = 31 s.
        check(
            &[node("a", 2), node("b", 2), node("c", 2)],
            &[(0, 1), (1, 2)],
            &settings(),
            "L1: T0 + S 15 s + F 30 s + B 0 s + sigma 1 s = T0 + 46 s, then 1 tick; \
             L2: T0 + 45 s + 93 s = T0 + 138 s over the heaviest path a -> b -> c",
        );
    }

    #[test]
    fn diamond_goes_through_its_heavier_side() {
        // a, d: 17 s; b: 31 s; c: 45 s.
        check(
            &[node("a", 1), node("b", 2), node("c", 3), node("d", 1)],
            &[(0, 1), (0, 2), (1, 3), (2, 3)],
            &settings(),
            "L1: T0 + S 15 s + F 30 s + B 0 s + sigma 1 s = T0 + 46 s, then 1 tick; \
             L2: T0 + 45 s + 79 s = T0 + 124 s over the heaviest path a -> c -> d",
        );
    }

    #[test]
    fn without_following_a_tick_is_needed_for_each_group_of_the_longest_path() {
        let settings = Settings { following: Following::No, ..settings() };
        let nodes = [node("a", 1), node("b", 1), node("c", 1), node("d", 1)];
        let ticks = |edges: &[(usize, usize)]| Bounds::of(&nodes, edges, &settings).ticks;
        assert_eq!(ticks(&[]), 1);
        assert_eq!(ticks(&[(0, 1), (1, 2), (0, 2)]), 2);
        assert_eq!(ticks(&[(3, 2), (2, 1), (1, 0)]), 3);
    }

    #[test]
    fn give_backs_are_grants_too_and_a_time_limit_replaces_the_default() {
        let mut limited = node("a", 1);
        limited.retry.attempt_timeout_ms = Some(500);
        let settings = Settings { give_backs: 2, stale_after: Duration::ZERO, ..settings() };
        // 3 grants x (1 + 0.5 + 1 + 2) s + 2 x 1 s = 15.5 s.
        let bounds = Bounds::of(&[limited], &[], &settings);
        assert_eq!(bounds.l2, Duration::from_millis(45_000 + 15_500));
    }

    #[test]
    fn a_delay_in_front_of_an_execution_is_waited_for() {
        let delayed = Node { delay: SECOND * 200, ..node("b", 2) };
        let bounds = Bounds::of(&[node("a", 2), delayed], &[(0, 1)], &settings());
        assert_eq!(bounds.l2, SECOND * (45 + 31 + 31 + 200));
    }

    #[test]
    fn the_largest_attempts_and_delays_add_up_without_an_overflow() {
        let mut endless = node("a", u32::MAX);
        endless.retry.backoff = Backoff::Fixed { delay_ms: u32::MAX };
        endless.retry.attempt_timeout_ms = Some(u32::MAX);
        endless.delay = Duration::MAX / 2;
        let bounds = Bounds::of(&[endless, endless], &[(0, 1)], &settings());
        assert!(bounds.l2 >= endless.delay, "{bounds}");
    }

    #[test]
    fn a_snooze_may_be_the_longest_delay() {
        let settings = Settings { give_backs: 1, snooze_longest: SECOND * 5, ..settings() };
        // 2 grants x (1 + 10 + 1 + 5) s + 1 s + 2 x 1 s = 37 s.
        let bounds = Bounds::of(&[node("a", 1)], &[], &settings);
        assert_eq!(bounds.l2, Duration::from_secs(45 + 37));
    }

    #[test]
    fn long_paths_are_printed_by_their_ends() {
        let names: Vec<String> = (0..20).map(|at| format!("n{at}")).collect();
        let nodes: Vec<Node<'_>> = names.iter().map(|name| node(name, 1)).collect();
        let edges: Vec<(usize, usize)> = (1..20).map(|at| (at - 1, at)).collect();
        let line = Bounds::of(&nodes, &edges, &settings()).to_string();
        let path = "n0 -> n1 -> n2 -> n3 -> (12 more) -> n16 -> n17 -> n18 -> n19";
        assert!(line.ends_with(path), "{line}");
    }
}
