//! The operations of the public handle: submit, extend, claim, reports, renewals, cancels, tags and
//! reads. Each file holds one transaction's body and the pure decision that it takes.

pub(crate) mod call;
pub mod cancel;
pub mod claim;
pub(crate) mod complete_and_claim;
pub mod describe;
pub mod extend;
pub(crate) mod finish;
pub mod give_up;
pub mod inputs;
pub mod list;
pub(crate) mod progress;
pub mod replay;
pub mod report;
pub(crate) mod resume;
pub mod set_policy;
pub mod submit;
pub mod tag;
