//! Hits and clusters as tables for analysis: HDF5 with a dataset for each column, or Parquet.
//!
//! [`TableSink`] writes the tables of one output (`hits`, or `clusters`) of a run; the ending of the file's name decides the
//! format. Rows are collected to blocks, so memory is bounded whatever the length of the run. A file is made as `<name>.part`
//! and gets its name when it is complete; HDF5 is in SWMR mode until then, so that what a killed run leaves can be read with
//! `swmr=True` up to its last flush. Columns, units and attributes: `docs/tables.md`.
//!
//! Refuses: other endings, existing files (unless told to replace them), what another run is writing or has left.

mod block;
mod error;
mod hdf5;
mod options;
mod parquet;
mod part;
mod sink;

#[cfg(test)]
mod sink_tests;

pub use error::TableError;
pub use options::{Format, Output, TableOptions};
pub use sink::TableSink;
