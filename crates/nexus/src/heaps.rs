//! Heaps in an HDF5 file: a group with an array for each item, a row for each heap, and tables of heaps and of what is missing.
//!
//! `/items/NAME/values` has the rows, `/items/NAME/heap` the row of `/heaps` that each belongs to. Types are those of NumPy as h5py
//! reads them; values are little-endian and in C order. The file is `NAME.part` while it is written, and NAME when it is complete.
//! It is no SWMR file, as arrays come while it is written. Source: `docs/heap.md`.

mod kind;
mod types;
mod writer;

pub use kind::HeapFile;

#[cfg(test)]
mod tests;
