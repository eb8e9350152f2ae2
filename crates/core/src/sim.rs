//! Virtual faults.
