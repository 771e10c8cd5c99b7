//! Graphs by index.
