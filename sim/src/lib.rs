//! The simulator of Sluicegate.
