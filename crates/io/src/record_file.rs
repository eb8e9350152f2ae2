//! `[output.records]`: events merged of fragments, in a file with a documented layout.
//!
//! The file is made as `NAME.part`, locked, and gets its name when it is complete. Each record tells its own length, so the file of a killed run
//! can be read up to its last whole record. Bytes go from where they were received straight to the file. Refuses detectors that give no
//! records, an existing file without `overwrite`, and a leftover. Source: `docs/fragments.md`, "File".

mod kind;
mod sink;

pub use kind::RecordOutput;
pub use sink::{FILE_MAGIC, RecordCounter, RecordSink};
