//! Heaps in files: what the outputs of arrays have in common, and the one of `.npy` files in a folder.
//!
//! Each array of the heaps becomes one growing array with a row for each heap; another type or shape under the same name begins
//! another one. Beside them stands a table of all heaps, with what is missing of those that are not complete. Names come from
//! the network: they become names of files only after [`safe_name`]. Source: `docs/heap.md`.

mod kind;
mod npy;
mod sink;

pub use kind::{HeapSection, NpyFolder, heap_keys};
pub use npy::NpyWriter;
pub use sink::{HeapLimits, HeapRow, HeapSink, HeapWriter, heap_lines};

/// Longest name of an array in a file, bytes.
const LONGEST: usize = 80;

/// A name that can be that of a file or of a group: letters, digits, `_`, `-` and dots that do not stand first.
pub fn safe_name(name: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut safe: String =
        name.chars().take(LONGEST).map(|c| if good(c) || c == '.' { c } else { '_' }).collect();
    if !safe.starts_with(good) {
        safe.insert(0, '_');
    }
    safe
}

#[cfg(test)]
#[path = "heaps/heaps_tests.rs"]
mod tests;
