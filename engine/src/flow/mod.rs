//! Flow specifications.
