//! Designs that must fail, judged by the same invariants. Each shows that the simulator sees what
//! it is there to see; none is used by the engine.

pub(crate) mod published;
