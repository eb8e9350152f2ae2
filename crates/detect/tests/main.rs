//! Decoders from outside: vectors, captures, hostile input, the registry. Each file is a module of this one binary, and
//! its name the begin of its tests' names.
//!
//! Source: docs/testing.md.

// What several of them use.
mod gdgem_made;
mod multiblade_made;

mod gdgem_chain;
mod gdgem_hostile;
mod gdgem_offline_vectors;
mod gdgem_online_vectors;
mod gdgem_pads;
mod gdgem_parallel;
mod gdgem_tables;
mod gdgem_vectors;
mod multiblade_vectors;
mod multigrid_vectors;
mod registry;
mod sequence_conformance;
mod sonde_vectors;
