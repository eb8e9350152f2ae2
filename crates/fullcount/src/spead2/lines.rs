//! spead2_recv's lines about a heap. Source: `docs/formats/spead.md`, section 14.2.

use std::fmt::Write as _;

use fullcount_spead::receive::{Heap, ItemValue};
use fullcount_spead::wire::id;
use fullcount_spead::{BugCompat, Descriptor};

/// What came with heap `heap`, at `seconds`; with its descriptors if they are asked for.
pub fn print(text: &mut String, heap: &Heap, seconds: f64, descriptors: Option<BugCompat>) {
    let _ = writeln!(text, "Received heap {} at {seconds:.5}", heap.cnt);
    if let Some(compat) = descriptors {
        for bytes in heap.descriptor_bytes() {
            for d in Descriptor::parse(bytes, compat, 65_536) {
                describe(text, &d);
            }
        }
    }
    for item in heap.all_items() {
        let many = match item.value {
            ItemValue::Bytes(bytes) => bytes.len(),
            ItemValue::Immediate(_) => heap.flavour.address_bytes(),
        };
        let _ = write!(text, "{:#x} = [{many} bytes]", item.id);
        if let ItemValue::Immediate(value) = item.value {
            // C++ puts no 0x before 0.
            let _ = match value {
                0 => write!(text, " = 0"),
                _ => write!(text, " = {value:#x}"),
            };
        }
        text.push('\n');
    }
}

fn describe(text: &mut String, d: &Descriptor) {
    let fields: Vec<String> =
        d.format.iter().map(|f| format!("({}, {})", f.code, f.bits)).collect();
    let shape: Vec<String> =
        d.shape.iter().map(|n| n.map_or("?".into(), |n| n.to_string())).collect();
    let _ = write!(
        text,
        "Descriptor for {} ({:#x})\n  description: {}\n  format:      [{}]\n  dtype:       {}\n  shape:       ({})\n",
        d.name,
        d.id,
        d.description,
        fields.join(", "),
        d.numpy_header,
        shape.join(", "),
    );
    debug_assert!(d.id != id::NULL, "the parser drops those");
}
