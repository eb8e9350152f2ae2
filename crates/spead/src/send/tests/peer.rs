//! Through spead2 and back: what ours sends is received by the Python package spead2, sent again by it, and received by ours.
//!
//! Needs the Python of the tests, which has that package.

use std::process::Command;

use super::*;
use crate::describe::FormatField;

/// What the package holds of an item, as a line: id, name, description, shape, format, and type with order as a NumPy header (`swapped`: the
/// stream's headers have the other byte order).
pub(super) const SAID: &str = r#"
import json
import numpy as np
def said(item, swapped=False):
    header = ""
    if item.dtype is not None:
        of = item.dtype.newbyteorder() if swapped else item.dtype
        of = np.lib.format.dtype_to_descr(of)
        header = str({"descr": of, "fortran_order": item.order == "F", "shape": tuple(item.shape)})
    return json.dumps([item.id, item.name, item.description, list(item.shape), list(item.format or []), header])
"#;

/// A line of [`SAID`] is of this descriptor.
pub(super) fn assert_said(line: &str, of: &Descriptor) {
    let said: serde_json::Value = serde_json::from_str(line).unwrap();
    let text = |n: usize| said[n].as_str().unwrap().to_owned();
    let format = said[4].as_array().unwrap().iter();
    let format = format.map(|field| FormatField {
        code: field[0].as_str().unwrap().parse().unwrap(),
        bits: field[1].as_u64().unwrap(),
    });
    let held = Descriptor {
        id: said[0].as_u64().unwrap(),
        name: text(1),
        description: text(2),
        shape: said[3].as_array().unwrap().iter().map(serde_json::Value::as_u64).collect(),
        format: format.collect(),
        numpy_header: text(5),
    };
    assert_same(&held, of);
}

/// Two descriptors say the same. Headers are compared by what they mean, for each side has its own spaces; beside one spead2 sends no shape.
pub(super) fn assert_same(one: &Descriptor, other: &Descriptor) {
    let header = |d: &Descriptor| match d.numpy_header.is_empty() {
        true => None,
        false => Some(NumpyHeader::parse(&d.numpy_header).unwrap()),
    };
    assert_eq!(header(one), header(other));
    let rest = |d: &Descriptor| {
        let shape = if header(d).is_some() { vec![] } else { d.shape.clone() };
        Descriptor { numpy_header: String::new(), shape, ..d.clone() }
    };
    assert_eq!(rest(one), rest(other));
}

const SCRIPT: &str = r#"
import sys, pathlib, logging
import spead2, spead2.recv, spead2.send
logging.basicConfig(level=logging.INFO)
pool = spead2.ThreadPool()
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("*.in")):
    bits, compat, size = (int(word) for word in path.stem.split("_")[1:])
    flavour = spead2.Flavour(4, 64, bits, compat)
    stream = spead2.recv.Stream(pool, spead2.recv.StreamConfig(bug_compat=compat))
    stream.add_buffer_reader(path.read_bytes())
    group = spead2.ItemGroup()
    heaps = list(stream)
    assert len(heaps) == 1, (path, len(heaps))
    changed = group.update(heaps[0])
    assert len(changed) == len(group), path
    path.with_suffix(".said").write_text("\n".join(said(item, compat & 4) for item in group.values()))
    out = spead2.send.BytesStream(pool, spead2.send.StreamConfig(max_packet_size=size))
    generator = spead2.send.HeapGenerator(group, flavour=flavour)
    out.send_heap(generator.get_heap(descriptors="all", data="all"))
    out.send_heap(generator.get_end())
    path.with_suffix(".out").write_bytes(out.getvalue())
"#;

/// What goes through: address bits, packet size, items.
struct Through {
    bits: u32,
    size: usize,
    group: ItemGroup,
}

/// Each group through spead2: it has every item and value again.
fn through_spead2(name: &str, all: impl Iterator<Item = Through>) {
    let Some(python) = fullcount_testing::python::python() else { return };
    let folder =
        std::env::temp_dir().join(format!("fullcount-spead-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut sent = vec![];
    for (n, Through { bits, size, group }) in all.enumerate() {
        let (flavour, compat) = (Flavour::new(bits).unwrap(), group.compat());
        let number = [compat.descriptor_widths, compat.shape_bit_1, compat.swap_endian];
        let number = number.iter().rev().fold(0, |sum, bit| 2 * sum + u32::from(*bit));
        let mut generator = HeapGenerator::new(group, flavour, None);
        let mut sender =
            HeapSender::new(SenderConfig { cut: rules(size), ..Default::default() }).unwrap();
        sender.send(generator.heap(What::All, What::All).unwrap(), SendHow::default()).unwrap();
        sender.send(OutHeap::stop(flavour), SendHow::default()).unwrap();
        let name = format!("{n:04}_{bits}_{number}_{size}");
        std::fs::write(folder.join(format!("{name}.in")), run(&mut sender).concat()).unwrap();
        sent.push((name, generator.group));
    }
    let script = format!("{SAID}{SCRIPT}");
    let ran = Command::new(python).arg("-c").arg(script).arg(&folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for (name, group) in sent {
        let bytes = std::fs::read(folder.join(format!("{name}.out"))).unwrap();
        let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
        stream.push_buffer(0, &bytes);
        let heap = stream.pop().unwrap().heap().unwrap();
        let mut known = ItemGroup::new(group.compat());
        assert_eq!(known.update(&heap).errors, [], "{name}");
        assert_eq!(known.items().count(), group.items().count());
        let said = std::fs::read_to_string(folder.join(format!("{name}.said"))).unwrap();
        let mut said: Vec<&str> = said.lines().collect();
        assert_eq!(said.len(), group.items().count());
        for item in group.items() {
            let back = known.get(item.descriptor.id).unwrap();
            assert_eq!(back.value, item.value, "{name}: {:?}", item.descriptor);
            assert_same(&back.descriptor, &item.descriptor);
            let own = format!("[{},", item.descriptor.id);
            let at = said.iter().position(|line| line.starts_with(&own)).expect("its line");
            assert_said(said.swap_remove(at), &item.descriptor);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_thousand_item_groups_go_through_spead2_and_back() {
    through_spead2(
        "layouts",
        (0..1000u64).map(|seed| {
            let compat = BugCompat::from_bits((seed / 4 % 8) as u32).unwrap();
            let mut group = ItemGroup::new(compat);
            for (descriptor, value) in items(seed) {
                let id = group.add(descriptor).unwrap();
                group.set(id, value).unwrap();
            }
            let size = 56 + (seed * 37 % 9000) as usize;
            Through { bits: [40, 48, 32, 24][(seed % 4) as usize], size, group }
        }),
    );
}

/// Numbers by xorshift.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        (self.next() >> 11) % most
    }
}

/// Every kind and width of NumPy; structures are among [`items`].
pub(super) const TYPES: [&str; 20] = [
    "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "S1",
    "S7", "U1", "U3", "V1", "V9",
];

/// An array of a type with random bytes, of at most `most` bytes; no NaN, which is not equal to itself.
pub(super) fn random_item(
    random: &mut Random,
    id: u64,
    of: &str,
    most: usize,
) -> (Descriptor, ItemArray) {
    let single = matches!(of, "b1" | "i1" | "u1") || of.starts_with(['S', 'V']);
    let order = if single { '|' } else { ['<', '>'][random.below(2) as usize] };
    loop {
        let dimensions = random.below(4);
        let shape: Vec<u64> = (0..dimensions).map(|_| 1 + random.below(5)).collect();
        let sizes = shape.iter().map(|n| format!("{n},")).collect::<String>();
        let fortran = if dimensions > 1 && random.below(2) == 1 { "True" } else { "False" };
        let text =
            format!("{{'descr': '{order}{of}', 'fortran_order': {fortran}, 'shape': ({sizes})}}");
        let header = NumpyHeader::parse(&text).unwrap();
        let size = header.bytes().unwrap();
        if size > most {
            continue;
        }
        let mut bytes: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        match of.as_bytes()[0] {
            b'b' => bytes.iter_mut().for_each(|byte| *byte &= 1),
            b'U' => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|four| {
                let letter = 0x20 + random.below(0xd000) as u32;
                *four = if order == '>' { letter.to_be_bytes() } else { letter.to_le_bytes() };
            }),
            _ => {}
        }
        let descriptor =
            Descriptor::numpy(id, &format!("{of}{id:x}"), &format!("{id:x}, {size} B"), &header);
        let layout = descriptor.layout().unwrap();
        let value = layout.decode_bytes(&bytes, false, BugCompat::default()).unwrap();
        #[allow(clippy::eq_op, reason = "that is what a NaN is")]
        if value == value {
            return (descriptor, value);
        }
    }
}

#[test]
fn a_thousand_random_groups_of_every_kind_in_every_flavour_go_through_spead2_and_back() {
    let mut seen = std::collections::BTreeSet::new();
    let groups: Vec<Through> = (0..1000u64)
        .map(|seed| {
            let bits = [8, 16, 24, 32, 40, 48, 56][(seed % 7) as usize];
            let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed + 1));
            for _ in 0..20 {
                random.next();
            }
            // An address of 8 bits: descriptor and value lie in 255 B. Ids have 7 bits in SPEAD-64-56.
            let (many, most) = if bits == 8 { (1, 48) } else { (1 + random.below(6), 4000) };
            let mut group = ItemGroup::new(BugCompat::from_bits(random.below(8) as u32).unwrap());
            for n in 0..many {
                let of = TYPES[((seed + n * 7) % 20) as usize];
                seen.insert((bits, of));
                let (descriptor, value) = random_item(&mut random, 0x20 + n, of, most);
                let id = group.add(descriptor).unwrap();
                group.set(id, value).unwrap();
            }
            Through { bits, size: 56 + random.below(3000) as usize, group }
        })
        .collect();
    assert_eq!(seen.len(), 7 * TYPES.len(), "every kind in every flavour");
    through_spead2("kinds", groups.into_iter());
}
