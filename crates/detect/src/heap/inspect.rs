//! SPEAD packets and heaps for people: flavour, item pointers, and descriptors and values of heaps that are finished.
//!
//! The verdict is the reader's: it is asked. Source: `docs/formats/spead.md`, sections 3 to 5.

use fullcount_core::batch::Origin;
use fullcount_core::heaps::{HeapProduct, ItemProduct};
use fullcount_core::products::{Products, Want};
use fullcount_spead::describe::{Elements, ItemLayout, NumpyHeader};
use fullcount_spead::{BugCompat, ItemArray, SpeadPacket};

use super::counters::HeapCount;
use super::options::HeapOptions;
use super::reader::HeapReader;
use crate::detector::{Inspected, Inspector};

/// Item pointers of a packet that are shown.
const MOST_ROWS: usize = 4096;
/// Elements of an array that are shown.
const MOST_ELEMENTS: usize = 8;
/// Arrays of a heap that are shown.
const MOST_ITEMS: usize = 64;

/// Shows SPEAD packets, and each heap behind its last one.
pub(super) struct HeapInspector {
    reader: HeapReader,
    products: Products,
}

impl HeapInspector {
    pub fn new(options: &HeapOptions) -> HeapInspector {
        let products =
            Products { want: Want { heaps: true, ..Want::default() }, ..Products::default() };
        HeapInspector { reader: HeapReader::new(options), products }
    }
}

fn some<T: std::fmt::Display>(values: &[T], shape: &[usize]) -> String {
    let shown: Vec<String> = values.iter().take(MOST_ELEMENTS).map(T::to_string).collect();
    let more = if values.len() > MOST_ELEMENTS { " …" } else { "" };
    match shape {
        [] => shown.join(" "),
        _ => format!("[{}{more}]", shown.join(" ")),
    }
}

/// The first elements of an array.
fn elements(array: &ItemArray) -> String {
    let pairs = |v: &[[f64; 2]]| -> Vec<String> {
        v.iter().take(MOST_ELEMENTS + 1).map(|[re, im]| format!("{re}{im:+}j")).collect()
    };
    let shape = &array.shape;
    match &array.elements {
        Elements::Bool(v) => some(v, shape),
        Elements::I8(v) => some(v, shape),
        Elements::I16(v) => some(v, shape),
        Elements::I32(v) => some(v, shape),
        Elements::I64(v) => some(v, shape),
        Elements::U8(v) => some(v, shape),
        Elements::U16(v) => some(v, shape),
        Elements::U32(v) => some(v, shape),
        Elements::U64(v) => some(v, shape),
        Elements::F16(_) => some(&array.to_f64().unwrap_or_default(), shape),
        Elements::F32(v) => some(v, shape),
        Elements::F64(v) => some(v, shape),
        Elements::Complex32(v) => {
            let first =
                v.iter().take(MOST_ELEMENTS + 1).map(|[re, im]| [(*re).into(), (*im).into()]);
            some(&pairs(&first.collect::<Vec<[f64; 2]>>()), shape)
        }
        Elements::Complex64(v) => some(&pairs(v), shape),
        Elements::Text(v) => some(v, shape),
        Elements::Bytes { width: 1, data } => {
            let text: String = data.iter().take(64).map(|b| b.escape_ascii().to_string()).collect();
            format!("\"{text}\"")
        }
        Elements::Bytes { width, data } => format!("{} of {width} B", data.len() / width.max(&1)),
        Elements::Record(fields) => {
            let one = |(name, field): &(String, ItemArray)| format!("{name}={}", elements(field));
            fields.iter().take(MOST_ELEMENTS).map(one).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Name, id, type, shape and first elements.
fn item(item: &ItemProduct) -> String {
    let header = NumpyHeader::parse(&item.header);
    let what = header.as_ref().map_or(String::new(), |h| {
        let shape: Vec<String> = h.shape.iter().map(usize::to_string).collect();
        format!(" {} ({})", h.of.to_string().replace('\'', ""), shape.join(", "))
    });
    let value = header.ok().and_then(|header| {
        let layout = ItemLayout::Numpy(header);
        layout.decode_bytes(item.bytes.as_slice(), false, BugCompat::default()).ok()
    });
    let value = value.map_or_else(|| "?".to_owned(), |array| elements(&array));
    format!("{} 0x{:x}{what} = {value}", item.name, item.id)
}

fn finished(shown: &mut Inspected, heap: &HeapProduct) {
    let state = match (heap.complete, heap.length) {
        (true, _) => format!("{} complete, {} B", heap.number, heap.received),
        (false, Some(length)) => {
            let gaps: Vec<String> = heap
                .missing
                .iter()
                .take(8)
                .map(|gap| format!("{}-{}", gap.start, gap.end))
                .collect();
            let gaps = gaps.join(" ");
            format!("{} incomplete, {} of {length} B, missing {gaps}", heap.number, heap.received)
        }
        (false, None) => format!("{} incomplete, {} B", heap.number, heap.received),
    };
    shown.header.push(("heap", state));
    if !heap.items.is_empty() {
        let items: Vec<String> = heap.items.iter().take(MOST_ITEMS).map(item).collect();
        shown.header.push(("items", items.join("; ")));
    }
}

impl Inspector for HeapInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let mut shown =
            Inspected { columns: vec!["immediate", "id", "value"], ..Inspected::default() };
        if let Ok(packet) = SpeadPacket::parse(chunk) {
            let f = packet.flavour;
            shown.header.push(("flavour", format!("SPEAD-64-{}", f.address_bits())));
            shown.header.push(("heap_cnt", packet.heap_cnt.to_string()));
            let length = packet.heap_length.map_or("unknown".to_owned(), |l| l.to_string());
            shown.header.push(("heap_length", length));
            shown.header.push(("offset", packet.offset.to_string()));
            shown.header.push(("payload", packet.payload.len().to_string()));
            let row = |p: fullcount_spead::wire::ItemPointer| {
                let (id, value) = (f.id_of(p), f.value_of(p));
                vec![i64::from(p.is_immediate()), id as i64, value as i64]
            };
            shown.rows = packet.items().take(MOST_ROWS).map(row).collect();
        }
        self.products.heaps.clear();
        let known = self.reader.items().group().items().count();
        let line = self.reader.datagram(chunk, &mut self.products);
        if line != HeapCount::Accepted {
            shown.error = Some(line.words());
        }
        let described = self.reader.items().group().items().count();
        if described != known {
            let name = |i: &fullcount_spead::describe::GroupItem| {
                let d = &i.descriptor;
                format!("{} 0x{:x} \"{}\"", d.name, d.id, d.description)
            };
            let all = self.reader.items().group().items().take(MOST_ITEMS).map(name);
            shown.header.push(("descriptors", all.collect::<Vec<_>>().join("; ")));
        }
        let heaps = std::mem::take(&mut self.products.heaps);
        heaps.iter().for_each(|heap| finished(&mut shown, heap));
        shown
    }
}
