//! Hits and clusters as tables for analysis: HDF5 with a dataset for each column, or Parquet.
//!
//! [`TableSink`] writes the tables of one output (`hits`, or `clusters`) of a run; the ending of the file's name
//! selects the format. Rows are collected in blocks, so memory is bounded for any length of the run. A file is written
//! as `<name>.part` and renamed when it is complete; HDF5 is in SWMR mode until then, so that the file of a killed run
//! can be read with `swmr=True` up to its last flush. Columns, units and attributes: `docs/tables.md`.
//!
//! Refuses: other endings, existing files (unless told to replace them), files that another run is writing or has left.

mod block;
mod error;
mod hdf5;
mod kind;
mod options;
mod parquet;
mod part;
mod sink;

#[cfg(test)]
mod sink_tests;

pub use error::TableError;
pub use kind::Tables;
pub use options::{TableFormat, TableOptions, TableOutput};
pub use sink::TableSink;
