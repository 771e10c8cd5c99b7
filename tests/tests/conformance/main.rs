//! The storage contract, held by every backend: one arm a storage, all cases on each. Also that the
//! suite leaves no verb out, and that it rejects storages that are wrong in one way each.

mod arms;
mod defects;
mod subjects;
mod tampering;
mod verbs;
