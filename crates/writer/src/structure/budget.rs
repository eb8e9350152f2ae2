//! What a structure takes of memory, found before it takes it: a text of 400 bytes can name a constant of gigabytes, and
//! one of 100 MB can become some 50 times as much when it is read.
//!
//! [`reading`] looks at the text alone, without memory of its own. [`Budget`] adds up what stays: constants, names,
//! attributes. Refuses what is above [`StructureLimits`](super::Limits). Source: `docs/write.md`, "How much memory a run may take".

use std::cell::Cell;

use super::StructureLimits;
use super::error::{StructureError, StructureFault, fault};

/// Bytes of one value of the tree that `serde_json` makes (a map of an object that keeps its order is the largest).
const VALUE: u64 = size_of::<serde_json::Value>() as u64;
/// Bytes of one entry of an object: its name, its value, its hash, and its place in the table.
const ENTRY: u64 = VALUE + 24 + 8 + 9;
/// What the allocator adds to each piece.
const PIECE: u64 = 16;
/// Lists in lists that `serde_json` reads; it refuses more.
const DEPTH: usize = 128;
/// What an attribute takes beside its values: its name, its place, the library's own.
const ATTRIBUTE: u64 = 256;
/// What a group, dataset or link takes beside its names.
const NODE: u64 = 512;

/// Bytes that the tree of the JSON text `text` takes while it is read, about.
pub(super) fn reading(text: &str) -> u64 {
    let mut total = text.len() as u64;
    // Of each list and object that is open: whether it is a list, and commas so far.
    let mut open: Vec<(bool, u64)> = Vec::with_capacity(DEPTH);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                total += 2 * PIECE;
                while let Some(inner) = bytes.next() {
                    match inner {
                        b'"' => break,
                        // What is escaped ends nothing.
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            b'[' | b'{' => {
                if open.len() == DEPTH {
                    // It is refused here: nothing more is made of it.
                    break;
                }
                open.push((byte == b'[', 0));
            }
            b',' => {
                if let Some(last) = open.last_mut() {
                    last.1 += 1;
                }
            }
            b']' | b'}' => total += open.pop().map_or(0, closed),
            _ => {}
        }
    }
    total + open.into_iter().map(closed).sum::<u64>()
}

/// Bytes of a list or object with so many commas: room is doubled when it is full.
fn closed((list, commas): (bool, u64)) -> u64 {
    let values = commas + 1;
    if list {
        // And a reference to each while it becomes an array, whose list doubles too.
        values.next_power_of_two().max(4) * (VALUE + 8) + PIECE
    } else {
        (values + values / 7 + 1).next_power_of_two().max(4) * ENTRY + 4 * PIECE
    }
}

/// Adds up what stays of a structure, before it is made.
#[derive(Debug)]
pub(super) struct Budget {
    used: Cell<u64>,
    memory: u64,
    constant: u64,
}

impl Budget {
    pub(super) fn new(limits: &StructureLimits) -> Budget {
        Budget { used: Cell::new(0), memory: limits.memory, constant: limits.constant }
    }

    /// So many bytes more.
    pub(super) fn take(&self, bytes: u64, at: &str) -> Result<(), StructureError> {
        self.used.set(self.used.get().saturating_add(bytes));
        within(self.memory, self.used.get(), "all up to here".into(), at)
    }

    /// Values of a dataset or an attribute, which `what` says.
    pub(super) fn constant(
        &self,
        bytes: u64,
        what: String,
        at: &str,
    ) -> Result<(), StructureError> {
        within(self.constant, bytes, what, at)?;
        self.take(bytes, at)
    }

    /// A group, dataset or link of this path.
    pub(super) fn node(&self, path: &str, at: &str) -> Result<(), StructureError> {
        // Kept by path, in the plan, and beside the place in the JSON.
        self.take(NODE + 3 * path.len() as u64 + 2 * at.len() as u64, at)
    }

    /// An attribute of this name, beside its values.
    pub(super) fn attribute(&self, name: &str, at: &str) -> Result<(), StructureError> {
        self.take(ATTRIBUTE + name.len() as u64, at)
    }

    /// What was taken.
    pub(super) fn used(&self) -> u64 {
        self.used.get()
    }
}

/// Refuses what takes more than `most` bytes.
pub(super) fn within(most: u64, bytes: u64, what: String, at: &str) -> Result<(), StructureError> {
    if bytes <= most {
        return Ok(());
    }
    fault(at, StructureFault::Memory { what, bytes, limit: most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_brackets_within_text_are_text() {
        let plain = reading(r#"["a"]"#);
        assert_eq!(reading(r#"["]"]"#), plain);
        assert_eq!(reading(r#"["\""]"#), plain + 1);
        assert_eq!(reading(r#"["\\",1]"#), plain + 3, "a list has room for four");
        assert!(reading("[1,1,1,1,1]") > reading("[1,1,1,1]") + 4 * VALUE);
        assert!(reading(r#"[{"":0},{"":0}]"#) > 2 * 4 * ENTRY);
        // What nobody closes, and what nobody opens.
        for text in ["", "]]]}}}", "[[[[", "\"", "\"\\", &"[".repeat(1_000_000)] {
            assert!(reading(text) < 2 * text.len() as u64 + 200_000, "{}", text.len());
        }
    }

    #[test]
    fn what_is_above_the_limit_is_told_with_both() {
        let budget = Budget::new(&StructureLimits {
            memory: 1000,
            constant: 10,
            ..StructureLimits::default()
        });
        budget.take(1000, ".children[0]").unwrap();
        assert_eq!(budget.used(), 1000);
        let error = budget.take(u64::MAX, ".children[1]").unwrap_err().to_string();
        assert!(error.starts_with("nexus_structure.children[1]: all up to here"), "{error}");
        assert!(error.ends_with("above the limit of 1000 bytes (0.000954 MiB)"), "{error}");
        let error = budget.constant(11, "eleven".into(), "").unwrap_err().to_string();
        assert!(error.contains("eleven takes 11 bytes, above the limit of 10 bytes"), "{error}");
    }
}
