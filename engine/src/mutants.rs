//! Planted bugs: named defects that a simulator turns on to show that it would see them. Never
//! part of a default build; without the feature every test of a mutant is the constant `false`.

macro_rules! mutants {
    ($($id:ident $defect:literal $seen_by:literal;)*) => {
        /// A named defect.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Mutant { $(#[doc = $defect] $id,)* }

        impl Mutant {
            /// Every planted defect, in the order of its id.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$id,)*];

            /// The id used on the command line.
            pub fn id(self) -> &'static str {
                match self { $(Mutant::$id => stringify!($id),)* }
            }

            /// What is wrong while it is on.
            pub fn defect(self) -> &'static str {
                match self { $(Mutant::$id => $defect,)* }
            }

            /// The invariants of which one must see it first, separated by spaces.
            pub fn seen_by(self) -> &'static str {
                match self { $(Mutant::$id => $seen_by,)* }
            }
        }
    };
}

mutants! {
    P01 "upstream marked propagated in its own transaction before the hops" "I21 I8";
    P02 "propagated set although edges are left" "I21";
    P03 "contention beyond the budget marks the upstream propagated" "I21";
    P04 "an error on one edge abandons its neighbours" "I8";
    P05 "edge flip without the pending guard" "I3 I4";
    P06 "counters move by the edges asked for, not by the edges flipped" "I3";
    P07 "group read without a row lock" "I3 I8";
    P08 "satisfied fires again on a later outcome: downstream active -> ready" "I4 I7";
    P09 "satisfied fires again: downstream in retry delay -> ready now" "I11";
    P10 "a missing group row is taken for nothing to do" "I21 I8";
    P11 "extend leaves the edges of upstreams that have ended" "I21 I8";
    P12 "extend adds edges to a join that has decided" "I4";
    P13 "k handled as a signed number in validation" "I9 I4";
    P14 "a quorum above the number of edges is accepted" "I9";
    P15 "AllOf waits for all to end and ignores failures" "I4";
    P16 "skip counted as success" "I4";
    P17 "expired counted as success" "I4";
    P18 "AnyOf with a failed first upstream decided impossible at once" "I4 I6";
    P19 "skip writes no completion event" "I1 I8";
    P20 "a cancel also overwrites what has ended" "I2 I12";
    P21 "a cancel of pending members misses ready ones" "I12 I8";
    P22 "a cancel of pending members misses retry-delayed ones" "I12 I8";
    P23 "cancel ends no lease and complete does not check the state" "I1 I2 I7";
    P24 "the cancel of an execution writes no event" "I1 I8";
    P25 "sibling cancel writes no event" "I1 I8";
    P26 "sibling cancel ignores that an undecided group still needs the loser" "I13 I18";
    P27 "a group that lets run does not protect a shared upstream" "I13";
    P28 "no sibling cancel when the group becomes impossible" "I13";
    P29 "sibling request removed before the members are cancelled" "I13";
    P30 "only the first batch of a large cancelled flow is ever cancelled" "I8 I12";
    P31 "claim hands out members of a cancelled flow" "I12";
    P32 "complete checks only that the execution is active" "I7";
    P33 "complete accepted after the reaper requeued" "I7";
    P34 "reaper keeps epoch and nonce, complete does not check the state" "I7 I1";
    P35 "reaper acts on a lease that was renewed between scan and lock" "I7";
    P36 "reaper expires without an event when attempts are exhausted" "I1 I8";
    P37 "retry ignores its delay" "I11";
    P38 "attempts charged at completion, not at grant" "I11";
    P39 "sibling drain locks members, then their groups" "I15";
    P40 "a deadlock is reported as a lost lease" "I15";
    P41 "completion events carry no namespace" "I14";
    P42 "a filter by tag compares the value only" "I14";
    P43 "a sweep comes to rest at a page with a failing row, and begins there again" "I8";
    P44 "staleness is judged by the caller's clock" "I8";
    P45 "the dependency reconciler looks at events only" "I8";
    P46 "subscriber cursor over ids" "I17";
    P47 "subscriber starts at the newest id after a restart" "I17";
    P48 "an unknown commit is told as a failure, without looking for its effect" "I16";
    P49 "a transaction on SQLite begins as a reader and becomes a writer later" "I15";
    P50 "a policy that cannot be read is taken for AllOf" "I9";
    P51 "the cycle check of an extension sees direct edges only" "I8 I18";
    P52 "replay keeps the incarnation" "I1 I3";
    P53 "prune removes upstreams of an open flow" "I20";
    P54 "the projector counts before it locks the summary" "I10";
    P55 "the idempotency key is looked up, not claimed" "I16";
    P56 "edges read before the group lock, not after" "I3 I8";
    P57 "groups locked in two statements, in order of arrival" "I15";
    P58 "a hop waits for a group after it locked an execution" "I15";
    P59 "a cancel passes over members that others have locked" "I8 I12";
    P60 "edges flipped by how their upstreams stood before the locks, as a late event says" "I3";
    P61 "extend reads its upstreams without locking them" "I21 I8";
    P62 "a fence without the nonce" "I7";
    P63 "the projector passes over change rows whose numbers are below the last one" "I10";
    P64 "replay also starts what succeeded behind a failure" "I2";
    P65 "the stored reply of a report is not found on a re-run" "I16";
    P66 "an execution that cannot be read fails the whole claim" "I8";
    P67 "replay reads the upstreams of its groups unlocked, before it locks the groups" "I21 I8";
    P68 "events numbered before the stream head is locked" "I17";
    S01 "failing groups at the head of a full plan hide the groups behind them" "I8";
    S02 "a snooze is charged and forgets its delay" "I11";
    S20 "a tag is set without a record of its call" "I16";
    S04 "a counter moves by one for the hop, not for each of its edges" "I3";
    S05 "a failure that leaves no attempt writes no completion event" "I1 I8";
    S03 "a satisfied decision releases a member of a cancelled flow" "I12";
    S10 "a resume of an older suspension ends the present one" "I9";
    S11 "a suspended attempt stays charged" "I11";
    S15 "leases end although the clock has just stepped forward" "I7";
    S90 "a list fails as a whole on a row that cannot be read" "I14";
    S12 "a resume makes a member of a cancelled flow ready" "I12";
    S13 "the stored reply of a resume is not found on a re-run" "I16";
    S40 "an edge that is satisfied after the decision becomes an input" "I4";
    S41 "a claim that is repeated comes without its inputs" "I4";
    S50 "events are taken away and the horizon of their stream stays" "I17";
    S51 "a flow is pruned while the feed still holds its events" "I20";
    S52 "whoever opens a flow again leaves the mark that it is over" "I20 I10";
    S60 "progress is accepted from an older attempt" "I7";
    S61 "a late duplicate moves progress back" "I16";
    S53 "the horizon moves past an event that stays" "I17";
    S80 "what is given up ends without an event" "I1";
    S81 "what can be read is given up all the same" "I9";
    S82 "a group that is written anew is not counted again" "I3";
    S83 "whoever gives an execution up forgets how far it had come" "I7";
    S70 "the feed is not told of a lease that the reaper has ended" "I7";
    S71 "a report that ends an execution is told as a lease that was given back" "I7";
    S72 "whoever wants lease events gets every event" "I14";
    S31 "SQLite acknowledges commits before they are synced" "I19";
    S32 "what recovery finds in the log of SQLite is read before it is synced" "I19";
    E03 "bulk rows are cut by their number only" "I8";
    E23 "a payload is read into values and written again" "I19";
    S30 "commits are acknowledged before they are on the disk" "I19";
    E21 "a renewal is refused by the clock alone, although nothing has ended the lease" "I15";
    E24 "a snooze counts among the releases, and is charged once these are spent" "I11";
    E24B "an attempt is given back however often it is released" "I11";
}

#[cfg(feature = "mutants")]
mod active {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Turns one defect on for this thread, or all of them off.
    pub fn activate(mutant: Option<Mutant>) {
        ACTIVE.set(mutant);
    }

    /// The defect that is on in this thread.
    pub fn active() -> Option<Mutant> {
        ACTIVE.get()
    }
}

#[cfg(feature = "mutants")]
pub use active::{activate, active};

/// No defect is ever on in a build without the feature.
#[cfg(not(feature = "mutants"))]
#[inline]
pub fn active() -> Option<Mutant> {
    None
}

/// True if the named defect is compiled in and on.
macro_rules! mutated {
    ($id:ident) => {
        cfg!(feature = "mutants") && $crate::mutants::active() == Some($crate::mutants::Mutant::$id)
    };
}
pub(crate) use mutated;

/// Asserts a rule of our own; yields while a planted bug is on, so that an invariant sees it.
macro_rules! ensure_rule {
    ($condition:expr, $($message:tt)+) => {
        assert!($condition || $crate::mutants::active().is_some(), $($message)+)
    };
}
pub(crate) use ensure_rule;
