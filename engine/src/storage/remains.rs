//! Rows that are locked whether they can be read or not, for the one who gives an execution up.
//! Plain data with no storage behind it.

use std::borrow::Cow;

/// A locked row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remains<T> {
    /// What it holds; for what cannot be read, what stands there in a new row.
    pub row: T,
    /// Why it cannot be read as it stands; `None` if it can.
    pub unreadable: Option<Cow<'static, str>>,
}
